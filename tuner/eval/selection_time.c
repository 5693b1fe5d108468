/* selection_time.c - times the decisions for a batch from its features: the trees alone, and with
 * the cost estimates for segments. */
#include "harness/base/base.h"
#include "eval.h"
#include "kernels/select/selector.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include "tuner/tree/tree.h"
#include <math.h>
#include <string.h>

typedef int (*decide_fn)(const void *how, enum decision, const struct attune_features *);

static int by_tree(const void *how, enum decision d, const struct attune_features *f)
{
	const struct tree *t = &((const struct forest *)how)->tree[d];
	return t->v[tree_leaf(t, f)].action;
}

static int by_code(const void *how, enum decision d, const struct attune_features *f)
{
	return selector_says(how, d, f);
}

static int select_all(const struct data *d, decide_fn decide, const void *how)
{
	int sum = 0;
	for (int s = 0; s < d->n; s++) {
		const struct measured *m = &d->v[s];
		if (m->has[PHASE_PREFILL])
			sum += decide(how, DECIDE_PREFILL, &m->part[PHASE_PREFILL].f);
		if (m->has[PHASE_DECODE])
			sum += decide(how, DECIDE_DECODE, &m->part[PHASE_DECODE].f);
		if (measured_is_mixed(m))
			sum += decide(how, DECIDE_OVERLAP, &m->part[PHASE_ALL].f);
	}
	return sum;
}

/* Like the library, which however looks up the costs once, when an op is prepared. */
static int make_all(const struct data *d, const void *how)
{
	int sum = 0;
	for (int s = 0; s < d->n; s++) {
		struct decided made;
		forest_make(d, how, &d->v[s], &made);
		sum += made.join;
	}
	return sum;
}

/* The fastest of a few rounds, since interruptions only add time. decide NULL: times make_all. */
static double least_ns(const struct data *d, decide_fn decide, const void *how)
{
	enum { ROUNDS = 7, NS_OF_ROUND = 2000000 };
	volatile int sink = 0;
	double best = INFINITY;
	for (int r = 0; r < ROUNDS; r++) {
		const double start = 1e9 * seconds_now();
		double spent = 0;
		long long batches = 0;
		while (spent < NS_OF_ROUND) {
			sink += decide ? select_all(d, decide, how) : make_all(d, how);
			batches += d->n;
			spent = 1e9 * seconds_now() - start;
		}
		best = fmin(best, spent / (double)batches);
	}
	return best;
}

double time_estimates(const struct data *d, const struct forest *f)
{
	return f->num_costs ? least_ns(d, NULL, f) : 0;
}

double time_selection(const struct data *d, const struct forest *f, const char **what)
{
	for (int i = 0; i < attune_num_selectors; i++) {
		const struct selector *s = &attune_selectors[i];
		int same = !strcmp(s->gpu, f->gpu) && s->num_choices == f->num_choices;
		for (int m = 0; same && m < d->n; m++)
			for (int t = 0; same && t < NUM_DECISIONS; t++) {
				const enum phase p = decision_phase((enum decision)t);
				const struct attune_features *x = &d->v[m].part[p].f;
				same = by_code(s, (enum decision)t, x) ==
				       by_tree(f, (enum decision)t, x);
			}
		*what = "compiled";
		if (same)
			return least_ns(d, by_code, s);
	}
	*what = "interpreted";
	return least_ns(d, by_tree, f);
}
