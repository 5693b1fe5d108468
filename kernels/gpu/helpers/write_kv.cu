/* SPDX-License-Identifier: Apache-2.0 */
/* write_kv.cu - writes K and V of new tokens into the cache. A thread has a piece of both, so that it
 * waits once for two loads.
 *
 *   block x: tokens `tokens` x on; y: pieces `width` y on, of all heads of a token */
#include "../paged.h"
#include "write_args.h"

struct alignas(16) piece {
	u32 pair[WRITE_PIECE / 2];
};

/* An attune_run that begins early waits itself for what this launch writes. */
#ifdef __AMDGCN__
#define let_next_begin() ((void)0)
#else
DEVICE void let_next_begin()
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
#endif

/* magic: of the divisor, by page_magic */
DEVICE u32 quotient(u32 n, u32 magic)
{
	return magic ? __umulhi(n, magic) : n;
}

/* ---- where a token goes ------------------------------------------------------------------- */

/* The sequence of a token; -1: it is behind all queries. The guess is right where each has one token; its
 * three loads do not wait for one another. */
DEVICE int seq_of(const attune_args &a, int token)
{
	int lo = 0, hi = a.num_seqs - 1;
	const int guess = min(token, hi), end = a.query_start[a.num_seqs];
	const int first = a.query_start[guess], next = a.query_start[guess + 1];
	if (token >= end)
		return -1;
	if (first <= token && token < next)
		return guess;
	while (lo < hi) {
		const int middle = lo + (hi - lo + 1) / 2;
		if (a.query_start[middle] <= token)
			lo = middle;
		else
			hi = middle - 1;
	}
	return lo;
}

/* A slot of the cache; page below 0: the token is not written. */
struct place {
	long long page;
	int slot;
};

/* A magic number of a power of two is right for all numbers. */
DEVICE place place_of_slot(const attune_args &a, long long slot)
{
	const int is_power = !(a.page_size & (a.page_size - 1));
	place p = { -1, 0 };
	if (slot < 0)
		return p;
	p.page = is_power && slot >> 32 == 0 ? page_of(a, (u32)slot) : slot / a.page_size;
	p.slot = (int)(slot - p.page * a.page_size);
	return p;
}

DEVICE place place_in_seq(const attune_args &a, int token)
{
	const int seq = seq_of(a, token);
	place p = { -1, 0 };
	const int at = seq < 0 ? -1 : a.seq_lens[seq] - a.query_start[seq + 1] + token;
	if (at < 0)
		return p;
	const int page = page_of(a, at);
	p.page = a.block_table[(long long)seq * a.block_table_stride + page];
	p.slot = at - page * a.page_size;
	return p;
}

/* ---- pieces -------------------------------------------------------------------------------- */

#ifdef KV_DTYPE /* E4M3 */

struct alignas(8) narrow_piece {
	u32 four[2];
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
DEVICE u32 two_e4m3(float lo, float hi)
{
	half16 two;
	asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(hi), "f"(lo));
	return two;
}
#else
/* To the nearest, of two to the even one: below 2^-6, where steps are of 2^-9, by the sum with a
 * number whose last bit is 2^-9. */
DEVICE u32 one_e4m3(float x)
{
	const u32 bits = __float_as_uint(x), size = bits & 0x7fffffff, sign = bits >> 24 & 0x80;
	const u32 large = ((size + 0x7ffff + (size >> 20 & 1)) >> 20) - (120 << 3);
	const u32 small = __float_as_uint(__uint_as_float(size) + 16384.f) - __float_as_uint(16384.f);
	return size > 0x7f800000 ? 0x7f : sign | min(size < 0x3c800000 ? small : large, 0x7eu);
}

DEVICE u32 two_e4m3(float lo, float hi)
{
	return one_e4m3(lo) | one_e4m3(hi) << 8;
}
#endif

DEVICE void put(void *cache, long long at, const piece &x, float scale)
{
	narrow_piece n;
	UNROLL for (int i = 0; i < 4; i++) {
		const float lo = to_float((half16)x.pair[i]), hi = to_float((half16)(x.pair[i] >> 16));
		const u32 two = scale == 1.f ? two_e4m3(lo, hi) : two_e4m3(lo / scale, hi / scale);
		n.four[i / 2] = i % 2 ? n.four[i / 2] | two << 16 : two;
	}
	*(narrow_piece *)((unsigned char *)cache + at) = n;
}

/* Never: write_kv.def refuses it. */
DEVICE void put_classic(const attune_args &, long long, long long, int, int, const piece &,
			const piece &)
{
}

#else

DEVICE void put(void *cache, long long at, const piece &x, float)
{
	*(piece *)((half16 *)cache + at) = x;
}

/* The classic layout: elements of V are a page's slots apart. k_at, v_at: of the page and head. */
DEVICE void put_classic(const attune_args &a, long long k_at, long long v_at, int slot, int d,
			const piece &k, const piece &v)
{
	const long long before = (long long)d * a.page_size;
	half16 *to = (half16 *)a.v_cache + v_at + before + slot;
	put((void *)a.k_cache, k_at + before + slot * 8, k, 1.f);
	UNROLL for (int i = 0; i < 8; i++)
		to[(long long)i * a.page_size] = (half16)(v.pair[i / 2] >> 16 * (i % 2));
}

#endif

/* The factor of a token's keys or values; the stride of sequences is 0 where seq is unknown. */
DEVICE float scale_of(const float *scale, long long seq_stride, long long head_stride, int seq,
		      int head)
{
	return scale ? scale[seq * seq_stride + head * head_stride] : 1.f;
}

KERNEL(WRITE_THREADS) ENTRY(const attune_write w)
{
	const attune_args &a = w.call.args;
	const attune_more &m = w.call.more;
	const u32 row = quotient(threadIdx.x, w.width_magic), token = blockIdx.x * w.tokens + row;
	const u32 index = blockIdx.y * w.width + threadIdx.x - row * w.width;
	const int head = quotient(index, w.of_head_magic);
	const int d = index * WRITE_PIECE - head * w.head_size;
	let_next_begin();
	if (row >= (u32)w.tokens || token >= (u32)w.num_tokens || head >= a.num_kv_heads)
		return;
	const piece k = *(const piece *)((const half16 *)a.k_new + token * a.k_new_token_stride +
					 head * a.k_new_head_stride + d);
	const piece v = *(const piece *)((const half16 *)a.v_new + token * a.v_new_token_stride +
					 head * a.v_new_head_stride + d);
	const place p = w.slots ? place_of_slot(a, w.slots[token]) : place_in_seq(a, token);
	if (p.page < 0)
		return;
	const long long k_at = p.page * a.k_page_stride + head * a.k_head_stride;
	const long long v_at = p.page * a.v_page_stride + head * a.v_head_stride;
	if (w.is_classic) {
		put_classic(a, k_at, v_at, p.slot, d, k, v);
		return;
	}
	const int seq = w.has_seq_scales ? seq_of(a, token) : 0;
	if (seq < 0)
		return;
	put((void *)a.k_cache, k_at + p.slot * a.k_slot_stride + d, k,
	    scale_of(m.k_scale, m.k_scale_seq_stride, m.k_scale_head_stride, seq, head));
	put((void *)a.v_cache, v_at + p.slot * a.v_slot_stride + d, v,
	    scale_of(m.v_scale, m.v_scale_seq_stride, m.v_scale_head_stride, seq, head));
}
