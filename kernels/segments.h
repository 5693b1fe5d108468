/* SPDX-License-Identifier: Apache-2.0 */
/* segments.h - the part of a batch that one launch computes, with its features; and the cost of
 * cutting the keys of a part into v segments: by costs fitted to measured times (struct
 * segment_costs), or by a formula of the kernel (struct formula). All are integers.
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
 * (GPCs), a cluster runs within one, and what is left of a group stays idle, most with an odd
 * number. With one block a unit an H200 of 132 runs this many clusters at a time (by
 * cudaOccupancyMaxActiveClusters; below, by segment_slots()). One more than that takes twice as
 * long.
 *
 *   segments   1   2   3   4   6   8
 *   H200     132  66  39  30  17  15
 *   here     132  64  39  30  19  13 */
#ifndef ATTUNE_SEGMENTS_H
#define ATTUNE_SEGMENTS_H

#include "attune.h"
#include "attune_features.h"

/* ---- a part ----------------------------------------------------------------------------- */

/* A query of at most this many tokens belongs to the decode part: one token,
 * or a few speculative ones. */
enum { DECODE_MAX_QUERY = 8 };

enum phase { PHASE_ALL, PHASE_PREFILL, PHASE_DECODE };

struct part {
	struct attune_features f;
	int seq_begin, seq_count, min_query, max_query;
	/* query_start[seq_begin + seq_count] - query_start[seq_begin], with the tokens of sequences
	 * in between that are not of this part */
	long long range_tokens;
	/* The same for its prefill and its decode sequences; seq_count 0: none. */
	attune_span prefill, decode;
	/* ESTIMATE of a .def: geometry() derived it from features that a launch does not have. 0:
	 * not computed yet; MOST_ESTIMATE: the one that needs most workspace. */
	int estimated;
};

enum { MOST_ESTIMATE = -1 };

/* The inputs of a part from the layer and the device. */
struct part_shape {
	int causal, window;
	struct attune_features f; /* those that do not depend on the batch; others 0 */
};

/* Sums and maxima over the sequences of a phase; order and grouping do not matter. NEG_: a minimum,
 * as the maximum of negatives. */
enum { SUM_SEQS, SUM_QUERIES, SUM_KEYS, SUM_PAIRS, NUM_SUMS };
enum { MOST_KEYS, MOST_QUERY, MOST_NEG_QUERY, MOST_NEG_SEQ, MOST_SEQ, NUM_MOST };
struct part_sums {
	long long sum[NUM_SUMS], most[NUM_MOST];
};

static inline long long min_of(long long a, long long b)
{
	return a < b ? a : b;
}

static inline long long max_of(long long a, long long b)
{
	return a > b ? a : b;
}

/* n / of, rounded up. */
static inline long long parts_of(long long n, long long of)
{
	return (n + of - 1) / of;
}

/* Phase of a sequence; PHASE_ALL: in none. */
static inline enum phase seq_phase(int query)
{
	return query < 1 ? PHASE_ALL : query <= DECODE_MAX_QUERY ? PHASE_DECODE : PHASE_PREFILL;
}

/* Keys that at least one query of the sequence sees. */
static inline long long seq_live_keys(const struct part_shape *s, int query, int seq)
{
	return s->window ? min_of(seq, (long long)s->window + query - 1) : seq;
}

/* Sum over e = 1 .. n of min(e, cap). */
static inline long long ramp(long long n, long long cap)
{
	if (n <= 0)
		return 0;
	return n <= cap ? n * (n + 1) / 2 : cap * (cap + 1) / 2 + (n - cap) * cap;
}

/* Query-key pairs of one head: sum over the query's tokens of the keys seen. Token
 * i stands at position e - 1, e = context + 1 + i; a causal one sees min(e, window)
 * keys, any other seq - max(e - window, 0); none where e is not positive. */
static inline long long seq_pairs(const struct part_shape *s, int query, int seq)
{
	const long long context = (long long)seq - query, window = s->window ? s->window : seq;
	if (s->causal)
		return ramp(seq, window) - ramp(context, window);
	return (long long)query * seq - ramp(seq - window, seq) + ramp(context - window, seq);
}

static inline void sums_start(struct part_sums *t)
{
	for (int i = 0; i < NUM_SUMS; i++)
		t->sum[i] = 0;
	for (int i = 0; i < NUM_MOST; i++)
		t->most[i] = -(1ll << 40);
}

/* Sequence `index` of the batch. */
static inline void sums_add(struct part_sums *t, const struct part_shape *s, int index, int query,
			    int seq)
{
	const long long keys = seq_live_keys(s, query, seq);
	t->sum[SUM_SEQS]++;
	t->sum[SUM_QUERIES] += query;
	t->sum[SUM_KEYS] += keys;
	t->sum[SUM_PAIRS] += seq_pairs(s, query, seq);
	t->most[MOST_KEYS] = max_of(t->most[MOST_KEYS], keys);
	t->most[MOST_QUERY] = max_of(t->most[MOST_QUERY], query);
	t->most[MOST_NEG_QUERY] = max_of(t->most[MOST_NEG_QUERY], -query);
	t->most[MOST_NEG_SEQ] = max_of(t->most[MOST_NEG_SEQ], -index);
	t->most[MOST_SEQ] = max_of(t->most[MOST_SEQ], index);
}

