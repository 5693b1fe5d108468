/* ceilings.cu - measures the two roofs of a GPU:
 * -DROOF=0 reads device memory linearly, 16 bytes per lane, four reads in flight;
 * -DROOF=1 multiplies bf16 matrices from registers: 16x8x16 by mma.sync, 16x16x16 by MFMA. */
#include "kernel_args.h"
#define DTYPE BF16
#include "gpu/gpu.h"

#if ROOF == 0
struct alignas(16) chunk {
	u32 x, y, z, w;
};

KERNEL(CEILING_THREADS) ENTRY(const ceiling_args a)
{
	const chunk *from = (const chunk *)a.from;
	const unsigned long long step = (unsigned long long)gridDim.x * CEILING_THREADS;
	unsigned long long i = (unsigned long long)blockIdx.x * CEILING_THREADS + threadIdx.x;
	unsigned sum = 0;
	for (; i + 3 * step < a.words; i += 4 * step) {
		chunk v[4];
		UNROLL for (int j = 0; j < 4; j++)
			v[j] = from[i + j * step];
		UNROLL for (int j = 0; j < 4; j++)
			sum ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
	}
	if (sum == 0x9e3779b9u) /* practically never */
		*a.to = sum;
}
#else
#ifdef __AMDGCN__
typedef float4v sums;
DEVICE void step(sums &c, const u32 (&q)[4], const u32 (&k)[2])
{
	c = mfma(u32x2{ q[0], q[1] }, u32x2{ k[0], k[1] }, c);
}
#else
typedef float sums[4];
DEVICE void step(sums &c, const u32 (&q)[4], const u32 (&k)[2])
{
	mma(c, q, k[0], k[1]);
}
#endif

KERNEL(CEILING_THREADS) ENTRY(const ceiling_args a)
{
	sums c[CEILING_CHAINS];
	u32 q[4], k[2];
	UNROLL for (int i = 0; i < 4; i++)
		q[i] = pack2(.001f * threadIdx.x - .3f * i, .7f - .002f * threadIdx.x);
	k[0] = pack2(.4f - .001f * threadIdx.x, -.6f);
	k[1] = pack2(.2f, .003f * threadIdx.x - .8f);
	UNROLL for (int j = 0; j < CEILING_CHAINS; j++)
	UNROLL for (int i = 0; i < 4; i++)
		c[j][i] = .01f * (i + j);
	for (int n = 0; n < a.steps; n++)
		UNROLL for (int j = 0; j < CEILING_CHAINS; j++)
			step(c[j], q, k);
	float sum = 0;
	UNROLL for (int j = 0; j < CEILING_CHAINS; j++)
		sum += c[j][0] + c[j][1] + c[j][2] + c[j][3];
	if (sum == 1.2345678f)
		*a.to = 1;
}
#endif
