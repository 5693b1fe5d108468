/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_emulated.h - bodies for the functions of kernels/gpu/gpu.h with vendor instructions. It is
 * included at the end of that header; host.awk leaves the declarations there, so a body here
 * must have the same signature. A missing function stops the compilation where it is called. */

#ifndef DTYPE /* a kernel without elements */
#define DTYPE F16
#endif

DEVICE float exp2_fast(float x)
{
	const float y = exp2f(x);
	return y < 0x1p-126f ? 0.f : y; /* .ftz; NaN stays */
}

#if DTYPE != BF16
DEVICE float to_float(half16 h)
{
	return simt_from_half(h);
}
#endif

DEVICE u32 pack2(float lo, float hi)
{
#if DTYPE == BF16
	return simt_to_bfloat(lo) | (u32)simt_to_bfloat(hi) << 16;
#else
	return simt_to_half(lo) | (u32)simt_to_half(hi) << 16;
#endif
}

DEVICE void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
	struct simt_mma s = {
		DTYPE == BF16, { a[0], a[1], a[2], a[3] }, { b0, b1 }, { c[0], c[1], c[2], c[3] }
	};
	simt_meet(SIMT_MMA, ~0u, &s);
	memcpy(c, s.c, sizeof c);
}

DEVICE void load_matrices(u32 (&r)[4], u32 address)
{
	struct simt_matrices s = { address, 0, 4, {} };
	simt_meet(SIMT_LOAD_MATRICES, ~0u, &s);
	memcpy(r, s.out, sizeof r);
}

DEVICE void load_matrices_transposed(u32 (&r)[4], u32 address)
{
	struct simt_matrices s = { address, 1, 4, {} };
	simt_meet(SIMT_LOAD_MATRICES, ~0u, &s);
	memcpy(r, s.out, sizeof r);
}

DEVICE void copy16_async(u32 dst, const void *src, int valid)
{
	simt_copy_async(dst, src, 16, valid ? 16 : 0);
}

template <int hint> DEVICE void copy16_hinted(u32 dst, const void *src, int valid)
{
	simt_copy_async(dst, src, 16, valid ? 16 : 0);
}

DEVICE void copies_commit()
{
	simt_copies_commit();
}

template <int pending> DEVICE void copies_wait()
{
	simt_copies_wait(pending);
}

DEVICE u32 sm_id()
{
	return simt_now->unit;
}

DEVICE void barrier(int id, int threads)
{
	simt_barrier(id, threads, 0);
}

/* ---- roofline_nvidia.h ------------------------------------------------------------------ */

DEVICE void stay()
{
}

typedef unsigned long long cache_policy;
template <int keep> DEVICE cache_policy l2_policy()
{
	return 0;
}

DEVICE void load16(u32 (&v)[4], const void *p, cache_policy)
{
	memcpy(v, p, 16);
}

DEVICE void copy16(u32 dst, const void *src, cache_policy)
{
	simt_copy_async(dst, src, 16, 16);
}

/* As 8 bytes of shared memory have it: bytes that are still to come, whether the one lane is,
 * and the phase. */
struct simt_copies_barrier {
	int bytes;
	short awaited, phase;
};
DEVICE simt_copies_barrier *simt_copies_at(u32 at)
{
	return (simt_copies_barrier *)simt_shared_pointer(at, sizeof(simt_copies_barrier));
}

DEVICE void simt_copies_end(volatile simt_copies_barrier *b)
{
	if (b->bytes || b->awaited)
		return;
	b->phase = !b->phase;
	b->awaited = 1;
}

DEVICE void copies_barrier(u32 at)
{
	*simt_copies_at(at) = { 0, 1, 0 };
}

DEVICE void copies_expect(u32 at, u32 bytes)
{
	volatile simt_copies_barrier *b = simt_copies_at(at);
	if (!b->awaited)
		simt_die("two lanes come to a barrier of copies");
	b->awaited = 0;
	b->bytes += bytes;
	simt_copies_end(b);
}

/* The barrier knows of the bytes at once, memory when the lane that asked for them waits. */
DEVICE void copy_bulk(u32 dst, const void *src, u32 bytes, u32 at, cache_policy)
{
	volatile simt_copies_barrier *b = simt_copies_at(at);
	if (bytes % 16 || !bytes)
		simt_die("a bulk copy of %u bytes", bytes);
	for (u32 i = 0; i < bytes; i += 16)
		simt_copy_async(dst + i, (const char *)src + i, 16, 16);
	b->bytes -= bytes;
	simt_copies_end(b);
}

DEVICE void copies_arrive(u32 at, u32 phase)
{
	volatile simt_copies_barrier *b = simt_copies_at(at);
	simt_copies_wait(-1);
	simt_meet(SIMT_SYNCWARP, ~0u, NULL);
	while ((u32)b->phase == phase)
		simt_pause();
}

