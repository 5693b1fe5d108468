/* SPDX-License-Identifier: Apache-2.0 */
/* t_least_squares.c - prices fitted to times that known prices made: they give the same
 * estimates back, also where nothing was measured, and the same numbers of segments. Rows that
 * were left out of a fit test it. t_decode_trees.c has the trees learned from such prices. */
#include "tests/support/synthetic.h"
#include "tuner/costmodel/offers.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "priced.h"

/* ---- amounts ----------------------------------------------------------------------------- */
static void part_of(struct part *p, const char *text)
{
	char error[100];
	struct batch *b = batch_parse(text, error, sizeof error);
	assert_true(b && part_make(p, PHASE_DECODE, &llama, &b->view, &h200_run.device));
	batch_free(b);
}

/* 4 sequences of 4096 keys, 8 KV heads of 4 query heads: 32 blocks, of which 132 SMs run two
 * each. */
static void amounts_by_hand(void **state)
{
	static const struct {
		int segments;
		long long amount[NUM_COST_TERMS];
	} rows[] = {
		{ 1, { 1, 4096 + 128, 32 * 4096 / 132, 65536, 128, 0, 0, 0 } },
		{ 8, { 1, 512 + 128, 32 * 4096 / 132, 65536, 128, 1, 8, 1024 } },
		/* 512 blocks of 384 with the start, in two waves of 264 that lack 16 */
		{ 16, { 1, (384 * 512 + 16 * 384) / 264, 992, 65536, 128, 1, 16, 2048 } },
	};
	const struct cost_model p = {
		{ 16, 64, 0, 0 }, 2, 128, { 3, 5, 7, 11, 13, 17, 19, 23 }, { 0 }
	};
	struct part part;
	(void)state;
	part_of(&part, "4q1s4k");
	for (size_t i = 0; i < COUNT(rows); i++) {
		long long amount[NUM_COST_TERMS], sum = 0;
		cost_model_amounts(amount, &p, &part.f, rows[i].segments);
		for (int k = 0; k < NUM_COST_TERMS; k++) {
			if (amount[k] != rows[i].amount[k])
				fail_msg("%d segments, term %d: %lld", rows[i].segments, k,
					 amount[k]);
			sum += p.fs[k] * rows[i].amount[k];
		}
		assert_true(cost_model_estimate(&p, &part.f, rows[i].segments) == sum);
	}
	part.f.kv_kib = 1ll << 40; /* sums must not overflow */
	long long amount[NUM_COST_TERMS];
	cost_model_amounts(amount, &p, &part.f, 1);
	assert_true(amount[TERM_KIB] == 1 << 27);
}

/* The part of an estimate that depends on segments equals the header's segment costs. */
static void costs_are_what_segments_change(void **state)
{
	static const char *const batches[] = { "1q1s60000", "7q1s3000", "33q1s900", "160q1s8000" };
	(void)state;
	for (size_t i = 0; i < COUNT(batches) * NUM_KNOWN; i++) {
		const struct cost_model *p = &known[i % NUM_KNOWN].price;
		const struct segment_costs costs = cost_model_segments(p);
		struct part part;
		part_of(&part, batches[i / NUM_KNOWN]);
		for (int v = 2; v <= 64; v += 3) {
			const long long more =
			    cost_model_estimate(p, &part.f, v) - cost_model_estimate(p, &part.f, 1);
			assert_true(more == segments_cost(&costs, &p->block, &part.f, v) -
						segments_cost(&costs, &p->block, &part.f, 1));
		}
	}
}

/* ---- estimates --------------------------------------------------------------------------- */
/* In a held-out scenario, at values that are of use there: the largest relative error. */
static double worst_error(const struct data *d, int s, const struct cost_model *fitted,
			  const struct known *known_one, const struct choice *c)
{
	const struct space *space = c->kernel->space;
	const struct axis *a = space->formula_axis < 0 ? NULL : &space->axis[space->formula_axis];
	const struct attune_features *f = &d->v[s].part[PHASE_DECODE].f;
	struct choice at = *c;
	double worst = 0;
	int best;
	for (int i = 0; i < (a ? a->num_values : 1); i++) {
		if (a)
			at.config.v[space->formula_axis] = a->values[i];
		const int choice = data_find(d, &at), v = a ? a->values[i] : 1;
		if (choice < 0 || !(data_time(d, s, PHASE_DECODE, choice) <
				    1.5 * data_best(d, s, PHASE_DECODE, &best)))
			continue;
		const double want = (double)cost_model_estimate(&known_one->price, f, v);
		const double error = (double)cost_model_estimate(fitted, f, v) / want - 1;
		worst = fmax(worst, fabs(error));
	}
	return worst;
}

