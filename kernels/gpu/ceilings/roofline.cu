/* SPDX-License-Identifier: Apache-2.0 */
/* roofline.cu - reads memory as attention kernels do, and does nothing else: measures the bandwidth
 * of a GPU's memory and caches for each pattern of reads. -DPATH:
 *
 *   LOADS  16 bytes a lane to registers
 *   ASYNC  16 bytes a lane to shared memory (NVIDIA)
 *   BULK   PIECE bytes a lane to shared memory, by the copy engine (NVIDIA, from sm_90 on)
 *
 * A warp has STAGES items under way, so a block of WARPS warps has WARPS * STAGES * 4 KiB; with
 * LOADS that is an upper limit, since the compiler may reuse registers. Items are dealt to the
 * blocks in turn, then to their warps, so that a few are spread over all units. With args.units
 * only the blocks on the first so many units of a full grid read: the hardware chooses the units of
 * a smaller grid, and at times fills cluster (GPC) after cluster, each with its own limit. A warp
 * sums what it has read, if asked to or if the compiler would remove the reads. KEEP=1: keep lines
 * in the L2 cache.
 *
 *   shared memory   [warp][stage][4096], with BULK then [warp][stage] barriers of 8 bytes */
#include "roofline_paths.h"
#ifdef __AMDGCN__
#include "roofline_amd.h"
#else
#include "roofline_nvidia.h"
#endif

/* The items of a warp: first, first + step ... Each lane has loaded the page of one of WARP items
 * and of one of the next WARP. There is no division before the first read, which would slow short
 * runs. */
struct walk {
	int first, step, page, next;
};

DEVICE int page_of(const roofline_args &a, int item)
{
	int at = item / ROOFLINE_ITEMS;
	if (item >= a.num_items)
		return 0;
	if (at >= a.num_pages)
		at %= a.num_pages;
	return a.pages ? a.pages[at] : at;
}

/* Blocks that read; which of them this is */
DEVICE int readers(const roofline_args &a)
{
	return a.units ? a.units : gridDim.x;
}

DEVICE int reader(const roofline_args &a)
{
	return a.units ? sm_id() : blockIdx.x;
}

DEVICE walk begin_walk(const roofline_args &a)
{
	walk w;
	w.first = threadIdx.x / WARP * readers(a) + reader(a);
	w.step = readers(a) * WARPS;
	w.page = page_of(a, w.first + lane_id() * w.step);
	w.next = page_of(a, w.first + (WARP + lane_id()) * w.step);
	return w;
}

DEVICE int has_item(const walk &w, const roofline_args &a, int k)
{
	return w.first + k * w.step < a.num_items;
}

/* Where item k of the warp begins; k goes up by one from call to call. */
DEVICE const char *item_of(walk &w, const roofline_args &a, int k)
{
	if (k && k % WARP == 0) {
		w.page = w.next;
		w.next = page_of(a, w.first + (k + WARP + lane_id()) * w.step);
	}
	const u32 page = __float_as_uint(shfl(__uint_as_float(w.page), k % WARP));
	return (const char *)a.from + (long long)page * ROOFLINE_PAGE +
	       (w.first + k * w.step) % ROOFLINE_ITEMS * PIECE;
}

/* In an item, the lane's word i. */
DEVICE int word_at(int i)
{
	const int word = i * WARP + lane_id(), of_piece = PIECE / 16;
	return word / of_piece * (ROOFLINE_ITEMS * PIECE) + word % of_piece * 16;
}

#if PATH == LOADS
DEVICE u32 sum_of(const u32 (&v)[WORDS][4])
{
	u32 sum = 0;
	UNROLL for (int i = 0; i < WORDS; i++)
		sum += v[i][0] + v[i][1] + v[i][2] + v[i][3];
	return sum;
}

DEVICE void load_item(u32 (&v)[WORDS][4], const char *item)
{
	UNROLL for (int i = 0; i < WORDS; i++)
		load16(v[i], item + word_at(i), l2_policy<KEEP>());
}

