/* SPDX-License-Identifier: Apache-2.0 */
/* classic.h - the body of classic_v1 and classic_v2: attention of one query token and head over the
 * classic layout of attune.h, after vLLM's first kernels (Kwon et al. 2023).
 *
 *   K page  [CHUNKS][PAGE_SIZE][X]   a thread group shares a key: lane i of it takes
 *                                    chunks i, i + THREAD_GROUP_SIZE, ...
 *   V page  [HEAD_SIZE][PAGE_SIZE]   COLUMNS lanes share a dimension, X keys each
 *
 * Two passes: the first writes all scores to shared memory and takes their softmax there, the
 * second sums the values. Warps take pages in turn. Slots beyond a sequence may hold anything. In V
 * they are neighbours of live slots, so values are masked too, not only weights.
 *
 *   shared memory, floats: [HEAD_SIZE] query | [2][WARPS] of warps, 16 bytes at least |
 *     a logit for each key, from the first key's page on; later [WARPS][HEAD_SIZE] sums */
#ifndef ATTUNE_GPU_CLASSIC_H
#define ATTUNE_GPU_CLASSIC_H

#include "../paged.h"
#include "../softmax.h"

#define X 8 /* elements of 16 bytes */
#define CHUNKS (HEAD_SIZE / X)
#define WARPS (NUM_THREADS / WARP)
#define GROUPS (WARP / THREAD_GROUP_SIZE) /* in a warp */
#define COLUMNS (PAGE_SIZE / X)
#define ROWS (WARP / COLUMNS) /* dimensions that a warp takes at a time */
#define JOINED ((2 * WARPS + 3) / 4 * 4)
#define PIECES ((HEAD_SIZE + ROWS - 1) / ROWS)

/* The keys of one block. */
struct span {
	int begin, end;
	int first, last; /* pages: [first, last) */
};

struct softmax {
	float m, l; /* the largest score in log2 units, and the sum of 2^(score - m) */
};

struct alignas(16) words {
	u32 w[4];
};

struct alignas(16) floats {
	float v[X];
};

DEVICE void load8(float (&to)[X], const half16 *from)
{
	const words v = *(const words *)from;
	UNROLL for (int i = 0; i < X / 2; i++) {
		to[2 * i] = to_float((half16)(v.w[i] & 0xffff));
		to[2 * i + 1] = to_float((half16)(v.w[i] >> 16));
	}
}

/* Of all lanes. */
DEVICE float warp_sum(float v)
{
	UNROLL for (int mask = WARP / 2; mask; mask /= 2)
		v += shfl_xor(v, mask);
	return v;
}

DEVICE float warp_max(float v)
{
	UNROLL for (int mask = WARP / 2; mask; mask /= 2)
		v = fmaxf(v, shfl_xor(v, mask));
	return v;
}

/* This lane's share of q . k. k: chunk 0 of the key. */
DEVICE float dot(const float *q, const half16 *k, int lane)
{
	float x[X], sum = 0;
	UNROLL for (int i = 0; i < (CHUNKS + THREAD_GROUP_SIZE - 1) / THREAD_GROUP_SIZE; i++) {
		const int chunk = i * THREAD_GROUP_SIZE + lane;
		if (CHUNKS % THREAD_GROUP_SIZE && chunk >= CHUNKS)
			break;
		const floats y = *(const floats *)(q + chunk * X);
		load8(x, k + chunk * PAGE_SIZE * X);
		UNROLL for (int j = 0; j < X; j++)
			sum += y.v[j] * x[j];
	}
	return sum;
}

DEVICE float score(const attune_args &a, float product, int head, int distance)
{
	float s = product * a.scale;
	if (a.softcap > 0)
		s = a.softcap * tanh_exact(s / a.softcap);
	if (a.alibi_slopes)
		s += a.alibi_slopes[head] * distance;
	return s * LOG2E;
}

/* Writes the logits of all slots of the pages, -infinity for slots without a key. Returns the
 * largest of this thread. */
