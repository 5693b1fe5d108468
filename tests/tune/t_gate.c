/* SPDX-License-Identifier: Apache-2.0 */
/* t_gate.c - the gate of attune tune: which scenarios its split draws, and which groups of
 * decisions fresh rules take over (tuner/transfer/gate.h). */
#include "forests.h"

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
			const int is_drawn = gate_draws(&s, 0);
			assert_int_equal(is_drawn + gate_draws(&s, 1) + gate_draws(&s, 2), 1);
			drawn += is_drawn;
			if (again)
				assert_int_equal(is_drawn, first[i]);
			first[i] = (char)is_drawn;
			snprintf(s.split, sizeof s.split, again ? "train" : "peers");
			assert_false(gate_draws(&s, 0));
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

/* A scenario that some set holds out is held out; a training scenario of another set is not
 * learned from once it is in the gate. */
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

/* ---- the judgement ---------------------------------------------------------------------- */
/* The ratio of new rules to old ones, and its variation from batch to batch. */
struct truth {
	double prefill, decode, whole, spread;
	int scenarios, fails, other_race;
	double together; /* plans of both new parts, relative to these; 0: the same */
	double once;     /* the ratio of the parts of the first three scenarios; 0: as of all */
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
static void measure(struct data *d, const struct measured *m, const struct contender *w,
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
		assert_true(data_put_scenario(d, &c) >= 0);
	}
}

/* Races all wishes of the gate and has it decide. n 2: before the new rules stand the old ones
 * with the new decode tree. */
static int judge_of(const struct truth *t, int n, struct gate_report *r)
{
	struct data *empty = data_new("h200", &h200_run), *d = data_new("h200", &h200_run);
	unsigned long long random = 5;
	struct forest old;
	struct fresh_rules new = { .n = n };
	struct wishes w = { 0 };
	make_forest(&old, &old_rules);
	make_forest(&new.f[n - 1], &new_rules);
	if (n == 2)
		assert_true(forest_combine(&new.f[0], &old, &new.f[1], 1 << GATE_DECODE));
	add_scenarios(empty, t->scenarios);
	add_scenarios(d, t->scenarios);
	assert_true(data_finish(empty));
	struct gate *g = gate_open(&old, &new);
	assert_non_null(g);
	for (int s = 0; s < empty->n; s++) {
		wish_scenario(&w, empty, s);
		gate_wish(g, &w, empty, &empty->v[s]);
	}
	assert_false(w.failed);
	double prefill = 0, decode = 0;
	for (int i = 0; i < w.n; i++) {
		if (!i || w.v[i].scenario != w.v[i - 1].scenario) {
			prefill = vary(t->prefill, t->spread, &random);
			decode = vary(t->decode, t->spread, &random);
			if (t->once > 0 && w.v[i].scenario < 3)
				prefill = decode = t->once;
		}
		measure(d, &empty->v[w.v[i].scenario], &w.v[i], t, prefill, decode);
	}
	assert_true(data_finish(d));
	const int taken = gate_judge(g, d, r);
	assert_int_equal(r->scenarios, t->scenarios);
	gate_close(g);
	wishes_free(&w);
	forest_free(&old);
	for (int i = 0; i < n; i++)
		forest_free(&new.f[i]);
	data_free(empty);
	data_free(d);
	return taken;
}

static int judge(const struct truth *t, struct gate_report *r)
{
	return judge_of(t, 1, r);
}

