/* SPDX-License-Identifier: Apache-2.0 */
/* t_confirm.c - `attune sweep --confirm`: a scenario is measured as a whole, in one session, or not at all.
 * `attune tune --check`: whether the picks still beat their rivals. `attune bench`: all have a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#undef fail
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/store.h"
#include "harness/sweep/sweep.h"
#include "tuner/commands.h"
#include "tuner/emit/emit.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include "tests/support/fake_worker.h"
#include "tests/support/synthetic.h"
#define fail() _fail(__FILE__, __LINE__)
#include "tests/support/commands.h"

enum { BATCHES = 2 };
static const char *const batches[BATCHES] = { "3q1s50", "q24_3q1s50" };
static struct scenario scenario[BATCHES];
static const struct scenario_list list = { scenario, BATCHES };
static char db[80], header[80];
static const struct sweep_options pass_a = { .gpu = "cpu",
					     .db = db,
					     .command = "t_confirm",
					     .kernels = "qblock",
					     .preset = PRESET_SMOKE,
					     .budget_s = 600,
					     .shards = 1,
					     .seed = 1 };

/* Pass A of the scenarios, and the folder of all files. */
static int begin(void **state)
{
	char error[128];
	if (make_folder(state) || !fake_worker_begin())
		return -1;
	snprintf(db, sizeof db, "%s", in_folder("confirm.sqlite"));
	snprintf(header, sizeof header, "%s", in_folder("confirm.h"));
	/* an empty folder is a machine without processes */
	if (setenv("ATTUNE_LOCKS", folder, 1) || setenv("ATTUNE_PROC", folder, 1))
		return -1;
	for (int i = 0; i < BATCHES; i++) {
		scenario[i] =
		    (struct scenario){ .model = "tiny@1",
				       .set = "t",
				       .split = "train",
				       .weight = 1,
				       .seed = 5,
				       .batch_text = strdup(batches[i]),
				       .batch = batch_parse(batches[i], error, sizeof error),
				       .shape = { .num_query_heads = 2,
						  .num_kv_heads = 1,
						  .head_size = 64,
						  .page_size = 16,
						  .causal = 1,
						  .scale = 0.125f } };
		if (!scenario[i].batch)
			return -1;
	}
	return sweep(&pass_a, &fake.hello, &list);
}

static int end(void **state)
{
	for (int i = 0; i < BATCHES; i++) {
		batch_free(scenario[i].batch);
		free(scenario[i].batch_text);
	}
	return remove_folder(state);
}

static int has_row; /* the last two choices may run in the place of that one */

/* Rules that name one choice for all batches. */
static void make_header(int choice)
{
	const int action[NUM_DECISIONS] = { 0, 0, SAYS_SERIAL, SAYS_OWN };
	struct data *d = data_load(db, "cpu");
	struct forest f = { .num_choices = 1, .gpu = "cpu" };
	assert_non_null(d);
	f.choice[0] = d->choice[choice < 0 ? d->num_choices + choice : choice];
	if (has_row) {
		f.num_choices = 3;
		f.choice[1] = d->choice[d->num_choices - 1];
		f.choice[2] = d->choice[d->num_choices - 2];
		f.list[0] = (struct attune_list){ 3, { 0, 1, 2 } };
	}
	for (int t = 0; t < NUM_DECISIONS; t++) {
		assert_int_equal(tree_new_node(&f.tree[t]), 0);
		f.tree[t].v[0].action = action[t];
	}
	char *text = forest_emit(&f, d);
	FILE *out = fopen(header, "w");
	assert_true(text && out && fputs(text, out) >= 0 && !fclose(out));
	free(text);
	forest_free(&f);
	data_free(d);
}

static int first_text(void *arg, int n, const char *const *names, const char *const *cells)
{
	(void)n, (void)names;
	snprintf(arg, 40, "%s", cells[0]);
	return 0;
}

/* What a later sweep reads: all problems of both batches have raced to their end. */
static void finished_races_are_recalled(void **state)
{
	const struct candidate_options candidates = { .device = &fake.hello.info,
						      .preset = pass_a.preset,
						      .kernels = pass_a.kernels,
						      .seed = pass_a.seed };
	struct problems all = { .scenarios = scenario, .device = fake.hello.info };
	struct binaries binaries = { .arch = fake.hello.info.arch };
	struct store *s = store_open(db, 1);
	char protocol[40] = "";
	(void)state;
	assert_true(s &&
		    store_query(s, "SELECT DISTINCT protocol FROM newest", first_text, protocol));
	for (int i = 0; i < BATCHES; i++)
		assert_true(problems_add(&all, &binaries, i, &candidates));
	assert_int_equal(all.n, 4);
	for (int other = 1; other >= 0; other--) {
		assert_true(problems_recall(&all, s, other ? "other" : "cpu", protocol));
		for (int i = 0; i < all.n; i++)
			assert_int_equal(all.v[i].finished, !other);
	}
	problems_free(&all);
	binaries_free(&binaries);
	store_close(s);
}

