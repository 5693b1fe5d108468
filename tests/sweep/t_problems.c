/* SPDX-License-Identifier: Apache-2.0 */
/* t_problems.c - problems of a sweep: which candidates are raced on each scenario, and what the winners
 * nearby change. */
#include "problem_set.h"
#include "harness/plugin/plugin.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tests/plugin/never_runs.h"

/* ---- problems ---------------------------------------------------------------------------- */

enum { KNOWN = 18 /* enough for filters */ };
static const struct device_info *field_device = &cpu;

static void add_with(int i, const char *text, enum attune_dtype kv_dtype, unsigned seed)
{
	add_to_problems(i, text, kv_dtype, seed, field_device);
}

static void add(int i, const char *text)
{
	add_with(i, text, llama.kv_dtype, 1);
}

static void phases_follow_from_the_batch(void **state)
{
	(void)state;
	add(0, "4q1s1k");
	add(1, "q512");
	add(2, "q512_4q1s1k");
	assert_int_equal(problems.n, 5);
	assert_int_equal(problems.v[0].phase, PHASE_DECODE);
	assert_int_equal(problems.v[1].phase, PHASE_PREFILL);
	for (int i = 2; i < 5; i++)
		assert_int_equal(problems.v[i].scenario, 2);
	for (int i = 0; i < problems.n; i++) {
		const struct problem *problem = &problems.v[i];
		const struct built_choice *first = &problems.built_choice[problem->built_choice[0]];
		assert_int_equal(first->origin, FROM_DEFAULT);
		assert_string_equal(first->choice.kernel->name,
				    problem->phase == PHASE_DECODE ? "segmented" : "qblock");
		for (int k = 0; k < problem->n; k++) {
			const struct built_choice *e =
			    &problems.built_choice[problem->built_choice[k]];
			assert_null(e->choice.kernel->space->why_illegal(&e->choice.config, &llama,
									 &problem->part, &cpu));
			assert_true(isnan(problem->us[k]));
		}
	}
}

static void binaries_are_shared(void **state)
{
	(void)state;
	add(0, "4q1s4k");
	const int before = binaries.n;
	add(1, "4q1s4k_q1s4k");
	assert_int_equal(binaries.n, before);
	for (int i = 0; i < binaries.n; i++)
		for (int j = 0; j < i; j++)
			assert_true(binaries.v[i].kernel != binaries.v[j].kernel ||
				    strcmp(binaries.v[i].flags, binaries.v[j].flags));
}

static void all_run_until_enough_is_known(void **state)
{
	int place[4096];
	(void)state;
	for (int i = 0; i <= KNOWN; i++) {
		char text[32];
		snprintf(text, sizeof text, "%dq1s%dk", i + 1, i + 1);
		add(i, text);
	}
	const struct problem *problem = &problems.v[KNOWN];
	assert_true(problems_shortlist(&problems, problem, 0, place) > problem->n / 2);
	for (int i = 0; i < KNOWN; i++) {
		problems.v[i].finished = 1;
		for (int k = 0; k < problems.v[i].n; k++)
			problems_note(&problems.v[i], k, 100 + 10 * k, STAGE_RACE);
	}
	const int n = problems_shortlist(&problems, problem, 0, place);
	assert_true(n > 0 && n < problem->n);
	assert_int_equal(place[0], 0);
	for (int k = 0; k < problem->n; k++) {
		int in = 0;
		for (int j = 0; j < n; j++)
			in |= place[j] == k;
		if (problems.built_choice[problem->built_choice[k]].origin <= FROM_BASELINE)
			assert_true(in);
	}
	assert_int_equal(problems_shortlist(&problems, problem, 1, place), problem->n);
}

static int selected(const struct problem *problem, int which)
{
	int place[4096], in = 0;
	const int n = problems_shortlist(&problems, problem, 0, place);
	for (int j = 0; j < n; j++)
		in |= place[j] == which;
	return in;
}

