/* forest.c - the three trees together: the prefill and the decode tree first,
 * then the join over what those two pick; and the ids of the choices that leaves
 * name. */
#include "tuner.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 9 };

/* A leaf may lose that share for fewer choices: less than noise. */
#define EPSILON 0.003

const struct limits default_limits = { .leaves = 24, .variants = 12 };

void forest_free(struct forest *f)
{
	for (int t = 0; t < NUM_DECISIONS; t++)
		tree_free(&f->tree[t]);
}

int forest_leaves(const struct forest *f)
{
	int n = 0;
	for (int t = 0; t < NUM_DECISIONS; t++)
		n += tree_leaves(&f->tree[t]);
	return n;
}

int forest_kernels(const struct forest *f)
{
	int n = 0;
	for (int i = 0; i < f->num_choices; i++) {
		int seen = 0;
		for (int j = 0; j < i; j++)
			seen |= f->choice[j].kernel == f->choice[i].kernel;
		n += !seen;
	}
	return n;
}

/* A tree that always says `action`. */
static int tree_constant(struct tree *t, int action)
{
	*t = (struct tree){ 0 };
	if (tree_new_node(t) < 0)
		return 0;
	t->v[0].action = action;
	return 1;
}

/* ---- one phase ------------------------------------------------------------------------ */
struct phase_fit {
	struct matrix *m;
	struct tree tree; /* actions: columns of m */
	struct making making;
};

/* Rows of a leaf: of few rows two must do. */
static int min_support(const struct matrix *m)
{
	return m->rows < 80 ? 2 : m->rows < 160 ? 3 : 4;
}

static double per_weight(const struct matrix *m, long long cost)
{
	long long weight = 0;
	for (int r = 0; r < m->rows; r++)
		weight += m->weight[r];
	return exp((double)cost / (double)weight / 1e6);
}

/* How good the method is where the best tree is known. */
static int certify(struct phase_fit *fit)
{
	const struct exact_options best = { .depth = CERTIFIED,
					    .min_support = min_support(fit->m) };
	const struct growth how = { 1 << CERTIFIED, CERTIFIED, min_support(fit->m), 0, 0,
				    SIZE_MOST,      0 };
	struct certificate certificate;
	struct tree t = { 0 };
	int done = tree_exact(&t, fit->m, &best, &certificate);
	tree_free(&t);
	if (done)
		fit->making.exact = per_weight(fit->m, certificate.cost);
	done = done && tree_grow(&t, fit->m, NULL, fit->m->rows, &how);
	if (done)
		fit->making.method = per_weight(fit->m, tree_cost(&t, 0));
	tree_free(&t);
	return done;
}

/* The best tree of CERTIFIED levels in place of one that is larger and no better:
 * pruning does not always find it. */
static int take_exact(struct phase_fit *fit)
{
	const struct exact_options best = { .depth = CERTIFIED,
					    .min_support = min_support(fit->m) };
	struct certificate certificate;
	struct tree t = { 0 };
	if (!tree_exact(&t, fit->m, &best, &certificate))
		return 0;
	const int better = certificate.cost <= tree_cost(&fit->tree, 0) &&
			   tree_leaves(&t) <= tree_leaves(&fit->tree);
	if (better) {
		const struct tree old = fit->tree;
		fit->tree = t;
		t = old;
	}
	tree_free(&t);
	int *rows = matrix_rows(fit->m);
	const int done = rows && tree_annotate(&fit->tree, fit->m, rows, fit->m->rows);
	free(rows);
	return done;
}

static int fit_phase(struct phase_fit *fit, const struct data *d, enum decision decision,
		     const struct limits *limits)
{
	fit->m = matrix_parts(d, decision);
	if (!fit->m)
		return 0;
	/* Each head size is compiled apart, into code that behaves apart. */
	const struct growth how = { limits->leaves,
				    MAX_DEPTH,
				    min_support(fit->m),
				    0,
				    0,
				    SIZE_MOST,
				    1 + ATTUNE_FEATURE_head_size };
	if (!fit->m->rows || !fit->m->cols)
		return tree_constant(&fit->tree, -1);
	if (!matrix_portfolio(fit->m, limits->variants, &fit->making.portfolio))
		return 0;
	if (!certify(fit))
		return 0;
	matrix_shun(fit->m, d, decision_phase(decision), 1);
	return tree_fit(&fit->tree, fit->m, &how) && take_exact(fit);
}

/* Leaves only the columns that some leaf names, so that a runner-up is one that
 * the header has; actions follow. */
static int keep_used(struct phase_fit *fit)
{
	struct matrix *m = fit->m;
	int *to = malloc(sizeof *to * (size_t)(m->cols + 1)), kept = 0, done;
	if (!to)
		return 0;
	for (int c = 0; c < m->cols; c++) {
		to[c] = -1;
		for (int i = 0; i < fit->tree.n; i++)
			if (fit->tree.v[i].feature < 0 && fit->tree.v[i].action == c)
				to[c] = kept;
		kept += to[c] >= 0;
	}
	for (int i = 0; i < fit->tree.n; i++) {
		struct node *v = &fit->tree.v[i];
		v->action = v->action < 0 ? -1 : to[v->action];
		v->runner_up = -1;
	}
	done = !m->rows || matrix_keep(m, to, kept);
	free(to);
	return done;
}

