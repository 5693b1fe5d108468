/* SPDX-License-Identifier: Apache-2.0 */
/* t_basis.c - a header that began from another GPU's: the row of its basis in the database, and
 * `attune induce`, which remakes the header from two databases (tuner/transfer/basis.h). */
#include <stdio.h>
#include "harness/sweep/sweep.h"
#include "tuner/base/base.h"
#include "tuner/commands.h"
#include "tuner/emit/emit.h"
#include "tuner/induce/induce.h"
#include "tests/support/no_portable.h"
#include "tests/support/synthetic.h"
#include "tuner/transfer/basis.h"
#include "tuner/data/filling.h"
#include "tests/store/store_fixture.h"
#include "tests/support/two_gpus.h"

enum { TRAIN = 150, HERE = 105, LARGE = 1000 };

/* ---- the row -------------------------------------------------------------------------- */
static const struct store_basis from_h200 = { .header = (char *)"h200",
					      .incumbent = (char *)"h100",
					      .rules = (char *)"some\n\"rules\"\n",
					      .prior = (char *)"h100" };

static void check_row(struct store *s, const struct store_basis *wanted)
{
	struct store_basis b;
	assert_int_equal(store_get_basis(s, wanted->header, &b), 1);
	assert_string_equal(b.header, wanted->header);
	assert_string_equal(b.incumbent, wanted->incumbent);
	assert_string_equal(b.rules, wanted->rules);
	assert_string_equal(b.prior, wanted->prior);
	store_basis_free(&b);
}

static void test_row(void **state)
{
	struct store *s = fresh("row.sqlite");
	struct store_basis b, other = from_h200;
	char before[33], with_row[33];
	(void)state;
	quiet();
	assert_int_equal(store_set_basis(s, &from_h200), 0); /* of no device */
	assert_int_equal(loud(), 1);
	const long long run = store_begin_run(s, &h200);
	add(s, run, "q1s1k", "qblock", 0, measured(10));
	assert_int_equal(store_get_basis(s, "h200", &b), 0);
	assert_true(store_hash(s, "h200", before));
	assert_int_equal(store_set_basis(s, &from_h200), 1);
	check_row(s, &from_h200);
	assert_true(store_hash(s, "h200", with_row));
	assert_string_not_equal(before, with_row);
	assert_int_equal(store_get_basis(s, "h200_e4m3", &b), 0);
	other.rules = (char *)"";
	assert_int_equal(store_set_basis(s, &other), 1);
	check_row(s, &other);
	store_close(s);
}

static void test_merge_and_compact(void **state)
{
	struct store *s = fresh("from.sqlite"), *t;
	struct store_basis other = from_h200;
	struct compacted gone;
	long long added;
	(void)state;
	add(s, store_begin_run(s, &h200), "q1s1k", "qblock", 0, measured(10));
	assert_int_equal(store_set_basis(s, &from_h200), 1);
	store_close(s);
	t = fresh("to.sqlite");
	assert_int_equal(store_merge(t, in_folder("from.sqlite"), &added), 1);
	check_row(t, &from_h200);
	assert_int_equal(store_compact(t, 0, &gone), 1);
	check_row(t, &from_h200);
	assert_int_equal(store_check(t), 1); /* as sealed */
	other.rules = (char *)"its own";
	assert_int_equal(store_set_basis(t, &other), 1);
	assert_int_equal(store_merge(t, in_folder("from.sqlite"), &added), 1);
	check_row(t, &other); /* is left alone */
	store_close(t);
}

/* ---- two databases -------------------------------------------------------------------- */
static struct world world;

static struct run_info run_of(const struct made_up_gpu *g)
{
	struct run_info run = h200;
	snprintf(run.device.gpu, sizeof run.device.gpu, "%s", g->gpu);
	snprintf(run.device.name, sizeof run.device.name, "made up %s", g->gpu);
	return run;
}

static struct scenario numbered(int number, const char *split)
{
	char error[100];
	struct scenario s = {
		.model = "llama3.1-8b@1", .set = "made", .weight = 1, .shape = llama
	};
	snprintf(s.split, sizeof s.split, "%s", split);
	s.batch_text = strdup(world_batch(number));
	s.batch = batch_parse(s.batch_text, error, sizeof error);
	return s;
}

static struct measurement at(double us)
{
	struct measurement m = measured(us - 1);
	m.ratio = us / 100;
	m.stopped[0] = '\0';
	return m;
}

