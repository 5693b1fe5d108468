/* items.h - runs an operation as a list of items in any order. Include it after attend.h, in each
 * namespace of a kernel that has several. Item i is segment i / blocks of block i % blocks,
 * numbered as in find_block(). */

/* Blocks of the launch at one segment; counts Q blocks like span_q_blocks(). */
DEVICE int count_blocks(const attune_args &a)
{
	const int block_q = a.group < BLOCK_M ? BLOCK_M / a.group : 1;
	const int tokens = a.query_start[a.seq_begin + a.seq_count] - a.query_start[a.seq_begin];
	const int q_blocks = a.max_query <= block_q ? a.seq_count : tokens / block_q + a.seq_count;
	return q_blocks * a.num_kv_heads * ((a.group + BLOCK_M - 1) / BLOCK_M);
}

/* Whether all other segments are done. Every thread gets the answer and sees their partials. */
DEVICE int last_to_arrive(int *arrived, int segments)
{
	__shared__ int last[8];
	int *mine = last + threadIdx.x / THREADS;
	__threadfence();
	BLOCK_BARRIER();
	if (!BLOCK_THREAD)
		*mine = atomicAdd(arrived, 1) == segments - 1;
	BLOCK_BARRIER();
	__threadfence();
	return *mine;
}

/* o = sum_s w_s l_s o_s / sum_s w_s l_s with w_s = 2^(m_s - max m), in segment order as in
 * reduce.cu. A warp merges a row; a lane weighs one of up to WARP segments. */
DEVICE void merge_segments(const attune_args &a, block &b)
{
	const int lane = lane_id();
	b.segment = 0;
	for (int row = BLOCK_THREAD / WARP; row < b.rows; row += NUM_WARPS) {
		const long long index = partial_index(a, b, row);
		const float *ml = a.partial_ml + index * 2, *parts = a.partial_out + index * HEAD_SIZE;
		const float m = lane < a.segments ? ml[2 * lane] : MINUS_INF;
		const float l = lane < a.segments ? ml[2 * lane + 1] : 0.f;
		float top = m;
		UNROLL for (int step = WARP / 2; step; step /= 2)
			top = fmaxf(top, shfl_xor(top, step));
		const float weight = l > 0 ? exp2_fast(m - top) * l : 0.f;
		float sum = weight;
		UNROLL for (int step = WARP / 2; step; step /= 2)
			sum += shfl_xor(sum, step);
		const float factor = normaliser(a, row_head(b, row), top, sum);
		for (int d = 0; d < HEAD_SIZE; d += 2 * WARP) {
			const int column = d + 2 * lane, inside = column < HEAD_SIZE;
			float x = 0, y = 0;
			for (int s = 0; s < a.segments; s++) {
				const float w = shfl(weight, s);
				if (w > 0 && inside) {
					const float2 o = *(const float2 *)(parts + s * HEAD_SIZE + column);
					x += w * o.x;
					y += w * o.y;
				}
			}
			if (inside)
				put_pair<0>(a, b, row, column, x * factor, y * factor);
		}
	}
}

/* 0: the item has no work. */
DEVICE int find_item(const attune_args &a, int item, int blocks, block &b)
{
	return find_block(a, item % blocks, blocks, item / blocks, b);
}

/* arrived: number of this block's segments that are done. */
DEVICE void run_item(const attune_args &a, block &b, int *arrived, unsigned char *memory)
{
	attend_block(a, b, memory);
	if (a.segments > 1 && last_to_arrive(arrived, a.segments))
		merge_segments(a, b);
}
