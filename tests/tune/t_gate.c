/* t_gate.c - split "gate", forests made of two, and which rules the gate lets in (tuner/transfer/gate.h). */
#include "tests/support/synthetic.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/store/store.h"
#include "harness/sweep/sweep.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/remeasure/requests.h"
#include "tuner/tree/tree.h"
#include "tuner/data/filling.h"
#include "tuner/transfer/gate.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "tests/support/by_hand.h"

/* ---- the split ------------------------------------------------------------------------ */
static void test_draws(void **state)
{
	int drawn = 0;
	char first[600];
	(void)state;
	for (int again = 0; again < 2; again++)
		for (int i = 599; i >= 0; i--) {
			char text[40];
			struct scenario s = { .model = "llama3.1-8b@1",
					      .split = "heldout_random",
					      .batch_text = text,
					      .seed = (unsigned)again,
					      .shape = llama };
			s.shape.page_size = again ? 32 : 16;
			snprintf(text, sizeof text, "%dq1s%d", 1 + i % 20, 100 + i);
			const int is_drawn = gate_draws(&s);
			drawn += is_drawn;
			if (again)
				assert_int_equal(is_drawn, first[i]);
			first[i] = (char)is_drawn;
			snprintf(s.split, sizeof s.split, again ? "train" : "peers");
			assert_false(gate_draws(&s));
		}
	assert_in_range(drawn / 2, 160, 240); /* of 600, one in three */
}

static void test_split(void **state)
{
	const struct measured gate = { .split = (char *)"gate" };
	const char *const *legal = scenario_splits;
	(void)state;
	while (*legal && strcmp(*legal, "gate"))
		legal++;
	assert_non_null(*legal);
	assert_false(data_is_training(&gate));
	assert_int_equal(data_side(&gate), -1);
	assert_false(in_split(&gate, "heldout"));
	assert_true(split_is_held_out("gate"));
}

/* What some set holds out is held out, what is learned from in another is not once it is in the
 * gate. */
static void test_several_sets(void **state)
{
	static const char *const rows[][3] = { { "train", "gate", "gate" },
					       { "gate", "train", "gate" },
					       { "gate", "heldout", "heldout" },
					       { "heldout", "gate", "heldout" } };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct data *d = data_new("h200", &h200_run);
		for (int k = 0; k < 2; k++) {
			struct store_cell c =
			    cell_like("q1s1k", "decode", "qblock", with("qblock", ""), 10);
			c.split = rows[i][k];
			assert_true(data_add(d, &c));
		}
		assert_true(data_finish(d));
		assert_string_equal(d->v[0].split, rows[i][2]);
		data_free(d);
	}
}

/* ---- forests by hand -------------------------------------------------------------------- */
/* All leaves; ids are of `kernels`. */
struct rules {
	const char *kernels[4][2];
	int prefill, decode, overlap;
};

static void make_forest(struct forest *f, const struct rules *s)
{
	const int action[NUM_DECISIONS] = { s->prefill, s->decode, s->overlap, SAYS_OWN };
	assert_true(forest_defaults(f, "h200"));
	for (int t = 0; t < NUM_DECISIONS; t++)
		f->tree[t].v[0].action = action[t];
	for (; f->num_choices < 4 && s->kernels[f->num_choices][0]; f->num_choices++) {
		struct choice *c = &f->choice[f->num_choices];
		const char *const *k = s->kernels[f->num_choices];
		const char *where;
		char text[MAX_CHOICE_TEXT];
		snprintf(text, sizeof text, "%s", with(k[0], k[1]));
		c->kernel = kernel_find(BACKEND_GPU, k[0]);
		assert_true(config_parse(&c->config, c->kernel->space, text, &where));
	}
}

#define SMALL "BLOCK_M=32 TILE_SIZE=64 NUM_WARPS=2"
#define LARGE "BLOCK_M=64 TILE_SIZE=64"
#define SPLIT_2 "BLOCK_M=16 TILE_SIZE=64 SEGMENTS=2"
#define SPLIT_8 "BLOCK_M=16 TILE_SIZE=64 SEGMENTS=8"

