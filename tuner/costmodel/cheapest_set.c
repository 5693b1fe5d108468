/* cheapest_set.c - which choices a taught tree may name, and how far their estimates can be trusted. The
 * choices are those among which the cheapest by estimate does best; offers.c fits the estimates. */
#include "costmodel.h"
#include "offers.h"
#include "tuner/base/parallel.h"
#include "tuner/forest/forest.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the few ---------------------------------------------------------------------------- */
/* What a set of offers comes to in a row. */
struct stand {
	const struct offer *cheapest; /* by estimate; NULL: none is legal */
	long long least;              /* the cost of the best of them */
};

static void join_set(struct stand *at, const struct offer *o, int row)
{
	if (o->estimate[row] < 0)
		return;
	/* Of equal estimates the first offer's holds, in whatever order they join. */
	if (!at->cheapest || o->estimate[row] < at->cheapest->estimate[row] ||
	    (o->estimate[row] == at->cheapest->estimate[row] && o < at->cheapest))
		at->cheapest = o;
	if (o->best[row] < at->least)
		at->least = o->best[row];
}

static struct stand stand_in_row(const struct offers *k, const char *in, int row)
{
	struct stand at = { NULL, FORBIDDEN_SUM };
	for (int i = 0; i < k->num_offers; i++)
		if (in[i])
			join_set(&at, &k->offer[i], row);
	return at;
}

static void stand_of_set(const struct offers *k, const char *in, struct stand *at)
{
	for (int r = 0; r < k->m->rows; r++)
		at[r] = stand_in_row(k, in, r);
}

/* What the cheapest of a set and one more costs over all rows, and what the best of them
 * would: the first alone would be led by luck. Rows in which none is legal or priced cost as
 * much as what is forbidden. */
static long long cost_with(const struct offers *k, const struct stand *set, int more)
{
	long long sum = 0;
	for (int r = 0; r < k->m->rows; r++) {
		struct stand at = set[r];
		join_set(&at, &k->offer[more], r);
		sum += at.least + (at.cheapest ? at.cheapest->cost[r] : FORBIDDEN_SUM);
	}
	return sum;
}

static int is_priced(const struct offers *k, const struct offer *o)
{
	int n = 0;
	for (int h = 0; h < k->num_sizes; h++)
		n += o->price[h].block.rows > 0;
	return n > 0;
}

/* The offer outside a set that helps it most, if to less than `least`, which it lowers;
 * -1: none does. */
static int best_addition(const struct offers *k, const char *in, const struct stand *set,
			 long long *least)
{
	int best = -1;
	for (int i = 0; i < k->num_offers; i++) {
		const long long cost =
		    in[i] || !is_priced(k, &k->offer[i]) ? *least : cost_with(k, set, i);
		if (cost < *least)
			*least = cost, best = i;
	}
	return best;
}

/* Adds what helps most, `most` times or until nothing does; then replaces one at a time. */
static int choose_offers(const struct offers *k, char *in, int most)
{
	struct stand *set = malloc(sizeof *set * ((size_t)k->m->rows + 1));
	long long least = LLONG_MAX;
	for (int n = 0; set && n < most; n++) {
		stand_of_set(k, in, set);
		const int best = best_addition(k, in, set, &least);
		if (best < 0)
			break;
		in[best] = 1;
	}
	for (int i = 0; set && i < k->num_offers; i++) {
		if (!in[i])
			continue;
		in[i] = 0;
		stand_of_set(k, in, set);
		in[i] = 1; /* so that it is not offered for itself */
		const int best = best_addition(k, in, set, &least);
		in[i] = best < 0;
		if (best >= 0)
			in[best] = 1;
	}
	free(set);
	return set != NULL;
}

/* What a row costs by what is cheapest there to prices that have not seen it. */
struct unseen {
	long long cost, weight;
	int rows; /* in which it may run */
};

