/* policy.c - runs any policy: the forest (decide.c), or one of the baselines that it is compared
 * with. Some of these learn, on the same training scenarios as our trees:
 *
 *   best_fixed         the concrete choice of least total cost for each part, and one way for all
 *                      mixed batches
 *   nearest_neighbour  the best choice of the nearest training scenario by part_distance()
 *                      (MIOpen's and Helion's fallback)
 *   greedy_tree        cost-sensitive CART without look-ahead, over the same portfolio of
 *                      choices and with as many leaves as a tree may have
 *   label_tree         CART by entropy on each scenario's fastest choice, depth 6
 *                      (AutoHeuristic, Helion)
 *
 * Each learns all three decisions. An illegal choice is replaced by the library's default, as in
 * the library. If no training scenario has times of some phase, the policy does not exist: it would
 * be the defaults under another name. */
#include "policy.h"
#include "harness/base/base.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>

const char *const policy_names[NUM_POLICIES] = {
	[POLICY_TREE] = "tree",
	[POLICY_ORACLE] = "oracle",
	[POLICY_BEST_FIXED] = "best_fixed",
	[POLICY_VLLM_RULE] = "vllm_rule",
	[POLICY_AITER_RULE] = "aiter_rule",
	[POLICY_NEAREST] = "nearest_neighbour",
	[POLICY_GREEDY] = "greedy_tree",
	[POLICY_LABEL] = "label_tree",
	[POLICY_DEFAULT] = "default",
	[POLICY_WITH_PLUGINS] = "with_plugins",
};

enum { LABEL_DEPTH = 6, LABEL_LEAVES = 64 };

/* One decision. m: its costs, with the columns to choose from; NULL: nothing was measured. tree: no
 * nodes: none, or the nearest neighbour. */
struct lesson {
	struct matrix *m;
	struct tree tree;
};

struct chooser {
	const struct data *d;
	enum policy policy;
	const struct forest *forest;
	struct lesson part[2]; /* prefill, decode */
	struct lesson ways;    /* mixed batches, with the choices learned for the parts */
};

/* ---- from one decision's costs ------------------------------------------------------ */
/* The column of least cost; ties to `first`, then to the lower. */
static int row_winner(const struct matrix *m, int row, int first)
{
	const int32_t *cost = &m->cost[(size_t)row * (size_t)m->cols];
	int best = first;
	for (int c = 0; c < m->cols; c++)
		if (cost[c] < cost[best])
			best = c;
	return best;
}

static int nearest_row(const struct matrix *m, const struct attune_features *f)
{
	double least = INFINITY;
	int best = 0;
	for (int r = 0; r < m->rows; r++) {
		const double far = part_distance(&m->f[r], f, least);
		if (far < least)
			best = r, least = far;
	}
	return best;
}

/* The column of the concrete choice of least total cost, ties to the lower; -1: none. A formula is
 * not a fixed choice. */
static int cheapest_column(const struct data *d, const struct matrix *m)
{
	long long least = 0;
	int best = -1;
	for (int c = 0; c < m->cols; c++) {
		const struct choice *k = &d->choice[m->choice[c]];
		long long sum = 0;
		for (int r = 0; r < m->rows; r++)
			sum += matrix_at(m, r, c);
		if (config_is_formula(&k->config, k->kernel->space) || (best >= 0 && sum >= least))
			continue;
		best = c, least = sum;
	}
	return best;
}

/* Drops the columns that are the fastest of no row. */
static int keep_winners(struct matrix *m)
{
	int *to = calloc((size_t)m->cols + 1, sizeof *to), kept = 0;
	for (int r = 0; to && r < m->rows; r++)
		to[row_winner(m, r, 0)] = 1;
	for (int c = 0; to && c < m->cols; c++)
		to[c] = to[c] ? kept++ : -1;
	const int done = to && matrix_keep(m, to, kept);
	free(to);
	return done;
}