DEVICE void let_next_begin()
{
}

/* By all lanes of a warp. */
DEVICE void wait_for_last()
{
	simt_meet(SIMT_SYNCWARP, ~0u, NULL);
	simt_front_wait();
}

/* ---- ring_nvidia.h ---------------------------------------------------------------------- */

DEVICE int load_now(const int *from, int is_wanted)
{
	return is_wanted ? *from : 0;
}

DEVICE void keep(u32 &)
{
}

DEVICE void keep(long long &)
{
}

DEVICE u32 transposed(u32 x)
{
	const int lane = simt_now->lane, row = lane % 4 * 2, column = lane / 4;
	const u32 low = __shfl_sync(~0u, x, row * 4 + column / 2);
	const u32 high = __shfl_sync(~0u, x, (row + 1) * 4 + column / 2);
	const int shift = column % 2 * 16;
	return (low >> shift & 0xffff) | (high >> shift & 0xffff) << 16;
}

DEVICE float log2_fast(float x)
{
	return log2f(x);
}

DEVICE void mma_f16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
	struct simt_mma s = {
		0, { a[0], a[1], a[2], a[3] }, { b0, b1 }, { c[0], c[1], c[2], c[3] }
	};
	simt_meet(SIMT_MMA, ~0u, &s);
	memcpy(c, s.c, sizeof c);
}

DEVICE u32 pack2_f16(float lo, float hi)
{
	return simt_to_half(lo) | (u32)simt_to_half(hi) << 16;
}

DEVICE u32 simt_e4m3_to_half(u32 byte)
{
	const int exponent = byte >> 3 & 15, fraction = byte & 7;
	if ((byte & 127) == 127)
		return 0x7fff;
	const float size = exponent ? ldexpf(8 + fraction, exponent - 10) : ldexpf(fraction, -9);
	return simt_to_half(byte & 128 ? -size : size);
}

DEVICE void widen4(u32 &low, u32 &high, u32 x)
{
	low = simt_e4m3_to_half(x & 255) | simt_e4m3_to_half(x >> 8 & 255) << 16;
	high = simt_e4m3_to_half(x >> 16 & 255) | simt_e4m3_to_half(x >> 24) << 16;
}

DEVICE cache_policy evicted_first()
{
	return 0;
}

DEVICE void copy16_by(u32 dst, const void *src, int valid, cache_policy)
{
	simt_copy_async(dst, src, 16, valid ? 16 : 0);
}

DEVICE void cluster_arrive()
{
	simt_cluster_arrive();
}

DEVICE void cluster_wait()
{
	simt_cluster_wait();
}

/* A box: bytes that are still to come, and whether it is known how many these are. */
struct simt_box {
	int missing, is_known;
};

DEVICE void parcels_begin(u32 box)
{
	const simt_box empty = { 0, 0 };
	memcpy(simt_shared_pointer(box, sizeof empty), &empty, sizeof empty);
}

DEVICE void parcels_expect(u32 box, u32 bytes)
{
	volatile simt_box *b = (simt_box *)simt_shared_pointer(box, sizeof *b);
	b->missing += bytes;
	b->is_known = 1;
}

DEVICE void parcels_wait(u32 box)
{
	const volatile simt_box *b = (simt_box *)simt_shared_pointer(box, sizeof *b);
	__syncwarp(); /* else its lanes, which have something to put, too, do not get their turn */
	while (!b->is_known || b->missing)
		simt_pause();
}

DEVICE void parcel_put(u32 address, u32 box, int rank, float x, float y, float z, float w)
{
	const float four[4] = { x, y, z, w };
	volatile simt_box *b = (simt_box *)simt_cluster_pointer(box, rank, sizeof *b);
	memcpy(simt_cluster_pointer(address, rank, sizeof four), four, sizeof four);
	b->missing -= sizeof four;
}

/* ---- warpgroup_nvidia.h, warpgroup_products.h ------------------------------------------- */

/* The 8 bytes of a gate in shared memory: arrivals missing, arrivals in all, bytes missing, and
 * the phase. */
struct simt_gate {
	int bytes;
	unsigned char missing, comers, phase;
};

DEVICE volatile simt_gate *simt_gate_at(u32 at)
{
	return (simt_gate *)simt_shared_pointer(at, sizeof(simt_gate));
}

DEVICE void simt_gate_end(volatile simt_gate *g)
{
	if (g->missing || g->bytes)
		return;
	g->phase ^= 1;
	g->missing = g->comers;
}

DEVICE void gate_init(u32 gate, int comers)
{
	const simt_gate g = { 0, (unsigned char)comers, (unsigned char)comers, 0 };
	memcpy(simt_shared_pointer(gate, sizeof g), &g, sizeof g);
}