static const struct rules old_rules = { { { "qblock", SMALL }, { "segmented", SPLIT_2 } },
					0,
					1,
					SAYS_SERIAL },
			  new_rules = { { { "segmented", SPLIT_8 },
					  { "qblock", LARGE },
					  { "segmented", SPLIT_2 },
					  { "warpgroup_mixed", "" } },
					1,
					0,
					3 };

static const char *name_of_leaf(const struct forest *f, enum decision t, char text[300])
{
	const int id = f->tree[t].v[0].action;
	choice_text(text, 300, &f->choice[id]);
	return text;
}

static void cut_by_costs(struct forest *f, int id, int head_size, long long path)
{
	struct choice *c = &f->choice[id];
	c->config.v[c->kernel->space->formula_axis] = SEGMENTS_FITTED;
	f->costs[f->num_costs++] =
	    (struct selector_costs){ id, head_size, { 2, 64, path, 1, 2, 3 } };
}

static void test_combine(void **state)
{
	struct forest old, new, f;
	char text[300], wanted[300];
	(void)state;
	make_forest(&old, &old_rules);
	make_forest(&new, &new_rules);

	const int decode_alone[NUM_DECISIONS] = { 0, 1, 0, 1 };
	assert_true(forest_combine(&f, &old, &new, decode_alone));
	assert_int_equal(f.num_choices, 2); /* segmented 8 of new, qblock of old */
	assert_string_equal(name_of_leaf(&f, DECIDE_DECODE, text),
			    name_of_leaf(&new, DECIDE_DECODE, wanted));
	assert_string_equal(name_of_leaf(&f, DECIDE_PREFILL, text),
			    name_of_leaf(&old, DECIDE_PREFILL, wanted));
	assert_int_equal(f.tree[DECIDE_OVERLAP].v[0].action, SAYS_SERIAL);
	assert_int_equal(f.num_costs, 0);
	forest_free(&f);

	const int all[NUM_DECISIONS] = { 1, 1, 1, 1 };
	assert_true(forest_combine(&f, &old, &new, all));
	assert_int_equal(f.tree[DECIDE_PREFILL].v[0].action, 1); /* as new numbers them */
	assert_string_equal(name_of_leaf(&f, DECIDE_OVERLAP, text),
			    name_of_leaf(&new, DECIDE_OVERLAP, wanted));
	assert_int_equal(f.tree[DECIDE_OVERLAP].v[0].action, 2);
	assert_int_equal(f.num_choices, 3); /* segmented 2, which no leaf names, is gone */
	forest_free(&f);

	const int early_alone[NUM_DECISIONS] = { 0, 0, 0, 1 };
	assert_false(forest_combine(&f, &old, &new, early_alone));
	forest_free(&old);
	forest_free(&new);
}

/* Costs go where the choice goes, under its new id: those that the combined trees were learned
 * with. */
static void test_combine_costs(void **state)
{
	static const struct {
		int take[NUM_DECISIONS], num;
		long long path[2]; /* of the decode leaf's choice at head sizes 64, 128; 0: none */
	} rows[] = {
		{ { 0, 1, 0, 1 }, 2, { 20, 21 } }, /* of new; what old's decodes had is gone */
		{ { 1, 0, 1, 0 }, 1, { 0, 11 } },  /* of old; what new's had is gone */
		{ { 1, 1, 1, 1 }, 2, { 20, 21 } },
		{ { 0, 0, 0, 0 }, 1, { 0, 11 } },
	};
	struct forest old, new, f;
	(void)state;
	make_forest(&old, &old_rules);
	make_forest(&new, &new_rules);
	cut_by_costs(&old, 1, 128, 11);
	cut_by_costs(&new, 2, 128, 31); /* which no leaf names */
	cut_by_costs(&new, 0, 64, 20);
	cut_by_costs(&new, 0, 128, 21);
	/* Else both decode leaves would say the same. */
	new.choice[0].config.v[0] = new.choice[0].kernel->space->axis[0].values[1];
	assert_false(choice_same(&new.choice[0], &old.choice[1]));
	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_true(forest_combine(&f, &old, &new, rows[i].take));
		const int id = f.tree[DECIDE_DECODE].v[0].action;
		const struct forest *from = rows[i].take[DECIDE_DECODE] ? &new : &old;
		assert_true(choice_same(&f.choice[id],
					&from->choice[from->tree[DECIDE_DECODE].v[0].action]));
		assert_int_equal(f.num_costs, rows[i].num);
		for (int k = 0; k < f.num_costs; k++) {
			assert_int_equal(f.costs[k].id, id);
			assert_true(f.costs[k].costs.path ==
				    rows[i].path[f.costs[k].head_size == 128]);
		}
		forest_free(&f);
	}
	forest_free(&old);
	forest_free(&new);
}

