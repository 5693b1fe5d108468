/* SPDX-License-Identifier: Apache-2.0 */
/* dialect_amd.h - the modes of dialect.cu for gpu_amd.h and clang's builtins. */

DEVICE void shuffles_and_votes()
{
	const int l = lane_id();
	CHECK(WARP == 64 && (int)threadIdx.x % 64 == l);
	CHECK(shfl(l * 3, 40) == 120 && shfl(1.5f * l, 63) == 94.5f);
	CHECK(shfl_xor(l, 32) == (l ^ 32) && shfl_xor(1.5f * l, 5) == 1.5f * (l ^ 5));
	CHECK(shfl_xor((u32)l << 30, 1) == (u32)(l ^ 1) << 30);
	CHECK(shfl_up(l, 2) == (l < 2 ? l : l - 2));
	CHECK(__builtin_amdgcn_ds_bpermute((l + 66) * 4, l) == (l + 2) % 64);
	CHECK(__builtin_amdgcn_readfirstlane(l + 9) == 9);
	CHECK(__builtin_amdgcn_ballot_w64(l & 1) == 0xaaaaaaaaaaaaaaaaull);
	CHECK(__builtin_amdgcn_ballot_w64(l > 40) == ~0ull << 41);
	__builtin_amdgcn_wave_barrier();
	if (l >= 60)
		return; /* the remaining lanes meet without them */
	CHECK(__builtin_amdgcn_ballot_w64(1) == ~0ull >> 4);
}

/* By the manual of the instruction set: rows are 16 lanes, banks 4 lanes of each row. */
DEVICE void rows_of_lanes()
{
	const int l = lane_id(), in = l % 16, row = l - in;
#define DPP(how, rows, banks, zero) __builtin_amdgcn_update_dpp(-1, l, how, rows, banks, zero)
	CHECK(DPP(0x128, 15, 15, 0) == row + (in + 8) % 16);  /* row_ror:8 */
	CHECK(DPP(0x121, 15, 15, 0) == row + (in + 15) % 16); /* row_ror:1 */
	CHECK(DPP(0x111, 15, 15, 0) == (in ? l - 1 : -1));    /* row_shr:1 */
	CHECK(DPP(0x111, 15, 15, 1) == (in ? l - 1 : 0));
	CHECK(DPP(0x102, 15, 15, 1) == (in < 14 ? l + 2 : 0)); /* row_shl:2 */
	CHECK(DPP(0x140, 15, 15, 0) == row + 15 - in);         /* row_mirror */
	CHECK(DPP(0x141, 15, 15, 0) == l - l % 8 + 7 - l % 8); /* row_half_mirror */
	CHECK(DPP(0xb1, 15, 15, 0) == (l ^ 1));                /* quad_perm:[1,0,3,2] */
	CHECK(DPP(0x1b, 5, 15, 0) == (row % 32 ? -1 : (l ^ 3)));
	CHECK(DPP(0x4e, 15, 2, 0) == (in / 4 == 1 ? (l ^ 2) : -1));
	CHECK(__builtin_amdgcn_ds_swizzle(l, 0x401f) == (l ^ 16)); /* xor 16, and 31 */
	CHECK(__builtin_amdgcn_ds_swizzle(l, 0x3c0) == l / 32 * 32 + 30);
	CHECK(__builtin_amdgcn_ds_swizzle(l, 0x801b) == (l ^ 3));
}

DEVICE void numbers()
{
	CHECK(__builtin_amdgcn_perm(0x77665544, 0x33221100, 0x05010c06) == 0x55110066);
	CHECK(exp2_fast(-3) == 0.125f && exp2_fast(MINUS_INF) == 0 && exp2_fast(-127) == 0);
	CHECK(pack2(1, -2) == (DTYPE == BF16 ? 0xc0003f80u : 0xc0003c00u));
	CHECK(to_float(DTYPE == BF16 ? 0xbfc0 : 0xbe00) == -1.5f);
	CHECK(__fdividef(3, 4) == 0.75f);
	CHECK(__umulhi(0x80000000u, 6) == 3 && min(-1, 2) == -1 && max(1u, 2u) == 2);
	CHECK(blockDim.x == DIALECT_THREADS && gridDim.x == DIALECT_BLOCKS && gridDim.y == 1);
	CHECK(sm_id() < 1024);
}

DEVICE void barriers()
{
	__shared__ int seen[DIALECT_THREADS];
	const int next = (threadIdx.x + 41) % DIALECT_THREADS;
	seen[threadIdx.x] = threadIdx.x;
	__syncthreads();
	CHECK(seen[next] == next);
	CHECK(__syncthreads_or(threadIdx.x == 5) && !__syncthreads_or(0));
	CHECK(__syncthreads_or(threadIdx.x == DIALECT_THREADS - 1));
	if (threadIdx.x < 64)
		return;
	__syncthreads(); /* of the others */
}

typedef float float16v __attribute__((vector_size(64)));

/* Of one side x side step, by AMD's tables of the instruction: with n = lane % side,
 *
 *   A, 4 elements  row n, columns 4 (lane / side) + 0..3
 *   B, 4 elements  rows 4 (lane / side) + 0..3, column n
 *   D, register r  column n; 16: row 4 (lane / 16) + r
 *		    32: rows 0 to 3, 8 to 11, 16 to 19, 24 to 27, from lane 32 on 4 more */
template <int side, class sums, class step>
DEVICE void matrix_step_of(const dialect_args &a, step multiply)
{
	const int n = lane_id() % side, k = lane_id() / side * 4, depth = 256 / side;
	half16 x[4], y[4];
	sums c;
	u32x2 left, right;
	int row[side * side / 64];
	for (int i = 0; i < 4; i++) {
		x[i] = a.a[n * depth + k + i];
		y[i] = a.b[(k + i) * side + n];
	}
	for (int r = 0; r < side * side / 64; r++) {
		row[r] = side == 16 ? k + r : k + r / 4 * 8 + r % 4;
		c[r] = a.c[row[r] * side + n];
	}
	for (int i = 0; i < 2; i++) {
		left[i] = x[2 * i] | (u32)x[2 * i + 1] << 16;
		right[i] = y[2 * i] | (u32)y[2 * i + 1] << 16;
	}
	c = multiply(left, right, c);
	if (threadIdx.x < WARP && !blockIdx.x)
		for (int r = 0; r < side * side / 64; r++)
			a.d[row[r] * side + n] = c[r];
}

DEVICE void matrix_step(const dialect_args &a)
{
	matrix_step_of<16, float4v>(a, mfma);
}

DEVICE float16v mfma32(u32x2 a, u32x2 b, float16v c)
{
#if DTYPE == BF16
	return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, 0, 0, 0);
#else
	return __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, 0, 0, 0);
#endif
}

DEVICE void parts_ways()
{
	if (lane_id() == 35)
		shfl(1, 0);
	else
		__builtin_amdgcn_ballot_w64(1);
}

DEVICE void never_meets()
{
	if (threadIdx.x)
		__syncthreads();
	else
		shfl(1, 0);
}

DEVICE void own(const dialect_args &a)
{
	switch (a.mode) {
	case LANE_ROWS: return rows_of_lanes();
	case NUMBERS: return numbers();
	case MATRIX_STEP_32: return matrix_step_of<32, float16v>(a, mfma32);
	}
}