DEVICE void gates_ready()
{
}

DEVICE void gate_come(u32 gate)
{
	volatile simt_gate *g = simt_gate_at(gate);
	if (!g->missing)
		simt_die("more come to a gate than it is for");
	g->missing--;
	simt_gate_end(g);
}

DEVICE void gate_expect(u32 gate, u32 bytes)
{
	simt_gate_at(gate)->bytes += bytes;
	gate_come(gate);
}

/* By whole warps; one lane looks, after others have done what comes before. */
DEVICE void gate_wait(u32 gate, u32 parity)
{
	const volatile simt_gate *g = simt_gate_at(gate);
	simt_meet(SIMT_SYNCWARP, ~0u, NULL);
	while (!simt_now->lane && g->phase == parity)
		simt_pause();
	simt_meet(SIMT_SYNCWARP, ~0u, NULL);
}

DEVICE void map_prefetch(const struct attune_map &)
{
}

/* n slots of a map of maps.c, from `first` on. Bytes are there at once. */
static inline void simt_slots_copy(u32 to, const simt_map &m, long long first, int n, int head, u32 gate)
{
	const int chunks = m.piece / 8, of_row = m.head_size / 8;
	for (int slot = 0; slot < n; slot++)
		for (int c = 0; c < of_row; c++) {
			const u32 at = to + slot / 8 * m.head_size * 16 + c / chunks * m.piece * 16 +
				       slot % 8 * m.piece * 2 + c % chunks * 16;
			const long long from = (first + slot) * m.slot_stride + head * m.head_stride + c * 8;
			const int is_there = head < m.num_heads && (!m.num_slots || first + slot < m.num_slots);
			void *place =
			    simt_shared_pointer(at ^ (at >> 7 & (u32)(chunks - 1)) << 4, 16);
			if (is_there)
				memcpy(place, (const char *)m.base + from * 2, 16);
			else
				memset(place, 0, 16);
		}
	volatile simt_gate *g = simt_gate_at(gate);
	g->bytes -= n * m.head_size * 2;
	simt_gate_end(g);
}

DEVICE void box_copy(u32 to, const struct attune_map &map, int group, int head, u32 gate)
{
	struct simt_map m;
	memcpy(&m, &map, sizeof m);
	if (m.num_slots)
		simt_die("a box of groups from warpgroup_ragged's map");
	simt_slots_copy(to, m, (long long)group * m.group_slots, m.box, head, gate);
}

/* warpgroup_ragged's */
DEVICE void slots_copy(u32 to, const struct attune_map &map, int slot, int head, u32 gate)
{
	struct simt_map m;
	memcpy(&m, &map, sizeof m);
	if (!m.num_slots)
		simt_die("8 slots from warpgroup's map");
	simt_slots_copy(to, m, slot, 8, head, gate);
}

DEVICE void shared_clear16(u32 to)
{
	memset(simt_shared_pointer(to, 16), 0, 16);
}

DEVICE void shared_put16(u32 to, u32 x, u32 y, u32 z, u32 w)
{
	const u32 four[4] = { x, y, z, w };
	memcpy(simt_shared_pointer(to, 16), four, 16);
}

DEVICE uint4 load16_now(const void *from)
{
	return *(const uint4 *)from;
}

DEVICE void shared_written()
{
}

template <int n> DEVICE void registers_fewer()
{
}

template <int n> DEVICE void registers_more()
{
}

DEVICE void barrier_come(int id, int threads)
{
	simt_arrive(id, threads);
}

DEVICE void products_begin()
{
}

DEVICE void products_commit()
{
}

/* The four warps multiply together: none has a result before all asked for it. */
template <int pending> DEVICE void products_wait()
{
	simt_barrier(15 - simt_now->thread.x / 128, 128, 0);
}

template <int n> DEVICE void settle(float (&)[n])
{
}

template <int n> DEVICE void settle(u32 (&)[n])
{
}

#define ATTUNE_WARPGROUP_PRODUCTS_H
#ifdef KV_DTYPE /* of 8 bits, made F16 */
enum { SIMT_IS_BF16 = 0 };
#else
enum { SIMT_IS_BF16 = DTYPE == BF16 };
#endif
template <int N> struct product {
	static void by(float *d, unsigned long long a, const u32 *held, unsigned long long b, int add)
	{
		struct simt_product p = { SIMT_IS_BF16, N, add, a, b, held, d };
		simt_meet(SIMT_PRODUCT, ~0u, &p);
	}

	static void of_shared(float (&d)[N / 2], unsigned long long a, unsigned long long b, int add)
	{
		by(d, a, NULL, b, add);
	}

	static void of_held(float (&d)[N / 2], const u32 *a, unsigned long long b)
	{
		by(d, 0, a, b, 1);
	}
};