void costs_to_labels(struct matrix *m)
{
	for (int r = 0; r < m->rows; r++) {
		const int winner = row_winner(m, r, 0);
		for (int c = 0; c < m->cols; c++)
			m->cost[(size_t)r * (size_t)m->cols + (size_t)c] = c != winner;
		m->weight[r] = 1;
	}
}

static int grow(struct lesson *l, enum policy policy)
{
	const struct cart how[NUM_POLICIES] = {
		[POLICY_BEST_FIXED] = { CART_COST, 1, 0 },
		[POLICY_GREEDY] = { CART_COST, default_limits.leaves, 30 },
		[POLICY_LABEL] = { CART_ENTROPY, LABEL_LEAVES, LABEL_DEPTH },
	};
	if (policy == POLICY_LABEL)
		costs_to_labels(l->m);
	return policy == POLICY_NEAREST || cart_grow(&l->tree, l->m, &how[policy]);
}

static void lesson_free(struct lesson *l)
{
	tree_free(&l->tree);
	matrix_free(l->m);
	*l = (struct lesson){ .m = NULL };
}

static int learn_part(struct lesson *l, const struct data *d, enum decision t, enum policy policy)
{
	const int is_fixed = policy == POLICY_BEST_FIXED;
	l->m = matrix_parts(d, t);
	if (!l->m)
		return 0;
	const int fixed = is_fixed ? cheapest_column(d, l->m) : -1;
	if (!l->m->rows || !l->m->cols || (is_fixed && fixed < 0)) { /* nothing was measured */
		lesson_free(l);
		return 1;
	}
	if (is_fixed)
		return tree_constant(&l->tree, fixed);
	if (policy == POLICY_GREEDY && !matrix_portfolio(l->m, default_limits.variants, -1, NULL))
		return 0;
	if (policy == POLICY_LABEL && !keep_winners(l->m))
		return 0;
	return grow(l, policy);
}

/* What a batch with these features gets: the matrix's name of a column; `none` when nothing was
 * learned. Of mixed batches that is also a column, which ties go to. */
static int says(const struct lesson *l, const struct attune_features *f, int none)
{
	if (!l->m || !l->m->rows)
		return none;
	return l->m
	    ->choice[l->tree.n ? l->tree.v[tree_leaf(&l->tree, f)].action
			       : row_winner(l->m, nearest_row(l->m, f), none < 0 ? 0 : none)];
}

/* ---- all decisions ------------------------------------------------------------------ */
/* Without lessons: the defaults, one after the other. */
static void make_learned(const struct chooser *c, const struct measured *m, struct decided *out)
{
	for (int p = 0; p < 2; p++) {
		const enum phase phase = decision_phase((enum decision)p);
		const int choice = m->has[phase] ? says(&c->part[p], &m->part[phase].f, -1) : -1;
		if (m->has[phase])
			decided_or_default(c->d, m, phase,
					   choice < 0 ? NULL : &c->d->choice[choice],
					   p ? &out->decode : &out->prefill);
	}
	if (out->prefill.kernel && out->decode.kernel) {
		const int way = says(&c->ways, &m->part[PHASE_ALL].f, BASELINE_SERIAL);
		decided_in_way(c->d, m, (enum baseline_way)way, out);
	}
}

/* A phase that the data have, but no time of a training scenario; NULL: none. */
static const char *unlearned_phase(const struct data *d)
{
	int has[2] = { 0 }, learned[2] = { 0 };
	for (int s = 0; s < d->n; s++)
		for (int p = 0; p < 2; p++) {
			const enum phase phase = decision_phase((enum decision)p);
			int choice = -1;
			has[p] |= d->v[s].has[phase];
			if (d->v[s].has[phase] && data_is_training(&d->v[s]))
				learned[p] |= isfinite(data_best(d, s, phase, &choice)) ||
					      (!measured_is_mixed(&d->v[s]) &&
					       isfinite(data_best(d, s, PHASE_ALL, &choice)));
		}
	for (int p = 0; p < 2; p++)
		if (has[p] && !learned[p])
			return phase_name((int)decision_phase((enum decision)p));
	return NULL;
}

