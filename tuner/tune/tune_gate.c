/* SPDX-License-Identifier: Apache-2.0 */
/* tune_gate.c - the step "gate" of a tune: races the plans of new and old rules on the scenarios of
 * split "gate" where they differ. */
#include "tune.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "tuner/data/data.h"
#include "tuner/policy/policy.h"
#include "tuner/remeasure/requests.h"
#include "tuner/transfer/gate.h"
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct drawn {
	XXH64_hash_t key;
	int index; /* in the tune's list */
};

static int by_key(const void *a, const void *b)
{
	const struct drawn *x = a, *y = b;
	return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->index - y->index;
}

int *tune_draw(const struct tune *t, int (*takes)(const char *split), int *n)
{
	struct drawn *v = malloc(sizeof *v * ((size_t)t->list.n + 1));
	int *index = malloc(sizeof *index * ((size_t)t->list.n + 1));
	*n = 0;
	for (int i = 0; v && index && i < t->list.n; i++) {
		const struct scenario *s = &t->list.v[i];
		const XXH64_hash_t model = XXH3_64bits(s->model, strlen(s->model));
		if (takes(s->split))
			v[(*n)++] = (struct drawn){
				XXH3_64bits_withSeed(s->batch_text, strlen(s->batch_text), model), i
			};
	}
	if (!v || !index) {
		complain("out of memory");
		free(index);
		free(v);
		return NULL;
	}
	qsort(v, (size_t)*n, sizeof *v, by_key);
	for (int i = 0; i < *n; i++)
		index[i] = v[i].index;
	free(v);
	return index;
}

static int is_same(const struct measured *m, const struct scenario *s)
{
	return !strcmp(m->model, s->model) && !strcmp(m->batch_text, s->batch_text) &&
	       m->seed == s->seed && layout_of(m->layout) == s->layout &&
	       m->shape.page_size == s->shape.page_size && m->shape.dtype == s->shape.dtype &&
	       m->shape.kv_dtype == s->shape.kv_dtype && m->shape.has_lse == s->shape.has_lse;
}

const struct measured *tune_look(const struct tune *t, const struct scenario *s, int at,
				 struct measured *unknown)
{
	if (at >= 0)
		return &t->own->v[at];
	return measured_make_view(unknown, t->own, &s->shape, &s->batch->view) ? unknown : NULL;
}

int tune_find(const struct data *d, const struct scenario *scenario)
{
	for (int s = 0; s < d->n; s++)
		if (is_same(&d->v[s], scenario))
			return s;
	return -1;
}

/* The gate's scenarios, and what the rules run there. Old and new rules are compared within a race,
 * so a scenario that lacks a time is raced as a whole. */
static int list_gate(struct tune *t, const struct gate *g, struct wishes *w)
{
	int n, renewed, *drawn = tune_draw(t, split_is_gate, &n);
	for (int i = 0; drawn && i < n; i++) {
		const struct scenario *s = &t->list.v[drawn[i]];
		const int at = tune_find(t->own, s);
		struct measured unknown;
		const struct measured *m = tune_look(t, s, at, &unknown);
		if (!m)
			continue;
		wish_batch(w, s, at);
		gate_wish(g, w, t->own, m);
	}
	wishes_renew(w, t->own, &renewed);
	w->failed |= !drawn;
	free(drawn);
	return !w->failed;
}

int tune_gate(struct tune *t, const struct sweep_options *asked)
{
	const double began = budget_now();
	struct wishes w = { 0 };
	struct gate *g = gate_open(&t->from.incumbent, &t->fresh);
	int code = g && list_gate(t, g, &w) ? EXIT_DONE : EXIT_CHECK;
	struct sweep_options o = *asked;
	o.budget_s -= budget_now() - began;
	if (!code && w.n)
		code = wishes_measure(&w, &o, "b");
	gate_close(g);
	wishes_free(&w);
	return code;
}
