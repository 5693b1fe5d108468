/* SPDX-License-Identifier: Apache-2.0 */
/* t_made_up_batches.c - the training rows of decode trees (tuner/costmodel/made_up_batches.c):
 * measured scenarios with their costs, then made-up batches with estimated costs, features
 * rounded to few levels. */
#include "tests/support/synthetic.h"
#include "tuner/costmodel/offers.h"
#include "tuner/costmodel/probes.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "priced.h"

enum { LEADING_BITS = 4, MADE_UP = 12 };

/* All that is known, taught as it comes: WIDE is not legal everywhere, UNCUT has no price for the
 * narrow shape, some results were wrong, and some batches have prefills, too. */
struct lesson {
	struct data *d;
	struct matrix *all, *taught;
	struct offers k;
	const struct offer *offer[NUM_KNOWN];
	struct probes probes;
	int measured, similar, rows; /* rows: with probes */
};

static const struct making_of all_sorts = {
	.noise = 0.01, .wide = 1, .narrow = 1, .wrong_each = 8, .wrong = TILE_64, .mixed = 1
};

static void begin_lesson(struct lesson *l, const struct making_of *how)
{
	*l = (struct lesson){ .d = make_priced(how) };
	l->all = matrix_parts(l->d, DECIDE_DECODE);
	l->k = (struct offers){ .d = l->d, .m = l->all, .phase = PHASE_DECODE };
	struct cell_fit *cell = malloc(sizeof *cell * ((size_t)l->all->rows * MAX_MEMBERS + 1));
	assert_true(cell && offers_open(&l->k));
	assert_int_equal(l->k.num_offers, num_known(how));
	for (int i = 0; i < l->k.num_offers; i++) {
		assert_true(offer_fit(&l->k, &l->k.offer[i], cell));
		offer_estimate_rows(&l->k, &l->k.offer[i]);
		l->offer[i] = &l->k.offer[i];
	}
	free(cell);
	char in[MAX_CHEAPEST];
	memset(in, 1, sizeof in);
	offers_set_costs(&l->k, in);
	assert_true(probes_open(&l->probes, &l->k));
	l->taught = make_training_matrix(&l->k, &l->probes, l->offer, l->k.num_offers, &l->measured,
					 &l->similar);
	assert_non_null(l->taught);
	l->rows = l->taught->rows;
	l->taught->rows = l->similar; /* most tests are of scenarios and batches like them */
	assert_int_equal(l->taught->cols, l->k.num_offers);
}

static void end_lesson(struct lesson *l)
{
	matrix_free(l->taught);
	matrix_free(l->all);
	probes_close(&l->probes);
	offers_close(&l->k);
	data_free(l->d);
}

static int32_t cost_at(const struct matrix *m, int row, int col)
{
	return m->cost[row * m->cols + col];
}

static void same_matrix(const struct matrix *a, const struct matrix *b)
{
	const size_t rows = (size_t)a->rows, cols = (size_t)a->cols;
	assert_int_equal(a->rows, b->rows);
	assert_int_equal(a->cols, b->cols);
	assert_memory_equal(a->scenario, b->scenario, rows * sizeof *a->scenario);
	assert_memory_equal(a->choice, b->choice, cols * sizeof *a->choice);
	assert_memory_equal(a->cost, b->cost, rows * cols * sizeof *a->cost);
	assert_memory_equal(a->fallback, b->fallback, rows * sizeof *a->fallback);
	assert_memory_equal(a->weight, b->weight, rows * sizeof *a->weight);
	assert_memory_equal(a->block, b->block, rows * sizeof *a->block);
	assert_memory_equal(a->f, b->f, rows * sizeof *a->f);
}

/* ---- the same --------------------------------------------------------------------------------- */
static struct matrix *taught_by(const struct making_of *how)
{
	static struct cheapest_set p;
	struct data *d = make_priced(how);
	struct matrix *m = matrix_parts(d, DECIDE_DECODE);
	assert_true(cheapest_set_find(&p, d, m, NULL, MOST, NULL, 0));
	struct matrix *taught = matrix_copy(p.training);
	assert_in_range(p.num_measured, 100, taught->rows - 1);
	cheapest_set_free(&p);
	matrix_free(m);
	data_free(d);
	return taught;
}

