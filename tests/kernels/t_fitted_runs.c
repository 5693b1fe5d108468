/* SPDX-License-Identifier: Apache-2.0 */
/* t_fitted_runs.c - the library with rules of SEGMENTS=fitted, on the CPU and on a GPU or the
 * emulated one: plans have the number of segments that config_fitted returns, results are right,
 * and the workspace suffices. Without costs the defaults run. */
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "kernels/select/selector.h"
#include "kernels/launch/run.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/run_plan.h"

enum { COST_LISTS = 40, RUN = 3, CHOICES = 4 };

enum { MAX_RULES = 4000 };

static const char *const batches[] = { "q1s4k",        "8q1s600",        "q300",
				       "q1s5_q4s1500", "q40_q1s1k_q1s9", "3q100s400_6q1s900" };

/* Head sizes at which costs are listed: the shape's, and two others that stand for it. */
static const int head_sizes[] = { 128, 256, 64 };

/* 0: the default, fitted; 1: another that is carried, fitted; 2: a default as it is; 3: fitted, and
 * not carried. */
static struct choice choices[CHOICES];
static struct segment_costs costs[CHOICES];
enum { ALL_COSTS = 1 << 0 | 1 << 1 | 1 << 3 }; /* of fitted ones */

static unsigned below(unsigned n)
{
	static unsigned long long seed = 71;
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33) % n;
}

static int is_carried(const struct choice *c)
{
	char flags[MAX_FLAGS];
	binary_flags(flags, sizeof flags, c->kernel, &c->config, &shape);
	return shipped_find(&dev.info, c->kernel->name, flags) != NULL;
}

/* The first point of the kernel's space that is carried or is not. */
static void find_choice(struct choice *c, const char *kernel, int carried)
{
	c->kernel = kernel_find(dev.info.backend, kernel);
	config_first(&c->config, c->kernel->space, 32);
	while (is_carried(c) != carried)
		assert_true(config_next(&c->config, c->kernel->space, 32));
}

/* On a GPU the second runs decodes alone: of prompts the defaults run. */
static void list_choices(void)
{
	choices[0].kernel = kernel_find(dev.info.backend, "segmented");
	choices[2].kernel = kernel_find(dev.info.backend, "qblock");
	config_default(&choices[0].config, choices[0].kernel->space);
	config_default(&choices[2].config, choices[2].kernel->space);
	find_choice(&choices[1], dev.info.backend == BACKEND_GPU ? "ring" : "segmented", 1);
	find_choice(&choices[3], "segmented", 0);
	for (int i = 0; i < CHOICES; i++)
		if (i != 2)
			choices[i].config.v[choices[i].kernel->space->formula_axis] =
			    SEGMENTS_FITTED;
}

static void random_costs(void)
{
	for (int id = 0; id < CHOICES; id++)
		costs[id] = (struct segment_costs){ .slots = 1 + (int)below(3),
						    .start = 64 * (int)below(5),
						    .path = 1000ll * (1 + below(30000)),
						    .split = 1000000ll * below(4000),
						    .segments = 1000ll * below(100000),
						    .merge = 1000ll * below(300) };
}

/* ---- a context with such rules -------------------------------------------------------------- */

static int costs_text(char *text, int id, int head_size, const struct segment_costs *c)
{
	return sprintf(text, " SEGMENTS(%d, %d, %d, %d, %lld, %lld, %lld, %lld)", id, head_size,
		       c->slots, c->start, c->path, c->split, c->segments, c->merge);
}

static attune_op *open_op(int prefill, int decode, int head_size, attune_context **ctx)
{
	char text[MAX_RULES] = "", choice[CHOICES][MAX_PART_TEXT], says[2][12];
	struct rules rules = { .segments = text, .prefill = says[0], .decode = says[1] };
	attune_op *op;
	int n = 0;
	for (int i = 0; i < CHOICES; i++) {
		choice_text(choice[i], sizeof choice[i], &choices[i]);
		rules.choice[i] = choice[i];
	}
	for (int id = 0; id < CHOICES; id++)
		if (ALL_COSTS >> id & 1)
			n += costs_text(text + n, id, head_size, &costs[id]);
	snprintf(says[0], sizeof says[0], "%d", prefill);
	snprintf(says[1], sizeof says[1], "%d", decode);
	assert_true(n < MAX_RULES);
	*ctx = open_by_rules(&rules);
	if (attune_prepare(*ctx, &shape, &op))
		fail_msg("%s", attune_last_error());
	return op;
}

static void close_op(attune_op *op, attune_context *ctx)
{
	attune_release(op);
	attune_close(ctx);
}

/* ---- plans ------------------------------------------------------------------------------------ */

struct seen {
	int cut, defaults;
	int ran[CHOICES];
};

static struct scenario scenario_of(const char *text)
{
	char error[160];
	struct scenario s = { .batch_text = (char *)(uintptr_t)text,
			      .batch = batch_parse(text, error, sizeof error),
			      .shape = shape,
			      .seed = 5 };
	assert_non_null(s.batch);
	return s;
}

static void plan_of(const attune_op *op, const attune_batch *b, attune_plan *plan, char *text,
		    size_t size)
{
	if (attune_plan_batch(op, b, plan) || attune_plan_text(op, plan, text, size))
		fail_msg("%s", attune_last_error());
}

