/* list_schedule.c - computes the path of one batch: the keys of the slot that finishes last. Blocks
 * are assigned longest first, each to the slot that is free first (Graham 1969, "Bounds on
 * multiprocessing timing anomalies", section 5). Prompts differ in length, and slightly more blocks
 * than one wave take twice as long; no closed form over features covers both. It is too slow for
 * the library, so only the tuner uses it. */
#include "costmodel.h"
#include "kernels/spec/part.h"
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* With this many blocks a slot, the average load is close enough. */
enum { MANY = 16 };

struct blocks {
	int *tiles; /* of each Q block of one head, longest first */
	int n;
	long long copies; /* heads x segments, all alike */
};

static int longer_first(const void *a, const void *b)
{
	const int x = *(const int *)a, y = *(const int *)b;
	return (x < y) - (x > y);
}

/* Tiles that query tokens from..to - 1 of a sequence see. */
static int tiles_of(const struct list_schedule *d, int tile, long long context, long long from,
		    long long to, long long seq)
{
	const long long end = d->shape->causal ? context + to : seq;
	const int window = window_of(d->shape);
	const long long begin = window ? max_of(context + from + 1 - window, 0) : 0;
	return (int)max_of(parts_of(end, tile) - begin / tile, 1);
}

static int list_blocks(struct blocks *out, const struct list_schedule *d,
		       const struct block_shape *b, long long block_q)
{
	const attune_batch *batch = d->batch;
	size_t most = 0;
	for (int i = 0; i < batch->num_seqs; i++)
		most += (size_t)((batch->query_start[i + 1] - batch->query_start[i]) / block_q + 1);
	out->tiles = malloc(sizeof *out->tiles * (most + 1));
	out->n = 0;
	for (int i = 0; out->tiles && i < batch->num_seqs; i++) {
		const long long query = batch->query_start[i + 1] - batch->query_start[i];
		if (seq_phase((int)query) != d->phase)
			continue;
		for (long long at = 0; at < query; at += block_q)
			out->tiles[out->n++] =
			    tiles_of(d, b->tile, batch->seq_lens[i] - query, at,
				     min_of(at + block_q, query), batch->seq_lens[i]);
	}
	if (out->tiles)
		qsort(out->tiles, (size_t)out->n, sizeof *out->tiles, longer_first);
	return out->tiles != NULL;
}

/* The loads of the slots: those that the current blocks have not raised, least first, and a queue of
 * those that they have. */
struct loads {
	long long *v, *queue, *next; /* [slots] next: scratch */
	int slots, taken;            /* of v */
	int first, last, queued;
};

static long long take_least(struct loads *l)
{
	if (l->taken < l->slots && !(l->queued && l->queue[l->first] < l->v[l->taken]))
		return l->v[l->taken++];
	const long long least = l->queue[l->first];
	l->first = l->first + 1 == l->slots ? 0 : l->first + 1;
	l->queued--;
	return least;
}

/* Assigns `count` blocks of `keys` keys, each to the slot that is free first. Loads are raised by the same
 * amount in the order in which they are taken, so the queue is sorted, too. */
static void assign_blocks(struct loads *l, long long keys, long long count)
{
	l->taken = l->first = l->last = l->queued = 0;
	for (; count > 0; count--) {
		l->queue[l->last] = take_least(l) + keys;
		l->last = l->last + 1 == l->slots ? 0 : l->last + 1;
		l->queued++;
	}
	for (int i = 0; i < l->slots; i++)
		l->next[i] = take_least(l);
	long long *const sorted = l->next;
	l->next = l->v;
	l->v = sorted;
}

static long long keys_of(const struct blocks *d, int i, const struct cost_model *p, int segments)
{
	return parts_of(d->tiles[i], segments) * p->block.tile + p->start;
}

/* Keys of the slot that finishes last; -1 without memory. */
static long long last_slot(const struct blocks *d, const struct cost_model *p, int slots,
			   int segments)
{
	const long long blocks = d->n * d->copies;
	long long sum = 0, longest = d->n ? keys_of(d, 0, p, segments) : 0, last;
	if (blocks <= slots)
		return longest;
	for (int i = 0; i < d->n; i++)
		sum += d->copies * keys_of(d, i, p, segments);
	if (blocks >= (long long)MANY * slots)
		return max_of(sum / slots + keys_of(d, d->n - 1, p, segments) / 2, longest);
	long long *room = calloc((size_t)slots, 3 * sizeof *room);
	struct loads l = {
		.v = room, .queue = room + slots, .next = room + 2 * slots, .slots = slots
	};
	if (!room)
		return -1;
	for (int i = 0, next = 0; i < d->n; i = next) {
		while (next < d->n && d->tiles[next] == d->tiles[i])
			next++;
		assign_blocks(&l, keys_of(d, i, p, segments), (next - i) * d->copies);
	}
	last = l.v[slots - 1];
	free(room);
	return last;
}

/* ---- a cache -------------------------------------------------------------- */
struct path_key {
	const attune_shape *shape; /* its address stands for the batch */
	int rows, tile, heads, slots, start, segments;
};
_Static_assert(sizeof(struct path_key) == sizeof(void *) + 6 * sizeof(int),
	       "keys are compared as bytes, so there is no padding");
enum { MEMO_SLOTS = 1 << 17 };
struct path_memo {
	struct {
		struct path_key key;
		long long path;
	} at[MEMO_SLOTS];
};

struct path_memo *path_memo_new(void)
{
	return calloc(1, sizeof(struct path_memo));
}

static long long schedule(const struct cost_model *p, const struct list_schedule *d, int slots,
			  int segments)
{
	const attune_shape *s = d->shape;
	const long long group = s->num_query_heads / s->num_kv_heads;
	const long long packed = p->block.heads ? min_of(p->block.heads, group) : group;
	const long long heads = s->num_kv_heads * parts_of(group, min_of(packed, p->block.rows));
	struct blocks blocks = { .copies = heads * segments };
	long long path = -1;
	if (list_blocks(&blocks, d, &p->block, max_of(p->block.rows / packed, 1)))
		path = last_slot(&blocks, p, slots, segments);
	free(blocks.tiles);
	return path;
}

long long list_schedule_path(const struct cost_model *p, const struct list_schedule *d,
			     long long units, int segments)
{
	const int slots = d->at_once ? d->at_once : (int)units * p->slots;
	const struct path_key key = { d->shape, p->block.rows, p->block.tile, p->block.heads,
				      slots,    p->start,      segments };
	const size_t at = XXH3_64bits(&key, sizeof key) % MEMO_SLOTS;
	if (!d->memo)
		return schedule(p, d, slots, segments);
	if (memcmp(&d->memo->at[at].key, &key, sizeof key)) {
		d->memo->at[at].path = schedule(p, d, slots, segments);
		d->memo->at[at].key = key;
	}
	return d->memo->at[at].path;
}
