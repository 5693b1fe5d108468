/* SPDX-License-Identifier: Apache-2.0 */
/* t_wishes.c - wishes, cells that are requested one by one: each is measured once, in its stage,
 * with a control. A wish that cannot be measured is refused before anything runs. */
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#undef fail
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/store.h"
#include "harness/sweep/sweep.h"
#include "tests/support/fake_worker.h"
#include "tests/support/heard.h"

static char folder[] = "/tmp/t_wishes.XXXXXX", db[64];
static struct scenario scenario;
static struct scenario_list list = { &scenario, 1 };
static struct sweep_options options = { .gpu = "cpu",
					.db = db,
					.command = "t_wishes",
					.preset = PRESET_SMOKE,
					.budget_s = 60,
					.shards = 1,
					.seed = 1 };

static int begin(void **state)
{
	char error[128];
	(void)state;
	setenv("ATTUNE_THREADS", "1", 1);
	scenario = (struct scenario){ .model = "tiny@1",
				      .set = "t",
				      .split = "train",
				      .weight = 1,
				      .seed = 5,
				      .batch_text = strdup("q24_3q1s50"),
				      .shape = { .num_query_heads = 2,
						 .num_kv_heads = 1,
						 .head_size = 64,
						 .page_size = 16,
						 .causal = 1,
						 .scale = 0.125f } };
	scenario.batch = batch_parse(scenario.batch_text, error, sizeof error);
	if (!mkdtemp(folder) || !fake_worker_begin() || !scenario.batch)
		return -1;
	snprintf(db, sizeof db, "%s/w.sqlite", folder);
	/* an empty folder is a machine without processes */
	return setenv("ATTUNE_LOCKS", folder, 1) || setenv("ATTUNE_PROC", folder, 1);
}

static int end(void **state)
{
	char command[80];
	(void)state;
	batch_free(scenario.batch);
	free(scenario.batch_text);
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command);
}

static struct choice choice_of(const char *kernel)
{
	struct choice c = { .kernel = kernel_find(BACKEND_CPU, kernel) };
	assert_non_null(c.kernel);
	config_default(&c.config, c.kernel->space);
	return c;
}

static int keep_text(void *arg, int n, const char *const *names, const char *const *cells)
{
	(void)names;
	for (int i = 0; i < n; i++)
		strcat(strcat(arg, cells[i] ? cells[i] : "-"), i < n - 1 ? " " : ";");
	return 1;
}

static const char *ask(const char *sql)
{
	static char all[2000];
	struct store *s = store_open(db, 1);
	all[0] = '\0';
	assert_non_null(s);
	assert_true(store_query(s, sql, keep_text, all));
	store_close(s);
	return all;
}

static void wishes_come_true_once(void **state)
{
	const struct choice q = choice_of("qblock"), s = choice_of("segmented");
	const struct contender wish[] = {
		{ .phase = PHASE_PREFILL, .choice = q },
		{ .phase = PHASE_DECODE, .choice = q },
		{ .phase = PHASE_DECODE, .choice = s },
		{ .phase = PHASE_DECODE, .choice = s }, /* the same again is one */
		{ .is_plan = 1, .choice = q, .decode = s },
		{ .is_plan = 1, .choice = q, .decode = s, .how = ATTUNE_STREAMS },
	};
	(void)state;
	assert_int_equal(sweep_wishes(&options, &fake.hello, &list, wish, 6, "b"), EXIT_DONE);
	assert_string_equal(ask("SELECT phase, kernel, outcome, stage, pass FROM confirmed "
				"ORDER BY phase, kernel"),
			    "decode qblock ok b B;decode segmented ok b B;plan plan ok b B;"
			    "plan plan ok b B;"
			    "prefill qblock ok b B;");
	assert_string_equal(ask("SELECT count(*) FROM timings"), "0;");
	assert_string_equal(
	    ask("SELECT min(samples) > 1 AND min(samples) = max(samples) FROM "
		"confirmed JOIN sample AS x ON x.race = race_id AND x.variant = variant_id "
		"WHERE x.rejected = 0"),
	    "1;");
	assert_string_equal(ask("SELECT count(*) >= 2, min(t.name), max(t.name) FROM control "
				"JOIN race AS c ON c.id = race JOIN stage AS t ON t.id = c.stage"),
			    "1 b b;");
	assert_string_equal(ask("SELECT count(*) FROM run"), "1;");
	assert_int_equal(sweep_wishes(&options, &fake.hello, &list, wish, 6, "b"), EXIT_DONE);
	assert_string_equal(ask("SELECT count(*) FROM measurement"), "5;");
	assert_string_equal(ask("SELECT variant LIKE '%qblock % || decode: segmented %' FROM "
				"confirmed WHERE phase = 'plan' ORDER BY 1"),
			    "0;1;");
	assert_string_equal(ask("SELECT count(*) FROM run"), "1;");
	options.again = 1;
	assert_int_equal(sweep_wishes(&options, &fake.hello, &list, wish + 2, 1, "b"), EXIT_DONE);
	options.again = 0;
	assert_string_equal(ask("SELECT count(*) FROM measurement"), "6;");
	assert_int_equal(sweep_wishes(&options, &fake.hello, &list, wish, 1, "refine"), EXIT_DONE);
	assert_string_equal(ask("SELECT stage, pass FROM timings"), "refine A;");
	assert_int_equal(sweep_wishes(&options, &fake.hello, &list, wish, 1, "early"), EXIT_DONE);
	assert_string_equal(
	    ask("SELECT stage, pass FROM newest WHERE phase = 'prefill' ORDER BY 2"),
	    "refine A;b B;early E;");
	assert_string_equal(ask("SELECT stage, pass FROM timings"), "refine A;");
}

