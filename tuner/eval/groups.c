/* SPDX-License-Identifier: Apache-2.0 */
/* groups.c - `attune eval --by`: the slowdown of a header's picks and of its rows settled, by a property of the
 * scenarios, and beside it that of another header. */
#include "eval.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/settled.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 64, HEADERS = 2 };

/* A scenario; slowdowns by header, INFINITY: no time. */
struct member {
	long long number; /* sorts values that are numbers */
	char name[NAME];
	double first[HEADERS], settled[HEADERS];
};

int is_group(const char *word)
{
	static const char *const words[] = { "kind", "head", "group", "page", "gpu", "set" };
	int known = 0;
	for (size_t i = 0; i < COUNT(words); i++)
		known |= !strcmp(word, words[i]);
	return known;
}

static void name_member(struct member *v, const struct data *d, const struct measured *m,
			const char *by)
{
	static const char *const kinds[] = { "prefill", "decode", "mixed" };
	const attune_shape *shape = &m->shape;
	const char *text = *by == 's' ? m->set : d->gpu;
	v->number = !strcmp(by, "head")    ? shape->head_size
		    : !strcmp(by, "group") ? shape->num_query_heads / shape->num_kv_heads
		    : !strcmp(by, "page")  ? shape->page_size
		    : strcmp(by, "kind")   ? -1
		    : measured_is_mixed(m) ? 2
					   : m->has[PHASE_DECODE];
	if (!strcmp(by, "kind"))
		text = kinds[v->number];
	if (v->number < 0 || !strcmp(by, "kind"))
		snprintf(v->name, sizeof v->name, "%s", text);
	else
		snprintf(v->name, sizeof v->name, "%lld", v->number);
}

static int by_name(const void *pa, const void *pb)
{
	const struct member *a = pa, *b = pb;
	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* Their number. */
static int collect(struct member *v, const struct data *d, const struct forest *const f[HEADERS],
		   const char *by, const char *split)
{
	int n = 0;
	for (int s = 0; s < d->n; s++) {
		const struct measured *m = &d->v[s];
		const double best = data_oracle(d, s);
		if (!in_split(m, split) || (!split && split_is_gate(m->split)) || !isfinite(best))
			continue;
		name_member(&v[n], d, m, by);
		for (int h = 0; h < HEADERS && f[h]; h++) {
			struct settled settled;
			struct pick first;
			forest_pick(d, f[h], s, &first);
			settle(d, f[h], s, &settled);
			v[n].first[h] = fmax(1, data_plan_time(d, s, &first) / best);
			v[n].settled[h] = fmax(1, data_plan_time(d, s, &settled.pick) / best);
		}
		n++;
	}
	return n;
}

/* ---- one value ------------------------------------------------------------------------- */
struct mean {
	int n;
	double logs, squares, worst;
};

static void take(struct mean *m, double slowdown)
{
	m->n++;
	m->logs += log(slowdown);
	m->squares += log(slowdown) * log(slowdown);
	m->worst = fmax(m->worst, slowdown);
}

static void add_means(struct table *t, const struct mean *m)
{
	table_number(t, m->n ? exp(m->logs / m->n) : NAN, 4);
	table_number(t, m->n ? m->worst : NAN, 3);
}

/* The geometric mean of ratios of pairs, and the standard error of its logarithm. */
static void add_paired(struct table *t, const struct mean *m)
{
	const double mean = m->logs / m->n;
	table_number(t, m->n ? exp(mean) : NAN, 4);
	table_number(
	    t, m->n > 1 ? sqrt(fmax(0, m->squares / m->n - mean * mean) / (m->n - 1)) : NAN, 4);
}

static void add_group(struct table *t, const char *name, const struct member *v, int n, int headers)
{
	struct mean first[HEADERS] = { { 0 } }, settled[HEADERS] = { { 0 } };
	struct mean paired = { 0 };
	for (int i = 0; i < n; i++) {
		int timed = 1;
		for (int h = 0; h < headers; h++)
			timed &= isfinite(v[i].first[h]);
		for (int h = 0; timed && h < headers; h++) {
			take(&first[h], v[i].first[h]);
			take(&settled[h], v[i].settled[h]);
		}
		if (timed && headers > 1)
			take(&paired, v[i].first[0] / v[i].first[1]);
	}
	table_add(t, "%s %d %d", name, first[0].n, n - first[0].n);
	for (int h = headers - 1; h >= 0; h--) {
		add_means(t, &first[h]);
		add_means(t, &settled[h]);
	}
	if (headers > 1)
		add_paired(t, &paired);
	table_end_row(t);
}

int groups_print(const struct data *d, const struct forest *f, const struct forest *before,
		 const char *by, const char *split, enum format format)
{
	const char *const columns[] = { by,
					"n",
					"no_time",
					before ? "was" : "geomean",
					before ? "was_worst" : "worst",
					before ? "was_settled" : "settled",
					before ? "was_settled_worst" : "settled_worst",
					"geomean",
					"worst",
					"settled",
					"settled_worst",
					"paired",
					"paired_se" };
	const struct forest *const both[HEADERS] = { f, before };
	struct member *v = calloc((size_t)d->n + 1, sizeof *v);
	const int headers = before ? 2 : 1, n = v ? collect(v, d, both, by, split) : 0;
	struct table *t = v ? table_new(format, columns, headers > 1 ? 13 : 7) : NULL;
	if (v)
		qsort(v, (size_t)n, sizeof *v, by_name);
	for (int i = 0, end; t && i < n; i = end) {
		for (end = i + 1; end < n && !by_name(&v[i], &v[end]);)
			end++;
		add_group(t, v[i].name, &v[i], end - i, headers);
	}
	if (t && n)
		add_group(t, "all", v, n, headers);
	if (t)
		table_print(t, stdout);
	free(v);
	return t != NULL;
}
