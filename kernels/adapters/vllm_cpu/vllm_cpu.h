/* vllm_cpu.h - vLLM's CPU attention as functions without templates. */
#ifndef ATTUNE_ADAPTERS_VLLM_CPU_VLLM_CPU_H
#define ATTUNE_ADAPTERS_VLLM_CPU_VLLM_CPU_H

#include "cpu/cpu_attn_vec.hpp"
#include "cpu/cpu_attn_vec16.hpp"
#include "attune_plugin.h"

/* K and V of tokens that lie `stride` elements apart, to slots of vLLM's cache. */
struct vllm_rows {
	const void *k, *v;
	int64_t k_token_stride, v_token_stride, k_head_stride, v_head_stride;
	const int64_t *slots;
	int64_t num_tokens;
};

/* K of a page and head is [head_size][page_size], V behind it [page_size][head_size]. */
struct vllm_cache {
	char *memory;
	int64_t page_stride, head_stride; /* in elements */
	int num_kv_heads, page_size;
};

/* Attention for one type, head size and way: VEC for pages of whole 32 slots, else VEC16. */
struct vllm_kernel {
	enum attune_dtype dtype;
	int head_size, key_step; /* keys that are computed together: 32, 16 */
	torch::Tensor (*schedule)(cpu_attention::AttentionScheduler::ScheduleInput);
	void (*attend)(const cpu_attention::AttentionInput *);
	void (*store)(const vllm_cache *, const vllm_rows *);
};

struct vllm_kernels {
	const vllm_kernel *v;
	int n;
};
vllm_kernels vllm_kernels_f32();
vllm_kernels vllm_kernels_f16();
vllm_kernels vllm_kernels_bf16();

#endif
