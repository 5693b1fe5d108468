/* SPDX-License-Identifier: Apache-2.0 */
/* growing.c - grows a phase's tree and learns the rows of its choices, in turn: what a choice costs
 * where it is illegal depends on its row, and a row on the leaves that name its choice.
 *
 *   round 0       no leaf names a choice that is illegal in one of its scenarios
 *   round 1       such a cell costs what a row of all scenarios runs
 *   from 2 on     it costs what the row runs that was learned with the tree before
 *
 * The round that costs least is kept. The first wins where scenarios are few. */
#include "induce.h"
#include "phase_fit.h"
#include "rows.h"
#include "kernels/spec/kernel.h"
#include "tuner/matrix/matrix.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 4, PROBES_IN_ROWS = 6 };

int min_support(const struct matrix *m)
{
	return m->rows < 80 ? 2 : m->rows < 160 ? 3 : 8;
}

/* ---- costs by rows ----------------------------------------------------------------------- */
void costs_by_rows(struct matrix *to, const struct matrix *raw, const struct attune_list *list)
{
	for (int r = 0; r < raw->rows; r++)
		for (int c = 0; c < raw->cols; c++) {
			const size_t at = (size_t)r * (size_t)raw->cols + (size_t)c;
			to->cost[at] = list && raw->cost[at] == COST_ILLEGAL
					   ? row_runs(raw, r, &list[c])
					   : raw->cost[at];
		}
}

/* Rows of choices follow probes more than trees do. */
static void weigh_probes(const struct phase_fit *fit)
{
	for (int r = fit->cheapest.num_similar; fit->with_estimates && r < fit->raw->rows; r++)
		fit->raw->weight[r] = PROBES_IN_ROWS;
}

/* No leaf names a choice that was added for rows. */
static void name_no_stand_ins(const struct phase_fit *fit)
{
	struct matrix *m = fit->m;
	for (int c = 0; fit->with_estimates && c < m->cols; c++)
		for (int r = 0; fit->cheapest.stands_in[c] && r < m->rows; r++)
			m->cost[(size_t)r * (size_t)m->cols + (size_t)c] = COST_FORBIDDEN;
}

/* Whether a column was measured in a scenario. */
static int was_timed(const struct phase_fit *fit, const struct data *d, enum phase phase, int row,
		     int col)
{
	const int s = fit->m->scenario[row], number = fit->m->choice[col];
	const struct measured *m = &d->v[s];
	int choice = number;
	if (fit->with_estimates) {
		const struct choice *c = &fit->cheapest.choice[col];
		struct choice means = { .kernel = c->kernel };
		if (config_fitted(&means.config, &c->config, c->kernel,
				  costs_for(fit->cheapest.costs, fit->cheapest.num_costs, col,
					    m->shape.head_size),
				  &m->shape, &m->part[phase], &d->run.device))
			return 0;
		choice = data_find(d, &means);
	} else {
		choice = data_concrete(d, s, phase, number);
	}
	return choice >= 0 && isfinite(data_part_time(d, s, phase, choice));
}

/* [scenarios][cols]; NULL without memory. */
static char *list_timed(const struct phase_fit *fit, enum phase phase, int scenarios)
{
	struct data first = *fit->d;
	char *timed = malloc((size_t)scenarios * (size_t)fit->m->cols + 1);
	first.pass = PASS_A;
	for (int r = 0; timed && r < scenarios; r++)
		for (int c = 0; c < fit->m->cols; c++)
			timed[(size_t)r * (size_t)fit->m->cols + (size_t)c] =
			    (char)was_timed(fit, &first, phase, r, c);
	return timed;
}

/* ---- one round --------------------------------------------------------------------------- */
static int grow_once(struct phase_fit *fit, enum decision decision, const struct limits *limits)
{
	const struct growth how = { .max_leaves = limits->leaves,
				    .min_support = min_support(fit->m),
				    .scenarios =
					fit->with_estimates ? fit->cheapest.num_measured : 0 };
	tree_free(&fit->tree);
	if (fit->with_estimates && limits->kept && limits->kept->tree[decision].n > 1)
		return fit_kept_tree(fit, limits->kept, decision);
	return tree_fit(&fit->tree, fit->m, &how);
}

/* What the tree and its rows cost in the scenarios. */
static long long loss_of(const struct tree *t, const struct row_basis *b,
			 const struct attune_list *list)
{
	long long sum = 0;
	for (int r = 0; r < b->scenarios; r++) {
		const int action = t->v[tree_leaf(t, &b->m->f[r])].action;
		const int32_t cost = row_runs(b->m, r, &list[action]);
		sum += is_forbidden(cost) ? FORBIDDEN_SUM : (long long)b->m->weight[r] * cost;
	}
	return sum;
}

static int grow_rounds(struct phase_fit *fit, enum decision decision, const struct limits *limits)
{
	const size_t bytes = sizeof *fit->list * ((size_t)fit->m->cols + 1);
	struct attune_list *list = malloc(bytes);
	struct tree best = { 0 };
	long long least = LLONG_MAX;
	int done = list != NULL;
	for (int round = 0; done && round < ROUNDS; round++) {
		done = round != 1 || rows_learn(list, &fit->basis, NULL);
		costs_by_rows(fit->m, fit->basis.m, round ? list : NULL);
		name_no_stand_ins(fit);
		done = done && grow_once(fit, decision, limits) &&
		       rows_learn(list, &fit->basis, &fit->tree);
		const long long loss = done ? loss_of(&fit->tree, &fit->basis, list) : LLONG_MAX;
		if (loss >= least)
			continue;
		least = loss;
		memcpy(fit->list, list, bytes);
		tree_free(&best);
		best = fit->tree;
		fit->tree = (struct tree){ 0 };
	}
	tree_free(&fit->tree);
	fit->tree = best;
	free(list);
	return done;
}

int grow_phase(struct phase_fit *fit, enum decision decision, const struct limits *limits)
{
	const enum phase phase = decision_phase(decision);
	if (!fit->with_estimates)
		matrix_penalize_unsafe(fit->m, fit->d, phase, 1);
	fit->raw = matrix_copy(fit->m);
	fit->list = calloc((size_t)fit->m->cols + 1, sizeof *fit->list);
	if (fit->raw)
		weigh_probes(fit);
	fit->basis.m = fit->raw;
	fit->basis.scenarios = fit->with_estimates ? fit->cheapest.num_measured : fit->m->rows;
	fit->basis.timed = fit->timed = list_timed(fit, phase, fit->basis.scenarios);
	if (!fit->raw || !fit->list || !fit->timed || !grow_rounds(fit, decision, limits))
		return 0;
	if (!fit->with_estimates)
		matrix_penalize_unsafe(fit->raw, fit->d, phase, -1);
	order_by_settled(fit, phase);
	costs_by_rows(fit->m, fit->raw, fit->list);
	return 1;
}

void settle_leaves(struct phase_fit *fit)
{
	const struct matrix *m = fit->raw;
	struct tree *t = &fit->tree;
	for (int i = 0; i < t->n; i++)
		t->v[i].row_cost = t->v[i].action < 0 ? -1 : 0;
	for (int r = 0; r < fit->basis.scenarios; r++) {
		struct node *v = &t->v[tree_leaf(t, &m->f[r])];
		if (v->action < 0)
			continue;
		const int32_t cost = row_settled(&fit->basis, r, &fit->list[v->action]);
		v->row_cost +=
		    (long long)m->weight[r] * (is_forbidden(cost) ? m->fallback[r] : cost);
	}
}
