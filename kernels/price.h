/* price.h - what a choice is expected to take on a part, from its features alone: by
 * prices where it has them (struct price), else what its formula says of segments (struct
 * formula). The same lines for C and device code: what the host would pick a kernel picks.
 *
 * A sum of prices (fitted by tuner/prices.c to measured times) times amounts
 * (price_terms.def), all integers. The amount that decides is the path: the keys that the
 * slot which finishes last works through. Blocks are dealt to units x slots in the order
 * of the grid, the next one to whoever is free (Graham 1966, "Bounds for certain
 * multiprocessing anomalies"):
 *
 *   slot 0  |####|####|##|          n blocks (of all segments), `mean` keys each, the
 *   slot 1  |###|#####|             longest `longest`; each is `start` keys more
 *   slot 2  |#####|###|###|
 *
 *   at most a wave   the longest block
 *   more             (mean + start) n / slots           all are busy to the end
 *                    + what a last wave lacks, the less the more blocks differ
 *                    + tail: how much longer than the mean the last one may be. Decodes
 *                      come in any order, so all of it; of prompts the longest blocks
 *                      start first, so a quarter of it, shared out among the waves */
#ifndef ATTUNE_PRICE_H
#define ATTUNE_PRICE_H

#include "part.h"

enum price_term {
#define TERM(name, bits, amount) PRICE_##name,
#include "price_terms.def"
#undef TERM
	NUM_PRICE_TERMS
};
enum { MAX_PRICE_KEYS = 1 << 16, MAX_PRICE_SLOTS = 1 << 10 }; /* else products overflow */
struct price {
	int rows, tile; /* of a Q block, of a step along the keys; to MAX_PRICE_KEYS */
	int heads;      /* of one KV head that a Q block holds at most; 0: all that fit */
	int slots;      /* blocks that a unit runs at a time, to MAX_PRICE_SLOTS */
	int start;      /* keys that a block's beginning and end are worth, to MAX_PRICE_KEYS */
	/* femtoseconds of one, 0 to price_limits */
	long long fs[NUM_PRICE_TERMS];
};

/* Works out how many segments a batch is to be cut into. In keys, the estimate of
 * v segments is
 *
 *   ceil(blocks v / (units slots)) (mean / v + start)    waves, each as long as a block
 *   + (longest - mean) / v                               the last block to finish
 *   + (v > 1 ? launch : 0) + merge v                     the reduction
 *
 * blocks: of the launch at one segment; mean: the lesser of mean_seq and
 * keys_per_query; longest: max_seq. All divisions but the first round down. */
struct formula {
	int slots;  /* blocks that a unit runs at a time; 0: what its shared memory holds */
	int start;  /* what a block costs before its first key */
	int launch; /* what a reduction costs at all */
	int merge;  /* what it costs for each segment */
};

/* ---- when cutting is legal at all; the rules of kernels with SEGMENTS ------------------- */

/* Partials of a segmented launch never take more than this. */
enum { MAX_PARTIAL_BYTES = 256 << 20 };

BOTH_SIDES int segments_have_tiles(int segments, int tile, const struct part *p)
{
	return segments == 1 || (long long)segments * tile < 2 * p->f.max_seq;
}

BOTH_SIDES long long partial_bytes(long long rows, long long query_heads, int segments,
				   int head_size)
{
	return segments == 1 ? 0 : rows * query_heads * segments * (head_size + 2) * 4;
}

BOTH_SIDES int partials_fit(int segments, const struct part *p)
{
	return partial_bytes((long long)p->seq_count * p->max_query, p->f.num_query_heads, segments,
			     (int)p->f.head_size) <= MAX_PARTIAL_BYTES;
}

/* ---- by prices -------------------------------------------------------------------------- */

/* Blocks of one segment, and the keys that one works through, before tiles: of the mean
 * and of the longest. And what follows from these for any number of segments: divisions take
 * most of an estimate's time, and of one load many are asked. */
struct price_load {
	long long blocks, mean, longest;
	long long tiles;       /* of the longest */
	long long padded_mean; /* to whole tiles */
	long long total;       /* keys of all blocks, a unit's share */
};

/* Of queries that differ, all last blocks are taken to be half full. */
BOTH_SIDES long long price_q_blocks(long long seqs, long long tokens, long long block_q)
{
	return max_of(seqs, parts_of(2 * tokens + seqs * (block_q - 1), 2 * block_q));
}

/* One part: its sequences are alike enough for one mean. */
BOTH_SIDES void price_load_of_part(struct price_load *l, const struct attune_features *f,
				   long long block_q)
{
	l->blocks = f->num_seqs;
	l->mean = f->keys_per_query;
	if (f->max_query <= block_q)
		return;
	l->mean += block_q / 2;
	l->blocks = f->mean_query == f->max_query
			? f->num_seqs * parts_of(f->max_query, block_q)
			: price_q_blocks(f->num_seqs, f->query_tokens, block_q);
}

/* Decodes, a block each, beside prefills: the mean is over the blocks of both. */
BOTH_SIDES void price_load_of_both(struct price_load *l, const struct attune_features *f,
				   long long block_q)
{
	const long long decodes = max_of(f->decode_seqs, 1), tokens = max_of(f->prefill_tokens, 1);
	const long long of_decodes = f->decode_kv / decodes;
	const long long pairs = f->keys_per_query * f->query_tokens -
				of_decodes * (f->query_tokens - f->prefill_tokens);
	const long long of_prefills = max_of(pairs, 0) / tokens + block_q / 2;
	const long long blocks = price_q_blocks(f->num_seqs - f->decode_seqs, tokens, block_q);
	l->blocks = max_of(blocks, 1) + decodes;
	l->mean = (blocks * of_prefills + decodes * of_decodes) / l->blocks;
}

