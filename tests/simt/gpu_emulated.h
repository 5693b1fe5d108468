/* gpu_emulated.h - what stands in for those functions of kernels/gpu/gpu.h that hold
 * vendor instructions. Included at its end; host.awk leaves their declarations there,
 * so that a body here must have the same signature. A function that is missing here
 * stops the compilation where it is called. */

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
