/* SPDX-License-Identifier: Apache-2.0 */
/* t_verdicts.c - verdicts of the correctness gate: outcomes, texts that name the place, tolerances,
 * and workloads that are kept between checks. */
#include "toy_kernel.h"
#include "harness/plugin/plugin.h"

/* ---- what a verdict says -------------------------------------------------------- */

static void says_what_was_not_written(void **state)
{
	struct verdict v;
	(void)state;
	check_one(&v, &bf16, LEAVES_ELEMENT, PHASE_ALL, "q1s5_q2s9", ROWS);
	assert_int_equal(v.outcome, OUTCOME_WRONG);
	assert_string_equal(v.text, "sequence 1, token 1, head 3, dim 5 was not written");
}

static void says_what_is_no_number(void **state)
{
	struct verdict v;
	(void)state;
	check_one(&v, &f16, READS_TAIL, PHASE_ALL, "q1s5", ROWS);
	assert_int_equal(v.outcome, OUTCOME_NAN);
	assert_string_equal(v.text, "sequence 0, token 0, head 0, dim 0 is not a number");
}

static void says_what_is_of_the_other_part(void **state)
{
	struct verdict v;
	(void)state;
	check_one(&v, &bf16, WRITES_OTHER_PART, PHASE_PREFILL, "q20_q2s9_q20", ROWS);
	assert_int_equal(v.outcome, OUTCOME_WRONG);
	assert_string_equal(v.text, "sequence 1, token 0, head 0: written, but not in the part");
}

static void says_how_far_outside(void **state)
{
	struct verdict v;
	(void)state;
	check_one(&v, &bf16, WRITES_BEFORE, PHASE_ALL, "q2", ROWS);
	assert_string_equal(v.text, "wrote 2 bytes before the output");
	check_one(&v, &bf16, WRITES_BEHIND_WORKSPACE, PHASE_ALL, "q2", ROWS);
	assert_non_null(strstr(v.text, "bytes past the workspace"));
}

static void says_what_is_right(void **state)
{
	struct verdict v;
	(void)state;
	check_one(&v, &f32, SCALE_OFF, PHASE_ALL, "q1s300", ROWS);
	assert_int_equal(v.outcome, OUTCOME_WRONG);
	assert_non_null(strstr(v.text, "sequence 0, token 0, head "));
	assert_non_null(strstr(v.text, ", expected "));
	assert_true(v.worst > 1);
}

static const char *never(const struct config *c, const attune_shape *s, const struct part *p,
			 const struct device_info *d)
{
	(void)c, (void)s, (void)p, (void)d;
	return "never";
}

static void illegal_is_an_outcome(void **state)
{
	static const struct space space = { .why_illegal = never, .geometry = toy_geometry };
	static const struct kernel kernel = { .name = "toy", .space = &space };
	const struct choice choice = { .kernel = &kernel };
	struct verdict v;
	struct scenario s;
	(void)state;
	scenario_make(&s, &f32, "q1");
	check_choice(&v, &cpu, &pool, &choice, &loaded, &s, PHASE_ALL, ROWS);
	assert_int_equal(v.outcome, OUTCOME_ILLEGAL);
	assert_string_equal(v.text, "toy: never");
	batch_free(s.batch);
}

static void nothing_to_do_is_right(void **state)
{
	struct verdict v;
	(void)state;
	check_one(&v, &f32, RIGHT, PHASE_PREFILL, "4q1s9", ROWS);
	assert_int_equal(v.outcome, OUTCOME_OK);
	check_one(&v, &f32, RIGHT, PHASE_ALL, "2q0", ROWS);
	assert_int_equal(v.outcome, OUTCOME_OK);
}

/* Contexts far beyond the corners, looked at in full. */
static void one_key_of_thousands(void **state)
{
	struct verdict v;
	(void)state;
	check_one(&v, &bf16, DROPS_LAST_KEY, PHASE_ALL, "9q1s4000", 1000);
	assert_int_equal(v.outcome, OUTCOME_WRONG);
	check_one(&v, &bf16, ROUNDS_WEIGHTS, PHASE_ALL, "9q1s4000", 1000);
	assert_int_equal(v.outcome, OUTCOME_OK);
}

static void timed_workloads_can_be_checked(void **state)
{
	const struct choice choice = { .kernel = &toy_kernel };
	struct scenario s;
	struct workload w;
	struct verdict v;
	(void)state;
	scenario_make(&s, &window, "q1s700_q40s300");
	toy.shape = window;
	assert_int_equal(workload_make(&w, &cpu, &pool, &s, WORKLOAD_TIMED, 1 << 20), ATTUNE_OK);
	assert_true(w.sets > 1);
	toy.fault = RIGHT;
	check_workload(&v, &w, &choice, &loaded, PHASE_ALL, 200);
	assert_int_equal(v.outcome, OUTCOME_OK);
	toy.fault = DROPS_LAST_KEY;
	check_workload(&v, &w, &choice, &loaded, PHASE_ALL, 200);
	assert_int_equal(v.outcome, OUTCOME_WRONG);
	workload_free(&w);
	batch_free(s.batch);
}

