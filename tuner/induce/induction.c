/* SPDX-License-Identifier: Apache-2.0 */
/* induction.c - learns a forest: the prefill and the decode tree, then the overlap tree for their
 * choices, then the early tree. */
#include "early_decision.h"
#include "induce.h"
#include "phase_fit.h"
#include "harness/base/base.h"
#include "tuner/costmodel/costmodel.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NEW_BESIDE_KEPT: choices that a kept tree may name besides its own. */
enum { NEW_BESIDE_KEPT = 4 };

/* A tree also learns from estimates if the choices of least estimate lose, in held-out rows, less
 * than TRUSTED times what a tree of TRUST_LEAVES leaves loses in training rows. Slowdowns of an
 * H100's decodes: 1.028 by estimates alone, 1.022 by the tree in training rows; held out, 1.025 by a
 * tree with estimates and 1.043 by one without. */
#define TRUSTED 1.5
enum { TRUST_LEAVES = 8 };

/* ---- one phase ------------------------------------------------------------------------ */
static double per_weight(const struct matrix *m, long long cost)
{
	long long weight = 0;
	for (int r = 0; r < m->rows; r++)
		weight += m->weight[r];
	return exp((double)cost / (double)weight / 1e6);
}

static void costs_of_defaults(struct matrix *to, const struct matrix *raw)
{
	for (int r = 0; r < raw->rows; r++)
		for (int c = 0; c < raw->cols; c++)
			if (raw->cost[r * raw->cols + c] == COST_ILLEGAL)
				to->cost[r * raw->cols + c] = raw->fallback[r];
}

/* Log slowdown, in the rows themselves, of a tree of TRUST_LEAVES leaves; NaN without memory. */
static double small_tree(const struct matrix *m)
{
	const struct growth how = { .max_leaves = TRUST_LEAVES, .min_support = min_support(m) };
	struct tree t = { 0 };
	struct matrix *legal = matrix_copy(m);
	if (legal)
		costs_of_defaults(legal, m);
	const int done = legal && tree_grow(&t, legal, NULL, m->rows, &how);
	const double loss = done ? log(per_weight(m, tree_cost(&t, 0))) : NAN;
	tree_free(&t);
	matrix_free(legal);
	return loss;
}

/* ---- estimates --------------------------------------------------------------------------- */
/* Fits cost models to pass A. If their estimates can be trusted, or a tree is kept, replaces fit->m
 * by the matrix with made-up batches. all: the matrix of all choices. 0 without memory. */
static int try_estimates(struct phase_fit *fit, const struct matrix *all, enum decision decision,
			 const struct limits *limits)
{
	struct data first = *fit->d;
	struct choice given[MAX_IDS];
	const int num_given = limits->kept ? kept_choices(limits->kept, decision, given) : 0;
	const int most = num_given ? num_given + NEW_BESIDE_KEPT : limits->variants;
	if (!num_given && all->rows < ROWS_FOR_ESTIMATES)
		return 1;
	first.pass = PASS_A;
	if (!cheapest_set_find(&fit->cheapest, &first, all,
			       decision == DECIDE_PREFILL ? fit->m : NULL, most, given, num_given))
		return 0;
	if (!fit->cheapest.num_choices ||
	    (!num_given && !(log(fit->cheapest.held_out) < TRUSTED * small_tree(fit->m))))
		return 1;
	matrix_free(fit->m);
	fit->m = fit->cheapest.training;
	fit->cheapest.training = NULL;
	fit->with_estimates = 1;
	return 1;
}

static int fit_phase(struct phase_fit *fit, const struct data *d, enum decision decision,
		     const struct limits *limits)
{
	fit->d = d;
	fit->m = matrix_parts(d, decision);
	if (!fit->m)
		return 0;
	if (!fit->m->rows || !fit->m->cols)
		return tree_constant(&fit->tree, -1);
	struct matrix *whole = matrix_copy(fit->m);
	const int tried = whole &&
			  matrix_portfolio(fit->m, limits->variants, -1, &fit->making.portfolio) &&
			  try_estimates(fit, whole, decision, limits);
	matrix_free(whole);
	return tried && grow_phase(fit, decision, limits);
}

