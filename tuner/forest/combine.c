/* SPDX-License-Identifier: Apache-2.0 */
/* combine.c - combines two forests decision by decision; gate.h says which decisions go
 * together. */
#include "forest.h"
#include "harness/base/base.h"
#include "tuner/tree/tree.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const gate_group_names[NUM_GATE_GROUPS] = {
	[GATE_PREFILL] = "prefill",
	[GATE_DECODE] = "decode",
	[GATE_MIXED] = "mixed",
};

enum gate_group gate_group_of(enum decision decision)
{
	static const enum gate_group groups[NUM_DECISIONS] = {
		[DECIDE_PREFILL] = GATE_PREFILL,
		[DECIDE_DECODE] = GATE_DECODE,
		[DECIDE_OVERLAP] = GATE_MIXED,
		[DECIDE_EARLY] = GATE_DECODE,
	};
	return groups[decision];
}

static int names_ids(enum decision decision)
{
	return decision == DECIDE_PREFILL || decision == DECIDE_DECODE ||
	       decision == DECIDE_OVERLAP;
}

/* 1: the decision is taken from the fresh rules. */
static int is_taken(int groups, int decision)
{
	return groups >> gate_group_of((enum decision)decision) & 1;
}

enum use { UNUSED, MEMBER /* of a row alone */, NAMED };

/* The uses of choices by the trees that are taken from this forest, and by the rows of these. */
static void mark_used(const struct forest *f, int groups, int is_fresh, char used[MAX_IDS])
{
	memset(used, UNUSED, MAX_IDS);
	for (int t = 0; t < NUM_DECISIONS; t++)
		for (int i = 0; is_taken(groups, t) == is_fresh && i < f->tree[t].n; i++) {
			const struct node *v = &f->tree[t].v[i];
			if (names_ids((enum decision)t) && v->feature < 0 && v->action >= 0)
				used[v->action] = NAMED;
		}
	for (int id = 0; id < f->num_choices; id++)
		for (int i = 1; used[id] == NAMED && i < f->list[id].n; i++)
			if (!used[f->list[id].at[i]])
				used[f->list[id].at[i]] = MEMBER;
}

/* Copies the used choices; to[id] is the new id, -1: not used. A choice that both forests have is copied
 * once, unless both have a row for it; one that a forest has twice, once for each tree, stays two.
 * 0 + complain. */
static int take_choices(struct forest *out, const struct forest *f, const char *used, int *to)
{
	const int others = out->num_choices;
	for (int id = 0; id < f->num_choices; id++) {
		int at = 0;
		to[id] = -1;
		if (!used[id])
			continue;
		while (at < others && (!choice_same(&out->choice[at], &f->choice[id]) ||
				       (out->list[at].n && used[id] == NAMED && f->list[id].n)))
			at++;
		if (at == others)
			at = out->num_choices;
		if (at == MAX_IDS) {
			complain("%s: the rules of two headers name more than %d choices", out->gpu,
				 MAX_IDS);
			return 0;
		}
		if (at == out->num_choices)
			out->choice[out->num_choices++] = f->choice[id];
		to[id] = at;
	}
	return 1;
}

/* Renumbers actions; a runner-up that the new forest does not have becomes -1. */
static int copy_tree(struct tree *out, const struct tree *t, enum decision decision, const int *to)
{
	*out = (struct tree){ .v = malloc(sizeof *out->v * (size_t)t->n), .n = t->n, .room = t->n };
	if (!out->v)
		return 0;
	memcpy(out->v, t->v, sizeof *out->v * (size_t)t->n);
	for (int i = 0; names_ids(decision) && i < t->n; i++) {
		struct node *v = &out->v[i];
		v->action = v->action >= 0 ? to[v->action] : v->action;
		v->runner_up = v->runner_up >= 0 ? to[v->runner_up] : v->runner_up;
	}
	return 1;
}

/* The rows of choices that trees name. */
static void take_rows(struct forest *out, const struct forest *f, const char *used, const int *to)
{
	for (int id = 0; id < f->num_choices; id++) {
		struct attune_list row = f->list[id];
		if (used[id] != NAMED || out->list[to[id]].n)
			continue;
		for (int i = 0; i < row.n; i++)
			row.at[i] = (short)to[row.at[i]];
		out->list[to[id]] = row;
		out->by_estimate[to[id]] = f->by_estimate[id];
	}
}

static int has_costs(const struct forest *f, int n, int id)
{
	for (int i = 0; i < n; i++)
		if (f->costs[i].id == id)
			return 1;
	return 0;
}

/* A choice of both forests keeps the costs of the first one. */
static int take_costs(struct forest *out, const struct forest *f, const int *to)
{
	const int before = out->num_costs;
	for (int i = 0; i < f->num_costs; i++) {
		const int id = to[f->costs[i].id];
		if (id < 0 || has_costs(out, before, id))
			continue;
		if (out->num_costs == MAX_COSTS)
			return 0;
		out->costs[out->num_costs] = f->costs[i];
		out->costs[out->num_costs++].id = id;
	}
	return 1;
}

int forest_combine(struct forest *out, const struct forest *incumbent, const struct forest *fresh,
		   int groups)
{
	const struct forest *of[2] = { incumbent, fresh };
	int to[2][MAX_IDS], done = 1;
	char used[MAX_IDS];
	*out = (struct forest){ 0 };
	snprintf(out->gpu, sizeof out->gpu, "%s", fresh->gpu);
	out->mixed = of[groups >> GATE_MIXED & 1]->mixed;
	for (int k = 1; done && k >= 0; k--) {
		mark_used(of[k], groups, k, used);
		done = take_choices(out, of[k], used, to[k]) && take_costs(out, of[k], to[k]);
		if (done)
			take_rows(out, of[k], used, to[k]);
	}
	for (int t = 0; done && t < NUM_DECISIONS; t++) {
		const enum decision decision = (enum decision)t;
		const int k = is_taken(groups, t);
		done = copy_tree(&out->tree[t], &of[k]->tree[t], decision, to[k]);
		if (t <= DECIDE_DECODE)
			out->making[t] = of[k]->making[t];
	}
	if (!done)
		forest_free(out);
	return done;
}

int forest_defaults(struct forest *f, const char *gpu)
{
	static const int says[NUM_DECISIONS] = {
		[DECIDE_PREFILL] = SAYS_DEFAULTS,
		[DECIDE_DECODE] = SAYS_DEFAULTS,
		[DECIDE_OVERLAP] = SAYS_SERIAL,
		[DECIDE_EARLY] = SAYS_OWN,
	};
	int done = 1;
	*f = (struct forest){ 0 };
	snprintf(f->gpu, sizeof f->gpu, "%s", gpu);
	for (int t = 0; done && t < NUM_DECISIONS; t++)
		done = tree_constant(&f->tree[t], says[t]);
	if (!done)
		forest_free(f);
	return done;
}
