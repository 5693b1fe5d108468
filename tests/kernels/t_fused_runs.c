/* SPDX-License-Identifier: Apache-2.0 */
/* t_fused_runs.c - plans of one fused kernel, which estimates its numbers from features that a
 * launch no longer has: the launch runs what was planned. On this machine's GPU or the emulated
 * one. */
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "kernels/launch/run.h"
#include "kernels/spec/space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/run_plan.h"

/* And for an emulated GPU. In some the estimate cuts prefills into segments. */
static const char *const batches[][2] = { { "q300s2k_8q1s1500", "q30s600_3q1s500" },
					  { "q40s16k_40q1s2k", "q20s900_q1s40" },
					  { "2q600_q1s30k", "q140_q1s700" },
					  { "q2k_100q1s100", "q260_5q1s30" } };

/* Prefills and decodes by segmented, both at once by warpgroup_mixed. */
static attune_context *open_fused(void)
{
	static const char *const names[] = { "segmented", "warpgroup_mixed" };
	char text[2][MAX_PART_TEXT];
	for (int i = 0; i < 2; i++) {
		struct choice c = { .kernel = kernel_find(dev.info.backend, names[i]) };
		config_default(&c.config, c.kernel->space);
		if (!i)
			c.config.v[c.kernel->space->formula_axis] = 4;
		choice_text(text[i], sizeof text[i], &c);
	}
	return open_by_rules(&(struct rules){ .choice = { text[0], text[1] }, .overlap = "1" });
}

static void fused(const attune_op *op, struct workload *w, const attune_batch *b)
{
	attune_plan plan = { .size = sizeof plan };
	char text[512];
	size_t most;
	assert_int_equal(attune_plan_batch(op, b, &plan), ATTUNE_OK);
	assert_int_equal(attune_plan_text(op, &plan, text, sizeof text), ATTUNE_OK);
	assert_int_equal(plan.num_parts, 1);
	assert_non_null(strstr(text, "warpgroup_mixed"));
	assert_non_null(strstr(text, "DECODE_UNITS=0 PREFILL_SEGMENTS=0")); /* by estimate */
	assert_int_equal(attune_max_workspace(op, b->num_seqs, b->query_start[b->num_seqs], &most),
			 ATTUNE_OK);
	assert_true(plan.workspace <= most);
	run_right(op, &plan, w);
}

static void on_device(void **state)
{
	assert_int_equal(open_device("gpu"), ATTUNE_OK);
	each_batch(open_fused(), *state, 1, fused);
}

int main(void)
{
	struct CMUnitTest tests[COUNT(batches)];
	for (size_t i = 0; i < COUNT(batches); i++)
		tests[i] = (struct CMUnitTest){ batches[i][0], on_device, NULL, NULL,
						(void *)(uintptr_t)batches[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("fused_runs", tests, NULL, NULL);
}
