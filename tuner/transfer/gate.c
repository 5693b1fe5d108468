/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c - compares fresh rules with the incumbent's in races on scenarios that neither was learned
 * from, and takes the groups that are faster beyond noise.
 *
 *   prefill, decode   the part by both trees, in batches of one phase and in mixed ones
 *   mixed             whole plans of mixed batches, with the parts by the rules that are taken
 *   the combination   whole plans of mixed batches against the incumbent; if it loses, the next
 *                     best set of groups is tried, down to none
 *
 * Faster beyond noise: the 95 % interval of the usual log ratio lies below 0 (signed_ranks.c, as
 * gains on another machine reach from nothing to a factor of seven), the mean gain exceeds the noise
 * of A/A controls, and no scenario takes MOST_LOST times as long. Otherwise the incumbent stays.
 * Times of different races are not compared. */
#include "harness/sweep/sweep.h"
#include "gate.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/remeasure/requests.h"
#include "tuner/tree/tree.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_LOST = 2, NUM_SETS = 1 << NUM_GATE_GROUPS };

struct gate {
	/* Of each fresh forest: bit g of the second index: group g of it, the others of the incumbent. */
	struct forest set[MOST_FRESH][NUM_SETS];
	int num_fresh;
};

struct gate *gate_open(const struct forest *incumbent, const struct fresh_rules *fresh)
{
	struct gate *g = calloc(1, sizeof *g);
	int done = g != NULL;
	if (!g)
		complain("%s: out of memory", incumbent->gpu);
	for (int i = 0; done && i < fresh->n; i++, g->num_fresh++)
		for (int set = 0; done && set < NUM_SETS; set++)
			done = forest_combine(&g->set[i][set], incumbent, &fresh->f[i], set);
	if (done)
		return g;
	gate_close(g);
	return NULL;
}

void gate_close(struct gate *g)
{
	for (int i = 0; g && i < MOST_FRESH * NUM_SETS; i++)
		forest_free(&g->set[i / NUM_SETS][i % NUM_SETS]);
	free(g);
}

/* ---- what runs ------------------------------------------------------------------------ */
/* The choice of a part by its tree; 0: nothing runs. */
static int part_of(const struct forest *f, const struct data *d, const struct measured *m,
		   enum decision decision, struct choice *out)
{
	const struct tree *t = &f->tree[decision];
	const int leaf = tree_leaf(t, &m->part[decision_phase(decision)].f);
	return m->has[decision_phase(decision)] &&
	       action_or_default(d, f, decision, t->v[leaf].action, m, out);
}

/* Whether a set can differ from another one on this batch: the mixed group matters for mixed
 * batches only. */
static int matters(const struct measured *m, int set)
{
	return measured_is_mixed(m) || !(set & 1 << GATE_MIXED);
}

/* sets: [NUM_SETS] of one fresh forest */
static void wish_sets(const struct forest *sets, struct wishes *w, const struct data *d,
		      const struct measured *m)
{
	for (int set = 0; set < NUM_SETS; set++) {
		struct decided made;
		if (!matters(m, set))
			continue;
		forest_make(d, &sets[set], m, &made);
		wish(w, made_wish(m, &made));
	}
	for (int t = DECIDE_PREFILL; measured_is_mixed(m) && t <= DECIDE_DECODE; t++) {
		struct choice old, new;
		if (!part_of(&sets[0], d, m, (enum decision)t, &old) ||
		    !part_of(&sets[1 << t], d, m, (enum decision)t, &new) ||
		    choice_same(&old, &new))
			continue;
		wish(w, part_wish(decision_phase((enum decision)t), &old));
		wish(w, part_wish(decision_phase((enum decision)t), &new));
	}
}

void gate_wish(const struct gate *g, struct wishes *w, const struct data *d,
	       const struct measured *m)
{
	const int before = w->n;
	for (int i = 0; i < g->num_fresh; i++)
		wish_sets(g->set[i], w, d, m);
	if (w->n == before + 1)
		w->n = before;
}

