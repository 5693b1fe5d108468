/* SPDX-License-Identifier: Apache-2.0 */
/* t_noisy_sweep.c - how commands treat noisy times. */
#include "kernels/spec/kernel.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#undef fail
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/store.h"
#include "harness/sweep/sweep.h"
#include "tests/support/fake_worker.h"
#include "tests/support/heard.h"

/* ---- commands ------------------------------------------------------------------------------- */

enum { BATCHES = 5 };
static char folder[] = "/tmp/t_noisy.XXXXXX", db[64];
static struct scenario scenario[BATCHES];
static const struct scenario_list list = { scenario, BATCHES };
static struct sweep_options options;

static int make_scenarios(void **state)
{
	char error[128], text[32];
	(void)state;
	for (int i = 0; i < BATCHES; i++) {
		snprintf(text, sizeof text, "%dq1s50", i + 2);
		scenario[i] = (struct scenario){ .model = "tiny@1",
						 .set = "t",
						 .split = "train",
						 .weight = 1,
						 .seed = 5,
						 .batch_text = strdup(text),
						 .batch = batch_parse(text, error, sizeof error),
						 .shape = { .num_query_heads = 2,
							    .num_kv_heads = 1,
							    .head_size = 64,
							    .page_size = 16,
							    .causal = 1,
							    .scale = 0.125f } };
		if (!scenario[i].batch)
			return -1;
	}
	if (!fake_worker_begin() || !mkdtemp(folder))
		return -1;
	/* an empty folder is a machine without processes */
	return setenv("ATTUNE_LOCKS", folder, 1) || setenv("ATTUNE_PROC", folder, 1);
}

static int remove_scenarios(void **state)
{
	char command[80];
	(void)state;
	for (int i = 0; i < BATCHES; i++) {
		batch_free(scenario[i].batch);
		free(scenario[i].batch_text);
	}
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command);
}

static int fresh(void **state)
{
	const struct hello hello = fake.hello;
	static int n;
	(void)state;
	memset(&fake, 0, sizeof fake);
	fake.hello = hello;
	snprintf(db, sizeof db, "%s/%d.sqlite", folder, n++);
	options = (struct sweep_options){ .gpu = "cpu",
					  .db = db,
					  .command = "t_noisy_sweep",
					  .kernels = "qblock",
					  .preset = PRESET_SMOKE,
					  .budget_s = 600,
					  .shards = 1,
					  .seed = 1 };
	return 0;
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
	static char all[4000];
	struct store *s = store_open(db, 1);
	all[0] = '\0';
	assert_non_null(s);
	assert_true(store_query(s, sql, keep_text, all));
	store_close(s);
	return all;
}

static int sweep_says(const char *words, int races)
{
	const int before = fake.races;
	listen_begin();
	const int code = sweep(&options, &fake.hello, &list);
	const char *said = heard();
	if (!strstr(said, words))
		print_error("%s\n", said);
	assert_non_null(strstr(said, words));
	assert_int_equal(fake.races - before, races);
	return code;
}

static void a_sweep_races_noise_again(void **state)
{
	(void)state;
	fake.noisy_races = 2; /* of five */
	assert_int_equal(sweep_says("times were too noisy to learn from, 0 still are", BATCHES + 2),
			 EXIT_DONE);
	assert_string_equal(ask("SELECT DISTINCT outcome FROM history"), "ok;");
	assert_int_equal(sweep_says("nothing to do", 0), EXIT_DONE);
}

static void at_most_twice(void **state)
{
	(void)state;
	fake.noisy_races = 3 * BATCHES; /* all of it, and all of both repetitions */
	assert_int_equal(sweep_says("the same command races them again", 3 * BATCHES), EXIT_DONE);
	/* references are sound in this test */
	assert_string_equal(ask("SELECT outcome, count(DISTINCT batch) FROM timings GROUP BY 1"),
			    "noisy 5;ok 5;");
	/* the next sweep continues with these alone, and the reference */
	const int contenders = fake.contenders / 3;
	fake.contenders = 0;
	assert_int_equal(sweep_says("0 failed", BATCHES), EXIT_DONE);
	assert_int_equal(fake.contenders, contenders);
	assert_string_equal(ask("SELECT DISTINCT outcome FROM timings"), "ok;");
	assert_int_equal(sweep_says("nothing to do", 0), EXIT_DONE);
}

