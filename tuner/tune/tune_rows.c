/* SPDX-License-Identifier: Apache-2.0 */
/* tune_rows.c - the step "rows" of a tune: races what may come first in the rows in force, on
 * scenarios to learn from, in an order that covers all rows soonest. And the races on held-out
 * scenarios that judge the rules. */
#include "tune.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/kernel.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include "tuner/remeasure/requests.h"
#include "tuner/transfer/reorder.h"
#include "tuner/tree/tree.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BINARY_FLAGS = 512 };

/* ---- wishes -------------------------------------------------------------------------------- */

static int leaf_of(const struct forest *f, enum decision decision, const struct measured *m)
{
	return tree_leaf(&f->tree[decision], &m->part[decision_phase(decision)].f);
}

/* What may come first in the part's row, if there are two or more. */
static void wish_firsts(struct wishes *w, const struct data *d, const struct forest *f,
			enum decision decision, const struct measured *m)
{
	const int before = w->n, action = f->tree[decision].v[leaf_of(f, decision, m)].action;
	struct choice c[ROW_FIRSTS];
	struct row_firsts r;
	row_firsts(&r, f, action);
	row_firsts_run(&r, d, f, decision, action, m, c);
	for (int i = 0; i < r.n; i++)
		wish(w, part_wish(decision_phase(decision), &c[i]));
	if (w->n == before + 1)
		w->n = before;
}

/* The same, as one race, if one of them has no time of pass A; at: the scenario of the data. */
static void wish_unraced(struct wishes *w, const struct data *d, const struct forest *f,
			 enum decision decision, const struct measured *m, int at)
{
	const int before = w->n;
	int missing = 0;
	wish_firsts(w, d, f, decision, m);
	for (int i = before; i < w->n; i++) {
		missing += at < 0 || !wish_cell(d, PASS_A, at, &w->v[i]);
		w->v[i].again = 1;
	}
	w->n = missing ? w->n : before;
}

/* ---- the order ----------------------------------------------------------------------------- */

/* A scenario with its leaves, -1: it has no such part. */
struct due {
	int index, at, leaf[2];
	int asked; /* by the user */
};

/* How often each action's row and each leaf have been raced, or will have been. */
struct covered {
	const struct forest *f;
	int row[2][MAX_IDS + 1], *leaf[2];
};

static int *row_count(struct covered *c, int k, int leaf)
{
	return &c->row[k][c->f->tree[k].v[leaf].action + 1];
}

static void cover(struct covered *c, const struct due *s)
{
	for (int k = DECIDE_PREFILL; k <= DECIDE_DECODE; k++)
		if (s->leaf[k] >= 0) {
			++*row_count(c, k, s->leaf[k]);
			c->leaf[k][s->leaf[k]]++;
		}
}

/* What the user named comes first. A row that was raced less often is worth four times as much,
 * whatever its leaves. */
static double worth(struct covered *c, const struct due *s)
{
	double sum = s->asked ? 4 : 0;
	for (int k = DECIDE_PREFILL; k <= DECIDE_DECODE; k++)
		if (s->leaf[k] >= 0)
			sum += exp2(-2.0 * *row_count(c, k, s->leaf[k])) +
			       exp2(-20 - 2.0 * c->leaf[k][s->leaf[k]]);
	return sum;
}

/* Puts the scenarios in order: the next is worth most, of equal ones the first. */
static void order(struct covered *c, struct due *v, int n)
{
	for (int i = 0; i < n; i++) {
		int best = i;
		for (int k = i + 1; k < n; k++)
			if (worth(c, &v[k]) > worth(c, &v[best]))
				best = k;
		const struct due next = v[best];
		for (int k = best; k > i; k--)
			v[k] = v[k - 1];
		v[i] = next;
		cover(c, &next);
	}
}

/* Whether something is to be raced there. */
static int wish_rows(struct wishes *w, const struct tune *t, const struct forest *f,
		     const struct due *s)
{
	const struct scenario *scenario = &t->list.v[s->index];
	const int before = w->n;
	struct measured unknown;
	const struct measured *m = tune_look(t, scenario, s->at, &unknown);
	wish_batch(w, scenario, s->at);
	for (int k = DECIDE_PREFILL; k <= DECIDE_DECODE; k++)
		if (s->leaf[k] >= 0)
			wish_unraced(w, t->own, f, (enum decision)k, m, s->at);
	return w->n > before;
}

static int to_learn_from(const char *split)
{
	return !split_is_held_out(split);
}

/* Lists the scenarios that lack times; those that lack none are covered. Returns their number; -1
 * without memory. */
static int list_due(struct tune *t, struct covered *c, const int *drawn, int n, struct due *v)
{
	struct wishes probe = { 0 };
	int kept = 0;
	for (int i = 0; i < n; i++) {
		const struct scenario *s = &t->list.v[drawn[i]];
		struct measured unknown;
		struct due next = { drawn[i], tune_find(t->own, s), { -1, -1 }, s->asked };
		const struct measured *m = tune_look(t, s, next.at, &unknown);
		for (int k = DECIDE_PREFILL; m && k <= DECIDE_DECODE; k++)
			if (decision_is_of((enum decision)k, m))
				next.leaf[k] = leaf_of(c->f, (enum decision)k, m);
		if (wish_rows(&probe, t, c->f, &next))
			v[kept++] = next;
		else
			cover(c, &next);
	}
	const int failed = probe.failed;
	wishes_free(&probe);
	return failed ? -1 : kept;
}

