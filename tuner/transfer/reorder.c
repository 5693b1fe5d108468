/* SPDX-License-Identifier: Apache-2.0 */
/* reorder.c - puts the rows of another machine's rules in the order of this machine's times.
 *
 * Which few choices are good for a leaf's batches differs little between machines; which of them
 * is the fastest differs. That takes few times to learn: what may come first in a row races on
 * some batches of its leaves, and each ratio to what the row runs now is an observation.
 *
 *   a row    all batches whose leaf names it
 *   a leaf   its own batches, behind its row, whose new first it takes if that is faster in them
 *
 * Where all candidates have raced, any of them may come first, by more evidence.
 *
 * Another choice becomes the first if the upper end of the 95 % interval of its mean log ratio is
 * below 0. Few ratios say little of their own spread, so PRIOR ratios with a spread of SPREAD are
 * added (a scaled inverse chi-squared prior: Gelman et al. 2013, Bayesian Data Analysis, 2.6): of
 * ratios that are alike three must be below 0.89, five 0.94, twenty 0.986. A/A controls do not
 * count, since the gate adds some. */
#include "reorder.h"
#include "harness/base/base.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/tree/tree.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEAST = 3 }; /* ratios */
#define PRIOR 2.0
#define SPREAD 0.1
#define FAILED 1.4 /* log ratio to a choice that fails: 4 times */
/* Ends of intervals, in standard errors: of 95 %; and so far that of hundreds of choices none is
 * beyond by chance. */
#define ONE_OF_A_ROW 1.96
#define ONE_OF_ALL 3.5

/* ---- what may come first ---------------------------------------------------------------- */
static void add_first(struct row_firsts *r, const struct choice *c, int member)
{
	if (r->n == ROW_FIRSTS)
		return;
	r->named[r->n] = c ? *c : (struct choice){ .kernel = NULL };
	r->member[r->n++] = member;
}

static struct attune_list members_of(const struct forest *f, int action)
{
	const struct attune_list none = { 0 }, alone = { 1, { (short)action } };
	return action < 0 ? none : f->list[action].n ? f->list[action] : alone;
}

static void add_formulas(struct row_firsts *r, const struct choice *member)
{
	const struct space *s = member->kernel->space;
	struct choice c = *member;
	if (s->formula_axis < 0 || c.config.v[s->formula_axis] <= 0)
		return;
	for (int i = 0; i < s->num_formulas; i++) {
		c.config.v[s->formula_axis] = -1 - i;
		add_first(r, &c, -1);
	}
}

void row_firsts(struct row_firsts *r, const struct forest *f, int action)
{
	const struct attune_list l = members_of(f, action);
	r->n = 0;
	for (int i = 0; i < l.n; i++)
		add_first(r, &f->choice[l.at[i]], l.at[i]);
	add_first(r, NULL, -1);
	for (int i = 0; i < l.n; i++)
		add_formulas(r, &f->choice[l.at[i]]);
}

void row_firsts_run(const struct row_firsts *r, const struct data *d, const struct forest *f,
		    enum decision decision, int action, const struct measured *m,
		    struct choice out[ROW_FIRSTS])
{
	const enum phase phase = decision_phase(decision);
	for (int i = 0; i < r->n; i++) {
		const int id = r->member[i], behind = i && !r->named[i].kernel;
		const int runs =
		    !i || behind ? action_or_default(d, f, decision, i ? -1 : action, m, &out[i])
		    : id >= 0    ? action_choice(d, f, phase, id, m, &out[i])
				 : decided_legal(d, m, phase, &r->named[i], &out[i]);
		if (!runs)
			out[i] = (struct choice){ .kernel = NULL };
	}
}

/* ---- ratios ------------------------------------------------------------------------------ */
/* A part of a batch with times of this machine: log ratios to what runs there, NaN: not known. */
struct seen {
	int scenario, leaf;
	const struct cell *first; /* of what runs */
	double log_ratio[ROW_FIRSTS], noise;
};

struct table {
	const struct data *d;
	const struct forest *f;
	enum decision decision;
	struct row_firsts *firsts; /* [node], of its action */
	struct seen *v;
	int n;
};