DEVICE float score_pages(const attune_args &a, const q_block &b, const span &s, int head,
			 const float *q, float *logits)
{
	const int warp = threadIdx.x / WARP, group = lane_id() / THREAD_GROUP_SIZE;
	const int lane = lane_id() % THREAD_GROUP_SIZE;
	const int position = b.seq_len - b.query_len + b.token;
	const int *pages = a.block_table + (long long)b.seq * a.block_table_stride;
	const half16 *cache = (const half16 *)a.k_cache + head / a.group * a.k_head_stride;
	float most = MINUS_INF;
	for (int page = s.first + warp; page < s.last; page += WARPS) {
		const half16 *k = cache + pages[page] * a.k_page_stride;
		UNROLL for (int i = 0; i < PAGE_SIZE / GROUPS; i++) {
			const int slot = i * GROUPS + group, key = page * PAGE_SIZE + slot;
			float sum = dot(q, k + slot * X, lane);
			UNROLL for (int mask = THREAD_GROUP_SIZE / 2; mask; mask /= 2)
				sum += shfl_xor(sum, mask);
			sum = score(a, sum, head, key - position);
			if (key < s.begin || key >= s.end)
				sum = MINUS_INF;
			if (!lane)
				logits[key - s.first * PAGE_SIZE] = sum;
			most = fmaxf(most, sum);
		}
	}
	return most;
}

/* Turns logits into weights 2^(logit - m). Synchronizes the block before and after. */
DEVICE softmax weigh(float most, const span &s, float *logits, float *of_warps)
{
	const int warp = threadIdx.x / WARP, keys = (s.last - s.first) * PAGE_SIZE;
	softmax all = { MINUS_INF, 0 };
	float sum = 0;
	most = warp_max(most);
	if (!lane_id())
		of_warps[warp] = most;
	__syncthreads();
	for (int w = 0; w < WARPS; w++)
		all.m = fmaxf(all.m, of_warps[w]);
	for (int i = threadIdx.x; i < keys; i += NUM_THREADS) {
		const float p = exp2_fast(logits[i] - all.m);
		logits[i] = p;
		sum += p;
	}
	sum = warp_sum(sum);
	if (!lane_id())
		of_warps[WARPS + warp] = sum;
	__syncthreads();
	for (int w = 0; w < WARPS; w++)
		all.l += of_warps[WARPS + w];
	return all;
}

/* Adds one page: sums[i] is dimension i * ROWS + lane / COLUMNS. key: this lane's first. */
DEVICE void add_values(float (&sums)[PIECES], const half16 *v, const float *weights, int key,
		       const span &s)
{
	const int row = lane_id() / COLUMNS;
	const int whole = key >= s.begin && key + X <= s.end;
	const floats p = *(const floats *)weights;
	float x[X];
	UNROLL for (int i = 0; i < PIECES; i++) {
		if (HEAD_SIZE % ROWS && i * ROWS + row >= HEAD_SIZE)
			break;
		load8(x, v + (i * ROWS + row) * PAGE_SIZE);
		if (!whole) {
			UNROLL for (int j = 0; j < X; j++)
				x[j] = key + j >= s.begin && key + j < s.end ? x[j] : 0.f;
		}
		UNROLL for (int j = 0; j < X; j++)
			sums[i] += p.v[j] * x[j];
	}
}

/* The weighted values of all warps, [WARPS][HEAD_SIZE], in place of the logits. */
DEVICE void sum_pages(const attune_args &a, const q_block &b, const span &s, int head,
		      float *logits)
{
	const int warp = threadIdx.x / WARP, row = lane_id() / COLUMNS;
	const int column = lane_id() % COLUMNS * X;
	const int *pages = a.block_table + (long long)b.seq * a.block_table_stride;
	const half16 *cache = (const half16 *)a.v_cache + head / a.group * a.v_head_stride + column;
	float sums[PIECES];
	UNROLL for (int i = 0; i < PIECES; i++)
		sums[i] = 0;
	for (int page = s.first + warp; page < s.last; page += WARPS)
		add_values(sums, cache + pages[page] * a.v_page_stride,
			   logits + (page - s.first) * PAGE_SIZE + column,
			   page * PAGE_SIZE + column, s);
	__syncthreads(); /* weights are read */
	UNROLL for (int i = 0; i < PIECES; i++) {
		UNROLL for (int mask = COLUMNS / 2; mask; mask /= 2)
			sums[i] += shfl_xor(sums[i], mask);
		if (!column && i * ROWS + row < HEAD_SIZE)
			logits[warp * HEAD_SIZE + i * ROWS + row] = sums[i];
	}
	__syncthreads();
}

