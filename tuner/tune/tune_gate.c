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

/* The gate's scenarios in an order that has nothing to do with their kinds, as time may end before
 * the last. Returns their number. */
static int draw(const struct scenario_list *from, struct drawn *out)
{
	int n = 0;
	for (int i = 0; i < from->n; i++) {
		const struct scenario *s = &from->v[i];
		const XXH64_hash_t model = XXH3_64bits(s->model, strlen(s->model));
		if (split_is_gate(s->split))
			out[n++] = (struct drawn){
				XXH3_64bits_withSeed(s->batch_text, strlen(s->batch_text), model), i
			};
	}
	qsort(out, (size_t)n, sizeof *out, by_key);
	return n;
}

static int is_same(const struct measured *m, const struct scenario *s)
{
	return !strcmp(m->model, s->model) && !strcmp(m->batch_text, s->batch_text) &&
	       m->seed == s->seed && layout_of(m->layout) == s->layout &&
	       m->shape.page_size == s->shape.page_size && m->shape.dtype == s->shape.dtype &&
	       m->shape.kv_dtype == s->shape.kv_dtype && m->shape.has_lse == s->shape.has_lse;
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
	struct drawn *drawn = malloc(sizeof *drawn * ((size_t)t->list.n + 1));
	const int n = drawn ? draw(&t->list, drawn) : 0;
	int renewed;
	for (int i = 0; i < n; i++) {
		const struct scenario *s = &t->list.v[drawn[i].index];
		const int at = tune_find(t->own, s);
		struct measured unknown;
		if (at < 0 && !measured_make_view(&unknown, t->own, &s->shape, &s->batch->view))
			continue;
		wish_batch(w, s, at);
		gate_wish(g, w, t->own, at < 0 ? &unknown : &t->own->v[at]);
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