static void many_alike(void)
{
	for (int i = 0; i <= KNOWN; i++) {
		char text[32];
		snprintf(text, sizeof text, "16q1s%dk", i + 1);
		add(i, text);
	}
	for (int i = 0; i < KNOWN; i++) {
		problems.v[i].finished = 1;
		for (int k = 0; k < problems.v[i].n; k++)
			problems_note(&problems.v[i], k, k ? 1000 : 100, STAGE_RACE);
	}
}

/* One that nothing but its own deeds brings in. */
static int outsider(const struct problem *problem)
{
	int which = problem->n - 1;
	while (which > 0 &&
	       (problems.built_choice[problem->built_choice[which]].origin <= FROM_BASELINE ||
		!problem->near[which] || selected(problem, which)))
		which--;
	assert_true(which > 0);
	return which;
}

static void winners_nearby_are_tried(void **state)
{
	(void)state;
	many_alike();
	struct problem *problem = &problems.v[KNOWN], *o = &problems.v[KNOWN - 1];
	const int which = outsider(problem);
	const int there = problems_place(
	    &problems, o, &problems.built_choice[problem->built_choice[which]].choice);
	assert_true(there > 0);
	problems_note(o, there, 150, STAGE_RACE);
	assert_false(selected(problem, which));
	problems_note(o, there, 105, STAGE_RACE);
	assert_true(selected(problem, which));
}

/* A choice that won twice anywhere in the phase is tried, however far away that was. */
static void winners_anywhere_are_tried(void **state)
{
	(void)state;
	many_alike();
	const int which = outsider(&problems.v[KNOWN]);
	const struct choice c = problems.built_choice[problems.v[KNOWN].built_choice[which]].choice;
	for (int i = KNOWN + 1; i < KNOWN + 3; i++) {
		add(i, i == KNOWN + 1 ? "q1s512" : "q1s600");
		struct problem *far = &problems.v[problems.n - 1];
		const int there = problems_place(&problems, far, &c);
		far->finished = 1;
		for (int k = 0; k < far->n; k++)
			problems_note(far, k, 50, STAGE_RACE);
		assert_true(there >= 0);
		problems_note(far, there, 10, STAGE_RACE);
		assert_int_equal(selected(&problems.v[KNOWN], which), i == KNOWN + 2);
	}
}

static void the_best_is_kept_up_to_date(void **state)
{
	(void)state;
	add(0, "4q1s4k");
	struct problem *problem = &problems.v[0];
	assert_int_equal(problem->best, -1);
	problems_note(problem, 1, INFINITY, STAGE_RACE);
	assert_int_equal(problem->best, -1);
	problems_note(problem, 2, 20, STAGE_RACE);
	problems_note(problem, 3, 10, STAGE_RACE);
	assert_int_equal(problem->best, 3);
	problems_note(problem, 3, 30, STAGE_COLD);
	assert_int_equal(problem->best, 2);
	problems_note(problem, 2, INFINITY, STAGE_COLD);
	assert_int_equal(problem->best, 3);
}

/* ---- formulas and ceilings --------------------------------------------------------------- */

static void add_gpu(int i, const char *text)
{
	const struct device_info *keep = field_device;
	field_device = &gpu;
	problems.device = gpu;
	problems.dram_gbps = 4800;
	problems.tflops = 990;
	add(i, text);
	field_device = keep;
}

static int asked_for(const struct problem *problem, const struct choice *c, int factor)
{
	const struct space *s = c->kernel->space;
	struct config out, f = c->config;
	for (int i = 0; i < s->num_formulas; i++) {
		f.v[s->formula_axis] = -1 - i;
		if (config_resolve(&out, &f, c->kernel, &llama, &problem->part, &gpu))
			continue;
		const int want = out.v[s->formula_axis], have = c->config.v[s->formula_axis];
		if (have <= factor * want && want <= factor * have)
			return 1;
	}
	return 0;
}

/* For a kernel with a formula only values near the formulas' are open to a race, and a portfolio
 * stands for the formulas' values. */