/* A choice that both forests name is there once, with one forest's costs: the new one's. */
static void test_combine_same_choice(void **state)
{
	const int decode_alone[NUM_DECISIONS] = { 0, 1, 0, 1 };
	struct forest old, new, f;
	(void)state;
	make_forest(&old, &old_rules);
	make_forest(&new, &new_rules);
	cut_by_costs(&old, 1, 128, 11);
	cut_by_costs(&old, 1, 64, 10);
	cut_by_costs(&new, 0, 128, 21);
	old.tree[DECIDE_PREFILL].v[0].action = 1;
	assert_true(choice_same(&old.choice[1], &new.choice[0]));
	assert_true(forest_combine(&f, &old, &new, decode_alone));
	assert_int_equal(f.num_choices, 1);
	assert_int_equal(f.tree[DECIDE_PREFILL].v[0].action, 0);
	assert_int_equal(f.tree[DECIDE_DECODE].v[0].action, 0);
	assert_int_equal(f.num_costs, 1);
	assert_true(f.costs[0].costs.path == 21);
	forest_free(&f);
	forest_free(&old);
	forest_free(&new);
}

/* A tree with one leaf a choice. */
static void many_choices(struct forest *f, int tile)
{
	static const int segments[] = { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64 };
	struct tree *t = &f->tree[DECIDE_DECODE];
	char set[80];
	const char *where;
	assert_true(forest_defaults(f, "h200"));
	for (int i = 0; i < 33; i++) {
		struct choice *c = &f->choice[f->num_choices];
		snprintf(set, sizeof set, "TILE_SIZE=%d NUM_WARPS=%d SEGMENTS=%d", tile,
			 2 << i / 12, segments[i % 12]);
		c->kernel = kernel_find(BACKEND_GPU, "segmented");
		assert_true(
		    config_parse(&c->config, c->kernel->space, with("segmented", set), &where));
		const int leaf = i ? tree_new_node(t) : -1, next = i ? tree_new_node(t) : 0;
		if (i) {
			t->v[t->n - 3].feature = ATTUNE_FEATURE_num_seqs;
			t->v[t->n - 3].threshold = i;
			t->v[t->n - 3].below = leaf;
			t->v[t->n - 3].above = next;
			t->v[leaf].action = i - 1;
		}
		t->v[next].action = i;
		f->num_choices++;
	}
}

static void test_too_many(void **state)
{
	struct forest old, new, f;
	const int take[NUM_DECISIONS] = { 1, 0, 1, 0 };
	(void)state;
	many_choices(&old, 32);
	many_choices(&new, 64);
	tree_free(&new.tree[DECIDE_PREFILL]); /* the same tree for both parts */
	new.tree[DECIDE_PREFILL] = new.tree[DECIDE_DECODE];
	new.tree[DECIDE_DECODE] = (struct tree){ 0 };
	assert_true(tree_constant(&new.tree[DECIDE_DECODE], SAYS_DEFAULTS));
	const int said = complaints();
	assert_false(forest_combine(&f, &old, &new, take));
	assert_int_equal(complaints() - said, 1);
	forest_free(&old);
	forest_free(&new);
}

/* ---- the judgement ---------------------------------------------------------------------- */
/* What new rules take to old ones, and how much that varies from batch to batch. */
struct truth {
	double prefill, decode, whole, spread;
	int scenarios, fails, other_race;
	double together; /* plans of both new parts, to what these take; 0: the same */
};

static double vary(double ratio, double spread, unsigned long long *random)
{
	return ratio * exp(spread * ((next_random(random) % 2001) / 1000.0 - 1));
}

static void add_raced(struct data *d, const char *batch, const char *phase, const char *kernel,
		      const char *choice, double ratio, int race)
{
	struct store_cell c = cell_like(batch, phase, kernel, choice, 100 * ratio);
	c.split = "gate";
	c.pass = 'B';
	c.stage = "b";
	c.run = race;
	c.ratio = ratio;
	if (!(ratio > 0)) {
		c.outcome = "wrong";
		c.median_us = c.min_us = c.ratio = NAN;
	}
	assert_true(data_add(d, &c));
}