/* The cell of pass B; a batch of one phase may have it as one launch. */
static const struct cell *cell_of(const struct data *d, int s, struct contender w)
{
	const struct cell *cell = wish_cell(d, PASS_B, s, &w);
	if (cell || measured_is_mixed(&d->v[s]))
		return cell;
	w.phase = PHASE_ALL;
	return wish_cell(d, PASS_B, s, &w);
}

/* ---- figures ---------------------------------------------------------------------------- */
struct ratios {
	double *log;        /* [f.n] of scenarios with a race of both */
	double sum, floors; /* of these; of the logs of their floors */
	struct gate_figures f;
};

static int ratios_open(struct ratios *t, const struct data *d)
{
	*t = (struct ratios){ .log = malloc(sizeof *t->log * ((size_t)d->n + 1)) };
	if (!t->log)
		complain("%s: out of memory", d->gpu);
	return t->log != NULL;
}

/* Nothing if both run the same. */
static void add_wishes(struct ratios *t, const struct data *d, int s,
		       const struct contender *of_old, const struct contender *of_new)
{
	if (!wishes_differ(of_old, of_new))
		return;
	const struct cell *old = cell_of(d, s, *of_old), *new = cell_of(d, s, *of_new);
	if (new &&new->outcome != OUTCOME_OK) {
		t->f.failed++;
		return;
	}
	if (!old || !new || old->outcome != OUTCOME_OK || old->race != new->race ||
	    !(old->ratio > 0) || !(new->ratio > 0)) {
		t->f.missing++;
		return;
	}
	t->sum += t->log[t->f.n++] = log(new->ratio / old->ratio);
	t->floors += log1p(data_noise(d, old->median_us));
}

/* Frees the ratios. */
static struct gate_figures figures_of(struct ratios *t)
{
	struct gate_figures f = t->f;
	double low, high, worst = -INFINITY;
	signed_ranks(t->log, f.n, &low, &high);
	for (int i = 0; i < f.n; i++)
		worst = fmax(worst, t->log[i]);
	free(t->log);
	const double mean = f.n ? t->sum / f.n : NAN, floor = f.n ? t->floors / f.n : NAN;
	f.ratio = exp(mean);
	f.low = exp(low);
	f.high = exp(high);
	f.worst = f.n ? exp(worst) : NAN;
	f.floor = exp(floor);
	f.better = !f.failed && f.high < 1 && -mean > floor && f.worst < MOST_LOST;
	return f;
}

/* Compares a part by the incumbent's and the fresh tree. */
static struct gate_figures compare_parts(const struct forest *sets, const struct data *d,
					 enum decision decision)
{
	struct ratios t;
	const int n = ratios_open(&t, d) ? d->n : 0;
	for (int s = 0; s < n; s++) {
		const struct measured *m = &d->v[s];
		const enum phase phase = decision_phase(decision);
		struct choice old, new;
		if (!split_is_gate(m->split) || !part_of(&sets[0], d, m, decision, &old) ||
		    !part_of(&sets[1 << gate_group_of(decision)], d, m, decision, &new))
			continue;
		const struct contender of_old = part_wish(phase, &old),
				       of_new = part_wish(phase, &new);
		add_wishes(&t, d, s, &of_old, &of_new);
	}
	return figures_of(&t);
}

/* Compares whole plans of two sets, on mixed batches only or on all. */
static struct gate_figures compare_sets(const struct forest *sets, const struct data *d,
					int old_set, int new_set, int only_mixed)
{
	struct ratios t;
	const int n = ratios_open(&t, d) ? d->n : 0;
	for (int s = 0; s < n; s++) {
		const struct measured *m = &d->v[s];
		struct decided old, new;
		if (!split_is_gate(m->split) || (only_mixed && !measured_is_mixed(m)))
			continue;
		forest_make(d, &sets[old_set], m, &old);
		forest_make(d, &sets[new_set], m, &new);
		const struct contender of_old = made_wish(m, &old), of_new = made_wish(m, &new);
		add_wishes(&t, d, s, &of_old, &of_new);
	}
	return figures_of(&t);
}

/* ---- the decision ----------------------------------------------------------------------- */
static int loses(const struct gate_figures *f)
{
	return f->failed || (f->n && (f->low > 1 || f->ratio > f->floor));
}