/* used[column]: a leaf names it, or is in the row of one that a leaf names. */
static void mark_used(const struct phase_fit *fit, char *used)
{
	memset(used, 0, (size_t)fit->m->cols);
	for (int i = 0; i < fit->tree.n; i++) {
		const struct node *v = &fit->tree.v[i];
		const struct attune_list none = { 0 };
		const struct attune_list l =
		    v->feature < 0 && v->action >= 0 ? fit->list[v->action] : none;
		for (int k = 0; k < l.n; k++)
			used[l.at[k]] = 1;
	}
}

static void renumber_lists(struct phase_fit *fit, const int *to)
{
	for (int c = 0; c < fit->m->cols; c++) {
		struct attune_list l = fit->list[c];
		int kept = 0;
		for (int k = 0; k < l.n; k++)
			if (to[l.at[k]] >= 0)
				l.at[kept++] = (short)to[l.at[k]];
		l.n = (short)kept;
		if (to[c] >= 0)
			fit->list[to[c]] = l; /* to[c] <= c */
	}
}

/* Keeps only columns that a leaf may run, so that runners-up are choices of the header, too;
 * renumbers actions. */
static int keep_used(struct phase_fit *fit)
{
	struct matrix *m = fit->m;
	int *to = malloc(sizeof *to * (size_t)(m->cols + 1)), kept = 0, done = 0;
	char *used = malloc((size_t)m->cols + 1);
	if (!to || !used)
		goto out;
	mark_used(fit, used);
	for (int c = 0; c < m->cols; c++)
		to[c] = used[c] ? kept++ : -1;
	for (int i = 0; i < fit->tree.n; i++) {
		struct node *v = &fit->tree.v[i];
		v->action = v->action < 0 ? -1 : to[v->action];
		v->runner_up = -1;
	}
	renumber_lists(fit, to);
	done = !m->rows || matrix_keep(m, to, kept);
out:
	free(to);
	free(used);
	return done;
}

static int note_cost(struct phase_fit *fit)
{
	fit->making.made = per_weight(fit->m, tree_cost(&fit->tree, 0));
	return 1;
}

/* Checks and describes the leaves. */
static int finish_phase(struct phase_fit *fit)
{
	if (!fit->m->rows)
		return 1;
	fit->m->rows = fit->basis.scenarios; /* figures count scenarios only */
	/* Behind portable rules stand no defaults. */
	if ((!fit->d->is_portable && !leaves_make_safe(&fit->tree, fit->m)) ||
	    !tree_tidy(&fit->tree))
		return 0;
	settle_leaves(fit);
	return keep_used(fit) && leaves_describe(&fit->tree, fit->m) && note_cost(fit);
}

static void phase_fit_free(struct phase_fit *fit)
{
	tree_free(&fit->tree);
	matrix_free(fit->m);
	matrix_free(fit->raw);
	cheapest_set_free(&fit->cheapest);
	free(fit->list);
	free(fit->timed);
}

int forest_induce(struct forest *f, const struct data *d, const struct limits *limits)
{
	struct phase_fit fit[2] = { { .m = NULL } };
	const struct growth side_by_side = { .max_leaves = (limits->leaves + 1) / 2 };
	int done = 1;
	*f = (struct forest){ 0 };
	snprintf(f->gpu, sizeof f->gpu, "%s", d->gpu);
	for (int p = 0; p < 2 && done; p++)
		done = fit_phase(&fit[p], d, (enum decision)p, limits);
	for (int p = 0; p < 2 && done; p++) {
		done = finish_phase(&fit[p]);
		f->making[p] = fit[p].making;
	}
	done = done && number_choices(f, d, fit);
	done = done && fit_overlap(f, d, &side_by_side) && fit_early(f, d, limits->leaves);
	done = done && (!d->is_portable || rows_close(f, d));
	if (done)
		rows_mark(f, d);
	/* if not, it has complained */
	const int proven = !done || (forest_prove(f, d) && (!d->is_portable || rows_prove(f)));
	for (int p = 0; p < 2; p++) {
		phase_fit_free(&fit[p]);
	}
	if (!done || !proven)
		forest_free(f);
	if (!done)
		complain("no trees could be made for %s: no training scenario with a right result, "
			 "more than %d choices, or no memory",
			 d->gpu, MAX_IDS);
	return done && proven;
}