/* Writes the output, with the sink; with segments, the partial. */
DEVICE void write_row(const attune_args &a, const q_block &b, int head, softmax all,
		      const float *sums)
{
	const long long row = (long long)(b.seq - a.seq_begin) * a.max_query + b.token;
	const long long at = (row * a.num_query_heads + head) * a.segments + blockIdx.y;
	const float sink = a.sinks ? sink_of(a, head) : MINUS_INF, top = fmaxf(all.m, sink);
	const float l = all.l * exp2_fast(all.m - top) + exp2_fast(sink - top);
	const float factor = a.segments > 1 ? 1 / all.l : exp2_fast(all.m - top) / l;
	half16 *out = (half16 *)a.out + (b.first_row + b.token) * a.out_token_stride +
		      head * a.out_head_stride;
	for (int d = threadIdx.x; d < HEAD_SIZE; d += NUM_THREADS) {
		float sum = 0;
		for (int w = 0; w < WARPS; w++)
			sum += sums[w * HEAD_SIZE + d];
		if (a.segments > 1)
			a.partial_out[at * HEAD_SIZE + d] = sum * factor;
		else
			out[d] = (half16)pack2(sum * factor, 0.f);
	}
	if (a.segments > 1 && !threadIdx.x) {
		a.partial_ml[2 * at] = all.m;
		a.partial_ml[2 * at + 1] = all.l;
	}
}

/* Writes the result of a query or a partition without keys. */
DEVICE void write_nothing(const attune_args &a, const q_block &b, int head)
{
	const long long row = (long long)(b.seq - a.seq_begin) * a.max_query + b.token;
	const long long at = (row * a.num_query_heads + head) * a.segments + blockIdx.y;
	half16 *out = (half16 *)a.out + (b.first_row + b.token) * a.out_token_stride +
		      head * a.out_head_stride;
	if (a.segments == 1)
		for (int d = threadIdx.x; d < HEAD_SIZE; d += NUM_THREADS)
			out[d] = 0;
	else if (!threadIdx.x)
		a.partial_ml[2 * at] = MINUS_INF, a.partial_ml[2 * at + 1] = 0;
}

/* grid: x = query tokens x query heads, heads fastest, so that heads of one KV head run at the same
 * time; y = partitions of PARTITION_SIZE keys; PARTITION_SIZE 0: one partition. */
DEVICE void classic(const attune_args &a)
{
	extern __shared__ __align__(16) float memory[];
	float *q = memory, *of_warps = q + HEAD_SIZE, *logits = of_warps + JOINED;
	const int head = blockIdx.x % a.num_query_heads;
	q_block b;
	span s;
	if (!find_q_block(a, blockIdx.x / a.num_query_heads, 1, b))
		return;
	visible_keys(a, b, b.token, b.token, s.begin, s.end);
	if (PARTITION_SIZE) {
		s.begin += blockIdx.y * PARTITION_SIZE;
		s.end = min(s.end, s.begin + PARTITION_SIZE);
	}
	if (s.begin >= s.end) {
		write_nothing(a, b, head);
		return;
	}
	s.first = s.begin / PAGE_SIZE;
	s.last = (s.end + PAGE_SIZE - 1) / PAGE_SIZE;
	const half16 *from = (const half16 *)a.q + (b.first_row + b.token) * a.q_token_stride +
			     head * a.q_head_stride;
	for (int d = threadIdx.x; d < HEAD_SIZE; d += NUM_THREADS)
		q[d] = to_float(from[d]);
	__syncthreads();
	const float most = score_pages(a, b, s, head, q, logits);
	const softmax all = weigh(most, s, logits, of_warps);
	sum_pages(a, b, s, head, logits);
	write_row(a, b, head, all, logits);
}

#endif
