/* xqa_kernels.cu - one combination of XQA: its sources with the macros TOKENS_PER_PAGE,
 * HEAD_GRP_SIZE, CACHE_ELEM_ENUM (0: BF16, 2: E4M3) and XQA_MATH (xqa.h).
 *
 * The sources ask for a kernel's shared memory and set its limit while the shared object is loaded,
 * for whatever device is current then. That would start CUDA in a process that may only want the list
 * of kernels, or fork. So these two calls are taken out, load makes them, and launches take the bytes
 * from there. The bytes must be asked of the device's code: the host's struct has another size. */
#include "xqa.h"
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <algorithm>
#include <stdexcept>
#include <xqa/hostUtils.h> /* before its function becomes a macro */

#define XQA_OF_bf16 0
#define XQA_OF_dequant 0
#define XQA_OF_fp8 1
#define XQA_PASTE(math) XQA_OF_##math
#define XQA_IS_FP8(math) XQA_PASTE(math)

static size_t shared_bytes; /* of kernel_mha, once load was called */

static inline cudaError_t later(uint32_t *bytes)
{
	*bytes = 0;
	return cudaSuccess;
}
#define cudaMemcpyFromSymbol(to, symbol, bytes) later(to)
#define cudaFuncSetAttribute(kernel, name, value) later(&(value))
#define makeLaunchConfig(grid, block, bytes, stream, early) \
	makeLaunchConfig(grid, block, shared_bytes, stream, early)
#define launchMHA XQA_NAME(unused, TOKENS_PER_PAGE, HEAD_GRP_SIZE, XQA_MATH)
#define launchHopperF8MHA XQA_NAME(unused, TOKENS_PER_PAGE, HEAD_GRP_SIZE, XQA_MATH)
#define launchMHAFlashInfer XQA_NAME(enqueue, TOKENS_PER_PAGE, HEAD_GRP_SIZE, XQA_MATH)
#define launchHopperF8MHAFlashInfer XQA_NAME(enqueue, TOKENS_PER_PAGE, HEAD_GRP_SIZE, XQA_MATH)
#if XQA_IS_FP8(XQA_MATH)
#include <xqa/mha_sm90.cu>
#else
#include <xqa/mha.cu>
#endif
#undef cudaMemcpyFromSymbol
#undef cudaFuncSetAttribute
#undef makeLaunchConfig

namespace adapter
{

XQA_DECLARE(TOKENS_PER_PAGE, HEAD_GRP_SIZE, XQA_MATH);

cudaError_t XQA_NAME(load, TOKENS_PER_PAGE, HEAD_GRP_SIZE, XQA_MATH)()
{
	uint32_t bytes = 0;
	const cudaError_t status = cudaMemcpyFromSymbol(&bytes, smemSize, sizeof bytes);
	if (status)
		return status;
	shared_bytes = bytes;
	return cudaFuncSetAttribute(kernel_mha, cudaFuncAttributeMaxDynamicSharedMemorySize,
				    (int)bytes);
}

void XQA_NAME(launch, TOKENS_PER_PAGE, HEAD_GRP_SIZE, XQA_MATH)(const xqa_call &c)
{
	launchMHAFlashInfer(c.units, c.num_kv_heads, /*window*/ 0, c.q_scale, c.d_q_scale,
			    (OutputHead *)c.out, (const InputHead *)c.q, /*sinks*/ nullptr,
			    (GMemCacheHead *)c.k, (GMemCacheHead *)c.v, c.block_table, c.max_seq,
			    (const uint32_t *)c.seq_lens, c.num_seqs, c.kv_scale, c.d_kv_scale,
			    c.semaphores, c.scratch, c.pdl, c.page_stride, c.slot_stride,
			    c.head_stride, c.stream);
}

} // namespace adapter
