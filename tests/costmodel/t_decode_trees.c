/* SPDX-License-Identifier: Apache-2.0 */
/* t_decode_trees.c - decode trees learned from measured times and from estimates: they name
 * choices cut by segment costs and are better for it, except where times do not follow prices.
 * They never name a choice that failed. */
#include "kernels/spec/kernel.h"
#include "tests/support/no_portable.h"
#include "tests/support/synthetic.h"
#include "harness/scenario/scenario.h"
#include "harness/store/store.h"
#include "tuner/costmodel/costmodel.h"
#include "tuner/data/data.h"
#include "tuner/emit/emit.h"
#include "tuner/eval/eval.h"
#include "tuner/forest/forest.h"
#include "tuner/induce/induce.h"
#include "tuner/policy/policy.h"
#include "tuner/tree/tree.h"
#include "tuner/induce/phase_fit.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "priced.h"

/* ---- what leaves name ------------------------------------------------------------------------------- */
static int leaves_that_are_cut(const struct forest *f)
{
	const struct tree *t = &f->tree[DECIDE_DECODE];
	int n = 0;
	for (int i = 0; i < t->n; i++) {
		const struct choice *c =
		    t->v[i].feature < 0 && t->v[i].action >= 0 ? &f->choice[t->v[i].action] : NULL;
		n += c && config_is_fitted(&c->config, c->kernel->space);
	}
	return n;
}

static int has_in_row(const struct forest *f, int of, int id)
{
	int has = 0;
	for (int i = 0; of >= 0 && i < f->list[of].n; i++)
		has |= f->list[of].at[i] == id;
	return has;
}

static void costs_are_of_what_is_named(const struct forest *f)
{
	for (int i = 0; i < f->num_costs; i++) {
		const int id = f->costs[i].id;
		assert_in_range(id, 0, f->num_choices - 1);
		assert_true(config_is_fitted(&f->choice[id].config, f->choice[id].kernel->space));
		int named = 0;
		for (int k = 0; k < f->tree[DECIDE_DECODE].n; k++)
			named |= f->tree[DECIDE_DECODE].v[k].feature < 0 &&
				 (f->tree[DECIDE_DECODE].v[k].action == id ||
				  has_in_row(f, f->tree[DECIDE_DECODE].v[k].action, id));
		assert_true(named);
	}
}

static void leaves_name_what_is_cut_by_costs(void **state)
{
	struct data *d = make_priced(&roughly);
	struct score tree, fixed;
	struct forest f;
	(void)state;
	assert_true(forest_induce(&f, d, &default_limits));
	assert_true(leaves_that_are_cut(&f) > 2);
	assert_true(f.num_costs >= 2);
	costs_are_of_what_is_named(&f);
	assert_true(score_policy(d, POLICY_TREE, &f, "heldout", &tree));
	assert_true(score_policy(d, POLICY_BEST_FIXED, &f, "heldout", &fixed));
	assert_true(tree.n > 20);
	assert_int_equal(tree.invalid, 0);
	if (!(tree.geomean < 1.01 && fixed.geomean > 1.05))
		fail_msg("%.4f, best constant %.4f", tree.geomean, fixed.geomean);
	forest_free(&f);
	data_free(d);
}

/* A tree of one leaf. Choices that no leaf names, nor a row of one that a leaf names, are in no header,
 * nor are their costs. */
static void what_is_not_named_goes(void **state)
{
	struct data *d = make_priced(&exactly);
	struct matrix *m = matrix_parts(d, DECIDE_DECODE);
	struct phase_fit fit[2] = { { .d = d, .m = m }, { .d = d, .with_estimates = 1 } };
	struct cheapest_set *p = &fit[1].cheapest;
	struct attune_list list[MAX_CHEAPEST] = { { 0 } };
	struct forest f = { .num_choices = 0 };
	int named = 0;
	(void)state;
	assert_true(cheapest_set_find(p, d, m, NULL, MOST, NULL, 0));
	assert_int_equal(p->num_costs, 2);
	while (p->costs[1].id != named)
		named++;
	const int beside = named ? 0 : 1, neither = named < 2 ? 2 : 1;
	list[named] = (struct attune_list){ 2, { (short)named, (short)beside } };
	list[neither] = (struct attune_list){ 1, { (short)neither } };
	fit[1].list = list;
	fit[1].m = p->training;
	assert_true(tree_constant(&fit[0].tree, -1) && tree_constant(&fit[1].tree, named));
	fit[1].tree.v[0].weight = 1;
	assert_true(number_choices(&f, d, fit));
	assert_int_equal(f.num_choices, 2);
	assert_true(choice_same(&f.choice[0], &p->choice[named]));
	assert_true(choice_same(&f.choice[1], &p->choice[beside]));
	assert_int_equal(f.list[0].n, 2);
	assert_int_equal(f.list[0].at[1], 1);
	assert_int_equal(f.list[1].n, 0);
	assert_int_equal(f.num_costs, p->costs[0].id == beside ? 2 : 1);
	assert_int_equal(f.costs[0].id, 0);
	assert_memory_equal(&f.costs[0].costs, &p->costs[1].costs, sizeof f.costs->costs);
	assert_int_equal(f.tree[DECIDE_DECODE].v[0].action, 0);
	assert_int_equal(f.tree[DECIDE_PREFILL].v[0].action, SAYS_DEFAULTS);
	forest_free(&f);
	cheapest_set_free(p);
	matrix_free(m);
	data_free(d);
}