static void checked_workloads_are_kept(void **state)
{
	struct scenario s;
	struct workload *first = NULL, *again = NULL, *other = NULL;
	(void)state;
	scenario_make(&s, &f32, "q1s20");
	assert_int_equal(cached_check_find(&first, &cpu, &pool, &s, 0), ATTUNE_OK);
	batch_free(s.batch);
	scenario_make(&s, &f32, "q1s21");
	assert_int_equal(cached_check_find(&other, &cpu, &pool, &s, 0), ATTUNE_OK);
	assert_ptr_not_equal(first, other);
	batch_free(s.batch);
	scenario_make(&s, &f32, "q1s20");
	assert_int_equal(cached_check_find(&again, &cpu, &pool, &s, 0), ATTUNE_OK);
	assert_ptr_equal(first, again);
	assert_int_equal(cached_check_find(&other, &cpu, &pool, &s, 1), ATTUNE_OK);
	assert_ptr_not_equal(first, other); /* for a plug-in that needs something */
	s.seed++;
	assert_int_equal(cached_check_find(&again, &cpu, &pool, &s, 0), ATTUNE_OK);
	assert_ptr_not_equal(first, again);
	batch_free(s.batch);
}

static enum scales scales_for(unsigned needs, unsigned long long seed)
{
	attune_shape shape = f16;
	struct scenario s;
	struct workload *w = NULL;
	shape.kv_dtype = ATTUNE_E4M3;
	scenario_make(&s, &shape, "q1s20_q1s3");
	s.seed = seed;
	assert_int_equal(cached_check_find(&w, &cpu, &pool, &s, needs), ATTUNE_OK);
	batch_free(s.batch);
	assert_int_equal(!w->tensors.k_scale, !w->tensors.v_scale);
	return !w->tensors.k_scale             ? SCALES_NONE
	       : w->tensors.k_scale_seq_stride ? SCALES_EACH
					       : SCALES_ONE;
}

static void plugins_may_take_fewer_scales(void **state)
{
	static const unsigned none = ATTUNE_PLUGIN_NO_SCALES, one = ATTUNE_PLUGIN_ONE_SCALE;
	(void)state;
	for (unsigned seed = 3; seed < 6; seed++) {
		const enum scales asked = (enum scales)(seed % 3);
		assert_int_equal(scales_for(0, seed), asked);
		assert_int_equal(scales_for(one, seed), asked == SCALES_EACH ? SCALES_ONE : asked);
		assert_int_equal(scales_for(none, seed), SCALES_NONE);
		assert_int_equal(scales_for(none | one, seed), SCALES_NONE);
	}
}

/* Workloads that are timed have the scales of their seed, whoever runs there. */
static void scales_of_timed_workloads_may_be_refused(void **state)
{
	static const attune_plugin no_scales = { .needs = ATTUNE_PLUGIN_NO_SCALES },
				   one_scale = { .needs = ATTUNE_PLUGIN_ONE_SCALE };
	static const struct kernel none = { .plugin = &no_scales }, one = { .plugin = &one_scale };
	attune_shape e4m3 = f16;
	struct scenario s = { .shape = f16, .seed = 5 };
	(void)state;
	assert_int_equal(scenario_scales(&s), SCALES_NONE);
	e4m3.kv_dtype = ATTUNE_E4M3;
	s.shape = e4m3;
	assert_int_equal(scenario_scales(&s), SCALES_EACH);
	assert_null(scales_refused(&toy_kernel, SCALES_EACH));
	assert_null(scales_refused(&one, SCALES_ONE));
	assert_non_null(strstr(scales_refused(&one, SCALES_EACH), "one scale of K and one of V"));
	assert_null(scales_refused(&none, SCALES_NONE));
	assert_non_null(strstr(scales_refused(&none, SCALES_ONE), "without scales"));
}

static void tolerances(void **state)
{
	(void)state;
	assert_true(check_tolerance(&f32, 1, 1) < 2e-4);
	assert_true(check_tolerance(&f16, 1, 0) > 0x1p-11);
	assert_true(check_tolerance(&f16, 1, 1) < 0x1.3p-10);
	assert_true(check_tolerance(&bf16, 1, 1) > 0x1p-7);
	assert_true(check_tolerance(&bf16, 1, 1) < 0x1.1p-7);
	assert_true(check_tolerance(&bf16, 0, 0) < 1e-9); /* no key: zero */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(says_what_was_not_written),
		cmocka_unit_test(says_what_is_no_number),
		cmocka_unit_test(says_what_is_of_the_other_part),
		cmocka_unit_test(says_how_far_outside),
		cmocka_unit_test(says_what_is_right),
		cmocka_unit_test(illegal_is_an_outcome),
		cmocka_unit_test(nothing_to_do_is_right),
		cmocka_unit_test(one_key_of_thousands),
		cmocka_unit_test(timed_workloads_can_be_checked),
		cmocka_unit_test(plugins_may_take_fewer_scales),
		cmocka_unit_test(scales_of_timed_workloads_may_be_refused),
		cmocka_unit_test(checked_workloads_are_kept),
		cmocka_unit_test(tolerances),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("verdicts", tests, set_up, tear_down);
}
