/* planner.cu - plans a recorded step on the device, as attune_plan_batch does on the host: computes
 * the features of the prefill and the decode part from the lengths in device memory, evaluates
 * their trees and picks the choices. One block. recorded.h has the code that the host shares.
 *
 *   lengths -> sums of each thread -> of each warp -> of the block -> features
 *   offers (choice x segments), one a thread and turn -> the least rank -> the first with it
 *
 * Parts that one choice runs alone need no pick. Sums and maxima of integers do not depend on the
 * order. */
#include "../gpu.h"
#include "../../recorded.h"

#define THREADS 256
#define NO_RANK 0x7fffffffffffffffll

struct shared {
	part_sums sums[NUM_RECORDED][THREADS / WARP];
	part p[NUM_RECORDED];
	int present[NUM_RECORDED], says[NUM_RECORDED];
	long long rank;
	int offer;
};

DEVICE long long from_lane(long long v, int mask)
{
	const u32 low = shfl_xor((u32)v, mask);
	const u32 high = shfl_xor((u32)(v >> 32), mask);
	return (long long)((unsigned long long)high << 32 | low);
}

DEVICE void sum_over_warp(part_sums &t)
{
	for (int mask = WARP / 2; mask; mask /= 2) {
		part_sums other;
		UNROLL for (int i = 0; i < NUM_SUMS; i++)
			other.sum[i] = from_lane(t.sum[i], mask);
		UNROLL for (int i = 0; i < NUM_MOST; i++)
			other.most[i] = from_lane(t.most[i], mask);
		sums_join(&t, &other);
	}
}

DEVICE void add_lengths(const planner_args &a, shared &m)
{
	part_sums mine[NUM_RECORDED];
	const int warp = threadIdx.x / WARP;
	UNROLL for (int i = 0; i < NUM_RECORDED; i++)
		sums_start(&mine[i]);
	for (int i = threadIdx.x; i < a.num_seqs; i += THREADS) {
		const int query = a.query_start[i + 1] - a.query_start[i];
		const phase in = seq_phase(query);
		if (in == PHASE_PREFILL)
			sums_add(&mine[RECORDED_PREFILL], &a.table->shape, i, query, a.seq_lens[i]);
		else if (in == PHASE_DECODE)
			sums_add(&mine[RECORDED_DECODE], &a.table->shape, i, query, a.seq_lens[i]);
	}
	UNROLL for (int i = 0; i < NUM_RECORDED; i++)
	{
		sum_over_warp(mine[i]);
		if (!lane_id())
			m.sums[i][warp] = mine[i];
	}
	__syncthreads();
}

/* By threads 0 and 1, a part each. */
DEVICE void find_part(const planner_args &a, shared &m, int which)
{
	part_sums all[NUM_RECORDED];
	for (int i = 0; i < NUM_RECORDED; i++) {
		all[i] = m.sums[i][0];
		for (int w = 1; w < THREADS / WARP; w++)
			sums_join(&all[i], &m.sums[i][w]);
	}
	m.present[which] = part_from(&m.p[which], &a.table->shape,
				     which == RECORDED_PREFILL ? &all[RECORDED_PREFILL] :
								 &all[RECORDED_DECODE],
				     &all[RECORDED_PREFILL], &all[RECORDED_DECODE], a.query_start);
	m.says[which] = m.present[which] ? recorded_says(a.table, &m.p[which], which) : 0;
}

/* Sets m.offer to the first offer of least rank; m.rank NO_RANK: none. */
DEVICE void take_first(const planner_args &a, shared &m, int which, int says)
{
	const int offers = a.table->num_choices * MAX_RECORDED_VALUES;
	long long least = NO_RANK;
	int first = MAX_OFFERS;
	if (!threadIdx.x) {
		m.rank = NO_RANK;
		m.offer = MAX_OFFERS;
	}
	__syncthreads();
	for (int i = threadIdx.x; i < offers; i += THREADS) {
		const long long rank = offer_rank(a.table, &m.p[which], which, says, i);
		if (rank >= 0 && rank < least) {
			least = rank;
			first = i;
		}
	}
	if (first < MAX_OFFERS)
		atomicMin(&m.rank, least);
	__syncthreads();
	if (first < MAX_OFFERS && least == m.rank)
		atomicMin(&m.offer, first);
	__syncthreads();
}

/* Clears the counters of the part's blocks. */
DEVICE void clear_counters(const planner_args &a, const recorded_part &p)
{
	int *counter = (int *)(a.plan + 1);
	if (p.segments > 1)
		for (int i = threadIdx.x; i < min(p.blocks, a.counters); i += THREADS)
			counter[i] = 0;
}

KERNEL(THREADS) ENTRY(const planner_args a)
{
	__shared__ shared m;
	__shared__ recorded_part out[NUM_RECORDED];
	add_lengths(a, m);
	if (threadIdx.x < NUM_RECORDED) {
		find_part(a, m, threadIdx.x);
		recorded_clear(&out[threadIdx.x]);
		if (m.present[threadIdx.x] && is_alone(a.table, &m.p[threadIdx.x], threadIdx.x))
			recorded_put_part(&out[threadIdx.x], &m.p[threadIdx.x],
					  a.table->alone[threadIdx.x]);
	}
	__syncthreads();
	for (int i = 0; i < NUM_RECORDED; i++) {
		if (!m.present[i] || is_alone(a.table, &m.p[i], i))
			continue;
		take_first(a, m, i, m.says[i]);
		if (m.offer == MAX_OFFERS)
			take_first(a, m, i, SAYS_DEFAULTS);
		if (!threadIdx.x && m.offer < MAX_OFFERS)
			recorded_put(&out[i], a.table, &m.p[i], i, m.offer);
		__syncthreads();
	}
	for (int i = 0; i < NUM_RECORDED; i++) {
		if (!threadIdx.x)
			a.plan->part[i] = out[i];
		clear_counters(a, out[i]);
	}
}
