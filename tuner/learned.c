/* learned.c - baselines that learn from the same training scenarios as our trees do:
 * what published tuners ship.
 *
 *   nearest_neighbour  the best choice of the nearest training scenario, near as in
 *                      part_distance (MIOpen's and Helion's fallback)
 *   greedy_tree        cost-sensitive CART without look-ahead, over the same portfolio of
 *                      choices and with as many leaves as a tree may have
 *   label_tree         CART by entropy on each scenario's fastest choice, depth 6
 *                      (AutoHeuristic, Helion)
 *
 * Each decides all three decisions in its own way; what is illegal for a batch gives way
 * to the library's default, as in the library. */
#include "policy.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_DEPTH = 6, LABEL_LEAVES = 64 };

struct lesson { /* of one decision; m NULL or without rows: nothing was learned */
	struct matrix *m;
	struct tree tree;
};

struct learned {
	const struct data *d;
	enum policy policy;
	struct lesson lesson[NUM_DECISIONS];
};

/* ---- from one decision's costs ------------------------------------------------------ */
static int row_winner(const struct matrix *m, int row)
{
	int best = 0;
	for (int c = 1; c < m->cols; c++)
		if (matrix_at(m, row, c) < matrix_at(m, row, best))
			best = c;
	return best;
}

static int nearest_row(const struct matrix *m, const struct attune_features *f)
{
	double least = INFINITY;
	int best = 0;
	for (int r = 0; r < m->rows; r++) {
		const double far = part_distance(&m->f[r], f);
		if (far < least)
			best = r, least = far;
	}
	return best;
}

/* A column of the lesson's matrix; -1 when nothing was learned. */
static int recall(const struct learned *l, enum decision t, const struct attune_features *f)
{
	const struct lesson *of = &l->lesson[t];
	if (!of->m || !of->m->rows || !of->m->cols)
		return -1;
	if (l->policy == POLICY_NEAREST)
		return row_winner(of->m, nearest_row(of->m, f));
	return of->tree.v[tree_leaf(&of->tree, f)].action;
}

/* Keeps only columns that are some row's fastest: the labels. */
static int keep_winners(struct matrix *m)
{
	int *to = malloc(sizeof *to * (size_t)(m->cols + 1)), kept = 0, done;
	if (!to)
		return 0;
	for (int c = 0; c < m->cols; c++)
		to[c] = -1;
	for (int r = 0; r < m->rows; r++)
		to[row_winner(m, r)] = 1;
	for (int c = 0; c < m->cols; c++)
		if (to[c] >= 0)
			to[c] = kept++;
	done = !m->rows || matrix_keep(m, to, kept);
	free(to);
	return done;
}

static int study(struct learned *l, enum decision t)
{
	struct lesson *of = &l->lesson[t];
	const struct cart greedy = { CART_COST, default_limits.leaves, 30 };
	const struct cart label = { CART_ENTROPY, LABEL_LEAVES, LABEL_DEPTH };
	if (!of->m)
		return 0;
	if (!of->m->rows || !of->m->cols)
		return 1;
	if (l->policy == POLICY_NEAREST)
		return 1;
	if (l->policy == POLICY_GREEDY)
		return (t == DECIDE_JOIN ||
			matrix_portfolio(of->m, default_limits.variants, -1, NULL)) &&
		       cart_grow(&of->tree, of->m, &greedy);
	return (t == DECIDE_JOIN || keep_winners(of->m)) && cart_grow(&of->tree, of->m, &label);
}

struct learned *learned_new(const struct data *d, enum policy policy)
{
	struct learned *l = calloc(1, sizeof *l);
	struct pick *picks = calloc((size_t)d->n + 1, sizeof *picks);
	int done = l && picks;
	if (done)
		*l = (struct learned){ .d = d, .policy = policy };
	for (int t = DECIDE_PREFILL; done && t <= DECIDE_DECODE; t++) {
		l->lesson[t].m = matrix_parts(d, (enum decision)t);
		done = study(l, (enum decision)t);
	}
	for (int s = 0; done && s < d->n; s++) {
		struct made made;
		learned_make(l, &d->v[s], &made);
		made_pick(d, &made, &picks[s]);
	}
	if (done) {
		l->lesson[DECIDE_JOIN].m = matrix_join(d, picks, NULL);
		done = study(l, DECIDE_JOIN);
	}
	free(picks);
	if (done)
		return l;
	learned_free(l);
	return NULL;
}

void learned_make(const struct learned *l, const struct measured *m, struct made *out)
{
	*out = (struct made){ .join = 1 };
	for (int p = 0; p < 2; p++) {
		const enum phase phase = decision_phase((enum decision)p);
		const int column =
		    m->has[phase] ? recall(l, (enum decision)p, &m->part[phase].f) : -1;
		if (m->has[phase])
			made_or_default(l->d, m, phase,
					column < 0 ? NULL
						   : &l->d->choice[l->lesson[p].m->choice[column]],
					p ? &out->decode : &out->prefill);
	}
	if (out->prefill.kernel && out->decode.kernel &&
	    !recall(l, DECIDE_JOIN, &m->part[PHASE_ALL].f)) {
		struct choice whole = { 0 };
		if (made_or_default(l->d, m, PHASE_ALL, &out->prefill, &whole) &&
		    whole.kernel == out->prefill.kernel &&
		    !memcmp(&whole.config, &out->prefill.config, sizeof whole.config))
			out->join = 0;
	}
}

void learned_free(struct learned *l)
{
	for (int t = 0; l && t < NUM_DECISIONS; t++) {
		matrix_free(l->lesson[t].m);
		tree_free(&l->lesson[t].tree);
	}
	free(l);
}
