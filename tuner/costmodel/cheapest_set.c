/* SPDX-License-Identifier: Apache-2.0 */
/* cheapest_set.c - picks the few choices that a tree with estimates may name. In each row the
 * choice with the least estimate would run; the set is the one whose runs cost least. Then the
 * matrix is made from which the tree learns (made_up_batches.c), and cross-validation measures how
 * far the estimates can be trusted. */
#include "costmodel.h"
#include "offers.h"
#include "probes.h"
#include "kernels/spec/space.h"
#include "tuner/base/base.h"
#include "tuner/forest/forest.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- choosing the set -------------------------------------------------------------------- */
/* A set of offers in one row. */
struct row_pick {
	const struct offer *cheapest; /* by estimate; NULL: none is legal */
	long long least;              /* the cost of the best member of all */
};

static void add_to_pick(struct row_pick *at, const struct offer *o, int row)
{
	if (o->estimate[row] < 0)
		return;
	/* The first offer wins a tie, in whatever order they are added. */
	if (!at->cheapest || o->estimate[row] < at->cheapest->estimate[row] ||
	    (o->estimate[row] == at->cheapest->estimate[row] && o < at->cheapest))
		at->cheapest = o;
	if (o->best[row] < at->least)
		at->least = o->best[row];
}

static struct row_pick pick_in_row(const struct offers *k, const char *in, int row)
{
	struct row_pick at = { NULL, FORBIDDEN_SUM };
	for (int i = 0; i < k->num_offers; i++)
		if (in[i])
			add_to_pick(&at, &k->offer[i], row);
	return at;
}

static void pick_in_rows(const struct offers *k, const char *in, struct row_pick *at)
{
	for (int r = 0; r < k->m->rows; r++)
		at[r] = pick_in_row(k, in, r);
}

/* The objective of a set and one more offer, over all rows: the cost of the offer with the least
 * estimate + the cost of the best offer. The first term alone would follow luck. A row where no
 * offer has an estimate counts as forbidden. */
static long long objective_with(const struct offers *k, const struct row_pick *set, int more)
{
	long long sum = 0;
	for (int r = 0; r < k->m->rows; r++) {
		struct row_pick at = set[r];
		add_to_pick(&at, &k->offer[more], r);
		sum += at.least + (at.cheapest ? at.cheapest->cost[r] : FORBIDDEN_SUM);
	}
	return sum;
}

static int is_fitted(const struct offers *k, const struct offer *o)
{
	int n = 0;
	for (int h = 0; h < k->num_sizes; h++)
		n += o->model[h].block.rows > 0;
	return n > 0;
}

/* The offer whose addition gives the least objective, if below *least, which it lowers; -1:
 * none. */
static int best_addition(const struct offers *k, const char *in, const struct row_pick *set,
			 long long *least)
{
	int best = -1;
	for (int i = 0; i < k->num_offers; i++) {
		const long long cost = in[i] || !k->offer[i].is_few || !is_fitted(k, &k->offer[i])
					   ? *least
					   : objective_with(k, set, i);
		if (cost < *least)
			*least = cost, best = i;
	}
	return best;
}

/* What in[offer] says; 0: the offer is not in the set. */
enum { CHOSEN = 1, GIVEN };

static int take_given(const struct offers *k, char *in, const struct choice *given, int num_given)
{
	int n = 0;
	for (int i = 0; i < k->num_offers; i++)
		for (int g = 0; g < num_given && !in[i]; g++)
			if (k->offer[i].is_few && choice_same(&k->offer[i].choice, &given[g]) &&
			    is_fitted(k, &k->offer[i]))
				in[i] = GIVEN, n++;
	return n;
}

/* Adds offers greedily until there are `most`, then tries to replace each one that it added. */
static int choose_offers(const struct offers *k, char *in, int n, int most)
{
	struct row_pick *set = malloc(sizeof *set * ((size_t)k->m->rows + 1));
	long long least = LLONG_MAX;
	for (; set && n < most; n++) {
		pick_in_rows(k, in, set);
		const int best = best_addition(k, in, set, &least);
		if (best < 0)
			break;
		in[best] = CHOSEN;
	}
	for (int i = 0; set && i < k->num_offers; i++) {
		if (in[i] != CHOSEN)
			continue;
		in[i] = 0;
		pick_in_rows(k, in, set);
		in[i] = CHOSEN; /* so that it does not replace itself */
		const int best = best_addition(k, in, set, &least);
		in[i] = best < 0 ? CHOSEN : 0;
		if (best >= 0)
			in[best] = CHOSEN;
	}
	free(set);
	return set != NULL;
}

/* ---- cross-validation --------------------------------------------------------------------- */
/* Cost of the offers that models fitted without the row choose. */
struct held_out {
	long long cost, weight;
	int rows; /* where the chosen offer may run */
};

static void add_held_out(struct held_out *u, const struct offers *k, const char *in, int row)
{
	const struct offer *o = pick_in_row(k, in, row).cheapest;
	const long long cost = !o || offer_has_failed(k, o, row) ? FORBIDDEN_SUM : o->cost[row];
	if (cost >= FORBIDDEN_SUM)
		return;
	u->cost += cost;
	u->weight += k->m->weight[row];
	u->rows++;
}