static void store_part(struct store *s, long long run, const struct scenario *sc, enum phase phase,
		       const struct made_up_gpu *g, const struct choice *c)
{
	const struct run_info info = run_of(g);
	struct part part;
	if (!part_make(&part, phase, &sc->shape, &sc->batch->view, &info.device) ||
	    c->kernel->space->why_illegal(&c->config, &sc->shape, &part, &info.device))
		return;
	const struct measurement m = at(model_us(g, &part, c));
	assert_int_equal(store_measurement(s, run, sc, phase, c, "-DHEAD_SIZE=128", &m, 128, 0), 1);
}

static void store_numbered(struct store *s, long long run, const struct made_up_gpu *g, int number,
			   const char *split, int every)
{
	struct scenario sc = numbered(number, split);
	for (int c = 0; c < world.n; c += every)
		for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++)
			if (p != PHASE_ALL || number % 3 == 2)
				store_part(s, run, &sc, p, g, &world.choice[c]);
	scenario_done(&sc);
}

/* The prior's database and header, and the own database with its basis. */
static char *make_databases(void)
{
	const struct run_info runs[2] = { run_of(&first_gpu), run_of(&second_gpu) };
	struct store *s = fresh("h200.sqlite");
	struct forest f;
	long long run = store_begin_run(s, &runs[0]);
	for (int i = 0; i < TRAIN; i++)
		store_numbered(s, run, &first_gpu, i, i % 9 ? "train" : "heldout", 1);
	store_close(s);
	struct data *prior = data_load(in_folder("h200.sqlite"), "h200");
	assert_true(forest_induce(&f, prior, &default_limits));
	char *rules = forest_emit(&f, prior);
	forest_free(&f);
	data_free(prior);
	s = fresh("h100.sqlite");
	run = store_begin_run(s, &runs[1]);
	for (int i = 0; i < HERE; i++)
		store_numbered(s, run, &second_gpu, i, "train", 1);
	for (int i = LARGE; i < LARGE + HERE; i++)
		store_numbered(s, run, &second_gpu, i, "gate", 3);
	for (int i = 2 * LARGE; i < 2 * LARGE + TRAIN; i++)
		store_numbered(s, run, &second_gpu, i, "heldout", world.n / 2);
	const struct store_basis b = { (char *)"h100", (char *)"h200", rules, (char *)"h200" };
	assert_int_equal(store_set_basis(s, &b), 1);
	store_close(s);
	return rules;
}

/* The wishes, in pass B, at the times of the formula. */
static void measure(const struct wishes *w, const struct data *own)
{
	const struct run_info info = run_of(&second_gpu);
	struct store *s = store_open(in_folder("h100.sqlite"), 0);
	const long long run = store_begin_run(s, &info);
	store_stage(s, "b");
	assert_true(w->n > 10 && !w->failed);
	for (int k = 0; k < w->n; k++) {
		struct scenario sc;
		char one[MAX_CHOICE_TEXT], two[MAX_CHOICE_TEXT], both[2 * MAX_CHOICE_TEXT + 40];
		const struct measured *m = &own->v[w->at[w->v[k].scenario]];
		const struct decided made = { w->v[k].choice, w->v[k].decode, 1, w->v[k].how, 0 };
		scenario_again(&sc, m);
		if (!w->v[k].is_plan) {
			store_part(s, run, &sc, w->v[k].phase, &second_gpu, &w->v[k].choice);
			continue;
		}
		const struct measurement us = at(world_us(&second_gpu, m, &made));
		choice_text(one, sizeof one, &made.prefill);
		choice_text(two, sizeof two, &made.decode);
		snprintf(both, sizeof both, "prefill: %s | decode: %s", one, two);
		assert_int_equal(store_plan_measurement(s, run, &sc, both, &us), 1);
	}
	store_close(s);
}

static void race(const struct inheritance *i, const struct data *own,
		 const struct fresh_rules *fresh)
{
	struct gate *g = gate_open(&i->incumbent, fresh);
	struct wishes w = { 0 };
	assert_non_null(g);
	for (int n = 0; n < own->n; n++)
		if (split_is_gate(own->v[n].split)) {
			wish_scenario(&w, own, n);
			gate_wish(g, &w, own, &own->v[n]);
		}
	measure(&w, own);
	wishes_free(&w);
	gate_close(g);
}

/* The plans of these rules and their parts on held-out scenarios, as attune sweep --confirm would. */
static void race_held_out(const struct data *own, const struct forest *const *rules, int n)
{
	struct wishes w = { 0 };
	for (int s = 0; s < own->n; s++) {
		wish_scenario(&w, own, s);
		for (int r = 0; in_split(&own->v[s], "heldout") && r < n; r++) {
			struct decided made;
			forest_make(own, rules[r], &own->v[s], &made);
			wish(&w, made_wish(&own->v[s], &made));
			for (enum phase p = PHASE_PREFILL; made.join && p <= PHASE_DECODE; p++)
				if (own->v[s].has[p])
					wish(&w, part_wish(p, p == PHASE_DECODE ? &made.decode
										: &made.prefill));
		}
	}
	measure(&w, own);
	wishes_free(&w);
}

