/* early_score.c - for `attune eval`: the time of early launches over the same launches in turn, by
 * the header's tree, by each fixed value, and by the best value of each. */
#include "eval.h"
#include "harness/base/json_out.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const names[2] = { "train", "heldout" };

/* 0: a value has no time. */
static int ratios_of(const struct data *d, const struct early_part *p, double ratio[MOST_EARLY + 1])
{
	int known = 1;
	for (int v = 0; v <= MOST_EARLY; v++) {
		ratio[v] = v ? early_part_ratio(d, p, v) : 1;
		known &= !isnan(ratio[v]);
	}
	return known;
}

/* Adds logs of the ratios. */
static void count_one(const double ratio[MOST_EARLY + 1], int says, struct earliness *e)
{
	double best = 1;
	for (int v = 0; v <= MOST_EARLY; v++) {
		e->always[v] += log(ratio[v]);
		best = fmin(best, ratio[v]);
	}
	e->n++;
	e->tree += log(ratio[says]);
	e->oracle += log(best);
	e->worst = fmax(e->worst, ratio[says]);
}

int count_early(const struct data *d, const struct forest *f, struct earliness out[2])
{
	int n;
	struct early_part *p = early_parts(d, &n);
	out[0] = out[1] = (struct earliness){ 0 };
	for (int i = 0; p && i < n; i++) {
		const struct measured *m = &d->v[p[i].scenario];
		double ratio[MOST_EARLY + 1];
		const int side = data_side(m);
		if (side >= 0 && ratios_of(d, &p[i], ratio))
			count_one(ratio, forest_early(f, &m->part[p[i].phase].f), &out[side]);
	}
	for (int i = 0; i < 2; i++) {
		double *const mean[] = { &out[i].tree, &out[i].oracle };
		const int known = out[i].n ? out[i].n : 1;
		for (size_t k = 0; k < COUNT(mean); k++)
			*mean[k] = exp(*mean[k] / known);
		for (int v = 0; v <= MOST_EARLY; v++)
			out[i].always[v] = exp(out[i].always[v] / known);
	}
	free(p);
	return p != NULL;
}

void early_json(struct json_out *o, const struct earliness v[2])
{
	out_object(o, "early");
	for (int i = 0; i < 2; i++) {
		out_object(o, names[i]);
		out_integer(o, "n", v[i].n);
		out_number(o, "tree", v[i].tree, 5);
		out_list(o, "always");
		for (int k = 0; k <= MOST_EARLY; k++)
			out_number(o, NULL, v[i].always[k], 5);
		out_end(o);
		out_number(o, "oracle", v[i].oracle, 5);
		out_number(o, "worst", v[i].worst, 5);
		out_end(o);
	}
	out_end(o);
}

void early_print(const struct earliness v[2])
{
	for (int i = 0; i < 2; i++) {
		if (!v[i].n)
			continue;
		printf("# early launches, %s, %d choices of parts: time over in turn %.4f by the "
		       "tree (worst %.3f)",
		       names[i], v[i].n, v[i].tree, v[i].worst);
		for (int k = 1; k <= MOST_EARLY; k++)
			printf(", %.4f with EARLY=%d", v[i].always[k], k);
		printf(", %.4f with the best value of each\n", v[i].oracle);
	}
}