static int first_number(void *arg, int n, const char *const *names, const char *const *cells)
{
	(void)n, (void)names;
	*(int *)arg = atoi(cells[0]);
	return 0;
}

static int ask(const char *sql)
{
	struct store *s = store_open(db, 0);
	int number = -1;
	assert_non_null(s);
	assert_true(store_query(s, sql, first_number, &number));
	store_close(s);
	return number;
}

#define RUN_OF_LAST_RACE "(SELECT run FROM race ORDER BY id DESC LIMIT 1)"
#define IN_LAST_RUN \
	"FROM measurement AS m JOIN race AS c ON c.id = m.race WHERE c.run = " RUN_OF_LAST_RACE

static void measure(void)
{
	assert_int_equal(
	    run_command(cmd_confirm, words("--gpu cpu --db %s --header %s", db, header)),
	    EXIT_DONE);
}

struct work {
	int cells, scenarios;
};

/* What --dry-run prints. */
static struct work foresee(const char *options)
{
	struct work w = { 0 };
	assert_int_equal(run_command(cmd_confirm, words("--gpu cpu --db %s --header %s --dry-run "
							"%s",
							db, header, options)),
			 EXIT_DONE);
	assert_int_equal(
	    sscanf(printed, "%d cells and plans of %d scenarios\n", &w.cells, &w.scenarios), 2);
	return w;
}

static void a_second_sweep_races_nothing(void **state)
{
	const int races = fake.races;
	(void)state;
	assert_true(races > 0);
	assert_int_equal(sweep(&pass_a, &fake.hello, &list), EXIT_DONE);
	assert_int_equal(fake.races, races);
}

static void a_scenario_is_measured_as_a_whole(void **state)
{
	(void)state;
	make_header(0);
	struct work w = foresee("");
	assert_int_equal(w.scenarios, BATCHES);
	assert_true(w.cells > 3 * BATCHES);
	measure();
	assert_int_equal(ask("SELECT count(*) " IN_LAST_RUN), w.cells);
	assert_int_equal(foresee("").cells, 0); /* all is there */
	assert_int_equal(foresee("--again").cells, w.cells);
	const int races = fake.races;
	measure();
	assert_int_equal(fake.races, races);

	/* one time of the second scenario is missing, as where an interrupt came */
	const int its = ask("SELECT count(*) " IN_LAST_RUN " AND c.scenario = 2");
	assert_true(its > 3 && its < w.cells);
	ask("DELETE FROM measurement WHERE (race, variant) IN (SELECT m.race, m.variant "
	    "FROM measurement AS m JOIN race AS c ON c.id = m.race WHERE c.scenario = 2 AND "
	    "c.stage = 6 LIMIT 1)");
	w = foresee("");
	assert_int_equal(w.scenarios, 1);
	assert_int_equal(w.cells, its);
	measure();
	assert_int_equal(ask("SELECT count(*) " IN_LAST_RUN), its);
	assert_int_equal(foresee("").scenarios, 0);
}

/* Other rules add a wish to one scenario's list: all of that list is measured again. */
static void a_wish_more_measures_its_scenario_again(void **state)
{
	(void)state;
	make_header(0);
	measure();
	make_header(-1);
	const struct work all = foresee("--again"), w = foresee("");
	assert_int_equal(w.scenarios, 1);
	assert_true(w.cells > all.cells / BATCHES);
	measure();
	assert_int_equal(ask("SELECT count(*) " IN_LAST_RUN), w.cells);
	assert_int_equal(ask("SELECT count(DISTINCT c.scenario) " IN_LAST_RUN), 1);
	assert_int_equal(foresee("").cells, 0);
}

/* What settling races has a time of each pass afterwards, and the same command resumes. */
static void members_are_measured(void **state)
{
	static const char *const passes[] = { "--fill --members", "--members" };
	(void)state;
	has_row = 1;
	make_header(0);
	for (size_t i = 0; i < COUNT(passes); i++) {
		const struct work w = foresee(i ? "--members --again" : passes[i]);
		assert_true(w.cells > 0);
		assert_int_equal(
		    run_command(cmd_confirm, words("--gpu cpu --db %s --header %s %s", db, header,
						   i ? "--members --again" : passes[i])),
		    EXIT_DONE);
		assert_int_equal(ask("SELECT count(*) " IN_LAST_RUN), w.cells);
		assert_int_equal(foresee(passes[i]).cells, 0);
	}
}

/* ---- attune tune --check ------------------------------------------------------------------------ */

/* The columns of a row that `attune tune --check --format tsv` prints. */
struct checked {
	char batch[40], phase[20];
	double then_us, now_us, then_lost, now_lost;
};