/* A command's exit code; its tables go nowhere. */
static int run(int (*command)(int, char **), int n, char **argv)
{
	fflush(stdout);
	const int kept = dup(1), nowhere = open("/dev/null", O_WRONLY);
	assert_true(kept >= 0 && nowhere >= 0 && dup2(nowhere, 1) == 1);
	const int code = command(n, argv);
	fflush(stdout);
	dup2(kept, 1);
	close(kept);
	close(nowhere);
	return code;
}

static int run_induce(const char *out, const char *check)
{
	char *argv[] = { (char *)"attune",
			 (char *)"--gpu",
			 (char *)"h100",
			 (char *)"--db",
			 (char *)in_folder("h100.sqlite"),
			 (char *)"--out",
			 (char *)out,
			 (char *)check,
			 NULL };
	return run(cmd_induce, check ? 8 : 7, argv);
}

static int run_contribute(void)
{
	char *argv[] = { (char *)"attune",      (char *)"--gpu",
			 (char *)"h100",        (char *)"--results",
			 (char *)in_folder(""), (char *)"--generated",
			 (char *)in_folder(""), NULL };
	return run(cmd_contribute, 7, argv);
}

/* Results of the machine's own become the project's where they are good enough, whole or not at all. */
static void test_contribution(const struct data *own, const struct forest *before,
			      const struct forest *after)
{
	struct forest defaults;
	assert_true(forest_defaults(&defaults, "h100"));
	const struct forest *const rules[] = { before, after, &defaults };
	unlink(in_folder("attune_h100.h"));
	mkdir(in_folder("local"), 0777);
	assert_int_equal(rename(in_folder("h100.sqlite"), in_folder("local/h100.sqlite")), 0);
	quiet();
	assert_int_equal(run_contribute(), EXIT_CHECK); /* held out, the gate had nothing */
	loud();
	assert_non_null(strstr(said, "nothing was written"));
	assert_int_not_equal(access(in_folder("h100.sqlite"), F_OK), 0);
	assert_int_not_equal(access(in_folder("attune_h100.h"), F_OK), 0);

	assert_int_equal(rename(in_folder("local/h100.sqlite"), in_folder("h100.sqlite")), 0);
	race_held_out(own, rules, 3);
	assert_int_equal(rename(in_folder("h100.sqlite"), in_folder("local/h100.sqlite")), 0);
	quiet();
	assert_int_equal(run_contribute(), EXIT_DONE);
	loud();
	assert_non_null(strstr(said, "attune_h100.h; next: make plot GPU=h100"));
	assert_int_equal(run_induce(in_folder("attune_h100.h"), "--check"), EXIT_DONE);
	assert_int_not_equal(access(in_folder("h100.new.sqlite"), F_OK), 0);

	/* Another device's times do not join. */
	struct store *s = store_open(in_folder("local/h100.sqlite"), 0);
	struct run_info other = run_of(&second_gpu);
	snprintf(other.device.name, sizeof other.device.name, "another card");
	store_numbered(s, store_begin_run(s, &other), &second_gpu, 0, "train", 1);
	store_close(s);
	quiet();
	assert_int_equal(run_contribute(), EXIT_CHECK);
	loud();
	forest_free(&defaults);
}

/* Nothing was raced, so the gate keeps the rules of the incumbent. Returns their slowdown. */
static double keeps_the_incumbent(struct inheritance *i, const struct data *own,
				  const struct fresh_rules *fresh)
{
	struct forest f;
	struct gate_report r;
	assert_true(inheritance_judge(i, own, fresh, &f, &r));
	assert_false(r.all.taken);
	const double kept = world_slowdown(&second_gpu, &world, own, &f, "heldout", NULL);
	for (int n = 0; n < own->n; n++) {
		struct decided a, b;
		forest_make(own, &i->incumbent, &own->v[n], &a);
		forest_make(own, &f, &own->v[n], &b);
		const struct contender x = made_wish(&own->v[n], &a), y = made_wish(&own->v[n], &b);
		assert_false(wishes_differ(&x, &y));
	}
	forest_free(&f);
	return kept;
}