/* Sum of log ratios over all scenarios. */
static double total_of(const struct gate_figures *all)
{
	return all->n ? all->n * log(all->ratio) : 0;
}

struct set_scores {
	int set;
	struct gate_figures mixed, all;
};

/* Adds the mixed group to `parts` if that is better; 0: the set loses on mixed batches. */
static int try_parts(const struct forest *sets, const struct data *d, int parts,
		     struct set_scores *v)
{
	v->mixed = compare_sets(sets, d, parts, parts | 1 << GATE_MIXED, 1);
	v->set = parts | v->mixed.better << GATE_MIXED;
	v->all = compare_sets(sets, d, 0, v->set, 0);
	const struct gate_figures on_mixed = compare_sets(sets, d, 0, v->set, 1);
	return !v->set || !loses(&on_mixed);
}

/* The groups of one fresh forest. */
static int judge_sets(const struct forest *sets, const struct data *d, struct gate_report *r)
{
	struct set_scores best = { 0 }, v;
	int allowed = 0, found = 0;
	*r = (struct gate_report){ 0 };
	for (int s = 0; s < d->n; s++)
		r->scenarios += split_is_gate(d->v[s].split);
	for (int t = DECIDE_PREFILL; t <= DECIDE_DECODE; t++) {
		const enum gate_group group = gate_group_of((enum decision)t);
		r->group[group] = compare_parts(sets, d, (enum decision)t);
		allowed |= r->group[group].better << group;
	}
	for (int parts = allowed; parts >= 0; parts--) {
		if ((parts & allowed) != parts || !try_parts(sets, d, parts, &v))
			continue;
		if (!found || total_of(&v.all) < total_of(&best.all))
			best = v;
		found = 1;
	}
	if (!found) /* even the mixed group alone loses */
		best.mixed = compare_sets(sets, d, 0, 1 << GATE_MIXED, 1);
	r->group[GATE_MIXED] = best.mixed;
	r->all = best.all;
	for (int k = 0; k < NUM_GATE_GROUPS; k++)
		r->group[k].taken = best.set >> k & 1;
	r->all.taken = best.set != 0;
	return best.set;
}

int gate_judge(const struct gate *g, const struct data *d, struct gate_report *r)
{
	int groups = judge_sets(g->set[0], d, r);
	for (int i = 1; i < g->num_fresh; i++) {
		struct gate_report other;
		const int its = judge_sets(g->set[i], d, &other);
		other.fresh = i;
		if (its && (!groups || total_of(&other.all) < total_of(&r->all)))
			*r = other, groups = its;
	}
	return groups;
}

int gate_taken(const struct gate_report *r)
{
	int n = 0;
	for (int g = 0; g < NUM_GATE_GROUPS; g++)
		n += r->group[g].taken;
	return n;
}

/* ---- in words --------------------------------------------------------------------------- */
static void print_figures(FILE *out, const char *prefix, const char *name,
			  const struct gate_figures *f, const char *verdict)
{
	fprintf(out, "%s%-8s %s: ", prefix, name, verdict);
	if (f->n)
		fprintf(out, "time x %.3f", f->ratio);
	if (isfinite(f->low))
		fprintf(out, ", usually %.3f to %.3f (95 %%)", f->low, f->high);
	if (f->n)
		fprintf(out, ", worst %.3f, in %d scenario%s; noise %.3f", f->worst, f->n,
			f->n == 1 ? "" : "s", f->floor);
	else
		fputs("not raced", out);
	if (f->missing)
		fprintf(out, ", not measured in %d", f->missing);
	if (f->failed)
		fprintf(out, ", failed in %d", f->failed);
	putc('\n', out);
}

void gate_print(FILE *out, const struct gate_report *r, const char *prefix)
{
	for (int k = 0; k < NUM_GATE_GROUPS; k++)
		print_figures(out, prefix, gate_group_names[k], &r->group[k],
			      r->group[k].taken    ? "new rules"
			      : r->group[k].better ? "old rules, since the new ones lose in mixed "
						     "batches"
						   : "old rules");
	if (r->all.taken)
		print_figures(out, prefix, "all", &r->all, "new against old");
}