static void test_judge(void **state)
{
	static const struct {
		const char *name;
		struct truth truth;
		int prefill, decode, mixed;
	} rows[] = {
		{ "all better", { 0.8, 0.8, 0.5, 0.1, 30, 0, 0, 0, 0 }, 1, 1, 1 },
		{ "all worse", { 1.2, 1.3, 1.5, 0.1, 30, 0, 0, 0, 0 }, 0, 0, 0 },
		{ "decode alone better", { 1.2, 0.8, 1.5, 0.1, 30, 0, 0, 0, 0 }, 0, 1, 0 },
		{ "one launch alone better", { 1.2, 1.2, 0.5, 0.1, 30, 0, 0, 0, 0 }, 0, 0, 1 },
		{ "parts that harm each other", { 0.9, 0.7, 2, 0.05, 30, 0, 0, 1.6, 0 }, 0, 1, 0 },
		{ "the same", { 1, 1, 1, 0, 30, 0, 0, 0, 0 }, 0, 0, 0 },
		{ "better by less than noise", { 0.998, 0.998, 1, 0, 30, 0, 0, 0, 0 }, 0, 0, 0 },
		{ "noisy", { 0.97, 0.97, 1.1, 0.5, 12, 0, 0, 0, 0 }, 0, 0, 0 },
		{ "too few scenarios", { 0.8, 0.8, 0.5, 0.01, 4, 0, 0, 0, 0 }, 0, 0, 0 },
		{ "often better, once far worse",
		  { 0.8, 0.8, 1.5, 0.1, 30, 0, 0, 0, 2.5 },
		  0,
		  0,
		  0 },
		{ "and once worse", { 0.8, 0.8, 1.5, 0.1, 30, 0, 0, 0, 1.5 }, 1, 1, 0 },
		{ "fast and wrong", { 0.5, 0.5, 2, 0.1, 30, 1, 0, 0, 0 }, 0, 0, 0 },
		{ "of other races", { 0.5, 0.5, 2, 0.1, 30, 0, 1, 0, 0 }, 0, 0, 0 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct gate_report r;
		print_message("# %s\n", rows[i].name);
		assert_int_equal(judge(&rows[i].truth, &r), rows[i].prefill << GATE_PREFILL |
								rows[i].decode << GATE_DECODE |
								rows[i].mixed << GATE_MIXED);
		for (int k = 0; k < NUM_GATE_GROUPS; k++) {
			const struct gate_figures *f = &r.group[k];
			assert_true(!f->better || (f->high < 1 && f->ratio * f->floor < 1));
		}
	}
}

/* Of two fresh forests the one that gains more is taken; of equal ones the first. */
static void test_two(void **state)
{
	static const struct truth both_better = { 0.8, 0.8, 1, 0.1, 30, 0, 0, 0, 0 },
				  decode_better = { 1.2, 0.8, 1.5, 0.1, 30, 0, 0, 0, 0 },
				  nothing_better = { 1.2, 1.3, 1.5, 0.1, 30, 0, 0, 0, 0 };
	struct gate_report r;
	(void)state;
	assert_int_equal(judge_of(&both_better, 2, &r) & 3, 1 << GATE_PREFILL | 1 << GATE_DECODE);
	assert_int_equal(r.fresh, 1);
	assert_int_equal(judge_of(&decode_better, 2, &r), 1 << GATE_DECODE);
	assert_int_equal(r.fresh, 0);
	assert_int_equal(judge_of(&nothing_better, 2, &r), 0);
	assert_int_equal(r.fresh, 0);
}

static void test_figures(void **state)
{
	const struct truth exact = { 0.8, 0.9, 2, 0, 30, 0, 0, 0, 0 };
	struct gate_report r;
	(void)state;
	judge(&exact, &r);
	const struct gate_figures *f = &r.group[GATE_PREFILL];
	assert_int_equal(f->n, 20); /* prompts, and the prompts of mixed batches */
	assert_int_equal(f->missing + f->failed, 0);
	assert_true(close_to(f->ratio, 0.8) && close_to(f->worst, 0.8));
	assert_true(close_to(f->low, 0.8) && close_to(f->high, 0.8));
	assert_true(close_to(f->floor, 1 + NOISE_FLOOR / 1e6));
	assert_true(close_to(r.group[GATE_DECODE].ratio, 0.9));
	assert_int_equal(r.group[GATE_MIXED].n, 10); /* 2 / 0.85 of both new parts */
	assert_true(close_to(r.group[GATE_MIXED].ratio, 2 / 0.85));
	assert_int_equal(r.all.n, 30);
	assert_true(close_to(r.all.ratio, cbrt(0.8 * 0.9 * 0.85)));
}

/* ---- the statistic ---------------------------------------------------------------------- */
struct sample {
	const char *name;
	int n, better;
	double v[12]; /* log ratios */
};
static const struct sample samples[] = {
	/* Student's interval of the first two reaches above 0. */
	{ "a few large gains, no loss",
	  8,
	  1,
	  { -0.02, -0.03, -0.05, -0.06, -0.08, -0.1, -0.2, -2 } },
	{ "one large gain", 7, 1, { -0.01, -0.01, -0.01, -0.02, -0.02, -0.02, -3 } },
	{ "of a CPU by another one's rules, first round",
	  8,
	  1,
	  { 0.006, -1.197, -1.801, -0.057, -0.034, -0.09, -0.394, -1.057 } },
	{ "second round",
	  12,
	  0,
	  { 0.128, -1.036, -1.516, 0.03, 0.014, -0.131, -0.231, -1.485, 0.148, 0.079, -0.062,
	    0.238 } },
	{ "no difference", 9, 0, { 0 } },
	{ "too few", 5, 0, { -1, -1, -1, -1, -1 } },
};

/* Of six values all pairs' means count, of twelve all but 13 at either end. */
static void test_signed_ranks(void **state)
{
	static const double six[] = { 3, 1, 4, 2, 6, 5 };
	double even[65], low, high;
	(void)state;
	for (size_t i = 0; i < COUNT(samples); i++) {
		signed_ranks(samples[i].v, samples[i].n, &low, &high);
		print_message("# %s: %.3f to %.3f\n", samples[i].name, low, high);
		assert_int_equal(high < 0, samples[i].better);
		assert_int_equal(isnan(high), samples[i].n < 6);
	}
	signed_ranks(six, 6, &low, &high);
	assert_true(close_to(low, 1) && close_to(high, 6));
	for (int n = 64; n <= 65; n++) { /* exact, and by the normal distribution */
		for (int i = 0; i < n; i++)
			even[i] = i - (n - 1) / 2.0;
		signed_ranks(even, n, &low, &high);
		assert_true(close_to(low, -high) && high > 4.5 && high < 5.5);
	}
}

/* Noise with heavy tails: rules that are no better pass at most once in 40 times; 67: three standard
 * errors. */
static void test_no_better(void **state)
{
	enum { TIMES = 20000 };
	unsigned long long random = 7;
	(void)state;
	for (int n = 6; n <= 24; n += 6) {
		int better = 0;
		for (int i = 0; i < TIMES; i++) {
			double v[24], low, high;
			for (int k = 0; k < n; k++)
				v[k] = log(vary(1, random_below(&random, 10) ? 0.09 : 2, &random));
			signed_ranks(v, n, &low, &high);
			better += high < 0;
		}
		print_message("# %d scenarios: %d of %d\n", n, better, (int)TIMES);
		assert_in_range(better, TIMES / 100, TIMES / 40 + 67);
	}
}

static void test_nothing_raced(void **state)
{
	struct data *d = data_new("h200", &h200_run);
	struct gate_report r;
	struct forest old;
	struct fresh_rules new = { .n = 1 };
	(void)state;
	make_forest(&old, &old_rules);
	make_forest(&new.f[0], &new_rules);
	add_scenarios(d, 9);
	assert_true(data_finish(d));
	struct gate *g = gate_open(&old, &new);
	assert_int_equal(gate_judge(g, d, &r), 0);
	assert_int_equal(r.group[GATE_PREFILL].missing, 6);
	assert_int_equal(r.all.taken, 0);
	gate_close(g);
	forest_free(&old);
	forest_free(&new.f[0]);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_draws),         cmocka_unit_test(test_split),
		cmocka_unit_test(test_several_sets),  cmocka_unit_test(test_judge),
		cmocka_unit_test(test_two),           cmocka_unit_test(test_figures),
		cmocka_unit_test(test_nothing_raced), cmocka_unit_test(test_signed_ranks),
		cmocka_unit_test(test_no_better),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