BOTH_SIDES void price_load_of(struct price_load *l, const struct price *p,
			      const struct attune_features *f)
{
	const long long packed = p->heads ? min_of(p->heads, f->group) : f->group;
	const long long block_q = max_of(p->rows / packed, 1);
	if (f->max_query > DECODE_MAX_QUERY && f->query_tokens > f->prefill_tokens)
		price_load_of_both(l, f, block_q);
	else
		price_load_of_part(l, f, block_q);
	l->blocks *= f->num_kv_heads * parts_of(f->group, min_of(packed, p->rows));
	l->longest = min_of(f->max_seq, f->window + block_q);
	l->mean = min_of(l->mean, l->longest);
	l->tiles = parts_of(l->longest, p->tile);
	l->padded_mean = parts_of(l->mean, p->tile) * p->tile;
	l->total = l->blocks * l->mean / f->units;
}

BOTH_SIDES long long price_path(const struct price *p, const struct attune_features *f,
				const struct price_load *l, long long v)
{
	enum { TAIL_SHARE = 4, SMOOTHING = 4 };
	const long long slots = f->units * p->slots, n = l->blocks * v;
	const long long longest = parts_of(l->tiles, v) * p->tile;
	const long long mean = parts_of(l->padded_mean, v);
	const long long one = mean + p->start, more = max_of(longest - mean, 0);
	if (n <= slots)
		return longest + p->start;
	const long long idle = parts_of(n, slots) * slots - n;
	const long long tail =
	    f->max_query <= DECODE_MAX_QUERY ? more : more * slots / (TAIL_SHARE * n);
	const long long lacks = idle * one * one / max_of(one + SMOOTHING * more, 1);
	return max_of((one * n + lacks) / slots + tail, longest + p->start);
}

/* Keys of the path that are older than the queries: kernels which take new K and V from
 * elsewhere pay for these alone to look up pages. Of queries that differ the long ones have
 * most of the new keys. */
BOTH_SIDES long long price_context(const struct attune_features *f, long long path)
{
	const long long keys = max_of(f->keys_per_query, 1);
	const long long fresh = (f->mean_query + f->max_query) / 4;
	return f->max_query <= DECODE_MAX_QUERY ? 0 : max_of(keys - fresh, 0) * path / keys;
}

/* Of the terms that segments change; nothing of them where there is one. */
BOTH_SIDES void price_count_cuts(long long amount[NUM_PRICE_TERMS], long long rows, int segments)
{
	const int splits = segments > 1;
	amount[PRICE_split] = splits;
	amount[PRICE_segments] = splits * segments;
	amount[PRICE_merge] = splits * segments * rows;
}

/* How much there is of each term with that path; at most 2^27, so that sums do not overflow. */
BOTH_SIDES void price_count_with(long long amount[NUM_PRICE_TERMS], const struct attune_features *f,
				 const struct price_load *l, int segments, long long path,
				 long long context)
{
	const long long rows = f->query_tokens * f->num_query_heads;
	amount[PRICE_launch] = 1;
	amount[PRICE_path] = path;
	amount[PRICE_context] = context;
	amount[PRICE_total] = l->total;
	amount[PRICE_kib] = f->kv_kib;
	amount[PRICE_rows] = rows;
	price_count_cuts(amount, rows, segments);
	for (int i = 0; i < NUM_PRICE_TERMS; i++)
		amount[i] = min_of(amount[i], 1 << 27);
}

BOTH_SIDES void price_count(long long amount[NUM_PRICE_TERMS], const struct price *p,
			    const struct attune_features *f, const struct price_load *l,
			    int segments)
{
	const long long path = price_path(p, f, l, segments);
	price_count_with(amount, f, l, segments, path, price_context(f, min_of(path, 1 << 27)));
}

BOTH_SIDES long long price_sum(const struct price *p, const long long amount[NUM_PRICE_TERMS])
{
	long long sum = 0;
	for (int i = 0; i < NUM_PRICE_TERMS; i++)
		sum += p->fs[i] * amount[i];
	return sum;
}

BOTH_SIDES long long price_of_load(const struct price *p, const struct attune_features *f,
				   const struct price_load *l, int segments)
{
	long long amount[NUM_PRICE_TERMS];
	price_count(amount, p, f, l, segments);
	return price_sum(p, amount);
}

/* What the part is expected to take with its keys in `segments`, in fs. */
BOTH_SIDES long long price_estimate(const struct price *p, const struct attune_features *f,
				    int segments)
{
	struct price_load l;
	price_load_of(&l, p, f);
	return price_of_load(p, f, &l, segments);
}

/* ---- by a formula ----------------------------------------------------------------------- */

/* Of a launch of so many blocks at one segment, `at_once` of which run at a time. */
BOTH_SIDES long long formula_estimate(const struct formula *f, const struct attune_features *of,
				      long long blocks, long long at_once, long long v)
{
	const long long mean = min_of(of->mean_seq, of->keys_per_query);
	const long long waves = (blocks * v + at_once - 1) / at_once;
	return waves * (mean / v + f->start) + (of->max_seq - mean) / v + (v > 1 ? f->launch : 0) +
	       f->merge * v;
}

#endif
