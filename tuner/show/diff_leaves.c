/* SPDX-License-Identifier: Apache-2.0 */
/* diff_leaves.c - lists where the choices of two forests differ, and the rows of choices that changed. A region of features is the
 * intersection of a leaf of each; with data only regions with a scenario are listed. A change is
 * beyond noise if the mean log ratio of the times exceeds both the A/A noise floor and the
 * intervals of the times. */
#include "show.h"
#include "harness/base/base.h"
#include "tuner/data/data.h"
#include "tuner/eval/eval.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include "tuner/tree/tree.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

struct overlay {
	const struct forest *f[2];
	enum decision decision;
	const struct data *d; /* NULL: none */
	struct table *t;
	int leaf; /* of f[0]; the boxes of f[1] are within its box */
	int regions, differ, empty, beyond, rows;
};

/* "num_seqs 9..16, max_seq > 4096"; "everywhere" */
static void box_words(const struct box *b, char *text, size_t size)
{
	size_t n = 0;
	struct box all;
	box_all(&all);
	snprintf(text, size, "everywhere");
	for (int i = 0; i < ATTUNE_NUM_FEATURES && n < size; i++) {
		const char *name = feature_names[i], *comma = n ? ", " : "";
		const int low = b->lo[i] > all.lo[i], high = b->hi[i] < all.hi[i];
		if (low && high)
			n += (size_t)snprintf(text + n, size - n, "%s%s %lld..%lld", comma, name,
					      b->lo[i], b->hi[i]);
		else if (low)
			n += (size_t)snprintf(text + n, size - n, "%s%s > %lld", comma, name,
					      b->lo[i] - 1);
		else if (high)
			n += (size_t)snprintf(text + n, size - n, "%s%s <= %lld", comma, name,
					      b->hi[i]);
	}
}

static double slowdown(const struct node *v)
{
	return v->support && v->weight ? exp((double)v->cost / (double)v->weight / 1e6) : NAN;
}

/* ---- the effect of a change ------------------------------------------------------------ */
struct effect {
	int n, unknown; /* scenarios of the region; those where a time is missing */
	double logs, variance, floor;
};

/* Time of the whole plan with that forest's action for the decision, and its interval. */
static double time_with(const struct overlay *o, int which, int action, int s, double *ci_us)
{
	const struct data *d = o->d;
	const struct measured *m = &d->v[s];
	const enum phase phase = decision_phase(o->decision);
	struct choice made;
	*ci_us = 0;
	if (o->decision == DECIDE_EARLY)
		return early_ratio(d, s, phase, action == SAYS_OWN ? 0 : action);
	if (o->decision == DECIDE_OVERLAP) {
		struct pick p;
		forest_pick(d, o->f[which], s, &p);
		return data_plan_time(d, s, &p);
	}
	if (!action_or_default(d, o->f[which], o->decision, action, m, &made))
		return INFINITY;
	const int choice = data_find(d, &made);
	const struct cell *cell = choice < 0 ? NULL : data_cell(d, s, phase, choice);
	if (cell && isfinite(cell->ci_us))
		*ci_us = cell->ci_us;
	return choice < 0 ? INFINITY : data_part_time(d, s, phase, choice);
}

static void add_scenario(const struct overlay *o, const struct node *const v[2], int s,
			 struct effect *e)
{
	double us[2], ci_us[2];
	for (int i = 0; i < 2; i++)
		us[i] = time_with(o, i, v[i]->action, s, &ci_us[i]);
	e->n++;
	if (!isfinite(us[0]) || !isfinite(us[1])) {
		e->unknown++;
		return;
	}
	e->logs += log(us[1] / us[0]);
	e->variance += pow(ci_us[0] / us[0], 2) + pow(ci_us[1] / us[1], 2);
	e->floor = fmax(e->floor, data_noise(o->d, fmin(us[0], us[1])));
}

static struct effect effect_of(const struct overlay *o, const struct node *const v[2], int leaf)
{
	const enum phase phase = decision_phase(o->decision);
	struct effect e = { 0 };
	for (int s = 0; o->d && s < o->d->n; s++) {
		const struct measured *m = &o->d->v[s];
		const struct attune_features *f = &m->part[phase].f;
		if (!decision_is_of(o->decision, m))
			continue;
		if (tree_leaf(&o->f[0]->tree[o->decision], f) == o->leaf &&
		    tree_leaf(&o->f[1]->tree[o->decision], f) == leaf)
			add_scenario(o, v, s, &e);
	}
	return e;
}

static void effect_cells(struct overlay *o, const struct effect *e)
{
	const int known = e->n - e->unknown;
	const double mean = known ? e->logs / known : NAN;
	const double noise = known ? fmax(log(1 + e->floor), sqrt(e->variance) / known) : NAN;
	const int beyond = fabs(mean) > noise;
	o->beyond += beyond;
	table_add(o->t, "%d %.4f %.4f %s", e->n, exp(mean), exp(noise) - 1,
		  !known   ? "not measured"
		  : beyond ? mean > 0 ? "slower" : "faster"
			   : "noise");
}