static inline void sums_join(struct part_sums *t, const struct part_sums *more)
{
	for (int i = 0; i < NUM_SUMS; i++)
		t->sum[i] += more->sum[i];
	for (int i = 0; i < NUM_MOST; i++)
		t->most[i] = max_of(t->most[i], more->most[i]);
}

/* Q blocks of block_q tokens as the kernels number them: sequence i of the part starts at block
 * (query_start[i] - query_start[seq_begin]) / block_q + i, which leaves room for each sequence's
 * last, partial block without a prefix sum. If no query is longer than block_q: one block a
 * sequence. */
static inline long long q_blocks_of(int seqs, int max_query, long long tokens, int block_q)
{
	return max_query <= block_q ? seqs : tokens / block_q + seqs;
}

static inline long long part_q_blocks(const struct part *p, int block_q)
{
	return q_blocks_of(p->seq_count, p->max_query, p->range_tokens, block_q);
}

/* Blocks of a launch at one segment, with Q blocks of so many rows. */
static inline long long part_blocks(const struct part *p, int rows)
{
	const int group = (int)p->f.group, block_q = group < rows ? rows / group : 1;
	return part_q_blocks(p, block_q) * p->f.num_kv_heads * ((group + rows - 1) / rows);
}

/* The prefills' share, in 64ths, of the time of both phases in turn, on a machine that does
 * FLOPS_OF_BYTE flops while it reads a byte. Head size and KV heads are factors of both and
 * cancel. */
static inline long long part_prefill_share(const struct attune_features *f, long long prefill_pairs,
					   long long decode_keys)
{
	enum { FLOPS_OF_BYTE = 128 };
	const long long prefill = prefill_pairs * f->group * 4;
	const long long decode = decode_keys * f->kv_bytes * 2 * FLOPS_OF_BYTE;
	if (!decode)
		return prefill ? 64 : 0;
	return prefill / ((prefill + decode) / 64 + 1);
}

/* Derives the other features from the sums and the ranges. */
static inline void part_derive(struct part *p)
{
	struct attune_features *f = &p->f;
	f->max_query = p->max_query;
	f->rows = f->max_query * f->group;
	f->row_blocks = (f->query_tokens * f->num_query_heads + 63) / 64;
	f->heads_x_seqs = f->num_seqs * f->num_kv_heads;
	f->mean_seq = f->kv_tokens / f->num_seqs;
	f->skew = f->mean_seq ? 16 * f->max_seq / f->mean_seq : 16;
	f->mean_query = f->query_tokens / f->num_seqs;
	f->keys_per_query = f->work / f->query_tokens;
	f->work = (f->work + 4095) / 4096; /* pairs until here */
	f->kv_kib = f->kv_tokens * f->num_kv_heads * f->head_size * f->kv_bytes * 2 / 1024;
	f->blocks_per_unit = (16 * part_blocks(p, 16) + f->units - 1) / f->units;
}

/* Makes a part from the sums of the batch's prefills and decodes; `own`: the part's. 0: the part
 * has no sequence. */
static inline int part_from(struct part *p, const struct part_shape *s, const struct part_sums *own,
			    const struct part_sums *prefill, const struct part_sums *decode,
			    const int *query_start)
{
	struct attune_features *f = &p->f;
	const int last = (int)own->most[MOST_SEQ];
	if (!own->sum[SUM_SEQS])
		return 0;
	*f = s->f;
	f->num_seqs = own->sum[SUM_SEQS];
	f->query_tokens = own->sum[SUM_QUERIES];
	f->kv_tokens = own->sum[SUM_KEYS];
	f->work = own->sum[SUM_PAIRS];
	f->max_seq = own->most[MOST_KEYS];
	f->decode_seqs = decode->sum[SUM_SEQS];
	f->decode_kv = decode->sum[SUM_KEYS];
	f->prefill_tokens = prefill->sum[SUM_QUERIES];
	p->max_query = (int)own->most[MOST_QUERY];
	p->min_query = (int)-own->most[MOST_NEG_QUERY];
	p->seq_begin = (int)-own->most[MOST_NEG_SEQ];
	p->seq_count = last + 1 - p->seq_begin;
	p->range_tokens = query_start[last + 1] - query_start[p->seq_begin];
	f->prefill_share =
	    part_prefill_share(f, p->max_query > DECODE_MAX_QUERY ? prefill->sum[SUM_PAIRS] : 0,
			       p->min_query <= DECODE_MAX_QUERY ? decode->sum[SUM_KEYS] : 0);
	part_derive(p);
	return 1;
}

/* ---- costs ------------------------------------------------------------------------------ */

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

#endif
