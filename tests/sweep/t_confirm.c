/* t_confirm.c - `attune confirm`: a scenario is measured as a whole, in one session, or not at all. */
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

/* Pass A of the scenarios, and the folder of all files. */
static int begin(void **state)
{
	struct sweep_options options = { .gpu = "cpu",
					 .db = db,
					 .command = "t_confirm",
					 .kernels = "qblock",
					 .preset = PRESET_SMOKE,
					 .budget_s = 600,
					 .shards = 1,
					 .seed = 1 };
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
	return sweep(&options, &fake.hello, &list);
}

static int end(void **state)
{
	for (int i = 0; i < BATCHES; i++) {
		batch_free(scenario[i].batch);
		free(scenario[i].batch_text);
	}
	return remove_folder(state);
}

/* Rules that name one choice for all batches. */
static void make_header(int choice)
{
	const int action[NUM_DECISIONS] = { 0, 0, SAYS_SERIAL, SAYS_OWN };
	struct data *d = data_load(db, "cpu");
	struct forest f = { .num_choices = 1, .gpu = "cpu" };
	assert_non_null(d);
	f.choice[0] = d->choice[choice < 0 ? d->num_choices + choice : choice];
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_scenario_is_measured_as_a_whole),
		cmocka_unit_test(a_wish_more_measures_its_scenario_again),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("confirm", tests, begin, end);
}