/* An offer's prices, against those that made its times. */
static void same_estimates(const struct data *d, const struct offer *o)
{
	const struct known *of = known_as(&o->choice);
	const struct cost_model *fitted = &o->model[0];
	assert_int_equal(fitted->block.rows, of->price.block.rows);
	assert_int_equal(fitted->block.tile, of->price.block.tile);
	assert_int_equal(fitted->block.heads, of->price.block.heads);
	for (int s = 0; s < d->n; s++) {
		const double error = worst_error(d, s, fitted, of, &o->choice);
		if (!data_is_training(&d->v[s]) && error > 0.02)
			fail_msg("%s %s, %s: %.4f", of->kernel, of->set, d->v[s].batch_text, error);
	}
}

static void estimates_come_back(const struct making_of *how)
{
	struct data *d = make_priced(how);
	struct matrix *m = matrix_parts(d, DECIDE_DECODE);
	struct offers k = { .d = d, .m = m, .phase = PHASE_DECODE };
	struct cell_fit *cell = malloc(sizeof *cell * ((size_t)m->rows * MAX_MEMBERS + 1));
	assert_true(cell && offers_open(&k));
	assert_int_equal(k.num_sizes, 1);
	assert_int_equal(k.num_offers, num_known(how));
	for (int i = 0; i < k.num_offers; i++) {
		assert_true(offer_fit(&k, &k.offer[i], cell));
		same_estimates(d, &k.offer[i]);
	}
	offers_close(&k);
	free(cell);
	matrix_free(m);
	data_free(d);
}

static void estimates_of_exact_times(void **state)
{
	(void)state;
	estimates_come_back(&exactly);
}

static void estimates_of_rough_times(void **state)
{
	(void)state;
	estimates_come_back(&roughly);
}

/* ---- segments ---------------------------------------------------------------------------- */
/* A choice's time by its known price, with the segments of its fitted costs, relative to its
 * best. */
static double excess(const struct cheapest_set *p, int id, const struct measured *m)
{
	const struct choice *c = &p->choice[id];
	const struct known *of = known_as(c);
	const struct part *part = &m->part[PHASE_DECODE];
	const struct segment_costs *costs =
	    costs_for(p->costs, p->num_costs, id, m->shape.head_size);
	struct config at;
	int best;
	assert_null(
	    config_fitted(&at, &c->config, c->kernel, costs, &m->shape, part, &h200_run.device));
	return (double)cost_model_estimate(&of->price, &part->f,
					   config_value(&at, c->kernel->space, "SEGMENTS", 1)) /
	       (double)known_least(of, &m->shape, part, &best);
}

static void segments_come_back(void **state)
{
	static struct cheapest_set p;
	struct data *d = make_priced(&roughly);
	struct matrix *m = matrix_parts(d, DECIDE_DECODE);
	int cut = 0;
	(void)state;
	assert_true(cheapest_set_find(&p, d, m, NULL, MOST, NULL, 0));
	assert_true(p.num_choices >= 2);
	for (int id = 0; id < p.num_choices; id++) {
		const struct space *s = p.choice[id].kernel->space;
		assert_int_equal(config_is_fitted(&p.choice[id].config, s), s->formula_axis >= 0);
		cut += s->formula_axis >= 0;
		for (int i = 0; i < d->n; i++)
			if (!data_is_training(&d->v[i]) && excess(&p, id, &d->v[i]) > 1.03)
				fail_msg("%s: %.4f", d->v[i].batch_text, excess(&p, id, &d->v[i]));
	}
	assert_int_equal(p.num_costs, cut); /* one head size */
	for (int i = 0; i < p.num_costs; i++)
		assert_int_equal(p.costs[i].head_size, llama.head_size);
	cheapest_set_free(&p);
	matrix_free(m);
	data_free(d);
}

