/* memo.c - the hash table of results by set of rows and depth. The result of a set does not depend
 * on the splits that led to it. Sets are identified by the exclusive or of 128 random bits per row
 * (Zobrist 1970) and by their size. */
#include "solver.h"
#include <stdlib.h>

struct entry {
	uint64_t hash[2];
	int n, depth; /* depth 0: free */
	struct answer answer;
};
enum { FIRST_ROOM = 1 << 10, MOST_ROOM = 1 << 20 }; /* powers of two; 72 MB */

static struct entry *find(const struct cache *c, const uint64_t hash[2], int n, int depth)
{
	size_t i = (hash[0] + (uint64_t)depth) & (c->room - 1);
	for (; c->v[i].depth; i = (i + 1) & (c->room - 1)) {
		struct entry *e = &c->v[i];
		if (e->hash[0] == hash[0] && e->hash[1] == hash[1] && e->n == n &&
		    e->depth == depth)
			return e;
	}
	return &c->v[i];
}

static void grow_cache(struct cache *c)
{
	struct cache to = { .room = c->room ? 2 * c->room : FIRST_ROOM, .used = c->used };
	to.v = calloc(to.room, sizeof *to.v);
	if (!to.v)
		return;
	for (size_t i = 0; i < c->room; i++)
		if (c->v[i].depth)
			*find(&to, c->v[i].hash, c->v[i].n, c->v[i].depth) = c->v[i];
	free(c->v);
	*c = to;
}

static void set_hash(const struct solver *s, const int *rows, int n, uint64_t hash[2])
{
	hash[0] = hash[1] = 0;
	for (int i = 0; i < n; i++)
		for (int h = 0; h < 2; h++)
			hash[h] ^= s->hash[rows[i]][h];
}

const struct answer *recall(const struct solver *s, const int *rows, int n, int depth)
{
	uint64_t hash[2];
	set_hash(s, rows, n, hash);
	const struct entry *e = s->cache.v ? find(&s->cache, hash, n, depth) : NULL;
	return e && e->depth ? &e->answer : NULL;
}

void remember(struct solver *s, const int *rows, int n, int depth, const struct answer *answer)
{
	uint64_t hash[2];
	struct cache *c = &s->cache;
	set_hash(s, rows, n, hash);
	if (2 * c->used >= c->room && c->room < MOST_ROOM)
		grow_cache(c);
	if (!c->v)
		return;
	struct entry *e = find(c, hash, n, depth);
	if (!e->depth && 4 * c->used > 3 * c->room)
		return;
	c->used += !e->depth;
	*e = (struct entry){ { hash[0], hash[1] }, n, depth, *answer };
}