/* A later round keeps what an earlier one took, though it races nothing. */
static void stays_taken(const struct data *own, struct forest *taken, double slowdown)
{
	struct inheritance i;
	struct fresh_rules fresh;
	struct forest before, f;
	struct gate_report r;
	char *rules = forest_emit(taken, own);
	assert_non_null(rules);
	assert_int_equal(inheritance_open(&i, own, in_folder("h100.sqlite")), 1);
	assert_true(inheritance_advance(&i, rules, &before));
	assert_string_equal(before.gpu, "h200");
	assert_string_equal(i.basis.rules, rules);
	assert_true(inheritance_learn(&i, own, &default_limits, &fresh));
	assert_true(inheritance_judge(&i, own, &fresh, &f, &r));
	assert_int_equal(gate_taken(&r), 0);
	assert_true(world_slowdown(&second_gpu, &world, own, &f, "heldout", NULL) == slowdown);
	quiet();
	assert_false(inheritance_advance(&i, "no header", &f));
	loud();
	assert_string_equal(i.basis.rules, rules);
	free(rules);
	forest_free(&before);
	forest_free(&f);
	fresh_rules_free(&fresh);
	inheritance_close(&i);
}

/* `attune induce` makes the same rules from the databases alone; the header has the gate's figures. */
static void induce_repeats_it(struct data *own, double slowdown)
{
	char *path = strdup(in_folder("attune_h100.h"));
	assert_int_equal(run_induce(path, NULL), EXIT_DONE);
	assert_int_equal(run_induce(path, "--check"), EXIT_DONE);
	char *text = file_text(path);
	assert_non_null(strstr(text, "began     from h200"));
	assert_non_null(strstr(text, "gate      decode   new rules: time x 0."));
	struct forest again;
	assert_true(forest_parse(&again, text, path));
	assert_string_equal(again.gpu, "h100");
	assert_true(world_slowdown(&second_gpu, &world, own, &again, "heldout", NULL) == slowdown);
	forest_free(&again);
	free(text);
	free(path);
}

static void test_induce(void **state)
{
	struct inheritance i;
	struct fresh_rules fresh;
	struct forest f;
	struct gate_report r;
	(void)state;
	world = world_of_choices();
	char *rules = make_databases();
	struct data *own = data_load(in_folder("h100.sqlite"), "h100");
	assert_int_equal(inheritance_open(&i, own, in_folder("h100.sqlite")), 1);
	assert_string_equal(i.prior->gpu, "h200");
	assert_true(inheritance_learn(&i, own, &default_limits, &fresh));
	const double borrowed =
	    world_slowdown(&second_gpu, &world, own, &i.incumbent, "heldout", NULL);
	const double kept = keeps_the_incumbent(&i, own, &fresh);
	assert_true(fabs(kept / borrowed - 1) < 1e-12);

	race(&i, own, &fresh);
	data_free(own);
	own = data_load(in_folder("h100.sqlite"), "h100");
	assert_true(inheritance_judge(&i, own, &fresh, &f, &r));
	gate_print(stdout, &r, "# ");
	assert_true(r.all.taken && r.all.ratio < 1);
	const double better = world_slowdown(&second_gpu, &world, own, &f, "heldout", NULL);
	print_message("# borrowed %.4f, gated %.4f\n", borrowed, better);
	assert_true(better < borrowed);
	induce_repeats_it(own, better);
	stays_taken(own, &f, better);
	free(rules);
	test_contribution(own, &i.incumbent, &f);
	forest_free(&f);
	fresh_rules_free(&fresh);
	data_free(own);
	inheritance_close(&i);
}

/* A device without a header: new rules must beat the kernels' defaults. */
static void test_from_defaults(void **state)
{
	const struct store_basis none = { (char *)"h100", (char *)"", (char *)"", (char *)"" };
	struct inheritance i;
	(void)state;
	assert_true(inheritance_of(&i, &none, in_folder("h100.sqlite")));
	assert_null(i.prior);
	assert_int_equal(i.incumbent.num_choices, 0);
	assert_int_equal(i.incumbent.tree[DECIDE_DECODE].v[0].action, SAYS_DEFAULTS);
	inheritance_close(&i);
}

static void test_prior_is_missing(void **state)
{
	const struct store_basis b = { (char *)"h100", (char *)"", (char *)"", (char *)"b17" };
	struct inheritance i;
	(void)state;
	quiet();
	assert_false(inheritance_of(&i, &b, in_folder("h100.sqlite")));
	assert_int_equal(loud(), 1);
	assert_non_null(strstr(said, "b17"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_row),
		cmocka_unit_test(test_merge_and_compact),
		cmocka_unit_test(test_induce),
		cmocka_unit_test(test_from_defaults),
		cmocka_unit_test(test_prior_is_missing),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
