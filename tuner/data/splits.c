/* splits.c - the splits of scenarios: which are learned from, which are held out, which exist. */
#include "data.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int in_split(const struct measured *m, const char *split)
{
	return !split || !strcmp(m->split, split) ||
	       (!strcmp(split, "heldout") && !strncmp(m->split, split, strlen(split)));
}

int data_is_training(const struct measured *m)
{
	return !split_is_held_out(m->split) && !m->lost_best;
}

int data_side(const struct measured *m)
{
	return data_is_training(m) ? 0 : in_split(m, "heldout") ? 1 : -1;
}

static int split_rank(const char *split)
{
	static const char *const first[] = { "train", "peers", "heldout" };
	int i = 0;
	while (i < (int)COUNT(first) && strcmp(split, first[i]))
		i++;
	return i;
}

static int by_rank(const void *pa, const void *pb)
{
	const char *a = *(const char *const *)pa, *b = *(const char *const *)pb;
	const int d = split_rank(a) - split_rank(b);
	return d ? d : strcmp(a, b);
}

static int add_split(const char *splits[MAX_SPLITS], int n, const char *split)
{
	int i = 0;
	while (i < n && strcmp(splits[i], split))
		i++;
	if (i == n && n < MAX_SPLITS)
		splits[n++] = split;
	return n;
}

int data_splits(const struct data *d, const char *splits[MAX_SPLITS])
{
	int n = 0;
	for (int s = 0; s < d->n; s++) {
		if (split_is_gate(d->v[s].split)) /* it has times of two plans only */
			continue;
		n = add_split(splits, n, d->v[s].split);
		if (in_split(&d->v[s], "heldout"))
			n = add_split(splits, n, "heldout");
	}
	qsort(splits, (size_t)n, sizeof *splits, by_rank);
	return n;
}

int split_known(const struct data *d, const char *asked)
{
	char legal[200] = "";
	int known = !asked;
	for (const char *const *s = scenario_splits; *s; s++) {
		const size_t n = strlen(legal);
		known |= asked && !strcmp(asked, *s);
		snprintf(legal + n, sizeof legal - n, "%s%s", n ? ", " : "", *s);
	}
	for (int i = 0; !known && i < d->n; i++)
		known = !strcmp(asked, d->v[i].split);
	if (!known)
		complain("--split '%s' should be one of %s", asked, legal);
	return known;
}
