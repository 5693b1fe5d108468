/* SPDX-License-Identifier: Apache-2.0 */
/* forest.c - frees a forest, and counts its leaves, kernels and decisions. */
#include "forest.h"
#include "tuner/tree/tree.h"
#include <stdlib.h>

/* Held-out batches of an H200, by up to 48, 56 and 64 leaves (43, 50 and 50 of prefills, 38, 42 and 45
 * of decodes): 1.0283, 1.0277, 1.0266. */
const struct limits default_limits = { .leaves = 64, .variants = 12 };

void forest_free(struct forest *f)
{
	for (int t = 0; t < NUM_DECISIONS; t++)
		tree_free(&f->tree[t]);
	free(f->notes);
	f->notes = NULL;
}

int forest_leaves(const struct forest *f)
{
	int n = 0;
	for (int t = 0; t < DECIDE_EARLY; t++)
		n += tree_leaves(&f->tree[t]);
	return n + (forest_says_early(f) ? tree_leaves(&f->tree[DECIDE_EARLY]) : 0);
}

int forest_kernels(const struct forest *f)
{
	int n = 0;
	for (int i = 0; i < f->num_choices; i++) {
		int seen = 0;
		for (int j = 0; j < i; j++)
			seen |= f->choice[j].kernel == f->choice[i].kernel;
		n += !seen;
	}
	return n;
}

int forest_names(const struct forest *f, int id)
{
	for (int t = DECIDE_PREFILL; t <= DECIDE_DECODE; t++)
		for (int i = 0; i < f->tree[t].n; i++)
			if (f->tree[t].v[i].feature < 0 && f->tree[t].v[i].action == id)
				return 1;
	return 0;
}

int forest_has_row(const struct forest *f, int id)
{
	return f->list[id].n > 0 && forest_names(f, id);
}

int forest_says_early(const struct forest *f)
{
	const struct node *root = &f->tree[DECIDE_EARLY].v[0];
	return root->feature >= 0 || root->action != SAYS_OWN;
}

int forest_decisions(const struct forest *f)
{
	return forest_says_early(f) ? NUM_DECISIONS : DECIDE_EARLY;
}

int forest_early(const struct forest *f, const struct attune_features *x)
{
	const struct tree *t = &f->tree[DECIDE_EARLY];
	const int says = t->v[tree_leaf(t, x)].action;
	return says == SAYS_OWN ? 0 : says;
}
