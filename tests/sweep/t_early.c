/* SPDX-License-Identifier: Apache-2.0 */
/* t_early.c - launches that may begin before the one in front is over: how a launch follows from
 * choice and permission, on a device that records it; which choices the rules refuse; that
 * sweeps and trees use such choices on request alone; and the work list of `sweep --early`. */
#include "kernels/args_more.h"
#include <stdio.h>
#include "tests/store/store_fixture.h"
#include "harness/base/base.h"
#include "harness/measure/measure.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/store.h"
#include "harness/sweep/sweep.h"
#include "harness/worker/worker.h"
#include "tuner/data/data.h"
#include "kernels/launch/op.h"
#include "kernels/launch/run.h"
#include "tests/support/synthetic.h"

/* ---- the device ------------------------------------------------------------------------ */

static struct {
	int in_turn, early;
	struct attune_args first; /* the arguments of the first launch */
	struct geometry g;
} seen;

static enum attune_status note(const struct geometry *g, const void *args, int *count)
{
	if (!seen.in_turn && !seen.early) {
		memcpy(&seen.first, args, sizeof seen.first);
		seen.g = *g;
	}
	++*count;
	return ATTUNE_OK;
}

static enum attune_status take(struct device *d, const struct code *c, const struct geometry *g,
			       const void *args, size_t bytes, void *stream)
{
	(void)d, (void)c, (void)bytes, (void)stream;
	return note(g, args, &seen.in_turn);
}

static enum attune_status take_early(struct device *d, const struct code *c,
				     const struct geometry *g, const void *args, size_t bytes,
				     void *stream)
{
	(void)d, (void)c, (void)bytes, (void)stream;
	return note(g, args, &seen.early);
}

static enum attune_status clear(struct device *d, void *memory, size_t bytes, void *stream)
{
	(void)d, (void)memory, (void)bytes, (void)stream;
	return ATTUNE_OK;
}

static const struct device_ops both = { .launch = take,
					.launch_early = take_early,
					.clear = clear };
static const struct device_ops turn_alone = { .launch = take, .clear = clear };

/* ---- launches --------------------------------------------------------------------------- */

static char *const code = (char *)64; /* which nothing reads */

// clang-format off
static const struct row {
	const char *name, *kernel, *choice;
	int allowed, has_launch;
	int early, in_turn, option; /* launches of either kind; args.option[0] of the first */
} rows[] = {
	{ "allowed, after the last key",  "ring", "SEGMENTS=1 EARLY=1",           1, 1, 1, 0, 2 },
	{ "allowed, at once, a cluster",  "ring", "COMBINE=1 SEGMENTS=4 EARLY=2", 1, 1, 1, 0, 5 },
	{ "the reduction is in turn",     "ring", "COMBINE=0 SEGMENTS=4 EARLY=1", 1, 1, 1, 1, 2 },
	{ "not allowed",                  "ring", "COMBINE=1 SEGMENTS=4 EARLY=1", 0, 1, 0, 1, 1 },
	{ "no such launch here",          "ring", "SEGMENTS=1 EARLY=2",           1, 0, 0, 1, 0 },
	{ "allowed, not chosen",          "ring", "SEGMENTS=1",                   1, 1, 0, 1, 0 },
	{ "allowed, has no such tunable", "segmented", "SEGMENTS=1",              1, 1, 0, 1, 0 },
};
// clang-format on

static struct choice chosen(const char *kernel, const char *set)
{
	char text[MAX_PART_TEXT], error[200];
	struct choice c;
	snprintf(text, sizeof text, "%s %s", kernel, with(kernel, set));
	if (!choice_parse(&c, BACKEND_GPU, text, error, sizeof error))
		fail_msg("%s", error);
	return c;
}

static struct device device_with(const struct device_ops *ops)
{
	memset(&seen, 0, sizeof seen);
	return (struct device){ .ops = ops, .info = h200_run.device };
}

