/* segments.h - the cost of cutting the keys of a part into v segments: by costs fitted to measured
 * times (struct segment_costs), or by a formula of the kernel (struct formula). All are integers.
 *
 * Costs are a multiple of the path: the keys of the slot that finishes last. Blocks go to units x
 * slots in the order of the grid, the next block to the first free slot (Graham 1966, "Bounds for
 * certain multiprocessing anomalies"):
 *
 *   slot 0  |####|####|##|          n blocks (of all segments) of `mean` keys, the longest
 *   slot 1  |###|#####|             of `longest`; each counts `start` keys more
 *   slot 2  |#####|###|###|
 *
 *   n <= slots   the longest block
 *   n > slots    (mean + start) n / slots, as if all slots were busy to the end
 *                + the idle slots of the last wave; less if blocks differ more
 *                + the excess of the last block over the mean. Decodes come in any order: the whole
 *                  excess. Prompts begin with the longest blocks: a quarter of it, divided by the
 *                  number of waves.
 *
 * Where the segments of a Q block are a cluster, slots are fewer: the units of a chip lie in groups
 * (GPCs), a cluster runs within one, and what is left of a group stays idle, most with an odd number.
 * With one block a unit an H200 of 132 runs this many clusters at a time (cudaOccupancyMaxActiveClusters;
 * below, by segment_slots()). One more than that takes twice as long.
 *
 *   segments   1   2   3   4   6   8
 *   H200     132  66  39  30  17  15
 *   here     132  64  39  30  19  13 */
#ifndef ATTUNE_SEGMENTS_H
#define ATTUNE_SEGMENTS_H

#include "part.h"

/* The part of a choice's time that depends on the number of segments. */
struct segment_costs {
	int slots; /* blocks that a unit runs at a time, up to MOST_SLOTS */
	int start; /* cost of a block's beginning and end in keys, up to MOST_START */
	/* Femtoseconds: a key of the path; having more than one segment; each segment; merging one
	 * row of a segment. */
	long long path, split, segments, merge;
};
/* Amounts are at most 2^27, so sums fit 63 bits. */
enum { MOST_SLOTS = 1 << 10, MOST_START = 1 << 16 };
#define MOST_OF_MANY ((1ll << 32) - 1) /* of path and merge */
#define MOST_OF_FEW ((1ll << 40) - 1)  /* of split and segments */

/* The shape of a choice's Q blocks. */
struct block_shape {
	int rows, tile; /* rows of a Q block; keys of a step */
	int heads;      /* most heads of a KV head in a Q block; 0: all that fit */
	int clusters;   /* the segments of a Q block are a cluster */
};

/* The cost of v segments by a formula, in keys:
 *
 *   ceil(blocks v / (units slots)) (mean / v + start)    waves, each as long as a block
 *   + (longest - mean) / v                               the last block to finish
 *   + (v > 1 ? launch : 0) + merge v                     the reduction
 *
 * blocks: of the launch at one segment; mean: the lesser of mean_seq and
 * keys_per_query; longest: max_seq. All divisions but the first round down. */
struct formula {
	int slots;  /* blocks that a unit runs at a time; 0: what its shared memory holds */
	int start;  /* cost of a block before its first key */
	int launch; /* cost of a reduction */
	int merge;  /* its cost for each segment */
};

/* ---- when cuts are legal: the rules of kernels with SEGMENTS ---------------------------- */

/* The limit of the partials of a launch. */
enum { MAX_PARTIAL_BYTES = 256 << 20 };

static inline int segments_have_tiles(int segments, int tile, const struct part *p)
{
	return segments == 1 || (long long)segments * tile < 2 * p->f.max_seq;
}

static inline long long partial_bytes(long long rows, long long query_heads, int segments,
				   int head_size)
{
	return segments == 1 ? 0 : rows * query_heads * segments * (head_size + 2) * 4;
}

static inline int partials_fit(int segments, const struct part *p)
{
	return partial_bytes((long long)p->seq_count * p->max_query, p->f.num_query_heads, segments,
			     (int)p->f.head_size) <= MAX_PARTIAL_BYTES;
}

/* ---- by costs --------------------------------------------------------------------------- */

/* Blocks at one segment, and the keys of a block. Computed once for all numbers of segments, since
 * divisions take most of the time. */
