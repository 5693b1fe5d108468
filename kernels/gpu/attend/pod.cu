/* SPDX-License-Identifier: Apache-2.0 */
/* pod.cu - the prefills and the decodes of a batch in one launch, so that the matrix
 * units and the memory of an SM are busy at the same time: POD-Attention (Kamath et al.
 * 2025), with the bodies of attend_body.inc for both operations.
 *
 * Each block reads the number of its SM and takes a ticket there; the ticket's number makes it a
 * prefill or a decode block. Then it takes the next item of that operation, or of the other one if
 * none is left. So every SM runs a mix of both, in whatever order the hardware places blocks.
 *
 *   args.scratch, ints, zeros at the start:
 *     [TICKETS]          taken so far, by SM
 *     [2]                next item of the prefills, of the decodes
 *     [prefill blocks]   finished segments of an item, if there are several
 *     [decode blocks]
 *
 * An item is a Q block, a KV head and a segment of the keys. A decode block takes VIRTUAL items at
 * once, each for DECODE_WARPS of its warps, with its own piece of shared memory and its own
 * barrier. The last segment to finish merges all. */
#include "../paged.h"
#include "../softmax.h"

#define PARTIALS   1
#define NUM_STAGES 2
#define BLOCK_M	   PREFILL_M
#define TILE_SIZE  PREFILL_TILE
#define NUM_WARPS  WARPS
#define Q_IN_REGISTERS (MFRAGS == 1 && HEAD_SIZE <= 128 && BLOCKS_PER_SM * WARPS <= 8)
namespace prefill
{
#include "attend_body.inc"
#include "attend_items.inc"
}

#undef NUM_STAGES
#undef BLOCK_M
#undef TILE_SIZE
#undef NUM_WARPS
#undef BLOCK_THREAD
#undef BLOCK_BARRIER
#define NUM_STAGES DECODE_STAGES
#define BLOCK_M	   16
#define TILE_SIZE  DECODE_TILE
#define NUM_WARPS  DECODE_WARPS
#if VIRTUAL * DECODE_WARPS < WARPS || VIRTUAL > 1
#define BLOCK_THREAD (threadIdx.x % THREADS)
#define BLOCK_BARRIER() barrier(1 + threadIdx.x / THREADS, THREADS)
#endif
namespace decode
{
#include "attend_body.inc"
#include "attend_items.inc"
}

#ifndef PERSISTENT
#define PERSISTENT 0
#endif
#define TICKETS	  (WARP == 64 ? 1024 : 256) /* the values of sm_id() */
#define PIECE	  (RING_BYTES > MERGE_BYTES ? RING_BYTES : MERGE_BYTES)

enum { PREFILL, DECODE, NOTHING };

/* a.option, as pod.def passes it */
enum { POLICY, DECODE_SEGMENTS, PREFILL_SEGMENTS };

/* The arguments of one operation. partials: rows of partials before its own. */
DEVICE attune_args view(const attune_args &a, const attune_range &r, int segments, long long partials)
{
	attune_args v = a;
	v.seq_begin = r.seq_begin;
	v.seq_count = r.seq_count;
	v.min_query = r.min_query;
	v.max_query = r.max_query;
	v.segments = segments;
	v.partial_ml = a.partial_ml + partials * 2;
	v.partial_out = a.partial_out + partials * HEAD_SIZE;
	return v;
}

DEVICE long long partial_rows(const attune_args &a, const attune_range &r, int segments)
{
	return segments > 1 ? (long long)r.seq_count * r.max_query * a.num_query_heads * segments : 0;
}

/* The operation of a ticket. The one with fewer blocks comes first and then at every n-th ticket:
 * every second by policy 0, in proportion to its blocks by policy 1. */
DEVICE int operation_of(u32 ticket, int policy, u32 prefills, u32 decodes)
{
	const int rare = prefills <= decodes ? PREFILL : DECODE;
	const u32 most = max(prefills, decodes), least = max(min(prefills, decodes), 1u);
	const u32 every = policy ? most / least + 1 : 2;
	return ticket % every == 0 ? rare : !rare;
}

struct taken {
	int operation, item; /* of decodes the first of VIRTUAL */
};

DEVICE int next_item(int *next, int operation)
{
	return atomicAdd(next + operation, operation == DECODE ? VIRTUAL : 1);
}

DEVICE taken take(int *scratch, int policy, int prefills, int decodes)
{
	__shared__ taken t;
	if (!threadIdx.x) {
		int *next = scratch + TICKETS;
		const u32 ticket = atomicAdd(scratch + sm_id() % TICKETS, 1);
		t.operation = operation_of(ticket, policy, prefills, (decodes + VIRTUAL - 1) / VIRTUAL);
		t.item = next_item(next, t.operation);
		if (t.item >= (t.operation == PREFILL ? prefills : decodes)) {
			t.operation = !t.operation;
			t.item = next_item(next, t.operation);
			if (t.item >= (t.operation == PREFILL ? prefills : decodes))
				t.operation = NOTHING;
		}
	}
	__syncthreads();
	return t;
}

/* grid: x = prefill items + decode items / VIRTUAL; with PERSISTENT at most as many as run
 * at a time. A block that gets a number without work takes another. */
KERNEL_BESIDE(WARPS * WARP, BLOCKS_PER_SM) ENTRY(const attune_args a)
{
	extern __shared__ __align__(128) unsigned char memory[];
	const int segments = a.option[DECODE_SEGMENTS], cuts = a.option[PREFILL_SEGMENTS];
	const attune_args p = view(a, a.prefill, cuts, 0);
	const attune_args d = view(a, a.decode, segments, partial_rows(a, a.prefill, cuts));
	const int part = threadIdx.x / THREADS;
	int *scratch = (int *)a.scratch, *done = scratch + TICKETS + 2;
	do {
		const int p_blocks = prefill::count_blocks(p), d_blocks = decode::count_blocks(d);
		prefill::block pb;
		decode::block db;
		taken t;
		int found;
		do {
			t = take(scratch, a.option[POLICY], p_blocks * cuts, d_blocks * segments);
			if (t.operation == NOTHING)
				return;
			if (t.operation == PREFILL)
				found = prefill::find_item(p, t.item, p_blocks, pb);
			else
				found = part < VIRTUAL && t.item + part < d_blocks * segments &&
					decode::find_item(d, t.item + part, d_blocks, db);
		} while (!__syncthreads_or(found));
		if (t.operation == PREFILL)
			prefill::run_item(p, pb, done + t.item % p_blocks, memory);
		else if (found)
			decode::run_item(d, db, done + (cuts > 1 ? p_blocks : 0) +
						(t.item + part) % d_blocks, memory + part * PIECE);
		if (PERSISTENT)
			__syncthreads();
	} while (PERSISTENT);
}