/* The choice by its costs, or where it cannot run, the choice of a plan without rules. */
static void expect_part(char *text, size_t size, int id, const struct part *p,
			const char *by_default, struct seen *seen)
{
	struct choice c = { .kernel = choices[id].kernel };
	const struct segment_costs *by = ALL_COSTS >> id & 1 ? &costs[id] : NULL;
	if (!is_carried(&choices[id]) ||
	    config_fitted(&c.config, &choices[id].config, c.kernel, by, &shape, p, &dev.info)) {
		snprintf(text, size, "%s", by_default);
		seen->defaults++;
		return;
	}
	choice_text(text, size, &c);
	seen->ran[id]++;
	seen->cut += config_value(&c.config, c.kernel->space, "SEGMENTS", 1) > 1;
}

/* A part's words in those of a plan: "prefill: A | decode: B". */
static void part_text(char *out, size_t size, const char *plan, int i)
{
	const char *at = plan;
	for (; i; i--)
		at = strstr(at, " | ") + 3;
	for (size_t k = 0; k < 2; k++) {
		const char *name = k ? "decode: " : "prefill: ";
		at += strncmp(at, name, strlen(name)) ? 0 : strlen(name);
	}
	const char *end = strstr(at, " | ");
	snprintf(out, size, "%.*s", end ? (int)(end - at) : (int)strlen(at), at);
}

static void plan_is_expected(const attune_op *op, const attune_op *defaults, const int *ids,
			     const attune_batch *b, attune_plan *plan, struct seen *seen)
{
	static const enum phase phases[] = { PHASE_PREFILL, PHASE_DECODE };
	char all[600], by_default[600];
	attune_plan other = { .size = sizeof other };
	int i = 0;
	plan_of(op, b, plan, all, sizeof all);
	plan_of(defaults, b, &other, by_default, sizeof by_default);
	for (int d = 0; d < 2; d++) {
		char got[300], want[300], left[300];
		struct part p;
		if (!part_make(&p, phases[d], &shape, b, &dev.info))
			continue;
		assert_true(i < plan->num_parts && i < other.num_parts);
		part_text(got, sizeof got, all, i);
		part_text(left, sizeof left, by_default, i);
		expect_part(want, sizeof want, ids[d], &p, left, seen);
		assert_string_equal(got, want);
		i++;
	}
	assert_int_equal(plan->num_parts, i);
}

static void plan_and_run(const attune_op *op, const attune_op *defaults, const int *ids,
			 const char *text, int run, struct seen *seen)
{
	struct scenario s = scenario_of(text);
	const attune_batch *b = &s.batch->view;
	attune_plan plan = { .size = sizeof plan };
	size_t most;
	plan_is_expected(op, defaults, ids, b, &plan, seen);
	assert_int_equal(attune_max_workspace(op, b->num_seqs, b->query_start[b->num_seqs], &most),
			 ATTUNE_OK);
	assert_true(plan.workspace <= most);
	if (run) {
		struct workload w;
		if (workload_make(&w, &dev, &pool, &s, WORKLOAD_CHECK, 0))
			fail_msg("%s: %s", text, attune_last_error());
		run_right(op, &plan, &w);
		workload_free(&w);
	}
	batch_free(s.batch);
}

/* By costs of the shape's head size, and by those of others in its place. */
static void plans_are_cut_by_costs(const attune_op *defaults)
{
	struct seen seen = { 0 };
	for (int i = 0; i < COST_LISTS; i++) {
		const int ids[] = { (int)below(CHOICES), (int)below(CHOICES) };
		attune_context *ctx;
		random_costs();
		attune_op *op =
		    open_op(ids[0], ids[1], head_sizes[i % (int)COUNT(head_sizes)], &ctx);
		for (size_t b = 0; b < COUNT(batches); b++)
			plan_and_run(op, defaults, ids, batches[b],
				     i < (is_emulated(&dev) ? 1 : RUN), &seen);
		close_op(op, ctx);
	}
	assert_true(seen.defaults);
	assert_true(seen.cut || dev.info.units == 1); /* where no cut is legal */
	assert_true(seen.ran[0] && seen.ran[1] && seen.ran[2] && !seen.ran[3]);
}

static void same_plans(const attune_op *a, const attune_op *b)
{
	for (size_t i = 0; i < COUNT(batches); i++) {
		struct scenario s = scenario_of(batches[i]);
		char one[600], other[600];
		attune_plan plan = { .size = sizeof plan };
		plan_of(a, &s.batch->view, &plan, one, sizeof one);
		plan_of(b, &s.batch->view, &plan, other, sizeof other);
		assert_string_equal(one, other);
		batch_free(s.batch);
	}
}

/* A fitted choice is not carried. */
static void else_the_defaults_run(const attune_op *defaults)
{
	attune_context *ctx;
	random_costs();
	attune_op *op = open_op(3, 3, shape.head_size, &ctx);
	same_plans(op, defaults);
	close_op(op, ctx);
}

static void on_device(void **state)
{
	attune_context *ctx;
	assert_int_equal(open_device(*state), ATTUNE_OK);
	list_choices();
	random_costs();
	attune_op *defaults = open_op(-1, -1, shape.head_size, &ctx);
	plans_are_cut_by_costs(defaults);
	else_the_defaults_run(defaults);
	close_op(defaults, ctx);
	pool_free(&dev, pool);
	pool = NULL;
	device_close(&dev);
}

int main(void)
{
	return run_on_devices("fitted_runs", on_device);
}
