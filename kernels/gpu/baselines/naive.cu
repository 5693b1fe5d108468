/* SPDX-License-Identifier: Apache-2.0 */
/* naive.cu - the starting point of the ladder (the paper's section 4.3): a block per (query token,
 * query head). A warp takes every NUM_WARPS-th key; its lanes share a row. No key is reused, and no
 * tensor core is used. */
#include "../paged.h"
#include "../softmax.h"

#define PIECES ((HEAD_SIZE + WARP - 1) / WARP)

DEVICE float warp_sum(float v)
{
	UNROLL for (int mask = WARP / 2; mask; mask /= 2)
		v += shfl_xor(v, mask);
	return v;
}

DEVICE void load_row(float (&row)[PIECES], const half16 *src)
{
	UNROLL for (int i = 0; i < PIECES; i++)
		row[i] = i * WARP + lane_id() < HEAD_SIZE ? to_float(src[i * WARP + lane_id()]) : 0.f;
}

DEVICE float score(const attune_args &a, float dot, int head, int distance)
{
	float s = dot * a.scale;
	if (a.softcap > 0)
		s = a.softcap * tanh_exact(s / a.softcap);
	if (a.alibi_slopes)
		s += a.alibi_slopes[head] * distance;
	return s * LOG2E;
}

KERNEL(NUM_WARPS * WARP) ENTRY(const attune_args a)
{
	__shared__ float shared[NUM_WARPS][HEAD_SIZE + 2];
	const int head = blockIdx.x % a.num_query_heads, kv_head = head / a.group;
	const int warp = threadIdx.x / WARP, lane = lane_id();
	q_block b;
	if (!find_q_block(a, blockIdx.x / a.num_query_heads, 1, b))
		return;

	int begin, end;
	visible_keys(a, b, b.token, b.token, begin, end);
	const int position = b.seq_len - b.query_len + b.token;
	const int *pages = a.block_table + (long long)b.seq * a.block_table_stride;
	float q[PIECES], o[PIECES], m = MINUS_INF, l = 0;
	load_row(q, (const half16 *)a.q + (b.first_row + b.token) * a.q_token_stride +
			    head * a.q_head_stride);
	UNROLL for (int i = 0; i < PIECES; i++)
		o[i] = 0;
	for (int key = begin + warp; key < end; key += NUM_WARPS) {
		const int page = page_of(a, key), slot = key - page * a.page_size;
		const long long id = pages[page];
		float k[PIECES], v[PIECES], dot = 0;
		load_row(k, (const half16 *)a.k_cache + id * a.k_page_stride +
				    slot * a.k_slot_stride + kv_head * a.k_head_stride);
		load_row(v, (const half16 *)a.v_cache + id * a.v_page_stride +
				    slot * a.v_slot_stride + kv_head * a.v_head_stride);
		UNROLL for (int i = 0; i < PIECES; i++)
			dot += q[i] * k[i];
		const float s = score(a, warp_sum(dot), head, key - position);
		const float top = fmaxf(m, s), old = exp2_fast(m - top), p = exp2_fast(s - top);
		l = l * old + p;
		m = top;
		UNROLL for (int i = 0; i < PIECES; i++)
			o[i] = o[i] * old + p * v[i];
	}
	UNROLL for (int i = 0; i < PIECES; i++)
		if (i * WARP + lane < HEAD_SIZE)
			shared[warp][i * WARP + lane] = o[i];
	if (!lane) {
		shared[warp][HEAD_SIZE] = m;
		shared[warp][HEAD_SIZE + 1] = l;
	}
	__syncthreads();

	const float sink = a.sinks ? sink_of(a, head) : MINUS_INF;
	float top = sink;
	for (int w = 0; w < NUM_WARPS; w++)
		top = fmaxf(top, shared[w][HEAD_SIZE]);
	const float safe = top == MINUS_INF ? 0.f : top;
	float sum = end > begin ? exp2_fast(sink - safe) : 0.f;
	for (int w = 0; w < NUM_WARPS; w++)
		sum += shared[w][HEAD_SIZE + 1] * exp2_fast(shared[w][HEAD_SIZE] - safe);
	half16 *out = (half16 *)a.out + (b.first_row + b.token) * a.out_token_stride +
		      head * a.out_head_stride;
	for (int d = threadIdx.x; d < HEAD_SIZE; d += NUM_WARPS * WARP) {
		float x = 0;
		for (int w = 0; w < NUM_WARPS; w++)
			x += shared[w][d] * exp2_fast(shared[w][HEAD_SIZE] - safe);
		out[d] = (half16)pack2(sum > 0 ? x / sum : 0.f, 0.f);
	}
}