void policies_say_unlearned(const struct data *d)
{
	const char *phase = unlearned_phase(d);
	if (phase)
		complain("%s: no scenario to learn from has times of a %s: %s, %s, %s and %s are "
			 "left out",
			 d->gpu, phase, policy_names[POLICY_BEST_FIXED],
			 policy_names[POLICY_NEAREST], policy_names[POLICY_GREEDY],
			 policy_names[POLICY_LABEL]);
}

/* The parts first: the ways of mixed batches are learned with their choices. */
static int learn_all(struct chooser *c)
{
	struct pick *picks = calloc((size_t)c->d->n + 1, sizeof *picks);
	int done = picks && !unlearned_phase(c->d);
	for (int t = DECIDE_PREFILL; done && t <= DECIDE_DECODE; t++)
		done = learn_part(&c->part[t], c->d, (enum decision)t, c->policy);
	for (int s = 0; done && s < c->d->n; s++) {
		struct decided made = { .join = 1 };
		make_learned(c, &c->d->v[s], &made);
		decided_pick(c->d, &made, &picks[s]);
	}
	if (done) {
		c->ways.m = matrix_ways(c->d, picks);
		done = c->ways.m && (!c->ways.m->rows || grow(&c->ways, c->policy));
	}
	free(picks);
	return done;
}

/* ---- any policy ------------------------------------------------------------------------ */
static int learn(struct chooser *c)
{
	const int gpu = c->d->run.device.backend != BACKEND_CPU;
	switch (c->policy) {
	case POLICY_TREE: return c->forest != NULL;
	case POLICY_VLLM_RULE:
	case POLICY_AITER_RULE: return gpu;
	case POLICY_BEST_FIXED:
	case POLICY_NEAREST:
	case POLICY_GREEDY:
	case POLICY_LABEL: return learn_all(c);
	case POLICY_DEFAULT: return 1;
	case POLICY_WITH_PLUGINS: return c->forest && c->forest->num_plugins;
	case POLICY_ORACLE:
	case NUM_POLICIES: break;
	}
	return 0;
}

struct chooser *chooser_new(const struct data *d, enum policy policy, const struct forest *f)
{
	struct chooser *c = calloc(1, sizeof *c);
	if (!c) {
		output_lost();
		return NULL;
	}
	*c = (struct chooser){ .d = d, .policy = policy, .forest = f };
	errno = 0;
	if (learn(c))
		return c;
	if (errno == ENOMEM) /* else the policy does not exist */
		output_lost();
	chooser_free(c);
	return NULL;
}

void chooser_free(struct chooser *c)
{
	for (int t = 0; c && t < 2; t++)
		lesson_free(&c->part[t]);
	if (c)
		lesson_free(&c->ways);
	free(c);
}

void chooser_make(const struct chooser *c, const struct measured *m, int scenario,
		  struct decided *out)
{
	*out = (struct decided){ .join = 1 };
	switch (c->policy) {
	case POLICY_TREE: forest_make(c->d, c->forest, m, out); break;
	case POLICY_VLLM_RULE: vllm_rule(c->d, m, scenario, out); break;
	case POLICY_AITER_RULE: aiter_rule(c->d, m, scenario, out); break;
	case POLICY_BEST_FIXED:
	case POLICY_NEAREST:
	case POLICY_GREEDY:
	case POLICY_LABEL:
	case POLICY_DEFAULT: make_learned(c, m, out); break;
	case POLICY_WITH_PLUGINS: forest_make_with(c->d, c->forest, m, out); break;
	case POLICY_ORACLE:
	case NUM_POLICIES: break;
	}
}

int policy_picks(const struct data *d, enum policy policy, const struct forest *f,
		 struct pick *picks)
{
	struct chooser *c = chooser_new(d, policy, f);
	for (int s = 0; c && s < d->n; s++) {
		struct decided made;
		chooser_make(c, &d->v[s], s, &made);
		decided_pick(d, &made, &picks[s]);
	}
	chooser_free(c);
	return c != NULL;
}
