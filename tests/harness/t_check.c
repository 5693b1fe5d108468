/* SPDX-License-Identifier: Apache-2.0 */
/* t_check.c - the correctness gate passes a right kernel on every corner batch, and fails kernels
 * that are wrong in the ways in which kernels are wrong. */
#include "toy_kernel.h"

/* ---- the gate ------------------------------------------------------------------- */
static const struct row {
	const char *name;
	enum fault fault;
	const attune_shape *shape;
	enum phase phase;
} right[] = {
	{ "right, f32", RIGHT, &f32, PHASE_ALL },
	{ "right, f16, decode", RIGHT, &f16, PHASE_DECODE },
	{ "right, bf16, prefill", RIGHT, &bf16, PHASE_PREFILL },
	{ "right, window", RIGHT, &window, PHASE_ALL },
	{ "right, pages of 7, heads first", RIGHT, &odd_pages, PHASE_ALL },
	{ "right, all at once", RIGHT, &all, PHASE_ALL },
	{ "weights rounded to f16", ROUNDS_WEIGHTS, &f16, PHASE_ALL },
	{ "weights rounded to bf16", ROUNDS_WEIGHTS, &bf16, PHASE_ALL },
}, wrong[] = {
	{ "drops the last key, f32", DROPS_LAST_KEY, &f32, PHASE_ALL },
	{ "drops the last key, bf16", DROPS_LAST_KEY, &bf16, PHASE_ALL },
	{ "drops the last key, decode", DROPS_LAST_KEY, &bf16, PHASE_DECODE },
	{ "drops the last key, prefill", DROPS_LAST_KEY, &bf16, PHASE_PREFILL },
	{ "no causal mask", NO_MASK, &bf16, PHASE_ALL },
	{ "no causal mask, speculative decode", NO_MASK, &bf16, PHASE_DECODE },
	{ "ignores where the window begins", NO_WINDOW, &window, PHASE_DECODE },
	{ "window one too long", WINDOW_PLUS_ONE, &window, PHASE_DECODE },
	{ "window one too short", WINDOW_MINUS_ONE, &window, PHASE_PREFILL },
	{ "reads a neighbour's page", NEIGHBOUR_PAGE, &bf16, PHASE_DECODE },
	{ "reads a neighbour's page, prefill", NEIGHBOUR_PAGE, &f16, PHASE_PREFILL },
	{ "reads behind the last key", READS_TAIL, &bf16, PHASE_DECODE },
	{ "skips sinks", NO_SINKS, &all, PHASE_ALL },
	{ "skips the softcap", NO_SOFTCAP, &all, PHASE_ALL },
	{ "skips ALiBi", NO_ALIBI, &all, PHASE_ALL },
	{ "scale off by 2 %", SCALE_OFF, &bf16, PHASE_ALL },
	{ "heads swapped", HEADS_SWAPPED, &bf16, PHASE_ALL },
	{ "takes out for contiguous", CONTIGUOUS_OUT, &bf16, PHASE_DECODE },
	{ "takes q for contiguous", CONTIGUOUS_Q, &bf16, PHASE_PREFILL },
	{ "takes tables for contiguous", NARROW_TABLE, &bf16, PHASE_DECODE },
	{ "leaves out one element", LEAVES_ELEMENT, &bf16, PHASE_ALL },
	{ "leaves out the last sequence", LEAVES_LAST_SEQ, &bf16, PHASE_ALL },
	{ "writes behind the last row", WRITES_BEHIND, &bf16, PHASE_ALL },
	{ "writes before the first row", WRITES_BEFORE, &bf16, PHASE_ALL },
	{ "writes rows of the decode part", WRITES_OTHER_PART, &bf16, PHASE_PREFILL },
	{ "writes rows of the prefill part", WRITES_OTHER_PART, &bf16, PHASE_DECODE },
	{ "writes behind the workspace", WRITES_BEHIND_WORKSPACE, &f32, PHASE_DECODE },
	{ "reads the workspace unwritten", READS_WORKSPACE, &f32, PHASE_DECODE },
	{ "divides zero by zero", EMPTY_IS_NAN, &f32, PHASE_ALL },
};

static void passes_all_corners(void **state)
{
	const struct row *r = *state;
	for (int i = 0; corner_batches[i]; i++) {
		struct verdict v;
		check_one(&v, r->shape, r->fault, r->phase, corner_batches[i], 4 * ROWS);
		if (v.outcome != OUTCOME_OK)
			fail_msg("%s: %s: %s", corner_batches[i], outcome_name(v.outcome), v.text);
		assert_true(v.worst <= 1);
	}
}

/* By the few rows that a sweep looks at, too. */
static void fails_some_corner(void **state)
{
	const struct row *r = *state;
	for (int i = 0; corner_batches[i]; i++) {
		struct verdict v;
		check_one(&v, r->shape, r->fault, r->phase, corner_batches[i], ROWS);
		if (v.outcome == OUTCOME_OK)
			continue;
		assert_true(v.outcome == OUTCOME_WRONG || v.outcome == OUTCOME_NAN);
		assert_true(*v.text);
		return;
	}
	fail_msg("it passed");
}

int main(void)
{
	struct CMUnitTest tests[COUNT(right) + COUNT(wrong)];
	size_t n = 0;
	for (size_t i = 0; i < COUNT(right); i++)
		tests[n++] = (struct CMUnitTest){ right[i].name, passes_all_corners, NULL, NULL,
						  (void *)(uintptr_t)&right[i] };
	for (size_t i = 0; i < COUNT(wrong); i++)
		tests[n++] = (struct CMUnitTest){ wrong[i].name, fails_some_corner, NULL, NULL,
						  (void *)(uintptr_t)&wrong[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("check", tests, COUNT(tests), set_up, tear_down);
}
