/* forest.c - all trees together: the prefill and the decode tree first, then how what those two pick
 * overlaps; and the ids of the choices that leaves name. */
#include "early.h"
#include "phase_fit.h"
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
	for (int t = 0; t < DECIDE_EARLY; t++)
		n += tree_leaves(&f->tree[t]);
	return n + (forest_says_early(f) ? tree_leaves(&f->tree[DECIDE_EARLY]) : 0);
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

/* ---- one phase ------------------------------------------------------------------------ */
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

/* ---- the cheapest ----------------------------------------------------------------------- */
int cheapest_column(const struct data *d, enum decision decision)
{
	return d->num_columns + (int)decision;
}

/* Of pass A, as all that trees learn from. m: of all choices */
static int fit_prices(struct phase_fit *fit, const struct matrix *m, enum decision decision,
		      int most)
{
	struct data first = fit->d;
	first.pass = PASS_A;
	return prices_fit(&fit->prices, &first, m, decision, most);
}

/* What the prices say of every scenario; of those they learn from, prices that have not seen it. */
static int find_cheapest(struct phase_fit *fit, enum decision decision)
{
	const struct prices *p = &fit->prices;
	const struct data *d = &fit->d;
	fit->cheapest = malloc(sizeof *fit->cheapest * ((size_t)d->n + 1));
	for (int s = 0; fit->cheapest && s < d->n; s++) {
		const struct measured *m = &d->v[s];
		struct choice c;
		fit->cheapest[s] =
		    data_is_training(m) && p->unseen[s] >= 0 ? p->unseen[s]
		    : m->has[decision_phase(decision)] &&
			    prices_pick(p->choice, p->price, p->num_prices, decision,
					decision_phase(decision), m, &d->run.device, &c)
			? data_find(d, &c)
			: -1;
	}
	fit->d.cheapest[decision] = fit->cheapest;
	return fit->cheapest != NULL;
}

/* Whether a column needs none but the binaries of priced choices. */
static int is_among(const struct phase_fit *fit, int column)
{
	if (column >= fit->d.num_columns)
		return 1;
	struct choice c = fit->d.choice[column];
	for (int i = 0; i < fit->prices.num_choices; i++) {
		struct choice p = fit->prices.choice[i];
		const int axis = p.kernel->space->formula_axis;
		if (axis >= 0)
			c.config.v[axis] = p.config.v[axis];
		if (c.kernel == p.kernel && !memcmp(&c.config, &p.config, sizeof c.config))
			return 1;
	}
	return 0;
}

/* Leaves the columns of priced choices; the place of the cheapest, -1: no prices. */
static int keep_priced(struct phase_fit *fit)
{
	struct matrix *m = fit->m;
	int *to = malloc(sizeof *to * (size_t)(m->cols + 1)), kept = 0;
	if (!to || !fit->prices.num_choices) {
		free(to);
		return -1;
	}
	for (int c = 0; c < m->cols; c++) {
		to[c] = is_among(fit, m->choice[c]) ? kept : -1;
		kept += to[c] >= 0;
	}
	const int done = matrix_keep(m, to, kept);
	free(to);
	return done ? m->cols - 1 : -1;
}

static void drop_prices(struct phase_fit *fit, enum decision decision)
{
	fit->prices.num_choices = fit->prices.num_prices = 0;
	fit->d.cheapest[decision] = NULL;
}

/* Mean slowdown of the last column where it may be taken: leaves keep apart where it failed.
 * INFINITY when it may not in more than one row of eight. */
static double cheapest_mean(const struct matrix *m)
{
	long long cost = 0, weight = 0;
	int n = 0;
	for (int r = 0; r < m->rows; r++) {
		const long long at = matrix_at(m, r, m->cols - 1);
		if (at >= FORBIDDEN_SUM)
			continue;
		cost += at;
		weight += m->weight[r];
		n++;
	}
	return 8 * n >= 7 * m->rows ? exp((double)cost / (double)weight / 1e6) : INFINITY;
}

/* Learns prices and, where on rows that they have not seen they beat the best tree of
 * CERTIFIED levels on rows that it has, puts columns of priced choices in place of the
 * others. all: the matrix of all choices. 0 without memory. */