/* A caller that measures several lists gets the sums, in place of a message. */
static void sums_are_handed_over(void **state)
{
	const struct contender wish = { .phase = PHASE_DECODE, .choice = choice_of("qblock") };
	struct sweep_sum sum = { 0 };
	(void)state;
	options.again = 1;
	options.sum = &sum;
	for (int n = 1; n <= 2; n++) {
		listen_begin();
		assert_int_equal(sweep_wishes(&options, &fake.hello, &list, &wish, 1, "cold"),
				 EXIT_DONE);
		assert_null(strstr(heard(), "measured"));
		assert_int_equal(sum.measured, n);
		assert_int_equal(sum.races, n);
	}
	options.again = 0;
	options.sum = NULL;
}

/* Plans are rivals of one launch over the whole batch: one race, so one control. */
static void plans_race_with_the_whole(void **state)
{
	const struct choice q = choice_of("qblock"), s = choice_of("segmented");
	const struct contender wish[] = {
		{ .phase = PHASE_ALL, .choice = q },
		{ .is_plan = 1, .choice = q, .decode = s },
	};
	(void)state;
	options.again = 1;
	assert_int_equal(sweep_wishes(&options, &fake.hello, &list, wish, 2, "cold"), EXIT_DONE);
	options.again = 0;
	assert_string_equal(ask("SELECT phase, outcome FROM timings WHERE stage = 'cold' "
				"ORDER BY phase"),
			    "all ok;plan ok;");
	assert_string_equal(ask("SELECT count(*) FROM control JOIN race AS c ON c.id = race "
				"WHERE c.stage = 3"),
			    "1;");
}

static void impossible_ones_are_refused(void **state)
{
	struct contender wish = { .phase = PHASE_DECODE, .choice = choice_of("segmented") };
	const int axis = wish.choice.kernel->space->formula_axis;
	(void)state;
	assert_true(axis >= 0);
	wish.choice.config.v[axis] = -1;
	listen_begin();
	assert_int_equal(sweep_wishes(&options, &fake.hello, &list, &wish, 1, "b"), EXIT_USAGE);
	assert_non_null(strstr(heard(), "a formula stands for"));
	wish.choice = choice_of("segmented");
	wish.choice.config.v[axis] = 32; /* of 50 keys */
	listen_begin();
	assert_int_equal(sweep_wishes(&options, &fake.hello, &list, &wish, 1, "b"), EXIT_USAGE);
	assert_non_null(strstr(heard(), "tiny@1 q24_3q1s50: segmented"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wishes_come_true_once),
		cmocka_unit_test(plans_race_with_the_whole),
		cmocka_unit_test(sums_are_handed_over),
		cmocka_unit_test(impossible_ones_are_refused),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("wishes", tests, begin, end);
}