static void compare_leaves(void *arg, int leaf, const struct box *b)
{
	struct overlay *o = arg;
	const struct node *const v[2] = { &o->f[0]->tree[o->decision].v[o->leaf],
					  &o->f[1]->tree[o->decision].v[leaf] };
	char words[2][MAX_CHOICE_TEXT], where[400];
	for (int i = 0; i < 2; i++)
		says_words(o->f[i], o->decision, v[i]->action, words[i]);
	o->regions++;
	if (!strcmp(words[0], words[1]))
		return;
	o->differ++;
	const struct effect e = effect_of(o, v, leaf);
	if (o->d && !e.n) {
		o->empty++;
		return;
	}
	box_words(b, where, sizeof where);
	table_add(o->t, "%s %s %s %s %.3f %.3f", decision_names[o->decision], where, words[0],
		  words[1], slowdown(v[0]), slowdown(v[1]));
	if (o->d)
		effect_cells(o, &e);
	table_end_row(o->t);
}

static void overlay_leaf(void *arg, int leaf, const struct box *b)
{
	struct overlay *o = arg;
	o->leaf = leaf;
	tree_boxes(&o->f[1]->tree[o->decision], b, compare_leaves, o);
}

/* The id of a choice that a leaf of the forest names; -1: none does. */
static int id_in(const struct forest *f, const struct choice *c)
{
	int id = 0;
	while (id < f->num_choices && !(choice_same(&f->choice[id], c) && forest_names(f, id)))
		id++;
	return id < f->num_choices ? id : -1;
}

/* "ring BLOCK_M=8 ..., then naive ..." */
static void row_words(const struct forest *f, int id, char *text, size_t size)
{
	size_t n = 0;
	snprintf(text, size, "alone");
	for (int i = 1; i < f->list[id].n && n < size; i++) {
		char words[MAX_CHOICE_TEXT];
		choice_words(&f->choice[f->list[id].at[i]], words);
		n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", then " : "", words);
	}
}

/* The rows of choices that both forests name. What a change costs is not asked. */
static void compare_rows(struct overlay *o)
{
	for (int id = 0; id < o->f[0]->num_choices; id++) {
		const struct choice *c = &o->f[0]->choice[id];
		const int now = forest_names(o->f[0], id) ? id_in(o->f[1], c) : -1;
		char first[MAX_CHOICE_TEXT], was[4 * MAX_CHOICE_TEXT], is[4 * MAX_CHOICE_TEXT];
		if (now < 0)
			continue;
		choice_words(c, first);
		row_words(o->f[0], id, was, sizeof was);
		row_words(o->f[1], now, is, sizeof is);
		if (!strcmp(was, is))
			continue;
		o->rows++;
		table_add(o->t, "%s %s %s %s %.3f %.3f", "row", first, was, is, NAN, NAN);
		if (o->d)
			table_add(o->t, "%.0f %.4f %.4f %s", NAN, NAN, NAN, "not measured");
		table_end_row(o->t);
	}
}

static void print_regret(const struct overlay *o)
{
	static const char *const splits[] = { "train", "heldout" };
	for (size_t i = 0; i < COUNT(splits); i++) {
		struct score s[2];
		if (score_policy(o->d, POLICY_TREE, o->f[0], splits[i], &s[0]) &&
		    score_policy(o->d, POLICY_TREE, o->f[1], splits[i], &s[1]) && s[0].n)
			printf(
			    "# %s, %d scenarios: slowdown %.4f (%.4f to %.4f) was, %.4f (%.4f to "
			    "%.4f) is\n",
			    splits[i], s[0].n, s[0].geomean, s[0].low, s[0].high, s[1].geomean,
			    s[1].low, s[1].high);
	}
}

int diff_leaves(const struct forest *was, const struct forest *is, const struct data *d,
		enum format format)
{
	const char *columns[] = { "decision",    "where",     "was",   "is",    "was_slowdown",
				  "is_slowdown", "scenarios", "ratio", "noise", "change" };
	struct overlay o = { .f = { was, is }, .d = d };
	struct box all;
	o.t = table_new(format, columns, d ? (int)COUNT(columns) : (int)COUNT(columns) - 4);
	box_all(&all);
	for (int t = 0; o.t && t < NUM_DECISIONS; t++) {
		o.decision = (enum decision)t;
		tree_boxes(&was->tree[t], &all, overlay_leaf, &o);
	}
	if (!o.t)
		return 0;
	compare_rows(&o);
	if (format_has_notes(format)) {
		printf("# %d and %d leaves; choices differ in %d of %d regions", forest_leaves(was),
		       forest_leaves(is), o.differ, o.regions);
		if (d)
			printf(", %d of them without a scenario, %d beyond noise", o.empty,
			       o.beyond);
		printf("; %d rows of choices changed\n", o.rows);
		if (d)
			print_regret(&o);
	}
	table_print(o.t, stdout);
	return 1;
}