/* A choice without times at a head size has no costs of it. */
static void sizes_that_were_measured_have_costs(void **state)
{
	static struct cheapest_set p;
	const struct making_of how = { .noise = 0.01, .narrow = 1 };
	struct data *d = make_priced(&how);
	struct matrix *m = matrix_parts(d, DECIDE_DECODE);
	int seen[2] = { 0, 0 };
	(void)state;
	assert_true(cheapest_set_find(&p, d, m, NULL, MOST, NULL, 0));
	for (int i = 0; i < p.num_costs; i++) {
		assert_true(p.costs[i].head_size == 64 || p.costs[i].head_size == 128);
		seen[p.costs[i].head_size == 128]++;
		assert_true(config_is_fitted(&p.choice[p.costs[i].id].config,
					     p.choice[p.costs[i].id].kernel->space));
	}
	assert_true(seen[0] >= 2 && seen[0] == seen[1]);
	cheapest_set_free(&p);
	matrix_free(m);
	data_free(d);
}

/* ---- how good they are elsewhere ------------------------------------------------------------ */
static double unseen_of(const struct making_of *how)
{
	static struct cheapest_set p;
	struct data *d = make_priced(how);
	struct matrix *m = matrix_parts(d, DECIDE_DECODE);
	assert_true(cheapest_set_find(&p, d, m, NULL, MOST, NULL, 0));
	const double unseen = p.held_out;
	cheapest_set_free(&p);
	matrix_free(m);
	data_free(d);
	return unseen;
}

static void unseen_rows_test_them(void **state)
{
	const struct making_of odd = { .noise = 0.01, .odd = 1 },
			       seldom = { .wrong_each = 50, .wrong = TILE_64 };
	(void)state;
	assert_true(unseen_of(&exactly) < 1.001);
	assert_in_range((int)(1e4 * unseen_of(&roughly)), 10000, 10050);
	assert_true(unseen_of(&odd) > 1.05);
	assert_true(unseen_of(&seldom) < 1.01);
}

/* Of another head size: each that is known in 1 to `segments`. */
static void add_few(struct data *d, const char *batch, int segments)
{
	for (int i = 0; i < PLAIN * segments; i++) {
		const struct known *k = &known[i % PLAIN];
		char set[100];
		if (k == &known[UNCUT] && i >= PLAIN)
			continue;
		snprintf(set, sizeof set, "%s SEGMENTS=%d", k->set, 1 + i / PLAIN);
		struct store_cell c =
		    cell_like(batch, "decode", k->kernel, with(k->kernel, set), 10 + i);
		c.model = "narrow@1";
		c.shape.head_size = 64;
		assert_true(data_add(d, &c));
	}
}

/* Of 20 batches, and of others of that size. */
static double unseen_beside(int others, int segments, int *num_costs)
{
	static struct batch_text batch[MAX_BATCHES];
	static struct cheapest_set p;
	struct data *d = data_new("h200", &h200_run);
	list_batches(batch);
	for (int i = 0; i < 20; i++) {
		strcpy(batch[6 * i].split, "train");
		add_batch(d, &batch[6 * i], &exactly, 0);
	}
	for (int i = 0; i < others; i++)
		add_few(d, batch[6 * i].text, segments);
	assert_true(data_finish(d));
	struct matrix *m = matrix_parts(d, DECIDE_DECODE);
	assert_int_equal(m->rows, 20 + others);
	assert_true(cheapest_set_find(&p, d, m, NULL, MOST, NULL, 0));
	*num_costs = 0;
	for (int i = 0; i < p.num_costs; i++)
		*num_costs += p.costs[i].head_size == 64;
	const double unseen = p.held_out;
	cheapest_set_free(&p);
	matrix_free(m);
	data_free(d);
	return unseen;
}

/* Prices need eight times. One row of eight may lack a price, no more; a price that exists only
 * thanks to the row under test does not count for it. */
static void unseen_where_few_have_prices(void **state)
{
	static const struct {
		int others, segments, num_costs, is_known;
	} rows[] = {
		{ 0, 1, 0, 1 }, { 2, 1, 0, 1 }, { 3, 1, 0, 0 }, { 3, 3, 2, 0 }, { 2, 4, 2, 1 }
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		int num_costs;
		const double unseen = unseen_beside(rows[i].others, rows[i].segments, &num_costs);
		assert_int_equal(num_costs, rows[i].num_costs);
		assert_true(rows[i].is_known ? unseen >= 1 && unseen < 1.05 : isinf(unseen));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(amounts_by_hand),
		cmocka_unit_test(costs_are_what_segments_change),
		cmocka_unit_test(estimates_of_exact_times),
		cmocka_unit_test(estimates_of_rough_times),
		cmocka_unit_test(segments_come_back),
		cmocka_unit_test(sizes_that_were_measured_have_costs),
		cmocka_unit_test(unseen_rows_test_them),
		cmocka_unit_test(unseen_where_few_have_prices),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("prices", tests, NULL, NULL);
}
