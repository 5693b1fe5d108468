/* SPDX-License-Identifier: Apache-2.0 */
/* store_bridge.c - lists sources that are not today's, and stores bridges from them to today's. */
#include "handle.h"
#include "store.h"
#include "harness/base/base.h"
#include <stdlib.h>
#include <string.h>

/* ---- sources that need a bridge ------------------------------------------------------- */

struct place {
	long long id, at; /* of dict->scenario */
};

static int by_id(const void *a, const void *b)
{
	const long long x = ((const struct place *)a)->id, y = ((const struct place *)b)->id;
	return (x > y) - (x < y);
}

static struct place *places_of(const struct dict *d)
{
	struct place *p = calloc((size_t)d->scenarios + 1, sizeof *p);
	for (long long i = 0; p && i < d->scenarios; i++)
		p[i] = (struct place){ d->scenario[i].cell.scenario_id, i };
	if (p)
		qsort(p, (size_t)d->scenarios, sizeof *p, by_id);
	return p;
}

/* The sources of a build that need a bridge. A bridge from what stored bridges lead to serves, too:
 *
 *   a row's source --stored bridge--> the source of last week --equal code--> today's */
enum { MOST_SOURCES = 32 };
struct wanting {
	long long build;
	struct built_source v[MOST_SOURCES];
	int n;
};

static void want_source(struct store *s, struct wanting *w, const struct built_source *one)
{
	struct built_source next[MOST_SOURCES];
	if (store_source_today(s, one) != STALE || w->n == MOST_SOURCES)
		return;
	for (int i = 0; i < w->n; i++)
		if (!strcmp(w->v[i].kernel, one->kernel) && !strcmp(w->v[i].hash, one->hash))
			return;
	w->v[w->n++] = *one;
	const int n = store_next_sources(s, one, next, MOST_SOURCES);
	for (int i = 0; i < n; i++)
		want_source(s, w, &next[i]);
}

static void want(struct store *s, struct wanting *w, const struct dict *d, long long build)
{
	const struct dict_build *b = &d->build[build];
	const char *sources = b->sources;
	struct built_source one = { .flags = b->flags, .arch = b->arch, .gpu = d->gpu };
	*w = (struct wanting){ .build = build };
	while (b->today == STALE && next_source(&sources, &one))
		want_source(s, w, &one);
}

static int each_source(const struct dict *d, const struct wanting *w, const struct place *place,
		       long long variant, long long rows,
		       int (*each)(void *, const struct store_use *), void *arg)
{
	int more = 1;
	for (int i = 0; i < w->n && more; i++) {
		const struct store_use use = {
			.kernel = w->v[i].kernel,
			.identity = w->v[i].hash,
			.arch = w->v[i].arch,
			.flags = w->v[i].flags,
			.plan = variant ? d->variant[variant].choice : NULL,
			.shape = &d->scenario[place->at].cell.shape,
			.rows = rows,
		};
		more = each(arg, &use);
	}
	return more;
}

int store_uses(struct store *s, const char *gpu, int (*each)(void *, const struct store_use *),
	       void *arg)
{
	const long long device = store_device_id(s, gpu);
	const struct dict *d = device > 0 ? store_dict(s, device) : NULL;
	struct place *places = d ? places_of(d) : NULL;
	sqlite3_stmt *st = places ? store_rows(s, BUILD_USES, "l", device) : NULL;
	struct wanting w = { 0 };
	int ok = st != NULL, more = 1;
	while (more && store_next(s, st, &ok)) {
		const long long build = store_int(s, st, 0, 1, d->builds - 1);
		const struct place key = { .id = store_int(s, st, 1, 1, INT64_MAX) };
		const struct place *place =
		    bsearch(&key, places, (size_t)d->scenarios, sizeof *places, by_id);
		const long long variant = store_int(s, st, 2, 0, d->variants - 1);
		if (!s->is_damaged && (!place || !d->build[build].sources))
			store_damaged(s, "a row refers to a missing row");
		if (s->is_damaged)
			continue;
		if (build != w.build)
			want(s, &w, d, build);
		more = each_source(d, &w, place, variant, sqlite3_column_int64(st, 3), each, arg);
	}
	if (device == 0)
		complain("%s: holds no measurement of %s", s->path, gpu);
	sqlite3_reset(st);
	free(places);
	return ok;
}

/* ---- bridges ------------------------------------------------------------------------------ */

int store_add_bridge(struct store *s, const struct store_bridge *b)
{
	if (!store_begin(s))
		return 0;
	const int ok = store_number(s, DROP_BRIDGE, "sssss", b->kernel, b->old, b->today, b->arch,
				    b->flags) >= 0 &&
		       store_number(s, ADD_BRIDGE, "sssssss", b->kernel, b->old, b->today, b->arch,
				    b->flags, b->toolkit, b->commit) > 0;
	const int ended = store_end(s, ok);
	store_forget(s);
	return ended;
}
