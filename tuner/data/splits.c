/* SPDX-License-Identifier: Apache-2.0 */
/* splits.c - the splits of scenarios: which are learned from, which are held out, which exist. */
#include "data.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* name: n characters of the text of an option. */
static int is_of(const char *split, const char *name, size_t n)
{
	static const char all[] = "heldout";
	const int is_all = n == sizeof all - 1 && !strncmp(name, all, n);
	return !strncmp(split, name, n) && (is_all || !split[n]);
}

int in_split(const struct measured *m, const char *asked)
{
	int is_in = !asked;
	for (const char *at = asked, *end; !is_in && at; at = *end ? end + 1 : NULL) {
		end = at + strcspn(at, ",");
		is_in = is_of(m->split, at, (size_t)(end - at));
	}
	return is_in;
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

/* Whether the data or the grammar of scenarios have that split; n characters of a text. */
static int is_known(const struct data *d, const char *name, size_t n)
{
	int known = 0;
	for (const char *const *s = scenario_splits; *s; s++)
		known |= strlen(*s) == n && !strncmp(*s, name, n);
	for (int i = 0; !known && i < d->n; i++)
		known = strlen(d->v[i].split) == n && !strncmp(d->v[i].split, name, n);
	return known;
}

int split_known(const struct data *d, const char *asked)
{
	char legal[300] = "";
	int known = 1;
	for (const char *at = asked, *end; known && at; at = *end ? end + 1 : NULL) {
		end = at + strcspn(at, ",");
		known = is_known(d, at, (size_t)(end - at));
	}
	for (const char *const *s = scenario_splits; *s; s++) {
		const size_t n = strlen(legal);
		snprintf(legal + n, sizeof legal - n, "%s%s", n ? ", " : "", *s);
	}
	if (!known)
		complain("--split '%s' should be one of %s", asked, legal);
	return known;
}
