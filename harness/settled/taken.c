/* SPDX-License-Identifier: Apache-2.0 */
/* taken.c - what new training scenarios must leave alone: the batches of splits "heldout*", "gate" and
 * "peers", which nothing may be learned from; shapes that only these have; and scenarios that exist.
 * Batches that differ only in the order of their sequences count as the same. */
#include "settled.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/choice.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lengths {
	int32_t query, seq;
};

static int by_lengths(const void *pa, const void *pb)
{
	const struct lengths *a = pa, *b = pb;
	return a->query != b->query ? (a->query > b->query) - (a->query < b->query)
				    : (a->seq > b->seq) - (a->seq < b->seq);
}

/* The batch as text, with sorted sequences; NULL: no batch, or out of memory. */
static char *sorted_text(const char *batch)
{
	char error[200], *text = NULL;
	struct batch *b = batch_parse(batch, error, sizeof error);
	const int n = b ? b->view.num_seqs : 0;
	struct lengths *v = malloc(sizeof *v * (size_t)(n + 1));
	if (!b || !v)
		goto out;
	for (int i = 0; i < n; i++)
		v[i] = (struct lengths){ batch_query_len(&b->view, i), b->seq_lens[i] };
	qsort(v, (size_t)n, sizeof *v, by_lengths);
	for (int i = 0; i < n; i++) {
		b->query_start[i + 1] = b->query_start[i] + v[i].query;
		b->seq_lens[i] = v[i].seq;
	}
	text = batch_format(&b->view);
out:
	free(v);
	batch_free(b);
	return text;
}

/* Kinds of keys: a batch of any shape that is held out; a scenario; a shape of each side. */
enum { HELD_OUT = 'h', SCENARIO = 's', HELD_OUT_SHAPE = 'm', LEARNED_SHAPE = 'l' };

/* Owned by the caller. NULL: no batch, or out of memory. */
static char *key_of(int kind, const attune_shape *s, const char *sorted)
{
	char model[MODEL_KEY] = "", *key;
	if (kind != HELD_OUT)
		model_key(model, s);
	const int n = kind == SCENARIO
			  ? asprintf(&key, "s %s %d %s %s %s", model, s->page_size,
				     dtype_name(s->dtype), dtype_name(s->kv_dtype), sorted)
			  : asprintf(&key, "%c %s%s", kind, model, kind == HELD_OUT ? sorted : "");
	return n < 0 ? NULL : key;
}

static int by_text(const void *pa, const void *pb)
{
	return strcmp(*(char *const *)pa, *(char *const *)pb);
}

static void add_key(struct taken *t, int kind, const attune_shape *s, const char *sorted)
{
	char *key = key_of(kind, s, sorted);
	if (key && array_grow(&t->v, t->n, &t->room, sizeof *t->v)) {
		t->v[t->n++] = key;
		return;
	}
	free(key);
	t->failed = 1;
}

static void add(struct taken *t, const attune_shape *s, const char *batch, const char *split)
{
	char *sorted = sorted_text(batch);
	if (!sorted) {
		t->failed = 1;
		return;
	}
	if (split_is_held_out(split))
		add_key(t, HELD_OUT, s, sorted);
	add_key(t, SCENARIO, s, sorted);
	add_key(t, split_is_held_out(split) ? HELD_OUT_SHAPE : LEARNED_SHAPE, s, "");
	free(sorted);
}

static int take(void *arg, const struct store_cell *c)
{
	add(arg, &c->shape, c->batch, c->split);
	return 0; /* no rows of it are read */
}

static int pass_over(void *arg, const struct store_cell *c)
{
	(void)arg, (void)c;
	return 1;
}

static int sort(struct taken *t)
{
	if (t->failed)
		complain("out of memory");
	else if (t->n)
		qsort(t->v, (size_t)t->n, sizeof *t->v, by_text);
	return !t->failed;
}

int taken_of_store(struct taken *t, struct store *s, const char *gpu)
{
	return store_each_of(s, gpu, take, pass_over, t) && sort(t);
}

int taken_of_sets(struct taken *t, const struct scenario_list *list)
{
	for (int i = 0; i < list->n; i++)
		add(t, &list->v[i].shape, list->v[i].batch_text, list->v[i].split);
	return sort(t);
}

static int has(const struct taken *t, int kind, const attune_shape *s, const char *sorted)
{
	char *key = key_of(kind, s, sorted);
	/* without memory it counts as there: nothing is then learned from it */
	const int is_there =
	    !key || (t->n && bsearch(&key, t->v, (size_t)t->n, sizeof *t->v, by_text));
	free(key);
	return is_there;
}

int taken_is_held_out(const struct taken *t, const char *batch)
{
	char *sorted = sorted_text(batch);
	const int is = !sorted || has(t, HELD_OUT, NULL, sorted);
	free(sorted);
	return is;
}

int taken_has_scenario(const struct taken *t, const attune_shape *s, const char *batch)
{
	char *sorted = sorted_text(batch);
	const int is = !sorted || has(t, SCENARIO, s, sorted);
	free(sorted);
	return is;
}

int taken_shape_is_held_out(const struct taken *t, const attune_shape *s)
{
	return has(t, HELD_OUT_SHAPE, s, "") && !has(t, LEARNED_SHAPE, s, "");
}

void taken_free(struct taken *t)
{
	for (int i = 0; i < t->n; i++)
		free(t->v[i]);
	free(t->v);
	*t = (struct taken){ 0 };
}
