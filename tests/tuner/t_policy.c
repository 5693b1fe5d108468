/* SPDX-License-Identifier: Apache-2.0 */
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

static void test_vllm_triton(void **state)
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
	assert_true(policy_picks(d, POLICY_VLLM_TRITON, NULL, picks));
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

/* A choice of the header. tunables: as stored; is_fitted: with SEGMENTS=fitted. */
static void forest_add(struct forest *f, const struct data *d, const char *tunables, int is_fitted)
{
	struct choice *c = &f->choice[f->num_choices++];
	char error[200], text[MAX_CHOICE_TEXT];
	snprintf(text, sizeof text, "segmented %s", with("segmented", tunables));
	assert_true(choice_parse(c, d->run.device.backend, text, error, sizeof error));
	if (is_fitted)
		c->config.v[c->kernel->space->formula_axis] = SEGMENTS_FITTED;
}

/* One choice of the header for all decodes: the fitted one, by the segments that its costs give in
 * each batch. What has a time on one batch alone, where it is the fastest, does not count. */
static void test_best_fixed(void **state)
{
	static const char *const batches[] = { "1q1s8k", "2q1s16k", "256q1s1k" };
	static const char often[] = "NUM_WARPS=8 SEGMENTS=2", once[] = "TILE_SIZE=32 SEGMENTS=2";
	struct data *d = data_new("h200", &h200_run);
	struct pick picks[COUNT(batches)];
	struct forest f;
	struct choice made;
	int given[COUNT(batches)];
	(void)state;
	for (size_t i = 0; i < COUNT(batches); i++) {
		for (int v = 1; v <= 64; v *= 2) {
			char tunables[32];
			snprintf(tunables, sizeof tunables, "SEGMENTS=%d", v);
			if (v == 1 || v * 64 < atoi(strchr(batches[i], 's') + 1) * 512)
				add(d, batches[i], "decode", "segmented", tunables, 10);
		}
		add(d, batches[i], "decode", "segmented", often, 11);
	}
	add(d, batches[0], "decode", "segmented", once, 9);
	assert_true(data_finish(d));
	assert_true(forest_defaults(&f, "h200"));
	forest_add(&f, d, often, 0);
	forest_add(&f, d, once, 0);
	forest_add(&f, d, "SEGMENTS=1", 1);
	f.costs[f.num_costs++] =
	    (struct selector_costs){ 2, 128, { 2, 64, 5000000, 100000000, 10000000, 100000 } };
	assert_true(policy_picks(d, POLICY_BEST_FIXED, &f, picks));
	for (size_t i = 0; i < COUNT(batches); i++) {
		const int s = scenario_named(d, batches[i]);
		assert_true(action_choice(d, &f, PHASE_DECODE, 2, &d->v[s], &made));
		given[i] = config_value(&made.config, made.kernel->space, "SEGMENTS", 0);
		assert_true(picks[s].decode >= 0);
		assert_false(choice_compare(&d->choice[picks[s].decode], &made));
	}
	assert_int_not_equal(given[0], given[2]);
	forest_free(&f);
	data_free(d);
}

/* All baselines that learn pick something that runs, everywhere, on smooth data. */
static void test_learned_picks_are_legal(void **state)
{
	struct data *d = synthetic_data(0);
	struct forest f;
	const struct limits limits = default_limits;
	(void)state;
	assert_true(forest_induce(&f, d, &limits));
	for (enum policy p = POLICY_BEST_FIXED; p < NUM_POLICIES; p++) {
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
		cmocka_unit_test(test_vllm_triton), cmocka_unit_test(test_aiter_rule),
		cmocka_unit_test(test_best_fixed),  cmocka_unit_test(test_learned_picks_are_legal),
		cmocka_unit_test(test_estimates),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
