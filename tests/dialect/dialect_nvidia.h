/* SPDX-License-Identifier: Apache-2.0 */
/* dialect_nvidia.h - the modes of dialect.cu for gpu_nvidia.h and CUDA's builtins. */
#define ALL 0xffffffffu

DEVICE void shuffles_and_votes()
{
	const int l = lane_id();
	CHECK(__shfl_sync(ALL, l * 3, 7) == 21);
	CHECK(__shfl_sync(ALL, l, 3, 8) == (l & ~7) + 3);
	CHECK(__shfl_xor_sync(ALL, 1.5f * l, 5) == 1.5f * (l ^ 5));
	CHECK(__shfl_up_sync(ALL, l, 2) == (l < 2 ? l : l - 2));
	CHECK(__shfl_down_sync(ALL, (long long)l << 40, 3, 16) ==
	      (long long)(l % 16 > 12 ? l : l + 3) << 40);
	CHECK(__ballot_sync(ALL, l & 1) == 0xaaaaaaaau);
	CHECK(__any_sync(ALL, l == 9) && !__any_sync(ALL, l == 32));
	CHECK(__all_sync(ALL, l < 32) && !__all_sync(ALL, l < 31));
	CHECK(__match_any_sync(ALL, (unsigned)l / 16) == (l < 16 ? 0xffffu : 0xffff0000u));
	CHECK(__reduce_add_sync(ALL, l) == 496 && __reduce_max_sync(ALL, -l) == 0);
	if (l < 4) /* a part of the warp */
		CHECK(__reduce_add_sync(0xfu, 1u) == 4);
	__syncwarp();
	if (l >= 30)
		return; /* the remaining lanes meet without them */
	CHECK(__ballot_sync(ALL, 1) == 0x3fffffffu);
}

DEVICE void barriers()
{
	__shared__ int seen[DIALECT_THREADS];
	const int next = (threadIdx.x + 41) % DIALECT_THREADS;
	seen[threadIdx.x] = threadIdx.x;
	CHECK(__syncthreads_count(threadIdx.x < 40) == 40);
	CHECK(seen[next] == next);
	CHECK(__syncthreads_or(threadIdx.x == 5) && !__syncthreads_or(0));
	CHECK(__syncthreads_and(1) && !__syncthreads_and(threadIdx.x != 50));
	if (threadIdx.x < 32)
		return;
	__syncthreads(); /* of the others */
	barrier(3, DIALECT_THREADS - 32);
}

/* Producer and consumers on a named barrier each way */
DEVICE void groups()
{
	__shared__ int box;
	for (int i = 0; i < 5; i++)
		if (threadIdx.x < 32) {
			barrier(1, DIALECT_THREADS); /* empty */
			box = i;
			simt_arrive(2, DIALECT_THREADS); /* full */
		} else {
			simt_arrive(1, DIALECT_THREADS);
			barrier(2, DIALECT_THREADS);
			CHECK(box == i);
		}
}

DEVICE void copies(const dialect_args &a)
{
	volatile int *to = (int *)simt_dynamic() + threadIdx.x * 4;
	copy16_async(shared_address((void *)to), a.source, 1);
	copies_commit();
	CHECK(to[0] == -1); /* not there yet */
	copies_wait<1>();
	CHECK(to[0] == -1);
	copies_wait<0>();
	CHECK(to[0] == a.source[0] && to[3] == a.source[3]);
	copy16_async(shared_address((void *)to), a.source, 0);
	copies_commit();
	copies_wait<0>();
	CHECK(to[0] == 0 && to[3] == 0);
	__shared__ unsigned fixed[4];
	fixed[1] = 5;
	CHECK(*(unsigned *)simt_shared_pointer(shared_address(&fixed[1]), 4) == 5);
}

/* Element e of a lane's, by the PTX manual's figures of mma.m16n8k16:
 *
 *   A, 8 elements  row g, for e 2, 3, 6 and 7 g + 8    column 2 t + e % 2, from e 4 on + 8
 *   B, 4 elements  row 2 t + e % 2, from e 2 on + 8    column g
 *   C, 4 elements  row g, from e 2 on g + 8            column 2 t + e % 2
 *
 * with g = lane / 4 and t = lane % 4; two elements a register, the first in its low half. */
