/* t_policy.c - the picks of the baselines, on small data where they are known. */
#include "tuner/forest/forest.h"
#include "tuner/induce/induce.h"
#include "tuner/tree/tree.h"
#include "tests/support/synthetic.h"
#include "tuner/eval/eval.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "tests/support/by_hand.h"

static void test_vllm_rule(void **state)
{
	static const struct {
		const char *batch, *kernel;
		int segments;
	} rows[] = { { "16q1s4k", "segmented", 16 }, /* 128 / 8 KV heads */
		     { "17q1s4k", "qblock", 1 },
		     { "4q2s4k", "qblock", 1 } };
	struct data *d = data_new("h200", &h200_run);
	struct pick picks[3];
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		add(d, rows[i].batch, "decode", "qblock", "TILE_SIZE=32 NUM_WARPS=2", 10);
		add(d, rows[i].batch, "decode", "qblock", "TILE_SIZE=128", 1);
		add(d, rows[i].batch, "decode", "segmented", "SEGMENTS=16", 10);
		add(d, rows[i].batch, "decode", "segmented", "SEGMENTS=4", 1);
	}
	assert_true(data_finish(d));
	assert_true(policy_picks(d, POLICY_VLLM_RULE, NULL, picks));
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct choice *c = &d->choice[picks[scenario_named(d, rows[i].batch)].decode];
		assert_string_equal(c->kernel->name, rows[i].kernel);
		assert_int_equal(config_value(&c->config, c->kernel->space, "SEGMENTS", 1),
				 rows[i].segments);
		assert_int_not_equal(config_value(&c->config, c->kernel->space, "TILE_SIZE", 0),
				     128);
	}
	data_free(d);
}

/* 4 programs on each of 132 units: 528 of 8 heads x sequences. */
static void test_aiter_rule(void **state)
{
	static const struct {
		const char *batch, *phase, *kernel;
		int segments, block_m;
	} rows[] = {
		{ "1q1s8k", "decode", "segmented", 64, 16 }, /* 528 / 8 = 66, as 128 */
		{ "16q1s8k", "decode", "segmented", 8, 16 }, /* 528 / 128 = 5, as 8 */
		{ "66q1s8k", "decode", "segmented", 8, 16 }, /* 528 programs: 1, at least 8 */
		{ "67q1s8k", "decode", "qblock", 1, 16 },    /* more than 528 */
		{ "1q1s512", "decode", "qblock", 1, 16 },    /* few keys */
		{ "2q2k", "prefill", "qblock", 1, 128 },     /* long queries */
	};
	struct data *d = data_new("h200", &h200_run);
	struct pick picks[COUNT(rows)];
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		add(d, rows[i].batch, rows[i].phase, "qblock", "BLOCK_M=16", 10);
		add(d, rows[i].batch, rows[i].phase, "qblock", "BLOCK_M=128 NUM_WARPS=4", 10);
		if (strcmp(rows[i].phase, "decode"))
			continue;
		add(d, rows[i].batch, rows[i].phase, "segmented", "SEGMENTS=8", 10);
		if (!strstr(rows[i].batch, "s512"))
			add(d, rows[i].batch, rows[i].phase, "segmented", "SEGMENTS=64", 10);
	}
	assert_true(data_finish(d));
	assert_true(policy_picks(d, POLICY_AITER_RULE, NULL, picks));
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct pick *p = &picks[scenario_named(d, rows[i].batch)];
		const struct choice *c = &d->choice[p->decode < 0 ? p->prefill : p->decode];
		assert_string_equal(c->kernel->name, rows[i].kernel);
		assert_int_equal(config_value(&c->config, c->kernel->space, "SEGMENTS", 1),
				 rows[i].segments);
		assert_int_equal(config_value(&c->config, c->kernel->space, "BLOCK_M", 0),
				 rows[i].block_m);
	}
	data_free(d);
}

/* Two training scenarios that different choices win, and held-out ones near either. */
static void test_nearest_neighbour(void **state)
{
	struct data *d = data_new("h200", &h200_run);
	struct pick picks[4];
	static const struct {
		const char *batch, *split;
		double us[2];
	} rows[] = { { "2q1s1k", "train", { 10, 20 } },
		     { "64q1s16k", "train", { 200, 100 } },
		     { "3q1s1k", "heldout", { 10, 20 } },
		     { "48q1s12k", "heldout", { 200, 100 } } };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++)
		for (int c = 0; c < 2; c++) {
			struct store_cell cell = cell_like(
			    rows[i].batch, "decode", "qblock",
			    with("qblock", c ? "BLOCK_M=32" : "BLOCK_M=16"), rows[i].us[c]);
			cell.split = rows[i].split;
			assert_true(data_add(d, &cell));
		}
	assert_true(data_finish(d));
	assert_true(policy_picks(d, POLICY_NEAREST, NULL, picks));
	for (size_t i = 0; i < COUNT(rows); i++)
		assert_int_equal(picks[scenario_named(d, rows[i].batch)].decode,
				 rows[i].us[1] < rows[i].us[0]);
	data_free(d);
}

