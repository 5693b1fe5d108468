/* SPDX-License-Identifier: Apache-2.0 */
/* warpgroup_items.h - the items of warpgroup.cu and their order. An item is a Q block of one query
 * head (PACKED: of all query heads of a KV head) and a segment of the tiles that it sees. Its rows,
 * for a group of 3:
 *
 *   row            0     1     2     3     4     5     6
 *   PACKED 0       t0    t1    t2    t3    t4    t5    t6     tokens; the head is the item's
 *   PACKED 1       t0 h0 t0 h1 t0 h2 t1 h0 t1 h1 t1 h2 t2 h0  whole tokens; other rows are empty
 *
 * The most work comes first: Q blocks of a part are ordered by their position in the sequence,
 * counted in blocks (level), since under a causal mask a Q block sees all keys before it. With
 * blocks of 128 tokens:
 *
 *   sequence 0, 300 new tokens:              level 0, 1, 2
 *   sequence 1, 130 behind 260 of context:         level 2, 3
 *   order: 1's second | 0's third, 1's first | 0's second | 0's first
 *
 * A warp finds the n-th item by bisection over levels: its lanes sum the Q blocks that each
 * sequence has at or above a level. */
#ifndef ATTUNE_WARPGROUP_ITEMS_H
#define ATTUNE_WARPGROUP_ITEMS_H

#include "../paged.h"
#include "warpgroup_grid.h"
#include "warpgroup_nvidia.h"
#include "warpgroup_shape.h"

/* A Q block, head and segment: tiles first to last - 1 of the sequence */
struct item {
	int seq;
	int rows; /* in use; 0: no item is left */
	int token, head; /* of row 0, among all */
	int position; /* of row 0 in the sequence */
	int seq_len;
	int end; /* end of the keys that some row sees, in these tiles */
	int dead; /* keys before the window of the sequence's first token: slots may hold anything */
	int first, last;
	int segment;
	int goes_to; /* of row 0: its token among all, or with several segments its partial's number */
};

/* The first key that some row sees, even if it is in other tiles */
DEVICE int begin_of(const attune_args &a, const item &i)
{
	return a.window ? max(i.position - a.window + 1, 0) : 0;
}

/* Token and head of a row, relative to row 0 */
struct place {
	int token, head;
};

/* Exact for all rows of a Q block. */
DEVICE place place_of(const attune_args &a, int row)
{
	place p = { row, 0 };
	if (PACKED) {
		p.token = row * a.option[INVERSE] >> 16;
		p.head = row - p.token * a.group;
	}
	return p;
}

/* Tokens of a Q block */
DEVICE int block_tokens(const attune_args &a)
{
	return place_of(a, BLOCK_M).token;
}

struct span {
	int low, high; /* levels low .. high - 1, from 0 up, even if the query is longer than the
			  sequence */
};

/* own: levels_of() the lane's first sequence, n = lane */
struct order {
	span own;
	int blocks, top; /* Q blocks of the part; above their highest level */
	u32 inverse; /* 2^31 / tokens of a Q block, rounded up */
};

/* Whole Q blocks in so many tokens; exact up to 11 million. */
DEVICE int whole_blocks(const order &o, int tokens)
{
	return PACKED ? (int)__umulhi(2 * tokens, o.inverse) : tokens / BLOCK_M;
}

/* Levels of sequence n of the part; none for a sequence of the other part or beyond the last */
DEVICE span levels_of(const attune_args &a, const order &o, int n)
{
	span l = { 0, 0 };
	if (n >= a.seq_count)
		return l;
	const int seq = a.seq_begin + n, first = a.query_start[seq], seq_len = a.seq_lens[seq];
	const int query_len = a.query_start[seq + 1] - first;
	if (!((query_len >= a.min_query) & (query_len <= a.max_query) & (seq_len >= 0)))
		return l; /* after the loads, so that these overlap */
	l.low = whole_blocks(o, max(seq_len - query_len, 0));
	l.high = l.low + whole_blocks(o, query_len + block_tokens(a) - 1);
	return l;
}

/* Q blocks of that level and above */
DEVICE int blocks_from(const attune_args &a, const order &o, int level)
{
	int blocks = max(o.own.high - max(o.own.low, level), 0);
	_Pragma("unroll 1") for (int n = lane_id() + WARP; n < a.seq_count; n += WARP) {
		const span l = levels_of(a, o, n);
		blocks += max(l.high - max(l.low, level), 0);
	}
	return warp_sum(blocks);
}