static void launches(void **state)
{
	const struct row *r = *state;
	struct scenario s = scenario_of("8q1s3000");
	const struct choice c = chosen(r->kernel, r->choice);
	struct device dev = device_with(r->has_launch ? &both : &turn_alone);
	const struct launchable l = { c.kernel,
				      &c.config,
				      (struct code *)code,
				      { (struct code *)code, (struct code *)code },
				      r->allowed,
				      NULL,
				      0 };
	const struct attune_call call = { .args.num_query_heads = 32 };
	struct part part;
	assert_true(part_make(&part, PHASE_DECODE, &llama, &s.batch->view, &dev.info));
	assert_null(c.kernel->space->why_illegal(&c.config, &llama, &part, &dev.info));
	assert_int_equal(run_part(&dev, &l, &llama, &part, &call, code, 64 << 20, ALL_STEPS, NULL),
			 ATTUNE_OK);
	assert_int_equal(seen.early, r->early);
	assert_int_equal(seen.in_turn, r->in_turn);
	if (!strcmp(r->kernel, "ring"))
		assert_int_equal(seen.first.option[0], r->option);
	scenario_done(&s);
}

#define TENSORS                                                                                   \
	.size = sizeof(attune_tensors), .out = code, .q = code, .k_cache = code, .v_cache = code, \
	.k_new = code, .v_new = code, .block_table = (int *)code, .query_start = (int *)code,     \
	.seq_lens = (int *)code

/* By the library: the plan shows it, and plans of the two kinds are not the same graph. */
static void a_plan_allows_it(void **state)
{
	attune_context ctx = { .device = device_with(&both) };
	const struct choice c = chosen("ring", "COMBINE=1 SEGMENTS=4 EARLY=1");
	struct ready ready = { .kernel = c.kernel,
			       .config = c.config,
			       .code = (struct code *)code };
	const attune_op op = { .ctx = &ctx,
			       .shape = llama,
			       .helper = { NULL, (struct code *)code },
			       .num_ready = 1,
			       .ready = &ready };
	const attune_tensors t = { TENSORS };
	struct scenario s = scenario_of("8q1s3000");
	attune_plan plan = { .size = sizeof plan }, early = { .size = sizeof early };
	(void)state;
	assert_int_equal(attune_plan_batch(&op, &s.batch->view, &plan), ATTUNE_OK);
	assert_int_equal(plan.start, ATTUNE_START_IN_TURN);
	early = plan;
	early.start = ATTUNE_START_EARLY;
	assert_int_equal(attune_run(&op, &plan, &t, code, plan.workspace, NULL), ATTUNE_OK);
	assert_int_equal(seen.in_turn, 1);
	assert_int_equal(seen.first.option[0], 1);
	assert_int_equal(attune_run(&op, &early, &t, code, plan.workspace, NULL), ATTUNE_OK);
	assert_int_equal(seen.in_turn, 1);
	assert_int_equal(seen.early, 1);
	assert_int_equal(attune_plan_serves(&early, &early), ATTUNE_SERVES_ALIKE);
	assert_int_equal(attune_plan_serves(&early, &plan), 0);
	assert_int_equal(attune_plan_serves(&plan, &early), 0);
	scenario_done(&s);
}

/* The heuristic's tree decides, in place of the choice: early for few sequences, as in the
 * choice for some, in turn for many. */