static int note_cost(struct phase_fit *fit)
{
	fit->making.made = per_weight(fit->m, tree_cost(&fit->tree, 0));
	return 1;
}

/* What the leaves say in the end. */
static int finish_phase(struct phase_fit *fit, const struct data *d, enum decision decision)
{
	const enum phase phase = decision_phase(decision);
	if (!fit->m->rows)
		return 1;
	if (!tree_relabel(&fit->tree, fit->m, EPSILON, NULL))
		return 0;
	matrix_shun(fit->m, d, phase, -1);
	return leaves_make_safe(&fit->tree, fit->m) && tree_tidy(&fit->tree) && keep_used(fit) &&
	       leaves_describe(&fit->tree, fit->m) && note_cost(fit);
}

/* ---- ids -------------------------------------------------------------------------------- */
struct use {
	int choice; /* of data */
	long long weight;
};

static int by_use(const void *pa, const void *pb)
{
	const struct use *a = pa, *b = pb;
	if (a->weight != b->weight)
		return a->weight > b->weight ? -1 : 1;
	return a->choice - b->choice;
}

static int count_use(struct use *use, int n, int choice, long long weight)
{
	int i = 0;
	while (i < n && use[i].choice != choice)
		i++;
	if (i == n)
		use[n++] = (struct use){ choice, 0 };
	use[i].weight += weight;
	return n;
}

/* Numbers the choices of both trees and moves the trees over. */
static int number_choices(struct forest *f, const struct data *d, struct phase_fit fit[2])
{
	struct use use[MAX_IDS] = { 0 };
	int n = 0;
	for (int p = 0; p < 2; p++)
		for (int i = 0; i < fit[p].tree.n; i++) {
			const struct node *v = &fit[p].tree.v[i];
			if (v->feature >= 0 || v->action < 0)
				continue;
			if (n == MAX_IDS)
				return 0;
			n = count_use(use, n, fit[p].m->choice[v->action], v->weight);
		}
	qsort(use, (size_t)n, sizeof *use, by_use);
	f->num_choices = n;
	for (int i = 0; i < n; i++)
		f->choice[i] = d->choice[use[i].choice];
	for (int p = 0; p < 2; p++) {
		const struct matrix *m = fit[p].m;
		for (int i = 0; i < fit[p].tree.n; i++) {
			struct node *v = &fit[p].tree.v[i];
			const int action = v->action < 0 ? -1 : m->choice[v->action];
			const int next = v->runner_up < 0 ? -1 : m->choice[v->runner_up];
			v->action = v->runner_up = -1;
			for (int id = 0; id < n; id++) {
				v->action = use[id].choice == action ? id : v->action;
				v->runner_up = use[id].choice == next ? id : v->runner_up;
			}
		}
		f->tree[p] = fit[p].tree;
		fit[p].tree = (struct tree){ 0 };
	}
	return n > 0;
}

static int fit_join(struct forest *f, const struct data *d, int leaves)
{
	struct tree *t = &f->tree[DECIDE_JOIN];
	struct pick *picks = malloc(sizeof *picks * (size_t)(d->n + 1));
	struct matrix *m = NULL;
	int done = 0;
	if (picks && tree_constant(t, 1)) { /* both parts, while the join is not known */
		for (int s = 0; s < d->n; s++)
			forest_pick(d, f, s, &picks[s]);
		m = matrix_join(d, picks);
		done = m && !m->rows;
	}
	if (m && m->rows) {
		const struct growth how = { leaves, MAX_DEPTH, min_support(m), 0, 0, SIZE_MOST, 0 };
		tree_free(t);
		done = tree_fit(t, m, &how) && leaves_describe(t, m);
	}
	matrix_free(m);
	free(picks);
	return done;
}

int forest_induce(struct forest *f, const struct data *d, const struct limits *limits)
{
	struct phase_fit fit[2] = { { 0 } };
	int done = 1;
	*f = (struct forest){ 0 };
	snprintf(f->gpu, sizeof f->gpu, "%s", d->gpu);
	for (int p = 0; p < 2 && done; p++)
		done = fit_phase(&fit[p], d, (enum decision)p, limits);
	for (int p = 0; p < 2 && done; p++) {
		done = finish_phase(&fit[p], d, (enum decision)p);
		f->making[p] = fit[p].making;
	}
	done = done && number_choices(f, d, fit);
	done = done && fit_join(f, d, limits->leaves);
	const int proven = !done || forest_prove(f, d); /* else it has said so */
	for (int p = 0; p < 2; p++) {
		tree_free(&fit[p].tree);
		matrix_free(fit[p].m);
	}
	if (!done || !proven)
		forest_free(f);
	if (!done)
		complain("no trees could be made for %s: no training scenario with a right result, "
			 "more than %d choices, or no memory",
			 d->gpu, MAX_IDS);
	return done && proven;
}