/* A choice that both trees name is there twice, each with the costs of its tree. */
static void a_choice_of_both_trees_has_costs_for_each(void **state)
{
	struct data *d = make_priced(&exactly);
	struct matrix *m = matrix_parts(d, DECIDE_DECODE);
	struct phase_fit fit[2] = { { .d = d, .with_estimates = 1 },
				    { .d = d, .with_estimates = 1 } };
	struct cheapest_set *p = &fit[1].cheapest;
	struct attune_list list[MAX_CHEAPEST] = { { 0 } };
	struct forest f = { .num_choices = 0 };
	(void)state;
	assert_true(cheapest_set_find(p, d, m, NULL, MOST, NULL, 0));
	fit[0].cheapest = *p;
	fit[0].cheapest.costs[0].costs.path++;
	for (int i = 0; i < 2; i++) {
		fit[i].m = p->training;
		fit[i].list = list;
		assert_true(tree_constant(&fit[i].tree, p->costs[0].id));
	}
	assert_true(number_choices(&f, d, fit));
	assert_int_equal(f.num_choices, 2);
	assert_true(choice_same(&f.choice[0], &f.choice[1]));
	assert_int_equal(f.num_costs, 2);
	for (int i = 0; i < 2; i++) {
		const int id = f.tree[i].v[0].action, at = f.costs[0].id != id;
		assert_int_equal(f.costs[at].id, id);
		assert_int_equal(f.costs[at].costs.path, p->costs[0].costs.path + !i);
	}
	forest_free(&f);
	cheapest_set_free(p);
	matrix_free(m);
	data_free(d);
}

/* Where prices do not explain times, a tree of measured choices does better. */
static void times_without_a_price_teach_nothing(void **state)
{
	const struct making_of odd = { .noise = 0.01, .odd = 1 };
	struct data *d = make_priced(&odd);
	struct forest f;
	(void)state;
	assert_true(forest_induce(&f, d, &default_limits));
	assert_int_equal(f.num_costs, 0);
	assert_int_equal(leaves_that_are_cut(&f), 0);
	assert_true(f.num_choices >= 2);
	forest_free(&f);
	data_free(d);
}

static char *header_of(const struct making_of *how)
{
	struct data *d = make_priced(how);
	struct forest f, back;
	assert_true(forest_induce(&f, d, &default_limits));
	assert_true(f.num_costs > 0);
	char *text = forest_emit(&f, d);
	assert_non_null(text);
	assert_true(forest_parse(&back, text, "text"));
	assert_int_equal(back.num_costs, f.num_costs);
	assert_memory_equal(back.costs, f.costs, sizeof *f.costs * (size_t)f.num_costs);
	forest_free(&back);
	forest_free(&f);
	data_free(d);
	return text;
}

static void same_cells_same_bytes(void **state)
{
	struct making_of other = roughly;
	char *first = header_of(&roughly), *again = header_of(&roughly);
	other.turned = 1;
	char *turned = header_of(&other);
	(void)state;
	assert_string_equal(first, again);
	assert_string_equal(first, turned);
	free(first);
	free(again);
	free(turned);
}

/* Counts failures among the choices that a tree would run, each in turn; the picks never failed. */
static int failures_kept_apart(const struct data *d, const struct forest *f)
{
	int n = 0;
	for (int s = 0; s < d->n; s++) {
		const struct measured *m = &d->v[s];
		struct choice c;
		struct pick p;
		if (!data_is_training(m))
			continue;
		forest_pick(d, f, s, &p);
		if (!isfinite(data_plan_time(d, s, &p)))
			fail_msg("%s", m->batch_text);
		for (int id = 0; id < f->num_choices && f->num_costs; id++)
			n += action_choice(d, f, PHASE_DECODE, id, m, &c) &&
			     !isfinite(data_time(d, s, PHASE_DECODE, data_find(d, &c)));
	}
	return n;
}

/* In a band of batches, and in single ones among others that look alike. */
static void what_failed_is_not_picked(void **state)
{
	static const struct {
		int each, seqs;
	} rows[] = { { 1, 16 }, { 1, 64 }, { 1, 100 }, { 10, 1 }, { 20, 1 }, { 39, 1 }, { 46, 1 } };
	int apart = 0, taught = 0;
	(void)state;
	for (int i = 0; i < NUM_KNOWN * (int)COUNT(rows); i++) {
		const struct making_of how = { .noise = 0.01,
					       .wrong = i % NUM_KNOWN,
					       .wide = i % NUM_KNOWN == WIDE,
					       .wrong_seqs = rows[i / NUM_KNOWN].seqs,
					       .wrong_each = rows[i / NUM_KNOWN].each };
		struct data *d = make_priced(&how);
		struct forest f;
		assert_true(forest_induce(&f, d, &default_limits));
		costs_are_of_what_is_named(&f);
		apart += failures_kept_apart(d, &f);
		taught += f.num_costs > 0;
		forest_free(&f);
		data_free(d);
	}
	assert_true(apart > 10); /* and so by leaves */
	assert_true(taught > 10);
}