static int try_prices(struct phase_fit *fit, const struct matrix *all, enum decision decision,
		      int most)
{
	if (!fit_prices(fit, all, decision, most) || !find_cheapest(fit, decision))
		return 0;
	struct matrix *m = matrix_parts(&fit->d, decision);
	if (!m)
		return 0;
	const int good = fit->prices.num_choices && cheapest_mean(m) < fit->making.exact;
	if (!good) {
		drop_prices(fit, decision);
		matrix_free(m);
		return 1;
	}
	matrix_free(fit->m);
	fit->m = m;
	const int given = keep_priced(fit);
	return given >= 0 && matrix_portfolio(fit->m, most, given, &fit->making.portfolio);
}

static int fit_phase(struct phase_fit *fit, const struct data *all, enum decision decision,
		     const struct limits *limits)
{
	const struct data *d = &fit->d;
	fit->d = *all;
	fit->m = matrix_parts(d, decision);
	if (!fit->m)
		return 0;
	if (!fit->m->rows || !fit->m->cols)
		return tree_constant(&fit->tree, -1);
	struct matrix *whole = matrix_copy(fit->m);
	const int tried = whole &&
			  matrix_portfolio(fit->m, limits->variants, -1, &fit->making.portfolio) &&
			  certify(fit) && try_prices(fit, whole, decision, limits->variants);
	matrix_free(whole);
	if (!tried)
		return 0;
	const int priced = fit->prices.num_choices > 0;
	/* Where estimates choose, a leaf that knows better must be sure of it. Else each head
	 * size is for itself: it is compiled apart, into code that behaves apart. */
	const struct growth how = { limits->leaves,
				    MAX_DEPTH,
				    min_support(fit->m),
				    0,
				    0,
				    priced ? SIZE_FEWEST : SIZE_MOST,
				    priced ? 0 : 1 + ATTUNE_FEATURE_head_size };
	matrix_shun(fit->m, d, decision_phase(decision), 1);
	return tree_fit(&fit->tree, fit->m, &how);
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
static int finish_phase(struct phase_fit *fit, enum decision decision)
{
	const enum phase phase = decision_phase(decision);
	const struct data *d = &fit->d;
	if (!fit->m->rows)
		return 1;
	if (!tree_relabel(&fit->tree, fit->m, EPSILON, NULL))
		return 0;
	matrix_shun(fit->m, d, phase, -1);
	return leaves_make_safe(&fit->tree, fit->m) && tree_tidy(&fit->tree) && keep_used(fit) &&
	       leaves_describe(&fit->tree, fit->m) && note_cost(fit);
}

int forest_induce(struct forest *f, const struct data *d, const struct limits *limits)
{
	struct phase_fit fit[2] = { { .m = NULL } };
	const struct growth side_by_side = { .max_leaves = limits->leaves,
					     .max_depth = MAX_DEPTH,
					     .rule = SIZE_FEWEST };
	int done = 1;
	*f = (struct forest){ 0 };
	snprintf(f->gpu, sizeof f->gpu, "%s", d->gpu);
	for (int p = 0; p < 2 && done; p++)
		done = fit_phase(&fit[p], d, (enum decision)p, limits);
	for (int p = 0; p < 2 && done; p++) {
		done = finish_phase(&fit[p], (enum decision)p);
		f->making[p] = fit[p].making;
	}
	done = done && number_choices(f, d, fit);
	done = done && fit_overlap(f, d, &side_by_side) && fit_early(f, d, limits->leaves);
	const int proven = !done || forest_prove(f, d); /* else it has said so */
	for (int p = 0; p < 2; p++) {
		tree_free(&fit[p].tree);
		matrix_free(fit[p].m);
		free(fit[p].cheapest);
		prices_free(&fit[p].prices);
	}
	if (!done || !proven)
		forest_free(f);
	if (!done)
		complain("no trees could be made for %s: no training scenario with a right result, "
			 "more than %d choices, or no memory",
			 d->gpu, MAX_IDS);
	return done && proven;
}
