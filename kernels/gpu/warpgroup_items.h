/* warpgroup_items.h - which items a block of warpgroup.cu takes. An item is a Q block of one query
 * head. The most work comes first: Q blocks of a part are ordered by where in their sequence they
 * stand, in blocks of BLOCK_M, since under a causal mask one sees all keys before it.
 *
 *   sequence 0, 300 new tokens:              level 0, 1, 2
 *   sequence 1, 130 behind 260 of context:         level 2, 3
 *   order: 1's second | 0's third, 1's first | 0's second | 0's first
 *
 * A warp finds the n-th by bisection: of a level and above it each sequence has so many Q blocks,
 * which the lanes add up. */
#ifndef ATTUNE_WARPGROUP_ITEMS_H
#define ATTUNE_WARPGROUP_ITEMS_H

/* A Q block and head; of the sequence's tiles those from first to last - 1 */
struct item {
	int seq;
	int row, rows; /* its tokens among all; rows 0: no item is left */
	int head;
	int position; /* of its first token in the sequence */
	int seq_len;
	int end; /* of the keys that some row sees */
	int first, last;
};

struct span {
	int low, high; /* levels low .. high - 1 */
};

/* Sequence n of the part; none: a sequence of the other part, or beyond the last */
DEVICE span levels_of(const attune_args &a, int n)
{
	span l = { 0, 0 };
	if (n >= a.seq_count)
		return l;
	const int seq = a.seq_begin + n, first = a.query_start[seq], seq_len = a.seq_lens[seq];
	const int query_len = a.query_start[seq + 1] - first;
	if (query_len < a.min_query || query_len > a.max_query)
		return l;
	l.low = (seq_len - query_len) / BLOCK_M;
	l.high = l.low + (query_len + BLOCK_M - 1) / BLOCK_M;
	return l;
}

/* own: levels_of() the lane's first sequence, n = lane */
struct order {
	span own;
	int blocks, top; /* Q blocks of the part; above their highest level */
};

/* Q blocks of that level and above */
DEVICE int blocks_from(const attune_args &a, const order &o, int level)
{
	int blocks = max(o.own.high - max(o.own.low, level), 0);
	for (int n = lane_id() + WARP; n < a.seq_count; n += WARP) {
		const span l = levels_of(a, n);
		blocks += max(l.high - max(l.low, level), 0);
	}
	return warp_sum(blocks);
}

DEVICE void find_order(const attune_args &a, order &o)
{
	if (a.seq_count == 1) { /* all lanes know it all */
		o.own = levels_of(a, 0);
		o.top = o.own.high;
		o.blocks = o.own.high - o.own.low;
		return;
	}
	o.own = levels_of(a, lane_id());
	int top = o.own.high;
	for (int n = lane_id() + WARP; n < a.seq_count; n += WARP)
		top = max(top, levels_of(a, n).high);
	o.top = warp_max(top);
	o.blocks = blocks_from(a, o, 0);
}

/* Sequence of the rank-th that have a Q block of that level; which is that sequence's: block */
DEVICE int find_seq(const attune_args &a, const order &o, int level, int rank, int &block)
{
	for (int from = 0;; from += WARP) {
		const span l = from ? levels_of(a, from + lane_id()) : o.own;
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
		q_block_at(a, a.seq_begin, (o.blocks - 1 - index) * BLOCK_M, q);
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
	q_block_at(a, a.seq_begin + seq, block * BLOCK_M, q);
}

/* The block's item of that round: rounds go through all blocks, each second one backwards, so that
 * the first block's is the longest of one and the shortest of the next. HEADS heads of all Q
 * blocks come first, then the next so many. By a whole warp; 0: there is none any more. */
DEVICE int find_item(const attune_args &a, const order &o, int round, item &i)
{
	const int blocks = gridDim.x, heads = a.option[HEADS];
	const int place = round & 1 ? blocks - 1 - (int)blockIdx.x : (int)blockIdx.x;
	const int number = round * blocks + place;
	q_block q;
	int begin;
	i.rows = 0;
	if (number >= o.blocks * a.num_query_heads)
		return 0;
	const int group = number / (o.blocks * heads), rest = number - group * (o.blocks * heads);
	const int index = rest / heads;
	find_block(a, o, index, q);
	i.head = group * heads + rest - index * heads;
	i.seq = q.seq;
	i.row = q.first_row + q.token;
	i.rows = min(BLOCK_M, q.query_len - q.token);
	i.position = q.seq_len - q.query_len + q.token;
	i.seq_len = q.seq_len;
	visible_keys(a, q, q.token, q.token + i.rows - 1, begin, i.end);
	i.first = begin / TILE_SIZE;
	i.last = i.end > begin ? (i.end + TILE_SIZE - 1) / TILE_SIZE : i.first;
	return 1;
}

#endif