static const struct cell *cell_of(const struct data *d, int s, enum phase phase,
				  const struct choice *c)
{
	const int at = c->kernel ? data_find(d, c) : -1;
	return at < 0 ? NULL : data_cell_in(d, PASS_A, s, phase, at);
}

static double log_ratio_of(const struct cell *first, const struct cell *other)
{
	if (!first || !other || first == other)
		return first == other && first ? 0 : NAN;
	if (first->outcome != OUTCOME_OK)
		return other->outcome == OUTCOME_OK ? -FAILED : NAN;
	return other->outcome != OUTCOME_OK ? FAILED : log(cells_ratio(other, first));
}

/* 0: nothing was compared there. */
static int see(struct seen *out, const struct table *t, int s)
{
	const struct measured *m = &t->d->v[s];
	const enum phase phase = decision_phase(t->decision);
	const struct tree *tree = &t->f->tree[t->decision];
	struct choice c[ROW_FIRSTS];
	int known = 0;
	out->leaf = tree_leaf(tree, &m->part[phase].f);
	const struct row_firsts *r = &t->firsts[out->leaf];
	row_firsts_run(r, t->d, t->f, t->decision, tree->v[out->leaf].action, m, c);
	const struct cell *first = cell_of(t->d, s, phase, &c[0]);
	out->scenario = s;
	out->first = first;
	out->noise = first ? log1p(data_noise(t->d, first->median_us)) : 0;
	for (int i = 0; i < r->n; i++) {
		out->log_ratio[i] = log_ratio_of(first, cell_of(t->d, s, phase, &c[i]));
		known |= i && !isnan(out->log_ratio[i]);
	}
	return known;
}

static void table_close(struct table *t)
{
	free(t->firsts);
	free(t->v);
}

/* 0 + complain: no memory. Close it in any case. */
static int table_open(struct table *t)
{
	const struct tree *tree = &t->f->tree[t->decision];
	t->n = 0;
	t->firsts = malloc(sizeof *t->firsts * (size_t)tree->n);
	t->v = malloc(sizeof *t->v * ((size_t)t->d->n + 1));
	if (!t->firsts || !t->v) {
		complain("%s: out of memory", t->d->gpu);
		return 0;
	}
	for (int i = 0; i < tree->n; i++)
		row_firsts(&t->firsts[i], t->f, tree->v[i].feature < 0 ? tree->v[i].action : -1);
	for (int s = 0; s < t->d->n; s++)
		if (data_is_training(&t->d->v[s]) && decision_is_of(t->decision, &t->d->v[s]))
			t->n += see(&t->v[t->n], t, s);
	return 1;
}

/* ---- the decision ------------------------------------------------------------------------ */
struct ratios {
	int n;
	double mean, squares;
};

static void add_ratio(struct ratios *r, double x)
{
	const double far = x - r->mean;
	r->mean += far / ++r->n;
	r->squares += far * (x - r->mean);
}

/* The upper end of the interval; prior: how many ratios of SPREAD are added. */
static double upper_end(const struct ratios *r, double prior, double z)
{
	const double freedom = r->n - 1 + prior;
	const double variance = (r->squares + prior * SPREAD * SPREAD) / freedom;
	return r->mean + student_beyond(z, freedom) * sqrt(variance / r->n);
}

/* Candidates of a row: what may come first in it, then all choices of the data. */
static int candidates(const struct table *t, int node)
{
	return t->firsts[node].n + t->d->num_columns;
}

static double ratio_at(const struct table *t, const struct seen *s, int node, int candidate)
{
	const struct row_firsts *r = &t->firsts[node];
	if (candidate < r->n)
		return s->log_ratio[candidate];
	const enum phase phase = decision_phase(t->decision);
	const int at = data_concrete(t->d, s->scenario, phase, candidate - r->n);
	const int is_legal = at >= 0 && data_legal(t->d, s->scenario, phase, at);
	return log_ratio_of(s->first,
			    is_legal ? data_cell_in(t->d, PASS_A, s->scenario, phase, at) : NULL);
}

/* Log ratios of `to` to `from` where both differ, in batches of the leaf, -1: of any leaf with the
 * node's action. */
