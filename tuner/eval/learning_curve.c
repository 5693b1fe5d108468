/* learning_curve.c - `attune eval --curve`: the slowdown with other numbers of leaves, variants and
 * training scenarios. Each row is a forest learned in memory. Scenarios stand for device time: a
 * row learns from a share of them, drawn by a hash of their keys. All rows are scored on the same
 * scenarios. */
#include "eval.h"
#include "harness/base/base.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/induce/induce.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int curve_row(struct table *t, const struct data *judge, const struct data *learn,
		     const char *of, int share, const struct limits *limits)
{
	struct forest f;
	struct score train, out;
	int done;
	if (!forest_induce(&f, learn, limits))
		return 0;
	done = score_policy(judge, POLICY_TREE, &f, "train", &train) &&
	       score_policy(judge, POLICY_TREE, &f, "heldout", &out);
	if (done) {
		table_text(t, of);
		table_number(t, limits->leaves, 0);
		table_number(t, limits->variants, 0);
		table_number(t, share, 0);
		table_number(t, forest_leaves(&f), 0);
		table_number(t, f.num_choices, 0);
		table_number(t, train.n ? train.geomean : NAN, 4);
		table_number(t, out.n ? out.geomean : NAN, 4);
		table_number(t, out.n ? out.low : NAN, 4);
		table_number(t, out.n ? out.high : NAN, 4);
		table_number(t, out.n ? out.p95 : NAN, 3);
		table_number(t, out.n ? out.worst : NAN, 3);
		table_number(t, out.invalid, 0);
		table_end_row(t);
	}
	forest_free(&f);
	return done;
}

/* 0..99, the same for the same scenario in any database (FNV-1a). */
static unsigned percentile_of(const char *key)
{
	unsigned h = 2166136261u;
	for (; *key; key++)
		h = (h ^ (unsigned char)*key) * 16777619u;
	return (h >> 8) % 100;
}

static int share_row(struct table *t, const struct data *d, int share)
{
	static char unused[] = "heldout_unused";
	struct data some = *d;
	int done;
	some.v = malloc(sizeof *some.v * (size_t)(d->n + 1));
	if (!some.v)
		return 0;
	for (int s = 0; s < d->n; s++) {
		some.v[s] = d->v[s];
		if (data_is_training(&d->v[s]) && percentile_of(d->v[s].key) >= (unsigned)share)
			some.v[s].split = unused;
	}
	done = curve_row(t, d, &some, "scenarios", share, &default_limits);
	free(some.v);
	return done;
}

int curve_print(const struct data *d, enum format format)
{
	static const int leaves[] = { 8, 12, 16, 24, 32, 48 }, variants[] = { 4, 6, 8, 12, 16 },
			 shares[] = { 25, 50, 75, 100 };
	const char *columns[] = { "of",     "max_leaves", "max_variants",  "train_percent",
				  "leaves", "variants",   "train_geomean", "heldout_geomean",
				  "low",    "high",       "heldout_p95",   "heldout_worst",
				  "invalid" };
	struct table *t = table_new(format, columns, (int)COUNT(columns));
	struct limits limits;
	int done = t != NULL;
	for (size_t i = 0; done && i < COUNT(leaves); i++) {
		limits = default_limits;
		limits.leaves = limits.decode_leaves = leaves[i];
		done = curve_row(t, d, d, "leaves", 100, &limits);
	}
	for (size_t i = 0; done && i < COUNT(variants); i++) {
		limits = default_limits;
		limits.variants = variants[i];
		done = curve_row(t, d, d, "variants", 100, &limits);
	}
	for (size_t i = 0; done && i < COUNT(shares); i++)
		done = share_row(t, d, shares[i]);
	if (t)
		table_print(t, stdout);
	return done;
}
