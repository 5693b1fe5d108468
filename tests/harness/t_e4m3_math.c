/* SPDX-License-Identifier: Apache-2.0 */
/* t_e4m3_math.c - the check of a plug-in that rounds q and weights to E4M3, or K, V and weights to
 * q's type: it passes if it says so (ATTUNE_PLUGIN_E4M3_MATH, ATTUNE_PLUGIN_Q_TYPE_MATH), over an E4M3
 * cache alone, and its other faults are still found. */
#include "toy_kernel.h"
#include "kernels/attune_plugin.h"

static const attune_shape e4m3 = { PLAIN, .dtype = ATTUNE_BF16, .kv_dtype = ATTUNE_E4M3 };
static const char *const many_keys = "9q1s4000_q20s1000";

/* As check_one, of a plug-in with these needs. The toy knows no scales. */
static void check_with(struct verdict *v, const attune_shape *shape, enum fault fault,
		       unsigned needs, const char *text)
{
	const attune_plugin plugin = { .needs = needs | ATTUNE_PLUGIN_NO_SCALES };
	struct kernel kernel = toy_kernel;
	kernel.plugin = &plugin;
	check_kernel(v, &kernel, shape, fault, PHASE_ALL, text, 4 * ROWS);
}

/* The allowance is no larger than it has to be: some element comes near it. */
static void is_allowed(enum fault fault, unsigned needs)
{
	struct verdict v;
	double worst = 0;
	for (int i = 0; corner_batches[i]; i++) {
		check_with(&v, &e4m3, fault, needs, corner_batches[i]);
		if (v.outcome != OUTCOME_OK)
			fail_msg("%s: %s", corner_batches[i], v.text);
		worst = fmax(worst, v.worst);
	}
	check_with(&v, &e4m3, fault, needs, many_keys);
	if (v.outcome != OUTCOME_OK)
		fail_msg("%s: %s", many_keys, v.text);
	print_message("# %.3f of the tolerance at %s, %.3f at corners\n", v.worst, many_keys,
		      worst);
	assert_true(v.worst > 0.25 && worst > 0.25);
}

static void what_it_says_is_allowed(void **state)
{
	(void)state;
	is_allowed(ROUNDS_TO_E4M3, ATTUNE_PLUGIN_E4M3_MATH);
	is_allowed(ROUNDS_TO_Q_TYPE, ATTUNE_PLUGIN_Q_TYPE_MATH);
}

static void the_rest_is_as_ever(void **state)
{
	struct verdict v;
	(void)state;
	check_with(&v, &e4m3, ROUNDS_TO_E4M3, 0, many_keys);
	assert_int_equal(v.outcome, OUTCOME_WRONG);
	check_with(&v, &bf16, ROUNDS_TO_E4M3, ATTUNE_PLUGIN_E4M3_MATH, many_keys);
	assert_int_equal(v.outcome, OUTCOME_WRONG);
	check_with(&v, &e4m3, ROUNDS_TO_E4M3, ATTUNE_PLUGIN_Q_TYPE_MATH, many_keys);
	assert_int_equal(v.outcome, OUTCOME_WRONG);
	check_with(&v, &e4m3, ROUNDS_TO_Q_TYPE, 0, many_keys);
	assert_int_equal(v.outcome, OUTCOME_WRONG);
	check_with(&v, &bf16, ROUNDS_WEIGHTS, ATTUNE_PLUGIN_E4M3_MATH, many_keys);
	assert_int_equal(v.outcome, OUTCOME_OK);
	check_with(&v, &e4m3, RIGHT, 0, many_keys);
	assert_int_equal(v.outcome, OUTCOME_OK);
}

static void finds_other_faults(unsigned needs)
{
	static const struct {
		enum fault fault;
		const char *label;
	} rows[] = {
		{ NO_MASK, "no mask" },
		{ DROPS_LAST_KEY, "the last key" },
		{ NEIGHBOUR_PAGE, "another page" },
		{ HEADS_SWAPPED, "heads" },
		{ READS_TAIL, "keys behind the end" },
		{ LEAVES_ELEMENT, "an element is left" },
		{ EMPTY_IS_NAN, "rows without keys" },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct verdict v = { .outcome = OUTCOME_OK };
		for (int k = 0; v.outcome == OUTCOME_OK && corner_batches[k]; k++)
			check_with(&v, &e4m3, rows[i].fault, needs, corner_batches[k]);
		if (v.outcome == OUTCOME_OK)
			fail_msg("%s: it is not found", rows[i].label);
	}
}

static void other_faults_are_found(void **state)
{
	(void)state;
	finds_other_faults(ATTUNE_PLUGIN_E4M3_MATH);
	finds_other_faults(ATTUNE_PLUGIN_Q_TYPE_MATH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_it_says_is_allowed),
		cmocka_unit_test(the_rest_is_as_ever),
		cmocka_unit_test(other_faults_are_found),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("E4M3 math", tests, set_up, tear_down);
}