static void the_tree_says_how(void **state)
{
	static const struct selector_node nodes[] = {
		{ -1, 0, 0 }, /* all other decisions */
		{ ATTUNE_FEATURE_num_seqs, 3, 4 },
		{ -1, 0, 2 },
		{ ATTUNE_FEATURE_num_seqs, 5, 16 },
		{ -1, 0, SAYS_OWN },
		{ -1, 0, 0 },
	};
	static const struct {
		const char *batch, *shown;
		int early, option;
	} cases[] = { { "2q1s3000", " EARLY=2", 1, 5 },
		      { "8q1s3000", " EARLY=1", 1, 3 },
		      { "32q1s3000", "", 0, 1 } };
	const struct selector h = { .nodes = nodes,
				    .num_nodes = COUNT(nodes),
				    .root[DECIDE_EARLY] = 1 };
	attune_context ctx = { .device = device_with(&both) };
	const struct choice c = chosen("ring", "COMBINE=1 SEGMENTS=4 EARLY=1");
	struct ready ready = { .kernel = c.kernel,
			       .config = c.config,
			       .code = (struct code *)code };
	const attune_op op = { .ctx = &ctx,
			       .shape = llama,
			       .helper = { NULL, (struct code *)code },
			       .num_ready = 1,
			       .num_choices = 1,
			       .ready = &ready,
			       .heuristic = &h };
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct scenario s = scenario_of(cases[i].batch);
		attune_plan plan = { .size = sizeof plan }, other = { .size = sizeof other };
		char text[MAX_CHOICE_TEXT];
		assert_int_equal(attune_plan_batch(&op, &s.batch->view, &plan), ATTUNE_OK);
		for (int allowed = 0; allowed < 2; allowed++) {
			memset(&seen, 0, sizeof seen);
			plan.start = allowed ? ATTUNE_START_EARLY : ATTUNE_START_IN_TURN;
			assert_int_equal(attune_run(&op, &plan, &(attune_tensors){ TENSORS }, code,
						    plan.workspace, NULL),
					 ATTUNE_OK);
			assert_int_equal(seen.early, allowed && cases[i].early);
			assert_int_equal(seen.first.option[0], allowed ? cases[i].option : 1);
			other = plan;
			other.early[0] = !plan.early[0];
			assert_int_equal(attune_plan_serves(&plan, &other) == ATTUNE_SERVES_ALIKE,
					 !allowed);
		}
		assert_int_equal(attune_plan_text(&op, &plan, text, sizeof text), ATTUNE_OK);
		const char *shown = strstr(text, " EARLY=");
		assert_string_equal(shown ? shown : "", cases[i].shown);
		plan.early[0] = MOST_EARLY + 1;
		assert_int_equal(attune_plan_text(&op, &plan, text, sizeof text), ATTUNE_INVALID);
		scenario_done(&s);
	}
}

/* ---- who knows of it -------------------------------------------------------------------- */

static void older_gpus_are_refused(void **state)
{
	const struct choice c = chosen("ring", "SEGMENTS=1 EARLY=1");
	const struct choice turn = chosen("ring", "SEGMENTS=1");
	struct device_info d = h200_run.device;
	(void)state;
	assert_null(c.kernel->space->why_illegal(&c.config, &llama, NULL, &d));
	snprintf(d.arch, sizeof d.arch, "sm_80");
	assert_string_equal(c.kernel->space->why_illegal(&c.config, &llama, NULL, &d),
			    "launches that begin early need sm_90 or newer");
	assert_null(turn.kernel->space->why_illegal(&turn.config, &llama, NULL, &d));
}

static void no_sweep_tries_it(void **state)
{
	const struct kernel *k = kernel_find(BACKEND_GPU, "ring");
	(void)state;
	for (enum preset p = 0; p < NUM_PRESETS; p++) {
		struct candidates list = { 0 };
		assert_true(candidates_add(&list, k, &llama, &h200_run.device, p, 1));
		assert_true(list.n > 1);
		for (int i = 0; i < list.n; i++)
			assert_int_equal(
			    config_value(&list.v[i].choice.config, k->space, "EARLY", 0), 0);
		free(list.v);
	}
}

static void no_tree_is_made_of_it(void **state)
{
	struct data *d = data_new("h200", &h200_run);
	struct store_cell cell[] = {
		cell_like("q1s1k", "decode", "ring", with("ring", "SEGMENTS=1"), 5),
		cell_like("q1s1k", "decode", "ring", with("ring", "SEGMENTS=1 EARLY=2"), 3),
	};
	int choice;
	(void)state;
	for (size_t i = 0; i < COUNT(cell); i++)
		assert_true(data_add(d, &cell[i]));
	assert_true(data_finish(d));
	assert_true(data_best(d, 0, PHASE_DECODE, &choice) == 5);
	data_free(d);
}

/* ---- sweep --early ----------------------------------------------------------------------- */

static void store_time(struct store *s, long long run, const struct scenario *sc, const char *set,
		       double us)
{
	const struct choice c = chosen("ring", set);
	const struct measurement m = measured(us);
	assert_int_equal(store_measurement(s, run, sc, PHASE_DECODE, &c, "", &m, 128, 0), 1);
}

