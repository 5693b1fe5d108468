/* xqa.h - XQA, TensorRT-LLM's decode as FlashInfer carries it. Page size, group and types are
 * macros of its sources, so xqa_kernels.cu is compiled once for each combination, and each
 * has two functions of its own names. */
#ifndef ATTUNE_FLASHINFER_XQA_H
#define ATTUNE_FLASHINFER_XQA_H

#include <cuda_runtime.h>
#include <cstdint>

namespace adapter
{

struct xqa_call {
	void *out;
	const void *q;
	void *k, *v;
	const int32_t *block_table; /* max_seq / page size entries a row */
	const int32_t *seq_lens;
	uint32_t *semaphores; /* one for each sequence and KV head; 0 before and after a launch */
	void *scratch;
	/* Scores get q_scale * kv_scale / sqrt(head size), sums of values kv_scale. The pointers,
	 * where they are not NULL, replace the numbers. */
	float q_scale, kv_scale;
	const float *d_q_scale, *d_kv_scale;
	uint64_t page_stride, slot_stride, head_stride;
	uint32_t units, num_kv_heads, num_seqs, max_seq;
	bool pdl;
	cudaStream_t stream;
};

/* math: bf16      a BF16 cache (mha.cu)
 *       dequant   an E4M3 cache, converted to BF16 before it is multiplied (mha.cu)
 *       fp8       an E4M3 cache, q and weights rounded to E4M3 (mha_sm90.cu) */
#define XQA_JOIN(verb, page, group, math) xqa_##verb##_##page##_##group##_##math
#define XQA_NAME(verb, page, group, math) XQA_JOIN(verb, page, group, math)

/* The functions of one combination; load is for the current device. */
#define XQA_DECLARE(page, group, math)                   \
	cudaError_t XQA_NAME(load, page, group, math)(); \
	void XQA_NAME(launch, page, group, math)(const xqa_call &)

} // namespace adapter
#endif