/* On every run, and whatever the order in which cells were measured. */
static void the_same_on_every_run(void **state)
{
	struct making_of turned = all_sorts;
	(void)state;
	turned.turned = 1;
	struct matrix *first = taught_by(&all_sorts), *again = taught_by(&all_sorts),
		      *other = taught_by(&turned);
	same_matrix(first, again);
	same_matrix(first, other);
	matrix_free(first);
	matrix_free(again);
	matrix_free(other);
}

/* ---- measured rows ---------------------------------------------------------------------------- */
/* The costs of an offer in a row agree with the matrix of all choices. */
static int32_t cost_of_pick(const struct lesson *l, const struct offer *o, int row)
{
	const struct measured *m = &l->d->v[l->all->scenario[row]];
	struct choice as = { .kernel = o->choice.kernel };
	int col = 0;
	for (int h = 0; h < l->k.num_sizes; h++) {
		if (l->k.size[h] != m->shape.head_size)
			continue;
		if (config_fitted(&as.config, &o->choice.config, as.kernel, &o->model[h].segments,
				  &m->shape, &m->part[PHASE_DECODE], &h200_run.device))
			return COST_ILLEGAL;
		if (!o->model[h].block.rows)
			return COST_FORBIDDEN;
	}
	const int choice = data_find(l->d, &as);
	while (col < l->all->cols && l->all->choice[col] != choice)
		col++;
	return col == l->all->cols ? COST_CAP : cost_at(l->all, row, col);
}

static void measured_rows_come_first(void **state)
{
	struct lesson l;
	int forbidden = 0, free_of_cost = 0;
	(void)state;
	begin_lesson(&l, &all_sorts);
	assert_int_equal(l.measured, l.all->rows);
	for (int c = 0; c < l.taught->cols; c++)
		assert_int_equal(l.taught->choice[c], l.d->num_columns + l.offer[c]->index);
	for (int r = 0; r < l.measured; r++) {
		assert_int_equal(l.taught->scenario[r], l.all->scenario[r]);
		assert_int_equal(l.taught->weight[r], l.all->weight[r]);
		assert_int_equal(l.taught->fallback[r], l.all->fallback[r]);
		assert_int_equal(l.taught->block[r], l.all->block[r]);
		for (int c = 0; c < l.taught->cols; c++) {
			const int32_t cost = cost_at(l.taught, r, c);
			assert_int_equal(cost, cost_of_pick(&l, l.offer[c], r));
			forbidden += is_forbidden(cost);
			free_of_cost += !cost;
		}
	}
	assert_true(forbidden > 20 && free_of_cost > l.measured / 2);
	end_lesson(&l);
}

/* ---- made-up rows ----------------------------------------------------------------------------- */
/* Made-up rows of a scenario carry its block, so that cross-validation leaves them out with it. */
static void made_up_rows_are_held_out_with_their_scenario(void **state)
{
	struct lesson l;
	int r = 0;
	(void)state;
	begin_lesson(&l, &all_sorts);
	const struct matrix *t = l.taught;
	assert_true(t->rows > 3 * l.measured);
	for (int i = l.measured; i < t->rows; i++) {
		while (r < l.measured && t->scenario[r] != t->scenario[i])
			r++; /* in the order of scenarios */
		assert_true(r < l.measured);
		assert_int_equal(t->block[i], t->block[r]);
	}
	end_lesson(&l);
}