static void formulas_bound_their_axis(void **state)
{
	static const char *const texts[] = { "q1s32k", "8q1s8k", "64q1s2k", "4q1s64k_16q1s300" };
	char *family;
	int place[4096];
	(void)state;
	for (int i = 0; i < 4; i++)
		add_gpu(i, texts[i]);
	family = malloc((size_t)problems.num_families);
	for (int i = 0; i < problems.n; i++) {
		const struct problem *problem = &problems.v[i];
		int near = 0, far = 0, nearest = 0;
		for (int k = 0; k < problem->n; k++) {
			const struct choice *c =
			    &problems.built_choice[problem->built_choice[k]].choice;
			const int formula = c->kernel->space->formula_axis >= 0;
			assert_int_equal(problem->near[k] > 0,
					 !formula || asked_for(problem, c, 2));
			assert_int_equal(problem->near[k] > 1,
					 !formula || asked_for(problem, c, 1));
			near += problem->near[k] > 0;
			far += !problem->near[k];
			nearest += problem->near[k] > 1;
		}
		assert_true(near > 0 && far > 0);
		memset(family, 1, (size_t)problems.num_families);
		const int n = problems_resolve(&problems, problem, family, place);
		assert_true(n < problem->n);
		assert_int_equal(n, nearest);
		for (int k = 0; k < n; k++) {
			const struct choice *c =
			    &problems.built_choice[problem->built_choice[place[k]]].choice;
			assert_true(c->kernel->space->formula_axis < 0 || asked_for(problem, c, 1));
			for (int j = 0; j < k; j++)
				assert_int_not_equal(place[j], place[k]);
		}
	}
	free(family);
}

/* The first problems run all that formulas allow, chance picks and defaults, and nothing else. */
static void open_problems_keep_to_formulas(void **state)
{
	int place[4096], far = 0;
	(void)state;
	add_gpu(0, "8q1s8k");
	const struct problem *problem = &problems.v[0];
	const int n = problems_shortlist(&problems, problem, 0, place);
	assert_int_equal(place[0], 0);
	for (int i = 0; i < n; i++)
		far += !problem->near[place[i]];
	assert_true(n < problem->n && far < n / 4);
	for (int k = 0; k < problem->n; k++)
		assert_true(!problem->near[k] || selected(problem, k));
}

static void a_bound_knows_idle_units(void **state)
{
	double least = INFINITY, most = 0;
	(void)state;
	add_gpu(0, "q1s64k");
	const struct problem *problem = &problems.v[0];
	const double roof = 2.0 * 65536 * 8 * 128 * 2 / 4800e9 * 1e6;
	for (int k = 0; k < problem->n; k++) {
		const double us = problems_bound(
		    &problems, problem, &problems.built_choice[problem->built_choice[k]].choice);
		least = fmin(least, us);
		most = fmax(most, us);
	}
	assert_true(fabs(least / roof - 1) < 1e-6);
	assert_true(most > 4 * roof); /* 8 blocks for 132 units */
}

static void few_run_the_whole_of_a_mixed_batch(void **state)
{
	int place[4096];
	(void)state;
	add_gpu(0, "q2k_16q1s4k");
	assert_int_equal(problems.n, 3);
	struct problem *prefill = problems_find(&problems, 0, PHASE_PREFILL);
	struct problem *all = problems_find(&problems, 0, PHASE_ALL);
	for (int k = 0; k < prefill->n; k++)
		problems_note(prefill, k, 1000 - k, STAGE_RACE);
	const int n = problems_shortlist(&problems, all, 0, place);
	int fused = 0;
	for (int i = 0; i < n; i++)
		fused += problems.built_choice[all->built_choice[place[i]]]
			     .choice.kernel->space->is_fused;
	assert_true(n - fused > 1 && n - fused < 8);
	assert_true(fused > 0 && fused < 64);
	const int best = problems_place(
	    &problems, all, &problems.built_choice[prefill->built_choice[prefill->best]].choice);
	assert_true(best < 0 || selected(all, best));
}

/* ---- a plug-in that runs mixed batches only ------------------------------------------------- */