struct segment_load {
	long long blocks;
	long long tiles;       /* of the longest */
	long long padded_mean; /* mean keys, rounded up to whole tiles */
	long long mean;
	int longest_first; /* the longest blocks begin first */
};

static inline void segment_load_of(struct segment_load *l, const struct block_shape *b,
				const struct attune_features *f)
{
	const long long packed = b->heads ? min_of(b->heads, f->group) : f->group;
	const long long block_q = max_of(b->rows / packed, 1);
	l->blocks = f->num_seqs;
	l->mean = f->keys_per_query;
	l->longest_first = f->max_query > DECODE_MAX_QUERY;
	if (f->max_query > block_q) {
		/* If queries differ in length, their last blocks are taken to be half full. */
		const long long tokens = 2 * f->query_tokens + f->num_seqs * (block_q - 1);
		l->mean += block_q / 2;
		l->blocks = f->mean_query == f->max_query
				? f->num_seqs * parts_of(f->max_query, block_q)
				: max_of(f->num_seqs, parts_of(tokens, 2 * block_q));
	}
	l->blocks *= f->num_kv_heads * parts_of(f->group, min_of(packed, b->rows));
	const long long longest = min_of(f->max_seq, f->window + block_q);
	l->mean = min_of(l->mean, longest);
	l->tiles = parts_of(longest, b->tile);
	l->padded_mean = parts_of(l->mean, b->tile) * b->tile;
}

/* The blocks that run at a time at v segments. */
static inline long long segment_slots(const struct segment_costs *c, const struct block_shape *b,
				   long long units, long long v)
{
	enum { IDLE = 3 /* for each block of a cluster but the first */, IDLE_ODD = 9 };
	const long long slots = units * c->slots;
	const long long idle = IDLE * (v - 1) + IDLE_ODD * (v & 1);
	return b->clusters && v > 1 ? max_of((slots - idle) / v, 1) * v : slots;
}

/* The path at v segments. */
static inline long long segment_path(const struct segment_costs *c, const struct segment_load *l,
				  const struct block_shape *b, long long units, long long v)
{
	enum { SMOOTHING = 4, TAIL_SHARE = 4 };
	const long long slots = segment_slots(c, b, units, v), n = l->blocks * v;
	const long long longest = parts_of(l->tiles, v) * b->tile;
	const long long mean = parts_of(l->padded_mean, v);
	const long long one = mean + c->start, more = max_of(longest - mean, 0);
	if (n <= slots)
		return longest + c->start;
	const long long idle = parts_of(n, slots) * slots - n;
	/* idle * one * one / weight, in steps that fit 63 bits */
	const long long weight = max_of(one + SMOOTHING * more, 1), square = one * one;
	const long long lacks = idle * (square / weight) + idle * (square % weight) / weight;
	const long long tail = l->longest_first ? more * slots / (TAIL_SHARE * n) : more;
	return max_of((one * n + lacks) / slots + tail, longest + c->start);
}

/* The cost of v segments in fs; rows: query tokens x query heads. */
static inline long long segment_cost(const struct segment_costs *c, long long path, long long rows,
				  long long v)
{
	const long long most = 1 << 27;
	const long long cuts =
	    v > 1 ? c->split + c->segments * v + c->merge * min_of(rows * v, most) : 0;
	return c->path * min_of(path, most) + cuts;
}

/* The same for a part. */
static inline long long segments_cost(const struct segment_costs *c, const struct block_shape *b,
				   const struct attune_features *f, long long v)
{
	struct segment_load l;
	segment_load_of(&l, b, f);
	return segment_cost(c, segment_path(c, &l, b, f->units, v),
			    f->query_tokens * f->num_query_heads, v);
}

/* ---- by a formula ----------------------------------------------------------------------- */

/* In keys. blocks: of the launch at one segment; at_once: blocks that run at a time. */
static inline long long formula_estimate(const struct formula *f, const struct attune_features *of,
				      long long blocks, long long at_once, long long v)
{
	const long long mean = min_of(of->mean_seq, of->keys_per_query);
	const long long waves = (blocks * v + at_once - 1) / at_once;
	return waves * (mean / v + f->start) + (of->max_seq - mean) / v + (v > 1 ? f->launch : 0) +
	       f->merge * v;
}

#endif