/* A wish, at the time that the truth gives it. */
static void measure(struct data *d, const struct measured *m, const struct wish *w,
		    const struct truth *t, double prefill, double decode)
{
	char one[MAX_CHOICE_TEXT + 40], two[MAX_CHOICE_TEXT + 40], both[2 * MAX_CHOICE_TEXT + 200];
	const struct space *s = w->choice.kernel->space;
	const int is_new = config_value(&w->choice.config, s, "BLOCK_M", 0) == 64 ||
			   config_value(&w->choice.config, s, "SEGMENTS", 0) == 8;
	const double part = w->phase == PHASE_PREFILL  ? prefill
			    : w->phase == PHASE_DECODE ? decode
						       : t->whole;
	if (!w->is_plan) {
		config_text(one, sizeof one, &w->choice.config, s);
		add_raced(d, m->batch_text, phase_name((int)w->phase), w->choice.kernel->name, one,
			  is_new && t->fails                ? 0
			  : is_new || w->phase == PHASE_ALL ? part
							    : 1,
			  1 + (is_new && t->other_race));
		return;
	}
	const int new_decode =
	    config_value(&w->decode.config, w->decode.kernel->space, "SEGMENTS", 0) == 8;
	choice_text(one, sizeof one, &w->choice);
	choice_text(two, sizeof two, &w->decode);
	snprintf(both, sizeof both, "prefill: %s | decode: %s", one, two);
	add_raced(d, m->batch_text, "plan", "plan", both,
		  (is_new && new_decode && t->together > 0 ? t->together : 1) *
		      ((is_new ? prefill : 1) + (new_decode ? decode : 1)) / 2,
		  1);
}

static void add_scenarios(struct data *d, int n)
{
	char text[60];
	for (int i = 0; i < n; i++) {
		snprintf(text, sizeof text,
			 i % 3 == 0   ? "%dq1s%d"
			 : i % 3 == 1 ? "%dq%d"
				      : "q600_%dq1s%d",
			 1 + i, 2000 + 100 * i);
		struct store_cell c = cell_like(text, "decode", "qblock", "", 1);
		c.split = "gate";
		assert_true(data_add_scenario(d, &c));
	}
}

/* Races all that the gate wishes for and has it judge. 1: one launch is what the mixed group
 * says. */
static void judge(const struct truth *t, int take[NUM_DECISIONS], struct gate_report *r)
{
	struct data *empty = data_new("h200", &h200_run), *d = data_new("h200", &h200_run);
	unsigned long long random = 5;
	struct forest old, new;
	struct wishes w = { 0 };
	make_forest(&old, &old_rules);
	make_forest(&new, &new_rules);
	add_scenarios(empty, t->scenarios);
	add_scenarios(d, t->scenarios);
	assert_true(data_finish(empty));
	struct gate *g = gate_open(&old, &new);
	assert_non_null(g);
	for (int s = 0; s < empty->n; s++)
		gate_wish(g, &w, empty, s, s);
	assert_false(w.failed);
	double prefill = 0, decode = 0;
	for (int i = 0; i < w.n; i++) {
		if (!i || w.v[i].scenario != w.v[i - 1].scenario) {
			prefill = vary(t->prefill, t->spread, &random);
			decode = vary(t->decode, t->spread, &random);
		}
		measure(d, &empty->v[w.v[i].scenario], &w.v[i], t, prefill, decode);
	}
	assert_true(data_finish(d));
	gate_judge(g, d, take, r);
	assert_int_equal(r->scenarios, t->scenarios);
	gate_close(g);
	free(w.v);
	forest_free(&old);
	forest_free(&new);
	data_free(empty);
	data_free(d);
}