/* Its rows; *code is its exit code. */
static int check_rules(struct checked rows[8], int *code)
{
	int n = 0;
	listen_begin();
	*code = run_command(
	    cmd_tune, words("--check --gpu cpu --format tsv --db %s --header %s", db, header));
	for (char *line = strchr(printed, '\n'); line && line[1] && n < 8;
	     line = strchr(line + 1, '\n'), n++)
		assert_int_equal(sscanf(line, " tiny@1 %39s %19s %lf %lf %lf %lf", rows[n].batch,
					rows[n].phase, &rows[n].then_us, &rows[n].now_us,
					&rows[n].then_lost, &rows[n].now_lost),
				 6);
	return n;
}

/* The pick, and its times in the database and today. Its rivals took 10 and 11 us, and take what
 * fake_worker.h says: the pick comes first in each race, or last. */
static void check_says_whether_a_new_tune_pays(void **state)
{
	static const struct {
		int is_slow_pick, backwards, code;
		double then_us, now_us, then_lost, now_lost;
		const char *says;
	} cases[] = {
		{ 1, 0, EXIT_DONE, 12, 10, 1.2, 1,
		  "3 picks take 0.833 x their old times; they lose "
		  "0.0 % to their fastest rivals (before: 20.0 %); the rules still fit" },
		{ 1, 1, EXIT_DONE, 12, 12, 1.2, 1.2, "the rules still fit" },
		{ 0, 1, EXIT_CHECK, 10, 12, 1, 1.2,
		  "3 picks take 1.200 x their old times; they lose "
		  "20.0 % to their fastest rivals (before: 0.0 %); a new tune pays: make tune" },
	};
	struct checked rows[8];
	int code, fastest;
	(void)state;
	/* without pass B of the rows before: pass A has the fastest choice at 10 us */
	ask("DELETE FROM measurement WHERE race IN (SELECT id FROM race WHERE stage = 6)");
	struct data *d = data_load(db, "cpu");
	assert_true(data_best(d, 0, PHASE_DECODE, &fastest) == 10);
	data_free(d);
	for (size_t i = 0; i < COUNT(cases); i++) {
		make_header(cases[i].is_slow_pick ? 0 : fastest);
		fake.backwards = cases[i].backwards;
		const int n = check_rules(rows, &code);
		assert_non_null(strstr(heard(), cases[i].says));
		assert_int_equal(code, cases[i].code);
		assert_int_equal(n, 3); /* decodes of both batches, a prefill of one */
		for (int k = 0; k < n; k++) {
			assert_float_equal(rows[k].then_us, cases[i].then_us, 1e-6);
			assert_float_equal(rows[k].now_us, cases[i].now_us, 1e-6);
			assert_float_equal(rows[k].then_lost, cases[i].then_lost, 1e-6);
			assert_float_equal(rows[k].now_lost, cases[i].now_lost, 1e-6);
		}
	}
	fake.backwards = 0;
}

/* ---- attune bench ---------------------------------------------------------------------------- */

/* Times are this machine's own; each is compared with the oracle's of its batch. */
static void bench_times_all_contenders(void **state)
{
	static const char *const policies[] = { "oracle", "attune", "best_fixed", "default" };
	const char *line;
	double us[COUNT(policies)], ratio;
	(void)state;
	listen_begin();
	const int code =
	    run_command(cmd_bench, words("--gpu cpu --db %s --split train --preset smoke "
					 "--format tsv --anyway --into %s",
					 db, in_folder("bench.sqlite")));
	assert_non_null(strstr(
	    heard(), "# oracle      1.0000 x oracle, geometric mean of 2 batches; worst 1.0000"));
	assert_int_equal(code, EXIT_DONE);
	for (int b = 0; b < BATCHES; b++)
		for (size_t i = 0; i < COUNT(policies); i++) {
			line = strstr(printed, words("\n%s\ttiny@1\t16\tF32\tF32\t%s\t", batches[b],
						     policies[i]));
			assert_non_null(line);
			assert_int_equal(
			    sscanf(line, "%*s %*s 16 %*s %*s %*s %lf %lf", &us[i], &ratio), 2);
			assert_true(us[i] > 0);
			assert_true(fabs(ratio - us[i] / us[0]) < 0.02 * ratio);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finished_races_are_recalled),
		cmocka_unit_test(a_second_sweep_races_nothing),
		cmocka_unit_test(a_scenario_is_measured_as_a_whole),
		cmocka_unit_test(a_wish_more_measures_its_scenario_again),
		cmocka_unit_test(check_says_whether_a_new_tune_pays),
		cmocka_unit_test(bench_times_all_contenders),
		cmocka_unit_test(members_are_measured),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("confirm", tests, begin, end);
}