/* Fits the chosen offers again without one fold after the other, and scores the fold. Models stay
 * those of the last fold. */
static int cross_fit(struct offers *k, const char *in, struct cell_fit *cell, double *mean)
{
	struct held_out u = { 0 };
	for (k->fold = 0; k->fold < FOLDS; k->fold++) {
		for (int i = 0; i < k->num_offers; i++) {
			if (!in[i])
				continue;
			if (!offer_fit(k, &k->offer[i], cell))
				return 0;
			offer_estimate_rows(k, &k->offer[i]);
		}
		offers_set_costs(k, in);
		for (int r = k->fold; r < k->m->rows; r += FOLDS)
			add_held_out(&u, k, in, r);
	}
	*mean = u.rows && 8 * u.rows >= 7 * k->m->rows
		    ? exp((double)u.cost / (double)u.weight / 1e6)
		    : INFINITY;
	return 1;
}

/* Choices that are added for rows of stand-ins, where the models have many scenarios to be fitted to. The
 * rows of a kept tree's choices are among those given. */
enum { MORE_BY_PROBES = 3, ROWS_FOR_PROBES = 500 };

/* ---- the result ----------------------------------------------------------------------------- */
static void list_costs(const struct offers *k, const struct offer *o, struct cheapest_set *out)
{
	for (int h = 0; h < k->num_sizes && out->num_costs < MAX_COSTS; h++)
		if (o->choice.kernel->space->formula_axis >= 0 && o->model[h].block.rows)
			out->costs[out->num_costs++] =
			    (struct selector_costs){ out->num_choices, k->size[h],
						     o->model[h].segments };
}

static int list_chosen(const struct offers *k, const struct probes *p, const char *in,
		       const char *more, struct cheapest_set *out)
{
	const struct offer *chosen[MAX_CHEAPEST];
	for (int i = 0; i < k->num_offers; i++) {
		if (!more[i])
			continue;
		out->stands_in[out->num_choices] = !in[i];
		list_costs(k, &k->offer[i], out);
		chosen[out->num_choices] = &k->offer[i];
		out->choice[out->num_choices++] = k->offer[i].choice;
	}
	out->training = make_training_matrix(k, p, chosen, out->num_choices, &out->num_measured,
					     &out->num_similar);
	return out->training != NULL;
}

/* Fits all offers in parallel. */
struct fitting {
	struct offers *k;
	int *failed; /* [num_offers] */
};

static void fit_offer(void *arg, size_t i)
{
	const struct fitting *f = arg;
	const size_t cells = (size_t)f->k->m->rows * MAX_MEMBERS + 1;
	struct cell_fit *cell = malloc(sizeof *cell * cells);
	f->failed[i] = !cell || !offer_fit(f->k, &f->k->offer[i], cell);
	if (!f->failed[i])
		offer_estimate_rows(f->k, &f->k->offer[i]);
	free(cell);
}

static int fit_offers(struct offers *k)
{
	struct fitting f = { k, calloc((size_t)k->num_offers + 1, sizeof *f.failed) };
	int done = f.failed != NULL;
	if (done)
		in_parallel(k->num_offers, fit_offer, &f);
	for (int i = 0; done && i < k->num_offers; i++)
		done = !f.failed[i];
	free(f.failed);
	return done;
}

int cheapest_set_find(struct cheapest_set *out, const struct data *d, const struct matrix *m,
		      const struct matrix *few, int most, const struct choice *given, int num_given)
{
	struct offers k = {
		.d = d, .m = m, .few = few, .phase = few ? PHASE_PREFILL : PHASE_DECODE
	};
	size_t cells = (size_t)m->rows * MAX_MEMBERS + 1;
	struct cell_fit *cell = malloc(sizeof *cell * cells);
	struct probes p = { 0 };
	char *in = NULL, *more = NULL;
	int done = cell && offers_open(&k);
	*out = (struct cheapest_set){ .held_out = INFINITY };
	done = done && fit_offers(&k);
	in = done ? calloc((size_t)k.num_offers + 1, 1) : NULL;
	more = done ? calloc((size_t)k.num_offers + 1, 1) : NULL;
	if (in) {
		memset(in, 1, (size_t)k.num_offers);
		offers_set_costs(&k, in);
		memset(in, 0, (size_t)k.num_offers);
	}
	if (!num_given && m->rows >= ROWS_FOR_PROBES)
		done = done && probes_open(&p, &k);
	done = in && more && done &&
	       choose_offers(&k, in, take_given(&k, in, given, num_given),
			     most < MAX_CHEAPEST ? most : MAX_CHEAPEST);
	if (done)
		memcpy(more, in, (size_t)k.num_offers);
	done = done && probes_choose(&p, &k, more, MORE_BY_PROBES) &&
	       list_chosen(&k, &p, in, more, out) && cross_fit(&k, in, cell, &out->held_out);
	probes_close(&p);
	offers_close(&k);
	free(in);
	free(more);
	free(cell);
	return done;
}

void cheapest_set_free(struct cheapest_set *p)
{
	matrix_free(p->training);
	p->training = NULL;
}
