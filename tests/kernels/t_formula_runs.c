/* SPDX-License-Identifier: Apache-2.0 */
/* t_formula_runs.c - the library with rules of formulas, on the CPU and on an NVIDIA GPU if
 * there is one: plans have numbers, and results are right, also when replayed from a captured
 * graph. */
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "kernels/launch/run.h"
#include "kernels/ship/shipped.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>
#include "tests/support/run_plan.h"

enum { MOST_FORMULAS = 40 };

static const char *const batches[] = { "q1s4k",         "8q1s600",      "40q1s100",
				       "q1s5_2q4s1500", "q1_q0_q8s700", "q40_q1s1k_q1s9" };

/* A context with one rule: this choice for every batch. */
static attune_context *open_with(const struct choice *c)
{
	char text[MAX_PART_TEXT];
	choice_text(text, sizeof text, c);
	return open_by_rules(&(struct rules){ .choice = { text } });
}

/* Each part of the plan is the choice with the value that its formula gives. */
static void plan_is(const attune_op *op, const attune_plan *plan, const struct choice *c,
		    const attune_batch *b)
{
	char got[600], want[600] = "";
	for (enum phase p = PHASE_PREFILL; p <= PHASE_DECODE; p++) {
		struct choice as = { .kernel = c->kernel };
		struct part part;
		if (!part_make(&part, p, &shape, b, &dev.info))
			continue;
		assert_null(
		    config_resolve(&as.config, &c->config, c->kernel, &shape, &part, &dev.info));
		assert_false(config_is_formula(&as.config, as.kernel->space));
		if (*want)
			strcat(want, " | ");
		if (plan->num_parts == 2)
			strcat(want, p == PHASE_PREFILL ? "prefill: " : "decode: ");
		choice_text(want + strlen(want), sizeof want - strlen(want), &as);
	}
	assert_int_equal(attune_plan_text(op, plan, got, sizeof got), ATTUNE_OK);
	assert_string_equal(got, want);
}

/* A choice with the library's handles for it. */
struct prepared {
	struct choice choice;
	attune_context *ctx;
	attune_op *op;
};

static void runs_right(const struct prepared *r, struct workload *w, const attune_batch *b)
{
	attune_plan plan = { .size = sizeof plan };
	size_t most;
	if (attune_plan_batch(r->op, b, &plan) ||
	    attune_max_workspace(r->op, b->num_seqs, b->query_start[b->num_seqs], &most))
		fail_msg("%s: %s", w->scenario->batch_text, attune_last_error());
	plan_is(r->op, &plan, &r->choice, b);
	assert_true(plan.workspace <= most);
	run_right(r->op, &plan, w);
}

static void all_run_right(const struct prepared *r, int n, const char *text)
{
	char error[160];
	struct scenario s = { .batch_text = (char *)text,
			      .batch = batch_parse(text, error, sizeof error),
			      .shape = shape,
			      .seed = 5 };
	struct workload w;
	assert_non_null(s.batch);
	if (workload_make(&w, &dev, &pool, &s, WORKLOAD_CHECK, 0))
		fail_msg("%s: %s", text, attune_last_error());
	for (int i = 0; i < n; i++)
		runs_right(&r[i], &w, &s.batch->view);
	workload_free(&w);
	batch_free(s.batch);
}

static void prepare(struct prepared *r, const struct kernel *k, int formula)
{
	r->choice.kernel = k;
	config_default(&r->choice.config, k->space);
	r->choice.config.v[k->space->formula_axis] = -1 - formula;
	r->ctx = open_with(&r->choice);
	if (attune_prepare(r->ctx, &shape, &r->op))
		fail_msg("%s", attune_last_error());
}

static int is_carried(const struct kernel *k)
{
	struct config c;
	char flags[MAX_FLAGS];
	config_default(&c, k->space);
	binary_flags(flags, sizeof flags, k, &c, &shape);
	return shipped_find(&dev.info, k->name, flags) != NULL;
}

/* Whether it is legal for each part of each batch: the library would else take another. */
static int runs_all(const struct kernel *k)
{
	struct config c, as;
	int can = 1;
	config_default(&c, k->space);
	c.v[k->space->formula_axis] = -1;
	for (size_t i = 0; i < COUNT(batches) && can; i++) {
		char error[160];
		struct batch *b = batch_parse(batches[i], error, sizeof error);
		assert_non_null(b);
		for (enum phase p = PHASE_PREFILL; p <= PHASE_DECODE; p++) {
			struct part part;
			can &= !part_make(&part, p, &shape, &b->view, &dev.info) ||
			       !config_resolve(&as, &c, k, &shape, &part, &dev.info);
		}
		batch_free(b);
	}
	return can;
}

/* All formulas of the device's kernels that the library carries and that run any batch, the
 * rest at the kernels' defaults. */
static void on_device(void **state)
{
	struct prepared r[MOST_FORMULAS];
	int n = 0;
	assert_int_equal(open_device(*state), ATTUNE_OK);
	for (const struct kernel *k = attune_kernels; k->name; k++)
		for (int i = 0; k->backend == dev.info.backend && i < k->space->num_formulas &&
				is_carried(k) && runs_all(k);
		     i++) {
			assert_true(n < MOST_FORMULAS);
			prepare(&r[n++], k, i);
		}
	assert_true(n > 0);
	for (size_t i = 0; i < COUNT(batches); i++)
		all_run_right(r, n, batches[i]);
	while (n--) {
		attune_release(r[n].op);
		attune_close(r[n].ctx);
	}
	pool_free(&dev, pool);
	pool = NULL;
	device_close(&dev);
}

int main(void)
{
	return run_on_devices("formula_runs", on_device);
}
