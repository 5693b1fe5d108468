/* curve.c - `attune eval --curve`: what more leaves, or more variants, would buy. Each row
 * is a forest made in memory from the same training scenarios. */
#include "eval.h"
#include <math.h>

static int curve_row(struct table *t, const struct data *d, const char *of,
		     const struct limits *limits)
{
	struct forest f;
	struct score train, out;
	int done;
	if (!forest_induce(&f, d, limits))
		return 0;
	done = score_policy(d, POLICY_TREE, &f, "train", &train) &&
	       score_policy(d, POLICY_TREE, &f, "heldout", &out);
	if (done) {
		table_text(t, of);
		table_number(t, limits->leaves, 0);
		table_number(t, limits->variants, 0);
		table_number(t, forest_leaves(&f), 0);
		table_number(t, f.num_choices, 0);
		table_number(t, train.n ? train.geomean : NAN, 4);
		table_number(t, out.n ? out.geomean : NAN, 4);
		table_number(t, out.n ? out.low : NAN, 4);
		table_number(t, out.n ? out.high : NAN, 4);
		table_number(t, out.n ? out.p95 : NAN, 3);
		table_number(t, out.n ? out.worst : NAN, 3);
		table_end_row(t);
	}
	forest_free(&f);
	return done;
}

int curve_print(const struct data *d, enum format format)
{
	static const int leaves[] = { 8, 12, 16, 24, 32, 48 }, variants[] = { 4, 6, 8, 12, 16 };
	const char *columns[] = { "of",       "max_leaves",    "max_variants",    "leaves",
				  "variants", "train_geomean", "heldout_geomean", "low",
				  "high",     "heldout_p95",   "heldout_worst" };
	struct table *t = table_new(format, columns, (int)COUNT(columns));
	int done = t != NULL;
	for (size_t i = 0; done && i < COUNT(leaves); i++) {
		struct limits limits = default_limits;
		limits.leaves = leaves[i];
		done = curve_row(t, d, "leaves", &limits);
	}
	for (size_t i = 0; done && i < COUNT(variants); i++) {
		struct limits limits = default_limits;
		limits.variants = variants[i];
		done = curve_row(t, d, "variants", &limits);
	}
	if (t)
		table_print(t, stdout);
	return done;
}
