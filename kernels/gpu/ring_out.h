/* ring_out.h - what becomes of what warps found, for ring.cu, of which it is a part: those of a
 * block are joined, then segments by their cluster or, later, by reduce.cu. */

/* A row's, by one warp, unnormalised, m in units of log2; a lane has its part of the sum. */
DEVICE void leave(const block &b, state &t, float unit, float *to)
{
	const int l = lane_id();
	UNROLL for (int n = 0; n < EIGHTS; n++)
	UNROLL for (int e = 0; e < 2; e++)
	{
		float *row = to + row_of(n, e) * MERGE_ROW;
		float sum = t.l[n][e];
		sum += shfl_xor(sum, 4);
		sum += shfl_xor(sum, 8);
		sum += shfl_xor(sum, 16);
		if (row_of(n, e) >= b.rows)
			continue;
		UNROLL for (int d = 0; d < DEPTH; d++)
		UNROLL for (int h = 0; h < 2; h++)
			row[d * 16 + h * 8 + l / 4] = t.o[d][n][2 * h + e];
		if (l < 4)
			*(float2 *)(row + HEAD_SIZE) = make_float2(t.m[n][e] * unit, sum);
	}
}

/* Four outputs of a row, and its m and l. */
struct piece {
	float o[4], m, l;
};

/* Joins `n` of what leave() left, in their order. */
DEVICE piece join(const float *row, int column, int n, int stride)
{
	piece p = { { 0, 0, 0, 0 }, MINUS_INF, 0 };
	for (int i = 0; i < n; i++)
		p.m = fmaxf(p.m, row[i * stride + HEAD_SIZE]);
	const float safe = p.m == MINUS_INF ? 0.f : p.m;
	for (int i = 0; i < n; i++) {
		const float *part = row + i * stride;
		const float weight = exp2_fast(part[HEAD_SIZE] - safe);
		p.l += weight * part[HEAD_SIZE + 1];
		UNROLL for (int k = 0; k < 4; k++)
			p.o[k] += weight * part[column + k];
	}
	return p;
}

/* One more part: the sink's logit, which has no value. */
DEVICE void add_sink(const attune_args &a, int head, piece &p)
{
	if (!a.sinks || p.l == 0)
		return;
	const float sink = a.sinks[head] * LOG2E, m = fmaxf(p.m, sink);
	const float kept = exp2_fast(p.m - m);
	p.l = p.l * kept + exp2_fast(sink - m);
	UNROLL for (int k = 0; k < 4; k++)
		p.o[k] *= kept;
}

/* The output itself */
DEVICE void put_final(const attune_args &a, const block &b, int row, int column, piece p)
{
	half16 *dst = (half16 *)a.out + (b.q.first_row + row_token(b, row)) * a.out_token_stride +
		      row_head(b, row) * a.out_head_stride + column;
	add_sink(a, row_head(b, row), p);
	const float factor = p.l > 0 ? 1 / p.l : 0;
	((u32 *)dst)[0] = pack2(p.o[0] * factor, p.o[1] * factor);
	((u32 *)dst)[1] = pack2(p.o[2] * factor, p.o[3] * factor);
}

/* This segment's partial, for reduce.cu */
DEVICE void put_partial(const attune_args &a, const block &b, int row, int column, const piece &p)
{
	const long long token = (b.q.seq - a.seq_begin) * a.max_query + row_token(b, row);
	const long long at =
		(token * a.num_query_heads + row_head(b, row)) * a.segments + blockIdx.y;
	const float factor = p.l > 0 ? 1 / p.l : 0;
	float *dst = a.partial_out + at * HEAD_SIZE + column;
	((float2 *)dst)[0] = make_float2(p.o[0] * factor, p.o[1] * factor);
	((float2 *)dst)[1] = make_float2(p.o[2] * factor, p.o[3] * factor);
	if (!column)
		*(float2 *)(a.partial_ml + at * 2) = make_float2(p.m, p.l);
}

/* To the block that merges the row. There rows follow one another, all segments of each. */
DEVICE void send_piece(const block &b, int row, int column, const piece &p, u32 area)
{
	const int segments = gridDim.y, place = row / segments * segments + blockIdx.y;
	const u32 at = area + place * MERGE_ROW * 4;
	cluster_put(at + column * 4, row % segments, p.o[0], p.o[1], p.o[2], p.o[3]);
	if (!column)
		cluster_put(at + HEAD_SIZE * 4, row % segments, p.m, p.l, 0, 0);
}

/* Of the cluster's rows this block's share. */
DEVICE void merge_cluster(const attune_args &a, const block &b, const float *area)
{
	const int segments = gridDim.y, mine = blockIdx.y;
	const int rows = (b.rows - mine + segments - 1) / segments;
	for (int i = threadIdx.x; i < rows * (HEAD_SIZE / 4); i += THREADS) {
		const int row = i / (HEAD_SIZE / 4), column = i % (HEAD_SIZE / 4) * 4;
		put_final(a, b, row * segments + mine, column,
			  join(area + row * segments * MERGE_ROW, column, segments, MERGE_ROW));
	}
}

/* What the warps of the block left, at `found`; `combine`: to where segments meet. */
DEVICE void merge_warps(const attune_args &a, const block &b, const float *found, int combine)
{
	const float *area = found + NUM_WARPS * (WARP_BYTES / 4);
	__syncthreads();
	if (combine)
		cluster_wait(); /* all its blocks run */
	for (int i = threadIdx.x; i < b.rows * (HEAD_SIZE / 4); i += THREADS) {
		const int row = i / (HEAD_SIZE / 4), column = i % (HEAD_SIZE / 4) * 4;
		const piece p = join(found + row * MERGE_ROW, column, NUM_WARPS, WARP_BYTES / 4);
		if (combine)
			send_piece(b, row, column, p, shared_address(area));
		else if (a.segments > 1)
			put_partial(a, b, row, column, p);
		else
			put_final(a, b, row, column, p);
	}
	if (combine) {
		cluster_arrive();
		cluster_wait();
		merge_cluster(a, b, area);
	}
}