static void nothing_but_noise_is_an_error(void **state)
{
	(void)state;
	fake.ratio[0] = fake.ratio[1] = 0.57;
	/* one batch: its race, and two repetitions, with controls since the first was off */
	const struct scenario_list one = { scenario, 1 };
	fake.ratio[2] = 1;
	fake.noisy_races = 0;
	listen_begin();
	assert_int_equal(sweep(&options, &fake.hello, &one), EXIT_DONE);
	assert_non_null(strstr(heard(), "0 still are"));
	assert_int_equal(fake.races, 3);
	/* such a difference is no noise of the training data */
	assert_string_equal(ask("SELECT count(*), max(ratio) FROM control"), "1 1000000;");
}

/* Three controls in a row that cannot be true stop it. The first race had a good one. */
static void a_busy_machine_stops_a_sweep(void **state)
{
	(void)state;
	fake.ratio[0] = 116;
	fake.ratio[1] = 0.57;
	fake.ratio[2] = 1.8;
	assert_int_equal(
	    sweep_says("the same choice twice differs by 11500 %: the machine is not quiet", 3),
	    EXIT_BUSY);
	assert_string_equal(ask("SELECT DISTINCT outcome FROM history"), "noisy;");
	assert_string_equal(ask("SELECT count(*) FROM control"), "0;");
	/* the same command goes on */
	memset(fake.ratio, 0, sizeof fake.ratio);
	assert_int_equal(sweep_says("0 failed", BATCHES), EXIT_DONE);
	assert_string_equal(ask("SELECT DISTINCT outcome FROM timings"), "ok;");
}

/* ---- wishes ------------------------------------------------------------------------------------- */

static struct contender wish_of(const char *kernel, int scenario_index)
{
	struct contender w = { .scenario = scenario_index,
			       .phase = PHASE_DECODE,
			       .choice = { .kernel = kernel_find(BACKEND_CPU, kernel) } };
	config_default(&w.choice.config, w.choice.kernel->space);
	return w;
}

static void a_second_pass_races_noise_again(void **state)
{
	const struct contender wish[] = { wish_of("qblock", 0), wish_of("segmented", 0),
					  wish_of("qblock", 1) };
	(void)state;
	/* the first pass has times of all, which do not matter to the second */
	assert_int_equal(sweep_wishes(&options, &fake.hello, &list, wish, 3, "race"), EXIT_DONE);
	fake.races = fake.contenders = 0;
	fake.noisy_races = 1;
	assert_int_equal(sweep_wishes(&options, &fake.hello, &list, wish, 3, "b"), EXIT_DONE);
	assert_int_equal(fake.races, 3);
	assert_int_equal(fake.contenders, 2 + 1 + 1); /* only the noisy one again */
	assert_string_equal(ask("SELECT outcome, count(*) FROM confirmed GROUP BY 1"), "ok 3;");
	/* measured once more, and noisy for ever: the time stays */
	options.again = 1;
	fake.noisy_races = 100;
	assert_int_equal(sweep_wishes(&options, &fake.hello, &list, wish, 2, "b"), EXIT_DONE);
	assert_int_equal(fake.races, 3 + 3);
	assert_string_equal(ask("SELECT outcome, count(*) FROM confirmed GROUP BY 1"), "ok 3;");
}

static void noise_of_a_second_pass_is_left_for_the_next(void **state)
{
	const struct contender wish[] = { wish_of("qblock", 0), wish_of("segmented", 0) };
	(void)state;
	fake.noisy_races = 3;
	listen_begin();
	assert_int_equal(sweep_wishes(&options, &fake.hello, &list, wish, 2, "b"), EXIT_DONE);
	assert_non_null(strstr(heard(), "too noisy to compare, and left out: 1;"));
	assert_int_equal(fake.races, 3);
	assert_string_equal(ask("SELECT outcome, count(*) FROM confirmed GROUP BY 1 ORDER BY 1"),
			    "noisy 1;ok 1;");
	assert_int_equal(sweep_wishes(&options, &fake.hello, &list, wish, 2, "b"), EXIT_DONE);
	assert_int_equal(fake.races, 4);
	assert_string_equal(ask("SELECT outcome, count(*) FROM confirmed GROUP BY 1"), "ok 2;");
	assert_int_equal(sweep_wishes(&options, &fake.hello, &list, wish, 2, "b"), EXIT_DONE);
	assert_int_equal(fake.races, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_sweep_races_noise_again, fresh),
		cmocka_unit_test_setup(at_most_twice, fresh),
		cmocka_unit_test_setup(nothing_but_noise_is_an_error, fresh),
		cmocka_unit_test_setup(a_busy_machine_stops_a_sweep, fresh),
		cmocka_unit_test_setup(a_second_pass_races_noise_again, fresh),
		cmocka_unit_test_setup(noise_of_a_second_pass_is_left_for_the_next, fresh),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("noisy sweep", tests, make_scenarios, remove_scenarios);
}
