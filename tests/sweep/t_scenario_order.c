/* SPDX-License-Identifier: Apache-2.0 */
/* t_scenario_order.c - in which order a sweep takes its scenarios. */
#include "problem_set.h"

static void add(int i, const char *text)
{
	add_to_problems(i, text, llama.kv_dtype, 1, &cpu);
}

static void far_ones_come_first(void **state)
{
	static const char *const texts[] = { "q1s128",  "q1s129",     "q1s130", "q1s32k",
					     "64q1s1k", "q512_q1s1k", "q1s131" };
	int at[7];
	(void)state;
	for (int i = 0; i < 7; i++)
		add(i, texts[i]);
	problems_spread(&problems);
	assert_int_equal(problems.n, 9);
	for (int i = 0; i < problems.n; i++)
		at[problems.v[i].scenario] = i;
	for (int near = 1; near < 7; near++)
		for (int far = 3; far < 6; far++)
			if (near < 3 || near == 6)
				assert_true(at[far] < at[near]);
	for (int i = 0, last = -1; i < problems.n; last = problems.v[i++].scenario)
		if (i && problems.v[i].scenario != last)
			for (int j = 0; j < i; j++)
				assert_int_not_equal(problems.v[j].scenario,
						     problems.v[i].scenario);
}

/* Also before scenarios that have only times by older sources. */
static void what_was_asked_for_comes_first(void **state)
{
	static const char *const texts[] = { "q1s128", "q1s32k", "64q1s1k", "q512_q1s1k",
					     "q1s131" };
	(void)state;
	for (int i = 0; i < 5; i++)
		add(i, texts[i]);
	problems_spread(&problems);
	assert_int_not_equal(problems.v[0].scenario, 3);
	scenarios[3].asked = 1;
	problems_spread(&problems);
	for (int i = 0; i < 3; i++)
		assert_int_equal(problems.v[i].scenario, 3);
	const int older = problems.v[4].scenario;
	problems.v[4].us[0] = 1;
	problems_stale_first(&problems);
	for (int i = 0; i < 3; i++)
		assert_int_equal(problems.v[i].scenario, 3);
	assert_int_equal(problems.v[3].scenario, older);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(far_ones_come_first, clear),
		cmocka_unit_test_teardown(what_was_asked_for_comes_first, clear),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