static void test_judge(void **state)
{
	static const struct {
		const char *name;
		struct truth truth;
		int prefill, decode, mixed;
	} rows[] = {
		{ "all better", { 0.8, 0.8, 0.5, 0.1, 30, 0, 0, 0 }, 1, 1, 1 },
		{ "all worse", { 1.2, 1.3, 1.5, 0.1, 30, 0, 0, 0 }, 0, 0, 0 },
		{ "decode alone better", { 1.2, 0.8, 1.5, 0.1, 30, 0, 0, 0 }, 0, 1, 0 },
		{ "one launch alone better", { 1.2, 1.2, 0.5, 0.1, 30, 0, 0, 0 }, 0, 0, 1 },
		{ "parts that harm each other", { 0.9, 0.7, 2, 0.05, 30, 0, 0, 1.6 }, 0, 1, 0 },
		{ "the same", { 1, 1, 1, 0, 30, 0, 0, 0 }, 0, 0, 0 },
		{ "better by less than noise", { 0.998, 0.998, 1, 0, 30, 0, 0, 0 }, 0, 0, 0 },
		{ "noisy", { 0.97, 0.97, 1.1, 0.5, 12, 0, 0, 0 }, 0, 0, 0 },
		{ "too few scenarios", { 0.8, 0.8, 0.5, 0.01, 4, 0, 0, 0 }, 0, 0, 0 },
		{ "fast and wrong", { 0.5, 0.5, 2, 0.1, 30, 1, 0, 0 }, 0, 0, 0 },
		{ "of other races", { 0.5, 0.5, 2, 0.1, 30, 0, 1, 0 }, 0, 0, 0 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct gate_report r;
		int take[NUM_DECISIONS];
		judge(&rows[i].truth, take, &r);
		print_message("# %s\n", rows[i].name);
		assert_int_equal(take[DECIDE_PREFILL], rows[i].prefill);
		assert_int_equal(take[DECIDE_DECODE], rows[i].decode);
		assert_int_equal(take[DECIDE_EARLY], rows[i].decode);
		assert_int_equal(take[DECIDE_OVERLAP], rows[i].mixed);
		for (int k = 0; k < NUM_GATE_GROUPS; k++) {
			const struct gate_figures *f = &r.group[k];
			assert_true(!f->better || (f->high < 1 && f->ratio * f->floor < 1));
		}
	}
}

static void test_figures(void **state)
{
	const struct truth exact = { 0.8, 0.9, 2, 0, 30, 0, 0, 0 };
	struct gate_report r;
	int take[NUM_DECISIONS];
	(void)state;
	judge(&exact, take, &r);
	const struct gate_figures *f = &r.group[GATE_PREFILL];
	assert_int_equal(f->n, 20); /* prompts, and the prompts of mixed batches */
	assert_int_equal(f->same + f->missing + f->failed, 0);
	assert_true(close_to(f->ratio, 0.8) && close_to(f->worst, 0.8));
	assert_true(close_to(f->low, 0.8) && close_to(f->high, 0.8));
	assert_true(close_to(f->floor, 1 + NOISE_FLOOR / 1e6));
	assert_true(close_to(r.group[GATE_DECODE].ratio, 0.9));
	assert_int_equal(r.group[GATE_MIXED].n, 10); /* 2 / 0.85 of both new parts */
	assert_true(close_to(r.group[GATE_MIXED].ratio, 2 / 0.85));
	assert_int_equal(r.all.n, 30);
	assert_true(close_to(r.all.ratio, cbrt(0.8 * 0.9 * 0.85)));
}

static void test_nothing_raced(void **state)
{
	struct data *d = data_new("h200", &h200_run);
	struct gate_report r;
	struct forest old, new;
	int take[NUM_DECISIONS] = { 1, 1, 1, 1 };
	(void)state;
	make_forest(&old, &old_rules);
	make_forest(&new, &new_rules);
	add_scenarios(d, 9);
	assert_true(data_finish(d));
	struct gate *g = gate_open(&old, &new);
	gate_judge(g, d, take, &r);
	for (int t = 0; t < NUM_DECISIONS; t++)
		assert_false(take[t]);
	assert_int_equal(r.group[GATE_PREFILL].missing, 6);
	assert_int_equal(r.all.taken, 0);
	gate_close(g);
	forest_free(&old);
	forest_free(&new);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_draws),         cmocka_unit_test(test_split),
		cmocka_unit_test(test_several_sets),  cmocka_unit_test(test_combine),
		cmocka_unit_test(test_combine_costs), cmocka_unit_test(test_combine_same_choice),
		cmocka_unit_test(test_too_many),      cmocka_unit_test(test_judge),
		cmocka_unit_test(test_figures),       cmocka_unit_test(test_nothing_raced),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