static const char *refuses_parts(const attune_shape *s, const int *values,
				 const attune_plugin_part *p, const attune_plugin_device *d)
{
	(void)s, (void)values, (void)d;
	return p && (p->min_query > 1 || p->max_query == 1) ? "batches of one phase" : NULL;
}

static const attune_plugin whole_only = { .abi = ATTUNE_PLUGIN_ABI,
					  .name = "whole_only",
					  .version = "1",
					  .about = "mixed batches in one launch",
					  .backend = "cuda",
					  .refuses = refuses_parts,
					  .prepare = never_prepares,
					  .plan = never_plans,
					  .launch = never_launches,
					  .free_plan = frees_no_plan,
					  .free_op = frees_no_op };

static void a_plugin_without_parts_runs_the_whole(void **state)
{
	int raced = 0;
	(void)state;
	assert_int_equal(plugin_register(&whole_only), ATTUNE_OK);
	add_gpu(0, "q2k_16q1s4k");
	struct problem *all = problems_find(&problems, 0, PHASE_ALL);
	for (int k = 0; k < all->n; k++) {
		const struct kernel *kernel =
		    problems.built_choice[all->built_choice[k]].choice.kernel;
		raced += !strcmp(kernel->name, "whole_only") && selected(all, k);
	}
	assert_int_equal(raced, 1);
}

/* ---- a plug-in that takes no scales --------------------------------------------------------- */

static const char *refuses_nothing(const attune_shape *s, const int *values,
				   const attune_plugin_part *p, const attune_plugin_device *d)
{
	(void)s, (void)values, (void)p, (void)d;
	return NULL;
}

static int is_listed_for(int i, const char *name)
{
	const struct problem *problem = problems_find(&problems, i, PHASE_DECODE);
	assert_non_null(problem);
	for (int k = 0; k < problem->n; k++)
		if (!strcmp(problems.built_choice[problem->built_choice[k]].choice.kernel->name,
			    name))
			return 1;
	return 0;
}

/* The seed of a scenario says which scales an E4M3 cache has. */
static void scales_decide_where_a_plugin_is_listed(void **state)
{
	static attune_plugin plugin[2];
	(void)state;
	plugin[0] = plugin[1] = whole_only;
	plugin[0].name = "no_scales";
	plugin[1].name = "one_scale";
	plugin[0].needs = ATTUNE_PLUGIN_NO_SCALES;
	plugin[1].needs = ATTUNE_PLUGIN_ONE_SCALE;
	for (int i = 0; i < 2; i++) {
		plugin[i].refuses = refuses_nothing;
		assert_int_equal(plugin_register(&plugin[i]), ATTUNE_OK);
	}
	field_device = &gpu;
	for (int i = 0; i < 4; i++) { /* none, one, one each; then a 16-bit cache */
		add_with(i, "4q1s100", i < 3 ? ATTUNE_E4M3 : ATTUNE_BF16, i < 3 ? 3 + i : 5);
		assert_int_equal(is_listed_for(i, "no_scales"), i % 3 == 0);
		assert_int_equal(is_listed_for(i, "one_scale"), i != 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(phases_follow_from_the_batch, clear),
		cmocka_unit_test_teardown(binaries_are_shared, clear),
		cmocka_unit_test_teardown(all_run_until_enough_is_known, clear),
		cmocka_unit_test_teardown(winners_nearby_are_tried, clear),
		cmocka_unit_test_teardown(winners_anywhere_are_tried, clear),
		cmocka_unit_test_teardown(the_best_is_kept_up_to_date, clear),
		cmocka_unit_test_teardown(formulas_bound_their_axis, clear),
		cmocka_unit_test_teardown(open_problems_keep_to_formulas, clear),
		cmocka_unit_test_teardown(a_bound_knows_idle_units, clear),
		cmocka_unit_test_teardown(few_run_the_whole_of_a_mixed_batch, clear),
		/* last: plug-ins stay registered */
		cmocka_unit_test_teardown(a_plugin_without_parts_runs_the_whole, clear),
		cmocka_unit_test_teardown(scales_decide_where_a_plugin_is_listed, clear),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