/* The smallest estimate costs 0, and no cost is below. Such rows weigh less than any scenario. */
static void made_up_rows_cost_what_estimates_say(void **state)
{
	struct lesson l;
	int forbidden = 0, dear = 0;
	(void)state;
	begin_lesson(&l, &all_sorts);
	for (int i = l.measured; i < l.taught->rows; i++) {
		int32_t least = COST_FORBIDDEN;
		for (int c = 0; c < l.taught->cols; c++) {
			const int32_t cost = cost_at(l.taught, i, c);
			assert_true(cost >= 0 && (cost <= COST_CAP || is_forbidden(cost)));
			least = cost < least ? cost : least;
			forbidden += is_forbidden(cost);
			dear += cost > 100000 && !is_forbidden(cost);
		}
		assert_int_equal(least, 0);
		assert_int_equal(l.taught->fallback[i], COST_CAP);
		for (int r = 0; r < l.measured; r++)
			assert_true(l.taught->weight[i] > 0 &&
				    l.taught->weight[i] < l.taught->weight[r]);
	}
	assert_true(forbidden > 100 && dear > 100);
	end_lesson(&l);
}

/* The smallest over all numbers of segments, by the prices that made the times. */
static double least_by(const struct known *k, const struct attune_features *f)
{
	static const int values[] = { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64 };
	const int num = k == &known[UNCUT] ? 1 : (int)COUNT(values);
	long long least = cost_model_estimate(&k->price, f, 1);
	for (int i = 1; i < num && values[i] * k->price.block.tile < 2 * f->max_seq; i++)
		least = min_of(least, cost_model_estimate(&k->price, f, values[i]));
	return (double)least;
}

/* Of batches of which but the rounded features are known, so that it is near. */
static void costs_are_near_the_truth(void **state)
{
	struct lesson l;
	int compared = 0;
	double sum = 0;
	(void)state;
	begin_lesson(&l, &all_sorts);
	for (int i = l.measured; i < l.taught->rows; i++) {
		const struct attune_features *f = &l.taught->f[i];
		double us[NUM_KNOWN], least = INFINITY;
		for (int c = 0; c < l.taught->cols; c++) {
			us[c] = least_by(known_as(&l.offer[c]->choice), f);
			if (!is_forbidden(cost_at(l.taught, i, c)))
				least = fmin(least, us[c]);
		}
		for (int c = 0; c < l.taught->cols; c++) {
			if (is_forbidden(cost_at(l.taught, i, c)))
				continue;
			sum += fabs(cost_at(l.taught, i, c) / 1e6 - log(us[c] / least));
			compared++;
		}
	}
	assert_true(compared > 1000);
	assert_true(sum / compared < 0.05);
	end_lesson(&l);
}

/* Batches of one query token each, where the features determine the best choice. */
static void what_is_illegal_is_not_what_has_no_price(void **state)
{
	struct lesson l;
	int too_many = 0, few = 0, without_price = 0, odd = 0;
	(void)state;
	begin_lesson(&l, &all_sorts);
	for (int i = l.measured; i < l.taught->rows; i++) {
		const struct attune_features *f = &l.taught->f[i];
		/* no scenario has one query head a KV head, or other pages */
		assert_true(f->group > 1 && f->page_size == 16 && f->head_size <= 128);
		odd += f->head_size == 80 || f->head_size == 96;
		for (int c = 0; c < l.taught->cols; c++) {
			const struct known *k = known_as(&l.offer[c]->choice);
			const int is_illegal = cost_at(l.taught, i, c) == COST_ILLEGAL;
			const int has_no_price = cost_at(l.taught, i, c) == COST_FORBIDDEN;
			if (k == &known[UNCUT]) {
				assert_int_equal(has_no_price, f->head_size == 64);
				without_price += has_no_price;
			} else if (k == &known[WIDE] && f->max_query == 1) {
				/* three Q blocks for two SMs: 192 KV heads x sequences */
				assert_int_equal(is_illegal, f->num_kv_heads * f->num_seqs > 192);
				*(is_illegal ? &too_many : &few) += 1;
			} else if (k != &known[WIDE]) {
				assert_false(is_illegal || has_no_price);
			}
		}
	}
	assert_true(too_many > 20 && few > 20 && without_price > 20);
	assert_true(odd > 20);
	end_lesson(&l);
}