static struct ratios ratios_of(const struct table *t, int node, int leaf, int from, int to)
{
	const struct tree *tree = &t->f->tree[t->decision];
	const int action = tree->v[node].action;
	struct ratios r = { 0 };
	for (int i = 0; i < t->n; i++) {
		const struct seen *s = &t->v[i];
		if (leaf < 0 ? tree->v[s->leaf].action != action : s->leaf != leaf)
			continue;
		const double x = ratio_at(t, s, node, to) - ratio_at(t, s, node, from);
		if (x < 0 || x > 0) /* neither unknown nor the same choice */
			add_ratio(&r, x);
	}
	return r;
}

/* What a batch gains at least by `to` in place of `from`, times the number of batches where both
 * differ. 0: nothing beyond noise. */
static double safe_gain(const struct table *t, int node, int leaf, int from, int to)
{
	const struct ratios r = ratios_of(t, node, leaf, from, to);
	const double z = to < t->firsts[node].n ? ONE_OF_A_ROW : ONE_OF_ALL;
	return r.n >= LEAST ? fmax(0, -upper_end(&r, PRIOR, z) * r.n) : 0;
}

static int best_first(const struct table *t, int node, int leaf, int from)
{
	const int n = candidates(t, node);
	double most = 0;
	int best = from;
	for (int i = 0; i < n; i++) {
		const double gain = i == from ? 0 : safe_gain(t, node, leaf, from, i);
		if (gain > most)
			most = gain, best = i;
	}
	return best;
}

/* The id of a choice that no forest has a row for yet; -1: there is no room. */
static int new_id(struct forest *out, const struct choice *c)
{
	for (int id = 0; id < out->num_choices; id++)
		if (choice_same(&out->choice[id], c))
			return id;
	if (out->num_choices == MAX_IDS)
		return -1;
	out->choice[out->num_choices] = *c;
	out->list[out->num_choices] = (struct attune_list){ 0 };
	return out->num_choices++;
}

/* The action that has that candidate before the members of the node's row. */
static int action_of(struct forest *out, const struct table *t, int node, int candidate)
{
	const struct row_firsts *r = &t->firsts[node];
	const int action = t->f->tree[t->decision].v[node].action, beyond = candidate - r->n;
	if (beyond < 0 && !r->named[candidate].kernel)
		return SAYS_DEFAULTS;
	const int id = beyond >= 0                 ? new_id(out, &t->d->choice[beyond])
		       : r->member[candidate] >= 0 ? r->member[candidate]
						   : new_id(out, &r->named[candidate]);
	if (id < 0 || out->list[id].n)
		return id < 0 ? action : id;
	const struct attune_list l = members_of(t->f, action);
	struct attune_list *row = &out->list[id];
	row->at[row->n++] = (short)id;
	for (int i = 0; i < l.n && row->n < ATTUNE_LIST_MEMBERS; i++)
		if (l.at[i] != id)
			row->at[row->n++] = l.at[i];
	return id;
}

/* The leaf's figures by the times of this machine, as leaves_describe() has them: the new first,
 * the old one beside it, the fastest of what may come first. */
static void describe(struct node *v, const struct table *t, int leaf, int first, int old)
{
	struct ratios now = { 0 }, before = { 0 };
	double worst = 0;
	for (int i = 0; i < t->n; i++) {
		const struct seen *s = &t->v[i];
		const double ratio = s->leaf == leaf ? ratio_at(t, s, leaf, first) : NAN;
		double best = ratio;
		for (int k = 0; k < t->firsts[leaf].n; k++)
			best = fmin(best, s->log_ratio[k]); /* not NaN */
		if (isnan(ratio))
			continue;
		add_ratio(&now, ratio - best);
		add_ratio(&before, -best);
		worst = fmax(worst, ratio - best);
	}
	v->remark = REMARK_NONE;
	v->support = now.n;
	v->weight = now.n;
	v->cost = llround(1e6 * now.mean * now.n);
	v->p95 = (int32_t)lround(1e6 * worst);
	v->runner_up = old;
	v->runner_up_cost = llround(1e6 * before.mean * before.n);
	v->row_cost = now.n ? 0 : -1;
}

