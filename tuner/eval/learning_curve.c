/* learning_curve.c - `attune eval --curve`: the slowdown with other numbers of leaves, variants and
 * training scenarios. Each row is a forest learned in memory. Scenarios stand for device time: a
 * row learns from a share of them, drawn by a hash of their keys. All rows are scored on the
 * scenarios on which the picks of every row have a time. */
#include "eval.h"
#include "harness/base/base.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/induce/induce.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Splits that no scenario file has: not learned from; neither trained on nor held out. */
static char unused[] = "heldout_unused", not_scored[] = "not_scored";

struct row {
	const char *of;
	int share; /* percent of the training scenarios */
	struct limits limits;
	int leaves, variants;
	struct pick *picks; /* by scenario; owned */
};

/* 0..99, the same for the same scenario in any database (FNV-1a). */
static unsigned percentile_of(const char *key)
{
	unsigned h = 2166136261u;
	for (; *key; key++)
		h = (h ^ (unsigned char)*key) * 16777619u;
	return (h >> 8) % 100;
}

static int learn(const struct data *d, struct row *r)
{
	struct data some = *d;
	struct forest f;
	int done = 0;
	some.v = malloc(sizeof *some.v * (size_t)(d->n + 1));
	r->picks = calloc((size_t)d->n + 1, sizeof *r->picks);
	for (int s = 0; some.v && s < d->n; s++) {
		some.v[s] = d->v[s];
		if (data_is_training(&d->v[s]) && percentile_of(d->v[s].key) >= (unsigned)r->share)
			some.v[s].split = unused;
	}
	if (some.v && r->picks && forest_induce(&f, &some, &r->limits)) {
		r->leaves = forest_leaves(&f);
		r->variants = f.num_choices;
		done = policy_picks(d, POLICY_TREE, &f, r->picks);
		forest_free(&f);
	}
	free(some.v);
	return done;
}

static int is_timed(const struct data *d, const struct row *r, int s)
{
	return isfinite(data_plan_time(d, s, &r->picks[s]));
}

static int print_row(struct table *t, const struct data *d, const struct data *judge,
		     const struct row *r)
{
	struct score train, out;
	int untimed = 0;
	for (int s = 0; s < d->n; s++)
		untimed +=
		    in_split(&d->v[s], "heldout") && !d->v[s].is_translated && !is_timed(d, r, s);
	if (!score_picks(judge, r->picks, "train", &train) ||
	    !score_picks(judge, r->picks, "heldout", &out))
		return 0;
	table_text(t, r->of);
	table_number(t, r->limits.leaves, 0);
	table_number(t, r->limits.variants, 0);
	table_number(t, r->share, 0);
	table_number(t, r->leaves, 0);
	table_number(t, r->variants, 0);
	table_number(t, train.n ? train.geomean : NAN, 4);
	table_number(t, out.n ? out.geomean : NAN, 4);
	table_number(t, out.n ? out.low : NAN, 4);
	table_number(t, out.n ? out.high : NAN, 4);
	table_number(t, out.n ? out.p95 : NAN, 3);
	table_number(t, out.n ? out.worst : NAN, 3);
	table_number(t, out.n, 0);
	table_number(t, untimed, 0);
	table_end_row(t);
	return 1;
}

static int print_rows(const struct data *d, const struct row *rows, int n, enum format format)
{
	const char *columns[] = { "of",     "max_leaves",  "max_variants",  "train_percent",
				  "leaves", "variants",    "train_geomean", "heldout_geomean",
				  "low",    "high",        "heldout_p95",   "heldout_worst",
				  "scored", "without_time" };
	struct table *t = table_new(format, columns, (int)COUNT(columns));
	struct data judge = *d;
	judge.v = NULL;
	int done = t && (judge.v = malloc(sizeof *judge.v * (size_t)(d->n + 1)));
	for (int s = 0; done && s < d->n; s++) {
		judge.v[s] = d->v[s];
		for (int r = 0; r < n; r++)
			if (!is_timed(d, &rows[r], s))
				judge.v[s].split = not_scored;
	}
	for (int r = 0; done && r < n; r++)
		done = print_row(t, d, &judge, &rows[r]);
	if (t)
		table_print(t, stdout);
	if (done && format_has_notes(format))
		puts("scored: held-out scenarios on which the picks of all rows have a time\n"
		     "without_time: held-out scenarios on which this row's picks have none");
	free(judge.v);
	return done;
}

int curve_print(const struct data *d, enum format format)
{
	static const int leaves[] = { 8, 12, 16, 24, 32, 48 }, variants[] = { 4, 6, 8, 12, 16 },
			 shares[] = { 25, 50, 75, 100 };
	enum { ROWS = COUNT(leaves) + COUNT(variants) + COUNT(shares) };
	struct row rows[ROWS];
	int n = 0, done = 1;
	for (size_t i = 0; i < COUNT(leaves); i++) {
		rows[n] = (struct row){ "leaves", 100, default_limits, 0, 0, NULL };
		rows[n].limits.leaves = leaves[i];
		rows[n++].limits.decode_leaves = leaves[i];
	}
	for (size_t i = 0; i < COUNT(variants); i++) {
		rows[n] = (struct row){ "variants", 100, default_limits, 0, 0, NULL };
		rows[n++].limits.variants = variants[i];
	}
	for (size_t i = 0; i < COUNT(shares); i++)
		rows[n++] = (struct row){ "scenarios", shares[i], default_limits, 0, 0, NULL };
	for (int r = 0; done && r < n; r++) {
		progress("rules learned", r, n);
		done = learn(d, &rows[r]);
	}
	progress_end();
	done = done && print_rows(d, rows, n, format);
	for (int r = 0; r < n; r++)
		free(rows[r].picks);
	return done;
}