/* Rows by num_seqs 1, 2, 4, ...; column 1 hardly wins most rows, and loses one by far. */
static struct matrix *lopsided(int rows)
{
	struct matrix *m = matrix_new(rows, 2);
	assert_non_null(m);
	for (int r = 0; r < rows; r++) {
		m->weight[r] = 1;
		m->choice[0] = 0, m->choice[1] = 1;
		m->f[r].num_seqs = 1 << r;
		m->cost[2 * r] = r ? 10 : 0;
		m->cost[2 * r + 1] = r ? 0 : 1000;
	}
	return m;
}

static void test_cart(void **state)
{
	struct matrix *m = lopsided(6);
	struct tree t;
	(void)state;
	for (enum criterion c = CART_COST; c <= CART_ENTROPY; c++) {
		if (c == CART_ENTROPY)
			costs_to_labels(m);
		/* One leaf: the least cost in all, and the most common label. */
		assert_true(cart_grow(&t, m, &(struct cart){ c, 1, 9 }));
		assert_int_equal(t.n, 1);
		assert_int_equal(t.v[0].action, c == CART_ENTROPY);
		tree_free(&t);
		/* Two leaves suffice; no more are made. */
		assert_true(cart_grow(&t, m, &(struct cart){ c, 8, 9 }));
		assert_int_equal(tree_leaves(&t), 2);
		assert_int_equal(t.v[0].feature, ATTUNE_FEATURE_num_seqs);
		assert_int_equal(t.v[0].threshold, 1);
		assert_int_equal(t.v[t.v[0].below].action, 0);
		assert_int_equal(t.v[t.v[0].above].action, 1);
		tree_free(&t);
	}
	/* Costs alternate: each split gains, until leaves or depth run out. */
	for (int r = 0; r < m->rows; r++)
		m->cost[2 * r] = r % 2 ? 0 : 100 + r, m->cost[2 * r + 1] = r % 2 ? 100 + r : 0;
	assert_true(cart_grow(&t, m, &(struct cart){ CART_COST, 3, 9 }));
	assert_int_equal(tree_leaves(&t), 3);
	tree_free(&t);
	assert_true(cart_grow(&t, m, &(struct cart){ CART_COST, 64, 1 }));
	assert_int_equal(tree_leaves(&t), 2);
	tree_free(&t);
	assert_true(cart_grow(&t, m, &(struct cart){ CART_COST, 64, 9 }));
	assert_int_equal(tree_leaves(&t), 6);
	tree_free(&t);
	matrix_free(m);
}

/* All baselines that learn pick something that runs, everywhere, on smooth data. */
static void test_learned_picks_are_legal(void **state)
{
	struct data *d = synthetic_data(0);
	struct forest f;
	const struct limits limits = default_limits;
	(void)state;
	assert_true(forest_induce(&f, d, &limits));
	for (enum policy p = POLICY_BEST_FIXED; p < POLICY_WITH_PLUGINS; p++) {
		struct chooser *c = chooser_new(d, p, &f);
		assert_non_null(c);
		for (int s = 0; s < d->n; s++) {
			const struct measured *m = &d->v[s];
			const int mixed = m->has[PHASE_PREFILL] && m->has[PHASE_DECODE];
			struct decided made;
			chooser_make(c, m, -1, &made);
			const struct choice *k =
			    m->has[PHASE_PREFILL] ? &made.prefill : &made.decode;
			const enum phase phase = mixed && !made.join     ? PHASE_ALL
						 : m->has[PHASE_PREFILL] ? PHASE_PREFILL
									 : PHASE_DECODE;
			assert_non_null(k->kernel);
			assert_null(k->kernel->space->why_illegal(&k->config, &m->shape,
								  &m->part[phase], &d->run.device));
			assert_true(!mixed || !made.join || made.decode.kernel);
		}
		chooser_free(c);
	}
	forest_free(&f);
	data_free(d);
}

/* ---- estimates ------------------------------------------------------------------------- */
static void test_estimates(void **state)
{
	struct data *d = synthetic_data(0);
	struct measured m;
	struct around *a;
	double far;
	(void)state;
	/* For a measured batch: the measured time. */
	const int s = scenario_named(d, "8q1s4096");
	a = around_new(d, &d->v[s]);
	assert_int_equal(around_nearest(a, PHASE_DECODE, &far), s);
	assert_true(far == 0);
	for (int c = 0; c < d->num_choices; c++) {
		const double us = data_part_time(d, s, PHASE_DECODE, c);
		if (isfinite(us))
			assert_true(fabs(estimate_part(a, PHASE_DECODE, &d->choice[c]) / us - 1) <
				    1e-9);
	}
	around_free(a);
	/* For one between: within a quarter of the model's time. */
	assert_true(measured_make(&m, d, "llama3.1-8b@1", &llama, "10q1s4096"));
	a = around_new(d, &m);
	for (int c = 0; c < d->num_choices; c++) {
		char text[MAX_CHOICE_TEXT];
		choice_text(text, sizeof text, &d->choice[c]);
		const double is = synthetic_us(&m.part[PHASE_DECODE], text);
		const double us = estimate_part(a, PHASE_DECODE, &d->choice[c]);
		assert_true(us > is / 1.5 && us < is * 1.5);
	}
	around_free(a);
	measured_free(&m);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vllm_rule),
		cmocka_unit_test(test_aiter_rule),
		cmocka_unit_test(test_nearest_neighbour),
		cmocka_unit_test(test_cart),
		cmocka_unit_test(test_learned_picks_are_legal),
		cmocka_unit_test(test_estimates),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