/* The candidate that comes first in a leaf: its row's, if that is faster in the leaf itself, too.
 * Other leaves may have quite other batches: an H200's row of two leaves with times had a choice
 * that was five times as slow in leaves without. */
static int first_of(const struct table *t, int leaf)
{
	int of_row = best_first(t, leaf, -1, 0);
	if (of_row && !(ratios_of(t, leaf, leaf, 0, of_row).mean < 0))
		of_row = 0;
	return best_first(t, leaf, leaf, of_row);
}

static void reorder(struct forest *out, const struct table *t)
{
	struct tree *tree = &out->tree[t->decision];
	for (int leaf = 0; leaf < tree->n; leaf++) {
		struct node *v = &tree->v[leaf];
		const int action = v->action;
		if (v->feature >= 0 || action < 0)
			continue;
		const int first = first_of(t, leaf);
		if (!first)
			continue;
		v->action = action_of(out, t, leaf, first);
		describe(v, t, leaf, first, action);
	}
}

int forest_reorder(struct forest *out, const struct forest *rules, const struct data *own)
{
	const int all = (1 << NUM_GATE_GROUPS) - 1;
	struct forest before;
	if (!forest_combine(&before, rules, rules, all))
		return 0;
	int done = forest_combine(out, &before, &before, all); /* the same ids */
	for (int k = DECIDE_PREFILL; done && k <= DECIDE_DECODE; k++) {
		struct table t = { .d = own, .f = &before, .decision = (enum decision)k };
		done = table_open(&t);
		if (done)
			reorder(out, &t);
		else
			forest_free(out);
		table_close(&t);
	}
	forest_free(&before);
	if (done)
		snprintf(out->gpu, sizeof out->gpu, "%s", own->gpu);
	return done;
}

/* ---- what is known, and what is left ----------------------------------------------------- */
static int is_first(const struct choice *c, const struct choice *firsts, int n)
{
	for (int i = 0; i < n; i++)
		if (firsts[i].kernel && choice_same(c, &firsts[i]))
			return 1;
	return 0;
}

static int has_others(const struct data *d, const struct forest *f, enum decision decision, int s)
{
	const struct measured *m = &d->v[s];
	const enum phase phase = decision_phase(decision);
	const struct tree *t = &f->tree[decision];
	struct row_firsts r;
	struct choice c[ROW_FIRSTS];
	if (!decision_is_of(decision, m))
		return 0;
	const int action = t->v[tree_leaf(t, &m->part[phase].f)].action;
	row_firsts(&r, f, action);
	row_firsts_run(&r, d, f, decision, action, m, c);
	struct choice_iter i = choices_of(d, s, phase, phase);
	while (choices_next(&i))
		if (i.cells[0].of[PASS_A] && !is_first(&d->choice[i.choice], c, r.n))
			return 1;
	return 0;
}

int times_beyond_rows(const struct data *own, const struct forest *rules)
{
	int n = 0;
	for (int s = 0; s < own->n; s++)
		n += data_is_training(&own->v[s]) && (has_others(own, rules, DECIDE_PREFILL, s) ||
						      has_others(own, rules, DECIDE_DECODE, s));
	return n;
}

int rows_left(struct rows_left *left, const struct data *own, const struct forest *rules)
{
	struct ratios all = { 0 };
	int done = 1;
	for (int k = DECIDE_PREFILL; done && k <= DECIDE_DECODE; k++) {
		struct table t = { .d = own, .f = rules, .decision = (enum decision)k };
		done = table_open(&t);
		for (int i = 0; done && i < t.n; i++) {
			const struct seen *s = &t.v[i];
			double least = 0;
			for (int first = 0; first < t.firsts[s->leaf].n; first++)
				least = fmin(least, s->log_ratio[first]); /* not NaN */
			add_ratio(&all, -least > s->noise ? -least : 0);
		}
		table_close(&t);
	}
	*left = (struct rows_left){ all.n, exp(all.mean), NAN };
	if (all.n > 1)
		left->most = exp(upper_end(&all, 0, ONE_OF_A_ROW));
	return done;
}