static int list_rows(struct tune *t, struct wishes *w)
{
	struct covered c = { .f = &t->from.incumbent };
	int n = 0, *drawn = tune_draw(t, to_learn_from, &n);
	struct due *v = calloc((size_t)n + 1, sizeof *v);
	for (int k = DECIDE_PREFILL; k <= DECIDE_DECODE; k++)
		c.leaf[k] = calloc((size_t)c.f->tree[k].n, sizeof *c.leaf[k]);
	n = drawn && v && c.leaf[0] && c.leaf[1] ? list_due(t, &c, drawn, n, v) : -1;
	if (n > 0)
		order(&c, v, n);
	for (int i = 0; i < n; i++)
		wish_rows(w, t, c.f, &v[i]);
	free(c.leaf[0]);
	free(c.leaf[1]);
	free(v);
	free(drawn);
	if (n < 0 || w->failed)
		complain("out of memory");
	return n >= 0 && !w->failed;
}

int tune_rows(struct tune *t, const struct sweep_options *o)
{
	struct wishes w = { 0 };
	int code = list_rows(t, &w) ? EXIT_DONE : EXIT_CHECK;
	if (!code && w.n)
		code = wishes_measure(&w, o, stage_names[STAGE_COMPLETE]);
	wishes_free(&w);
	return code;
}

static int same_binary(const struct wishes *w, int a, int b)
{
	char text[2][BINARY_FLAGS];
	const int of[] = { a, b };
	if (w->v[a].choice.kernel != w->v[b].choice.kernel)
		return 0;
	for (int i = 0; i < 2; i++)
		binary_flags(text[i], sizeof text[i], w->v[of[i]].choice.kernel,
			     &w->v[of[i]].choice.config, &w->batches.v[w->v[of[i]].scenario].shape);
	return !strcmp(text[0], text[1]);
}

/* Lists in first[] the wishes whose binary no earlier one has, and returns their number. */
static int binaries_of(const struct wishes *w, int *first)
{
	int n = 0;
	for (int i = 0; i < w->n; i++) {
		int k = 0;
		while (k < n && !same_binary(w, first[k], i))
			k++;
		if (k == n)
			first[n++] = i;
	}
	return n;
}

int tune_rows_foresee(struct tune *t, struct sweep_forecast *f)
{
	struct wishes w = { 0 };
	int *first = NULL;
	int done = list_rows(t, &w);
	*f = (struct sweep_forecast){ .cells = w.n };
	for (int i = 0; i < w.n; i++)
		f->races += !i || w.v[i].scenario != w.v[i - 1].scenario ||
			    w.v[i].phase != w.v[i - 1].phase;
	done = done && (first = malloc(sizeof *first * ((size_t)w.n + 1)));
	const int n = done ? binaries_of(&w, first) : 0;
	for (int i = 0; i < n; i++) {
		char flags[BINARY_FLAGS];
		const struct choice *c = &w.v[first[i]].choice;
		binary_flags(flags, sizeof flags, c->kernel, &c->config,
			     &w.batches.v[w.v[first[i]].scenario].shape);
		f->binaries += !jit_has(c->kernel, flags, t->hello.info.arch);
	}
	free(first);
	wishes_free(&w);
	return done;
}

/* ---- held-out scenarios -------------------------------------------------------------------- */
static int to_judge_by(const char *split)
{
	return !strncmp(split, "heldout", 7);
}

static void wish_defaults(struct wishes *w, const struct data *d, const struct measured *m)
{
	struct decided made = { .join = 1 };
	for (enum phase p = PHASE_PREFILL; p <= PHASE_DECODE; p++)
		if (m->has[p])
			default_made(d, m, p, p == PHASE_DECODE ? &made.decode : &made.prefill);
	wish(w, made_wish(m, &made));
}

static void wish_plan(struct wishes *w, const struct data *d, const struct forest *f,
		      const struct measured *m)
{
	struct decided made;
	forest_make(d, f, m, &made);
	wish(w, made_wish(m, &made));
}

static int list_held_out(struct tune *t, struct wishes *w)
{
	int n, renewed, *drawn = tune_draw(t, to_judge_by, &n);
	for (int i = 0; drawn && i < n; i++) {
		const struct scenario *s = &t->list.v[drawn[i]];
		const int at = tune_find(t->own, s);
		struct measured unknown;
		const struct measured *m = tune_look(t, s, at, &unknown);
		if (!m)
			continue;
		wish_batch(w, s, at);
		wish_plan(w, t->own, &t->installed, m);
		wish_plan(w, t->own, tune_before(t), m);
		wish_defaults(w, t->own, m);
		for (int k = DECIDE_PREFILL; k <= DECIDE_DECODE; k++)
			if (decision_is_of((enum decision)k, m))
				wish_firsts(w, t->own, &t->installed, (enum decision)k, m);
	}
	wishes_renew(w, t->own, &renewed);
	w->failed |= !drawn;
	free(drawn);
	return !w->failed;
}

int tune_held_out(struct tune *t, const struct sweep_options *o)
{
	struct wishes w = { 0 };
	int code = list_held_out(t, &w) ? EXIT_DONE : EXIT_CHECK;
	if (!code && w.n)
		code = wishes_measure(&w, o, "b");
	wishes_free(&w);
	return code;
}