static int decodes_of(const struct measured *m)
{
	const attune_batch *b = &m->batch->view;
	int n = 0;
	for (int i = 0; i < b->num_seqs; i++)
		n += seq_phase(b->query_start[i + 1] - b->query_start[i]) == PHASE_DECODE;
	return n;
}

/* Decodes alone, also of a scenario with prefills; 0.42 to 2.38 times as many, 0.35 to 2.83 times
 * as long, before they are rounded. */
static void made_up_batches_lie_around_their_scenario(void **state)
{
	struct lesson l;
	int more = 0, fewer = 0, longer = 0, shorter = 0, other_query = 0, other_shape = 0,
	    mixed = 0;
	(void)state;
	begin_lesson(&l, &all_sorts);
	for (int i = l.measured; i < l.taught->rows; i++) {
		const struct measured *m = &l.d->v[l.taught->scenario[i]];
		const struct attune_features *f = &l.taught->f[i], *of = &m->part[PHASE_DECODE].f;
		const double n = (double)f->num_seqs / decodes_of(m);
		const double length = (double)f->max_seq / (double)of->max_seq;
		assert_true(f->num_seqs >= 1 && (double)(f->num_seqs + 1) > 0.42 * decodes_of(m));
		assert_true(n < 2.38 * 1.13);
		assert_in_range(f->max_query, 1, DECODE_MAX_QUERY);
		assert_true(length > 0.34 && length < 2.84 * 1.13);
		assert_true(f->query_tokens >= f->num_seqs && !f->prefill_tokens);
		more += n > 1.2;
		fewer += n < 0.9;
		longer += length > 2.5;
		shorter += length < 0.4;
		other_query += f->max_query > 1;
		other_shape += f->head_size != of->head_size;
		mixed += m->has[PHASE_PREFILL];
	}
	assert_true(more > 50 && fewer > 50 && longer > 10 && shorter > 10);
	assert_true(mixed > 10);
	/* 3 in 10, of which one in eight is of one token as all are; half, of which some are the
	 * same */
	const int made = l.taught->rows - l.measured;
	assert_in_range(other_query, made / 6, made / 3);
	assert_in_range(other_shape, made / 8, made / 3);
	end_lesson(&l);
}

/* ---- levels ----------------------------------------------------------------------------------- */
static long long level_of(long long v)
{
	long long step = 1;
	while (v / step >= 1 << LEADING_BITS)
		step *= 2;
	return (v + step - 1) / step * step;
}

static int is_level(long long v)
{
	while (v && v % 2 == 0)
		v /= 2;
	return v < 1 << LEADING_BITS;
}

static void features_are_rounded_upwards(void **state)
{
	struct lesson l;
	int changed = 0;
	(void)state;
	begin_lesson(&l, &all_sorts);
	for (int r = 0; r < l.taught->rows; r++) {
		const long long *v = (const long long *)&l.taught->f[r];
		const long long *raw = (const long long *)&l.all->f[r < l.measured ? r : 0];
		for (int k = 0; k < ATTUNE_NUM_FEATURES; k++) {
			assert_true(is_level(v[k]));
			if (r >= l.measured)
				continue;
			assert_true(v[k] == level_of(raw[k]));
			assert_true(raw[k] >= 1 << LEADING_BITS || v[k] == raw[k]);
			assert_true(v[k] >= raw[k] && v[k] <= raw[k] + raw[k] / 8);
			changed += v[k] != raw[k];
		}
	}
	assert_true(changed > 100);
	end_lesson(&l);
}

/* A tree that was grown over levels: all its thresholds are levels, so that it takes features as
 * they are to the same leaves, also of scenarios that taught nothing. */
