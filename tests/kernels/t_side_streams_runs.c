/* SPDX-License-Identifier: Apache-2.0 */
/* t_side_streams_runs.c - plans of two parts side by side, on the CPU and on a GPU or the
 * emulated one, which runs them one after the other. They are right when called and when
 * replayed from a captured graph, with partials of both parts at once. A workspace for one part
 * alone is refused. */
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "kernels/launch/run.h"
#include "kernels/select/selector.h"
#include "kernels/spec/space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/run_plan.h"

enum { TIMES = 3 };

/* And for an emulated GPU. */
static const char *const batches[][2] = { { "q300s2k_8q1s1500", "q30s600_3q1s500" },
					  { "q40s700_q1s1k_q1s9", "q40s300_q1s600_q1s9" },
					  { "8q1s600_2q100s900", "2q1s600_2q20s300" },
					  { "q1s5_q9s3k_q1s4k", "q1s5_q9s600_q1s700" } };

/* Both parts by one choice, on a GPU one that leaves partials to be merged; for a CPU, how
 * many segments are legal hangs on its threads. */
static attune_context *open_with_segments(void)
{
	struct choice c = { .kernel = kernel_find(dev.info.backend, "segmented") };
	char text[MAX_PART_TEXT];
	config_default(&c.config, c.kernel->space);
	if (dev.info.backend == BACKEND_GPU)
		c.config.v[c.kernel->space->formula_axis] = 4;
	choice_text(text, sizeof text, &c);
	return open_by_rules(&(struct rules){ .choice = { text }, .overlap = "streams" });
}

static void called_right(const attune_op *op, const attune_plan *plan, struct workload *w)
{
	void *workspace = NULL, *stream = dev.ops->stream(&dev);
	struct verdict v;
	assert_int_equal(workload_poison(w), ATTUNE_OK);
	assert_int_equal(dev.ops->alloc(&dev, &workspace, plan->workspace), ATTUNE_OK);
	for (int i = 0; i < TIMES; i++)
		if (attune_run(op, plan, &w->tensors, workspace, plan->workspace, stream))
			fail_msg("%s", attune_last_error());
	assert_int_equal(dev.ops->wait(&dev, stream), ATTUNE_OK);
	check_output(&v, w, PHASE_ALL, PLAN_ROWS, 0);
	if (v.outcome != OUTCOME_OK)
		fail_msg("%s: %s", w->scenario->batch_text, v.text);
	if (plan->workspace)
		assert_int_equal(
		    attune_run(op, plan, &w->tensors, workspace, plan->workspace - 1, stream),
		    ATTUNE_TOO_SMALL);
	dev.ops->release(&dev, workspace);
}

static void beside(const attune_op *op, struct workload *w, const attune_batch *b)
{
	attune_plan plan = { .size = sizeof plan };
	char text[512];
	size_t most;
	assert_int_equal(attune_plan_batch(op, b, &plan), ATTUNE_OK);
	assert_int_equal(plan.num_parts, 2);
	assert_int_equal(plan.how, ATTUNE_STREAMS);
	const size_t part[] = { plan.part[0].workspace, plan.part[1].workspace };
	assert_true(dev.info.backend == BACKEND_CPU || (part[0] && part[1]));
	assert_int_equal(plan.workspace, parts_workspace(ATTUNE_STREAMS, part, 2, NULL));
	assert_true(plan.workspace >= part[0] + part[1]);
	assert_int_equal(attune_max_workspace(op, b->num_seqs, b->query_start[b->num_seqs], &most),
			 ATTUNE_OK);
	assert_true(plan.workspace <= most);
	assert_int_equal(attune_plan_text(op, &plan, text, sizeof text), ATTUNE_OK);
	assert_non_null(strstr(text, " || decode: "));
	run_right(op, &plan, w);
	called_right(op, &plan, w);
}

static void sparing(const attune_op *op, struct workload *w, const attune_batch *b)
{
	attune_plan plan = { .size = sizeof plan };
	char text[512];
	assert_int_equal(attune_plan_batch(op, b, &plan), ATTUNE_OK);
	assert_int_equal(plan.how, ATTUNE_STREAMS);
	assert_int_equal(plan.spared[0], 16);
	assert_int_equal(attune_plan_text(op, &plan, text, sizeof text), ATTUNE_OK);
	assert_non_null(strstr(text, " SPARE_UNITS=16"));
	run_right(op, &plan, w);
	called_right(op, &plan, w);
}

/* A choice of a header, which the library carries, that can leave units free; in one segment. */
static void find_sparing(struct choice *c)
{
	const struct device_info *d = &dev.info;
	for (const struct selector *h = attune_selectors; h->gpu; h++)
		for (int i = 0; i < h->num_choices && !strcmp(h->arch, d->arch); i++) {
			const char *where;
			struct config spared;
			c->kernel = kernel_find(d->backend, h->choices[i].kernel);
			if (!c->kernel || c->kernel->space->is_fused ||
			    !config_parse(&c->config, c->kernel->space, h->choices[i].text, &where))
				continue;
			if (c->kernel->space->formula_axis >= 0)
				c->config.v[c->kernel->space->formula_axis] = 1;
			spared = c->config;
			if (config_spare(&spared, c->kernel->space, 16, &shape, NULL, d))
				return;
		}
	fail_msg("no header for %s names such a choice", d->arch);
}

/* Prefills that leave units to the decodes. */
static attune_context *open_sparing(void)
{
	struct choice prefill, decode = { .kernel = kernel_find(dev.info.backend, "segmented") };
	char text[2][MAX_PART_TEXT];
	find_sparing(&prefill);
	config_default(&decode.config, decode.kernel->space);
	choice_text(text[0], sizeof text[0], &prefill);
	choice_text(text[1], sizeof text[1], &decode);
	return open_by_rules(&(struct rules){
	    .choice = { text[0], text[1] }, .decode = "1", .overlap = "streams_sparing16" });
}

static void on_device(void **state)
{
	assert_int_equal(open_device(*state), ATTUNE_OK);
	each_batch(open_with_segments(), batches, COUNT(batches), beside);
	if (!has_warpgroups(&dev.info))
		return;
	assert_int_equal(open_device(*state), ATTUNE_OK);
	dev.info.units = (int)max_of(dev.info.units, 24); /* of the emulated one: room for 16 */
	each_batch(open_sparing(), batches, COUNT(batches), sparing);
}

int main(void)
{
	return run_on_devices("side_streams_runs", on_device);
}
