/* SPDX-License-Identifier: Apache-2.0 */
/* decode2d.cu - the decode half of the split plan: a block per (sequence, head), which reads all
 * keys in one pass through the block table. The grid index is the sequence, so nothing is searched.
 * qblock must search for the sequence of a Q block if a query has more tokens than fit its rows.
 *
 *   grid  x = sequences, y = heads, z = rows, 16 at a time
 *
 *   PACKING 0   y: query heads. Rows are the query's 1 to 8 tokens, so a decode of one token uses
 *               one of the 16 rows of a matrix step. K and V are read once for each head of the
 *               group. This is the first step of the ladder. Reading is the bound, so it uses matrix
 *               steps although most rows are empty.
 *   PACKING 1   y: KV heads, and head blocks of 16 where a group is larger. Rows
 *               are tokens x group, rounded up to 16: K and V are read once. */
#define PARTIALS 0
#define BLOCK_M	 16
#include "../attend/attend_body.inc"

/* heads: query heads that share the block's rows */
DEVICE int find_rows_of(const attune_args &a, int heads, block &b)
{
	const int head_blocks = (heads + BLOCK_M - 1) / BLOCK_M;
	const int first = blockIdx.y % head_blocks * BLOCK_M;
	const int block_q = heads < BLOCK_M ? BLOCK_M / heads : 1;

	if (!q_block_at(a, a.seq_begin + blockIdx.x, blockIdx.z * block_q, b.q))
		return 0;
	b.segment = 0;
	b.head = blockIdx.y / head_blocks * heads + first;
	b.kv_head = b.head / a.group;
	b.row_heads = min(heads - first, BLOCK_M);
	const int tokens = min(block_q, b.q.query_len - b.q.token);
	b.rows = tokens * b.row_heads;
	visible_keys(a, b.q, b.q.token, b.q.token + tokens - 1, b.begin, b.end);
	return 1;
}

KERNEL(THREADS) ENTRY(const attune_args a)
{
	block b;
	if (find_rows_of(a, PACKING ? a.group : 1, b))
		attend_block(a, b, shared_memory());
}