static void thresholds_divide_raw_features_alike(void **state)
{
	const struct growth how = { .max_leaves = 64, .min_support = 2 };
	struct lesson l;
	struct tree t;
	(void)state;
	begin_lesson(&l, &all_sorts);
	assert_true(tree_grow(&t, l.taught, NULL, l.taught->rows, &how));
	assert_true(tree_leaves(&t) > 10);
	for (int i = 0; i < t.n; i++)
		assert_true(t.v[i].feature < 0 || is_level(t.v[i].threshold));
	for (int s = 0; s < l.d->n; s++) {
		const struct attune_features *raw = &l.d->v[s].part[PHASE_DECODE].f;
		struct attune_features levels = *raw;
		for (int k = 0; k < ATTUNE_NUM_FEATURES; k++)
			((long long *)&levels)[k] = level_of(((const long long *)raw)[k]);
		assert_int_equal(tree_leaf(&t, raw), tree_leaf(&t, &levels));
	}
	tree_free(&t);
	end_lesson(&l);
}

/* Behind them stand probes: shapes that no scenario has, which weigh little and cost what estimates say. */
static void probes_come_last(void **state)
{
	struct lesson l;
	int pages = 0, groups = 0;
	(void)state;
	begin_lesson(&l, &all_sorts);
	assert_in_range(l.rows - l.similar, l.measured, PROBES_A_ROW * l.measured);
	for (int r = l.similar; r < l.rows; r++) {
		int free_of_cost = 0;
		assert_in_range(l.taught->weight[r], 1, l.taught->weight[l.measured] - 1);
		pages |= l.taught->f[r].page_size == 1;
		groups |= l.taught->f[r].group > 64;
		for (int c = 0; c < l.taught->cols; c++)
			free_of_cost |= !cost_at(l.taught, r, c);
		assert_true(free_of_cost);
	}
	assert_true(pages && groups);
	end_lesson(&l);
}

/* What a probe's choice takes beyond 1.3 times the least counts `times`. */
static int count_cliffs(const struct lesson *l, const struct matrix *m, int times)
{
	const double cliff = 1e6 * log(1.3);
	int row = l->similar, cliffs = 0;
	for (int i = 0; i < l->probes.n; i++) {
		const long long *estimate = l->probes.v[i].estimate;
		double least = INFINITY;
		for (int c = 0; c < m->cols; c++)
			least = estimate[c] > 0 ? fmin(least, (double)estimate[c]) : least;
		for (int c = 0; c < m->cols && isfinite(least); c++) {
			if (estimate[c] < 0)
				continue;
			const double cost = 1e6 * log((double)estimate[c] / least);
			const double counted = cost + (times - 1) * fmax(cost - cliff, 0);
			assert_true(fabs(cost_at(m, row, c) - fmin(counted, COST_CAP)) < 20);
			cliffs += cost > cliff;
		}
		row += isfinite(least);
	}
	assert_int_equal(row, l->rows);
	return cliffs;
}

/* Portable rules are for GPUs of which no scenario was timed, so probes weigh as much as made-up batches. */
static void cliffs_of_probes_count_more(void **state)
{
	struct lesson l;
	int measured, similar;
	(void)state;
	begin_lesson(&l, &all_sorts);
	assert_true(count_cliffs(&l, l.taught, 3) > 0);
	l.d->is_portable = 1;
	struct matrix *m =
	    make_training_matrix(&l.k, &l.probes, l.offer, l.k.num_offers, &measured, &similar);
	assert_non_null(m);
	assert_true(count_cliffs(&l, m, 7) > 0);
	assert_int_equal(m->weight[similar], m->weight[measured]);
	matrix_free(m);
	end_lesson(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_on_every_run),
		cmocka_unit_test(measured_rows_come_first),
		cmocka_unit_test(made_up_rows_are_held_out_with_their_scenario),
		cmocka_unit_test(made_up_rows_cost_what_estimates_say),
		cmocka_unit_test(costs_are_near_the_truth),
		cmocka_unit_test(what_is_illegal_is_not_what_has_no_price),
		cmocka_unit_test(made_up_batches_lie_around_their_scenario),
		cmocka_unit_test(features_are_rounded_upwards),
		cmocka_unit_test(thresholds_divide_raw_features_alike),
		cmocka_unit_test(probes_come_last),
		cmocka_unit_test(cliffs_of_probes_count_more),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("teach", tests, NULL, NULL);
}
