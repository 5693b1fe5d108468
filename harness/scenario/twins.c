/* twins.c - a hash table of scenarios by what is measured, so that a long set is read as fast, for
 * each scenario, as a short one. */
#include "scenario.h"
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static int is_twin(const struct scenario *a, const struct scenario *b, int by_seed)
{
	return !strcmp(a->model, b->model) && !strcmp(a->batch_text, b->batch_text) &&
	       a->shape.page_size == b->shape.page_size && a->shape.dtype == b->shape.dtype &&
	       a->shape.kv_dtype == b->shape.kv_dtype && a->layout == b->layout &&
	       (!by_seed || a->seed == b->seed);
}

static size_t hash_of(const struct scenario *s)
{
	const int rest[] = { s->shape.page_size, s->shape.dtype, s->shape.kv_dtype, s->layout };
	const XXH64_hash_t model =
	    XXH3_64bits_withSeed(s->model, strlen(s->model), XXH3_64bits(rest, sizeof rest));
	return XXH3_64bits_withSeed(s->batch_text, strlen(s->batch_text), model);
}

/* The slot with a twin, else the free one to put `s` into. The table is never full. */
static size_t find(const struct twins *t, const struct scenario *v, const struct scenario *s)
{
	const size_t mask = t->room - 1;
	size_t at = hash_of(s) & mask;
	while (t->slot[at] && !is_twin(&v[t->slot[at] - 1], s, t->by_seed))
		at = (at + 1) & mask;
	return at;
}

static int make_room(struct twins *t, const struct scenario *v)
{
	const struct twins old = *t;
	if (t->room && t->used < t->room / 2)
		return 1;
	t->room = t->room ? 2 * t->room : 1024;
	t->slot = calloc(t->room, sizeof *t->slot);
	if (!t->slot) {
		*t = old;
		return 0;
	}
	for (size_t i = 0; i < old.room; i++)
		if (old.slot[i])
			t->slot[find(t, v, &v[old.slot[i] - 1])] = old.slot[i];
	free(old.slot);
	return 1;
}

int twins_add(struct twins *t, const struct scenario *v, const struct scenario *s, int index)
{
	if (!make_room(t, v))
		return TWINS_NO_MEMORY;
	int *slot = &t->slot[find(t, v, s)];
	if (*slot)
		return *slot - 1;
	*slot = index + 1;
	t->used++;
	return TWINS_NONE;
}

void twins_free(struct twins *t)
{
	free(t->slot);
	*t = (struct twins){ .by_seed = t->by_seed };
}