DEVICE void matrix_step(const dialect_args &a)
{
	const int g = lane_id() / 4, t = lane_id() % 4;
	half16 x[8], y[4];
	u32 fragment[4], b[2];
	float c[4];
	for (int e = 0; e < 8; e++)
		x[e] = a.a[(g + (e / 2 % 2 ? 8 : 0)) * 16 + 2 * t + e % 2 + (e >= 4 ? 8 : 0)];
	for (int e = 0; e < 4; e++) {
		y[e] = a.b[(2 * t + e % 2 + (e >= 2 ? 8 : 0)) * 8 + g];
		c[e] = a.c[(g + (e >= 2 ? 8 : 0)) * 8 + 2 * t + e % 2];
	}
	for (int i = 0; i < 4; i++)
		fragment[i] = x[2 * i] | (u32)x[2 * i + 1] << 16;
	for (int i = 0; i < 2; i++)
		b[i] = y[2 * i] | (u32)y[2 * i + 1] << 16;
	mma(c, fragment, b[0], b[1]);
	if (threadIdx.x < WARP && !blockIdx.x)
		for (int e = 0; e < 4; e++)
			a.d[(g + (e >= 2 ? 8 : 0)) * 8 + 2 * t + e % 2] = c[e];
}

/* Lane l names row l % 8 of matrix l / 8; here row r lies at 7 - r. Of matrix i a lane gets the
 * elements 2 t and 2 t + 1 of row g; transposed, element g of the rows 2 t and 2 t + 1. */
DEVICE void matrix_loads()
{
	const int l = lane_id(), g = l / 4, t = l % 4;
	half16 *m = (half16 *)simt_dynamic() + threadIdx.x / WARP * 256; /* [4][8][8] */
	u32 plain[4], transposed[4];
	for (int i = l; i < 256; i += WARP)
		m[i] = i;
	__syncwarp();
	const u32 row = shared_address(m + (l / 8 * 8 + 7 - l % 8) * 8);
	load_matrices(plain, row);
	load_matrices_transposed(transposed, row);
	for (int i = 0; i < 4; i++)
		for (int e = 0; e < 2; e++) {
			const u32 low = i * 64 + (7 - g) * 8 + 2 * t + e;
			const u32 across = i * 64 + (7 - (2 * t + e)) * 8 + g;
			CHECK((plain[i] >> 16 * e & 0xffff) == low);
			CHECK((transposed[i] >> 16 * e & 0xffff) == across);
		}
}

/* Element 8 r + c of row r and column c; a lane has 2 t and 2 t + 1 of row g. */
DEVICE void matrix_turned()
{
	const u32 g = lane_id() / 4, t = lane_id() % 4, x = g * 8 + 2 * t;
	CHECK(transposed(x | (x + 1) << 16) == (2 * t * 8 + g | ((2 * t + 1) * 8 + g) << 16));
}

/* Each block puts a parcel into all of its cluster, which are neighbours in y. */
DEVICE void clusters()
{
	const int size = gridDim.y, mine = blockIdx.y, l = threadIdx.x;
	volatile float *memory = (float *)simt_dynamic();
	const u32 box = shared_address((void *)memory);
	if (!l)
		parcels_begin(box);
	cluster_arrive();
	cluster_wait();
	if (l < size)
		parcel_put(box + 16 * (mine + 1), box, l, blockIdx.x, mine, l, 1);
	if (!l)
		parcels_expect(box, 16 * size);
	parcels_wait(box);
	if (l < size) {
		const volatile float *four = memory + 4 * (l + 1);
		CHECK(four[0] == blockIdx.x && four[1] == l && four[2] == mine && four[3] == 1);
	}
}

DEVICE void parts_ways()
{
	if (lane_id() == 3)
		__shfl_sync(ALL, 1, 0);
	else
		__ballot_sync(ALL, 1);
}

DEVICE void never_meets()
{
	if (threadIdx.x < 32)
		barrier(5, 64);
}

DEVICE void own(const dialect_args &a)
{
	switch (a.mode) {
	case GROUPS: return groups();
	case COPIES: return copies(a);
	case MATRIX_LOADS: return matrix_loads();
	case MATRIX_TURNED: return matrix_turned();
	case CLUSTERS: return clusters();
	}
}