DEVICE u32 read_all(const roofline_args &a, char *)
{
	walk w = begin_walk(a);
	u32 sum = 0, v[STAGES][WORDS][4];
	int k = 0;
	for (; has_item(w, a, k + STAGES - 1); k += STAGES) {
		UNROLL for (int s = 0; s < STAGES; s++)
			load_item(v[s], item_of(w, a, k + s));
		UNROLL for (int s = 0; s < STAGES; s++)
			sum += sum_of(v[s]);
	}
	for (; has_item(w, a, k); k++) {
		load_item(v[0], item_of(w, a, k));
		sum += sum_of(v[0]);
	}
	return sum;
}
#else
DEVICE u32 sum_of(const char *stage)
{
	u32 sum = 0;
	for (int i = 0; i < WORDS; i++) {
		const u32 *v = (const u32 *)(stage + (i * WARP + lane_id()) * 16);
		sum += v[0] + v[1] + v[2] + v[3];
	}
	return sum;
}
#endif

#if PATH == ASYNC
/* Item k - STAGES has come before k takes its place. A lane sums up what it has copied. */
DEVICE u32 read_all(const roofline_args &a, char *memory)
{
	char *const ring = memory + threadIdx.x / WARP * STAGES * ROOFLINE_ITEM;
	walk w = begin_walk(a);
	u32 sum = 0;
	for (int k = 0; k < STAGES || has_item(w, a, k - STAGES); k++) {
		char *const stage = ring + k % STAGES * ROOFLINE_ITEM;
		copies_wait<STAGES - 1>();
		if (a.asks && k >= STAGES)
			sum += sum_of(stage);
		if (has_item(w, a, k)) {
			const char *item = item_of(w, a, k);
			const u32 to = shared_address(stage) + lane_id() * 16;
			UNROLL for (int i = 0; i < WORDS; i++)
				copy16(to + i * WARP * 16, item + word_at(i), l2_policy<KEEP>());
		}
		copies_commit();
	}
	return sum;
}
#endif

#if PATH == BULK
/* As with ASYNC, but lanes sum what other lanes have copied: all read a stage before it is filled
 * again. The round of item k gives the barrier's phase. */
DEVICE u32 read_all(const roofline_args &a, char *memory)
{
	const int warp = threadIdx.x / WARP, lane = lane_id(), pieces = ROOFLINE_ITEM / PIECE;
	char *const ring = memory + warp * STAGES * ROOFLINE_ITEM;
	const u32 barriers = shared_address(memory + WARPS * STAGES * ROOFLINE_ITEM) +
			     warp * STAGES * 8;
	walk w = begin_walk(a);
	u32 sum = 0;
	for (int s = lane; s < STAGES; s += WARP)
		copies_barrier(barriers + s * 8);
	__syncwarp();
	for (int k = 0; k < STAGES || has_item(w, a, k - STAGES); k++) {
		char *const stage = ring + k % STAGES * ROOFLINE_ITEM;
		const u32 barrier = barriers + k % STAGES * 8;
		if (k >= STAGES)
			copies_arrive(barrier, (k / STAGES - 1) % 2);
		if (a.asks && k >= STAGES)
			sum += sum_of(stage);
		if (!has_item(w, a, k))
			continue;
		const char *item = item_of(w, a, k);
		if (!lane)
			copies_expect(barrier, ROOFLINE_ITEM);
		__syncwarp();
		if (lane < pieces)
			copy_bulk(shared_address(stage) + lane * PIECE,
				  item + lane * (ROOFLINE_ITEMS * PIECE), PIECE, barrier,
				  l2_policy<KEEP>());
	}
	return sum;
}
#endif

KERNEL(WARPS *WARP) ENTRY(const roofline_args a)
{
	extern __shared__ __align__(128) char memory[];
	if (reader(a) >= readers(a)) {
		stay(); /* else another block might start on this unit and be missing on its own */
		return;
	}
	u32 sum = read_all(a, memory);
	for (int mask = WARP / 2; mask; mask /= 2)
		sum += shfl_xor(sum, mask);
	if (!lane_id() && (a.asks || sum == 0x9e3779b9u)) /* practically never */
		a.sums[threadIdx.x / WARP * readers(a) + reader(a)] = sum;
}