DEVICE void find_order(const attune_args &a, order &o)
{
	o.inverse = PACKED ? 0x80000000u / (u32)block_tokens(a) + 1 : 0;
	if (a.seq_count == 1) { /* every lane has the only sequence */
		o.own = levels_of(a, o, 0);
		o.top = o.own.high;
		o.blocks = o.own.high - o.own.low;
		return;
	}
	o.own = levels_of(a, o, lane_id());
	int top = o.own.high;
	_Pragma("unroll 1") for (int n = lane_id() + WARP; n < a.seq_count; n += WARP)
		top = max(top, levels_of(a, o, n).high);
	o.top = warp_max(top);
	o.blocks = blocks_from(a, o, 0);
}

/* The rank-th sequence that has a Q block of that level; block: the Q block's number there */
DEVICE int find_seq(const attune_args &a, const order &o, int level, int rank, int &block)
{
	for (int from = 0;; from += WARP) {
		const span l = from ? levels_of(a, o, from + lane_id()) : o.own;
		const u32 have = warp_ballot(l.low <= level && level < l.high);
		const int count = popcount(have);
		if (rank < count) {
			const int lane = nth_bit(have, rank);
			block = level - shfl(l.low, lane);
			return from + lane;
		}
		rank -= count;
	}
}

/* Q block number `index` in the order, index < o.blocks. */
DEVICE void find_block(const attune_args &a, const order &o, int index, q_block &q)
{
	if (a.seq_count == 1) {
		q_block_at(a, a.seq_begin, (o.blocks - 1 - index) * block_tokens(a), q);
		return;
	}
	int level = 0, above = o.top; /* blocks_from(level) > index >= blocks_from(above) */
	while (above - level > 1) {
		const int mid = (level + above) / 2;
		if (blocks_from(a, o, mid) > index)
			level = mid;
		else
			above = mid;
	}
	int block;
	const int seq = find_seq(a, o, level, index - blocks_from(a, o, level + 1), block);
	q_block_at(a, a.seq_begin + seq, block * block_tokens(a), q);
}

/* Sets the segment's tiles; segments differ by at most one tile. Partials are numbered as in
 * args.h. */
DEVICE void cut(const attune_args &a, const q_block &q, item &i)
{
	const int from = i.first, tiles = i.last - from;
	const int row = (q.seq - a.seq_begin) * a.max_query + q.token;
	i.goes_to = (row * a.num_query_heads + i.head) * a.segments + i.segment;
	i.first = from + tiles * i.segment / a.segments;
	i.last = from + tiles * (i.segment + 1) / a.segments;
	i.end = min(i.end, i.last * TILE_SIZE);
}

/* Sets all but head and segment, as for a single segment */
DEVICE void fill_item(const attune_args &a, const q_block &q, item &i)
{
	const int tokens = min(block_tokens(a), q.query_len - q.token);
	int begin;
	i.seq = q.seq;
	i.rows = PACKED ? tokens * a.group : tokens;
	i.token = i.goes_to = q.first_row + q.token;
	i.position = q.seq_len - q.query_len + q.token;
	i.seq_len = q.seq_len;
	i.dead = a.window ? max(q.seq_len - q.query_len - a.window + 1, 0) : 0;
	visible_keys(a, q, q.token, q.token + tokens - 1, begin, i.end);
	i.first = begin / TILE_SIZE;
	i.last = i.end > begin ? (i.end + TILE_SIZE - 1) / TILE_SIZE : i.first;
}

/* The block's item of a round. Odd rounds go through the blocks in reverse, so that the block with
 * the longest item of one round gets the shortest of the next. The first HEADS heads of all Q
 * blocks come first, then the next HEADS; within a Q block all heads of one segment, then of the
 * next. Called by a whole warp; 0: no item is left.
 *
 * BY_NUMBER: `round` is the item's number, of a kernel that deals items otherwise. As an argument
 * instead of a parameter of the template the number of blocks costs other machine code. */
template <int BY_NUMBER>
DEVICE int find_item(const attune_args &a, const order &o, int round, item &i)
{
	const int blocks = BY_NUMBER ? 1 : all_blocks();
	const int heads = a.option[HEADS], each = heads * a.segments;
	const int own = BY_NUMBER ? 0 : own_block(), place = round & 1 ? blocks - 1 - own : own;
	const int number = round * blocks + place;
	q_block q;
	i.rows = 0;
	if (number >= o.blocks * (PACKED ? a.num_kv_heads : a.num_query_heads) * a.segments)
		return 0;
	const int turn = number < o.blocks * each ? 0 : number / (o.blocks * each);
	const int rest = number - turn * (o.blocks * each);
	const int index = rest / each, left = rest - index * each;
	find_block(a, o, index, q);
	fill_item(a, q, i);
	i.segment = a.segments > 1 ? left / heads : 0;
	i.head = (turn * heads + left - i.segment * heads) * (PACKED ? a.group : 1);
	if (a.segments > 1)
		cut(a, q, i);
	return 1;
}

#endif