/* Its output. */
static const char *dry_run(const char *db, const struct scenario_list *list)
{
	static char text[2000];
	const struct sweep_options o = { .gpu = "h200",
					 .db = db,
					 .preset = PRESET_QUICK,
					 .dry_run = 1,
					 .format = FORMAT_TSV,
					 .shards = 1 };
	const struct hello hello = { .info = h200.device };
	FILE *f = tmpfile();
	assert_non_null(f);
	fflush(stdout);
	const int kept = dup(STDOUT_FILENO);
	dup2(fileno(f), STDOUT_FILENO);
	quiet();
	const int code_of = sweep_early(&o, &hello, list);
	loud();
	fflush(stdout);
	dup2(kept, STDOUT_FILENO);
	close(kept);
	rewind(f);
	text[fread(text, 1, sizeof text - 1, f)] = '\0';
	fclose(f);
	assert_int_equal(code_of, *text ? EXIT_DONE : EXIT_USAGE);
	return text;
}

static void the_fastest_in_turn_are_measured(void **state)
{
	const char *db = in_folder("early.sqlite");
	struct scenario sc = scenario_of("8q1s3000");
	const struct scenario_list list = { &sc, 1 };
	struct store *s = fresh("early.sqlite");
	const long long run = store_begin_run(s, &h200);
	char want[600];
	(void)state;
	sc.shape = llama;
	sc.layout = LAYOUT_NHD;
	assert_string_equal(dry_run(db, &list), "");
	assert_non_null(
	    strstr(said, "times of such choices for these scenarios; sweep them without"));
	store_time(s, run, &sc, "SEGMENTS=1", 19);
	store_time(s, run, &sc, "SEGMENTS=2", 11);
	store_time(s, run, &sc, "SEGMENTS=4", 14);
	store_stage(s, "early");
	store_time(s, run, &sc, "SEGMENTS=2", 29);
	store_time(s, run, &sc, "SEGMENTS=2 EARLY=1", 9);
	store_time(s, run, &sc, "SEGMENTS=8 EARLY=2", 5);
	store_close(s);
	snprintf(want, sizeof want,
		 "model\tbatch\tphase\tturn_us\tlast_key_us\tat_once_us\tchoice\n"
		 "llama3.1-8b@1\t8q1s3000\tdecode\t30.00\t10.00\t\tring %s\n"
		 "llama3.1-8b@1\t8q1s3000\tdecode\t\t\t\tring %s\n",
		 with("ring", "SEGMENTS=2"), with("ring", "SEGMENTS=4"));
	assert_string_equal(dry_run(db, &list), want);
	assert_non_null(strstr(said, "2 choices that can begin early, 6 times to measure"));
	scenario_done(&sc);
}

static void hundreds_of_scenarios(void **state)
{
	enum { MANY = 600 };
	const char *db = in_folder("many.sqlite");
	struct scenario_list list = { calloc(MANY, sizeof *list.v), MANY };
	struct store *s = fresh("many.sqlite");
	const long long run = store_begin_run(s, &h200);
	(void)state;
	assert_non_null(list.v);
	for (int i = 0; i < MANY; i++) {
		char batch[24];
		snprintf(batch, sizeof batch, "8q1s%d", 1000 + i);
		list.v[i] = scenario_of(batch);
		list.v[i].shape = llama;
		list.v[i].layout = LAYOUT_NHD;
		store_time(s, run, &list.v[i], "SEGMENTS=1", 19);
	}
	store_close(s);
	dry_run(db, &list);
	assert_non_null(strstr(said, "600 choices that can begin early, 1800 times to measure"));
	for (int i = 0; i < MANY; i++)
		scenario_done(&list.v[i]);
	free(list.v);
}

int main(void)
{
	struct CMUnitTest tests[COUNT(rows) + 7];
	size_t n = 0;
	for (; n < COUNT(rows); n++)
		tests[n] = (struct CMUnitTest){ rows[n].name, launches, NULL, NULL,
						(void *)(uintptr_t)&rows[n] };
	const struct CMUnitTest more[] = { cmocka_unit_test(a_plan_allows_it),
					   cmocka_unit_test(the_tree_says_how),
					   cmocka_unit_test(older_gpus_are_refused),
					   cmocka_unit_test(no_sweep_tries_it),
					   cmocka_unit_test(no_tree_is_made_of_it),
					   cmocka_unit_test(the_fastest_in_turn_are_measured),
					   cmocka_unit_test(hundreds_of_scenarios) };
	for (size_t i = 0; i < COUNT(more); i++)
		tests[n++] = more[i];
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("early", tests, n, make_folder, remove_folder);
}