static void add_unseen(struct unseen *u, const struct offers *k, const char *in, int row)
{
	const struct offer *o = stand_in_row(k, in, row).cheapest;
	const long long cost = !o || offer_has_failed(k, o, row) ? FORBIDDEN_SUM : o->cost[row];
	if (cost >= FORBIDDEN_SUM)
		return;
	u->cost += cost;
	u->weight += k->m->weight[row];
	u->rows++;
}

/* Learns the chosen anew without one fold after the other. Prices are left as of the last fold. */
static int cross_fit(struct offers *k, const char *in, struct cell_fit *cell, double *mean)
{
	struct unseen u = { 0 };
	for (k->fold = 0; k->fold < FOLDS; k->fold++) {
		for (int i = 0; i < k->num_offers; i++) {
			if (!in[i])
				continue;
			if (!offers_fit(k, &k->offer[i], cell) || !offers_appraise(k, &k->offer[i]))
				return 0;
		}
		offers_settle(k, in);
		for (int r = k->fold; r < k->m->rows; r += FOLDS)
			add_unseen(&u, k, in, r);
	}
	*mean = u.rows && 8 * u.rows >= 7 * k->m->rows
		    ? exp((double)u.cost / (double)u.weight / 1e6)
		    : INFINITY;
	return 1;
}

/* ---- what leaves here ----------------------------------------------------------------------- */
static void list_costs(const struct offers *k, const struct offer *o, struct prices *out)
{
	for (int h = 0; h < k->num_sizes && out->num_costs < MAX_COSTS; h++)
		if (o->choice.kernel->space->formula_axis >= 0 && o->price[h].block.rows)
			out->costs[out->num_costs++] =
			    (struct selector_costs){ out->num_choices, k->size[h],
						     price_costs(&o->price[h]) };
}

static int list_chosen(const struct offers *k, const char *in, struct prices *out)
{
	const struct offer *chosen[MAX_PRICED];
	for (int i = 0; i < k->num_offers; i++) {
		if (!in[i])
			continue;
		list_costs(k, &k->offer[i], out);
		chosen[out->num_choices] = &k->offer[i];
		out->choice[out->num_choices++] = k->offer[i].choice;
	}
	out->taught = teach(k, chosen, out->num_choices, &out->num_measured);
	return out->taught != NULL;
}

/* Offers, each fitted for itself. */
struct fitting {
	struct offers *k;
	int *failed; /* [num_offers] */
};

static void fit_offer(void *arg, size_t i)
{
	const struct fitting *f = arg;
	const size_t cells = (size_t)f->k->m->rows * MAX_MEMBERS + 1;
	struct cell_fit *cell = malloc(sizeof *cell * cells);
	f->failed[i] = !cell || !offers_fit(f->k, &f->k->offer[i], cell) ||
		       !offers_appraise(f->k, &f->k->offer[i]);
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

int prices_fit(struct prices *out, const struct data *d, const struct matrix *m,
	       const struct matrix *few, int most)
{
	struct offers k = {
		.d = d, .m = m, .few = few, .phase = few ? PHASE_PREFILL : PHASE_DECODE
	};
	size_t cells = (size_t)m->rows * MAX_MEMBERS + 1;
	struct cell_fit *cell = malloc(sizeof *cell * cells);
	char *in = NULL;
	int done = cell && offers_open(&k);
	*out = (struct prices){ .unseen = INFINITY };
	done = done && fit_offers(&k);
	in = done ? calloc((size_t)k.num_offers + 1, 1) : NULL;
	if (in) {
		memset(in, 1, (size_t)k.num_offers);
		offers_settle(&k, in);
		memset(in, 0, (size_t)k.num_offers);
	}
	done = in && choose_offers(&k, in, most < MAX_PRICED ? most : MAX_PRICED) &&
	       list_chosen(&k, in, out) && cross_fit(&k, in, cell, &out->unseen);
	offers_close(&k);
	free(in);
	free(cell);
	return done;
}

void prices_free(struct prices *p)
{
	matrix_free(p->taught);
	p->taught = NULL;
}
