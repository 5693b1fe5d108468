/* xqa_kernels.cu - one combination of XQA: its sources with the macros TOKENS_PER_PAGE,
 * HEAD_GRP_SIZE, CACHE_ELEM_ENUM (0: BF16, 2: E4M3) and XQA_MATH (xqa.h).
 *
 * The sources set a kernel's shared memory while the shared object is loaded, for whatever device
 * is current then. That would start CUDA in a process that may only want the list of kernels, or
 * fork. So these two calls are taken out, and load makes them. */
#include "xqa.h"
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <algorithm>
#include <stdexcept>

#define XQA_OF_bf16 0
#define XQA_OF_dequant 0
#define XQA_OF_fp8 1
#define XQA_PASTE(math) XQA_OF_##math
#define XQA_IS_FP8(math) XQA_PASTE(math)

static inline cudaError_t later(uint32_t *to, uint32_t value)
{
	*to = value;
	return cudaSuccess;
}
#define cudaMemcpyFromSymbol(to, symbol, bytes) later(to, symbol)
#define cudaFuncSetAttribute(kernel, name, value) later(&(value), value)
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

namespace adapter
{

XQA_DECLARE(TOKENS_PER_PAGE, HEAD_GRP_SIZE, XQA_MATH);

cudaError_t XQA_NAME(load, TOKENS_PER_PAGE, HEAD_GRP_SIZE, XQA_MATH)()
{
	return cudaFuncSetAttribute(kernel_mha, cudaFuncAttributeMaxDynamicSharedMemorySize,
				    hostSmemSize);
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