/* A budget holds for taught trees, too. */
static void taught_trees_keep_their_budget(void **state)
{
	static const int rows[] = { 1, 3, 5, 64 };
	struct data *d = make_priced(&exactly);
	int most = 0;
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct limits limits = { .leaves = rows[i], .variants = 12 };
		struct forest f;
		assert_true(forest_induce(&f, d, &limits));
		assert_true(f.num_costs > 0);
		most = tree_leaves(&f.tree[DECIDE_DECODE]);
		assert_in_range(most, 1, rows[i]);
		forest_free(&f);
	}
	assert_true(most > 5); /* of 5, but for the last limit */
	data_free(d);
}

/* Of too few times there are no prices, and leaves name choices as they did. */
static void few_times_have_no_price(void **state)
{
	struct data *d = data_new("h200", &h200_run);
	struct forest f;
	char batch[40];
	(void)state;
	for (int i = 0; i < 8; i++) {
		snprintf(batch, sizeof batch, "%dq1s4k", i < 4 ? 1 + i : 60 + i);
		add(d, batch, "decode", "qblock", "", i < 4 ? 20 : 10);
		add(d, batch, "decode", "segmented", "", i < 4 ? 10 : 20);
	}
	assert_true(data_finish(d));
	assert_true(forest_induce(&f, d, &default_limits));
	assert_int_equal(f.num_costs, 0);
	assert_int_equal(f.num_choices, 2);
	assert_int_equal(tree_leaves(&f.tree[DECIDE_DECODE]), 2);
	assert_int_equal(leaves_that_are_cut(&f), 0);
	forest_free(&f);
	data_free(d);
}

/* ---- figures ---------------------------------------------------------------------------------- */
struct figures {
	int rows, weight;
	long long cost;
};

/* The header's figures of a leaf count its scenarios and no made-up batch. */
static void figures_are_of_scenarios_alone(void **state)
{
	const struct making_of how = { .noise = 0.01, .wide = 1 };
	struct data *d = make_priced(&how);
	struct matrix *m = matrix_parts(d, DECIDE_DECODE);
	struct forest f;
	int by_estimate = 0;
	long long cost = 0, weight = 0;
	(void)state;
	assert_true(forest_induce(&f, d, &default_limits));
	assert_true(f.num_costs > 0);
	const struct tree *t = &f.tree[DECIDE_DECODE];
	struct figures *leaf = calloc((size_t)t->n, sizeof *leaf);
	for (int r = 0; r < m->rows; r++) {
		const int at = tree_leaf(t, &m->f[r]);
		struct choice c;
		int col = 0;
		assert_true(
		    action_choice(d, &f, PHASE_DECODE, t->v[at].action, &d->v[m->scenario[r]], &c));
		while (m->choice[col] != data_find(d, &c))
			col++;
		leaf[at].rows++;
		leaf[at].weight += m->weight[r];
		leaf[at].cost += matrix_at(m, r, col);
	}
	for (int i = 0; i < t->n; i++) {
		if (t->v[i].feature >= 0)
			continue;
		assert_in_range(t->v[i].action, 0, f.num_choices - 1);
		assert_int_equal(t->v[i].support, leaf[i].rows);
		assert_true(t->v[i].weight == leaf[i].weight && t->v[i].cost == leaf[i].cost);
		assert_true(leaf[i].rows || t->v[i].runner_up == SAYS_DEFAULTS);
		by_estimate += !leaf[i].rows;
		cost += leaf[i].cost;
		weight += leaf[i].weight;
	}
	assert_true(by_estimate > 0);
	assert_float_equal(f.making[DECIDE_DECODE].made, exp((double)cost / (double)weight / 1e6),
			   1e-9);
	char *text = forest_emit(&f, d);
	assert_non_null(strstr(text, "; /* no scenario: by estimate */\n"));
	free(text);
	free(leaf);
	forest_free(&f);
	matrix_free(m);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leaves_name_what_is_cut_by_costs),
		cmocka_unit_test(what_is_not_named_goes),
		cmocka_unit_test(a_choice_of_both_trees_has_costs_for_each),
		cmocka_unit_test(times_without_a_price_teach_nothing),
		cmocka_unit_test(same_cells_same_bytes),
		cmocka_unit_test(what_failed_is_not_picked),
		cmocka_unit_test(taught_trees_keep_their_budget),
		cmocka_unit_test(few_times_have_no_price),
		cmocka_unit_test(figures_are_of_scenarios_alone),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("taught", tests, NULL, NULL);
}
