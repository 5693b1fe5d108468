/* batch.h - FlashInfer's persistent kernel (BatchAttention) as this adapter uses it: bf16, head
 * size 128, causal. FlashInfer generates the two structs for each build; these are for this one,
 * with the members that its templates read. batch_kernels.cu instantiates the kernel, batch.cu
 * launches it. */
#ifndef ATTUNE_FLASHINFER_BATCH_H
#define ATTUNE_FLASHINFER_BATCH_H

#include <flashinfer/math.cuh> /* variant_helper.cuh wants it in front */
#include <flashinfer/attention/mask.cuh>
#include <flashinfer/attention/variant_helper.cuh>
#include <flashinfer/fastdiv.cuh>
#include <cuda_bf16.h>
#include <cstdint>

namespace adapter
{

struct batch_params {
	using DTypeQ = __nv_bfloat16;
	using DTypeKV = __nv_bfloat16;
	using DTypeO = __nv_bfloat16;
	using IdType = int32_t;

	DTypeQ *q;
	DTypeKV *k, *v;
	DTypeO *partial_o, *final_o;
	float *partial_lse, *final_lse;

	/* The work list, by item. */
	IdType *q_indptr, *kv_indptr, *partial_indptr, *q_len, *kv_len;
	IdType *q_start, *kv_start, *kv_end, *kv_head_idx_arr;
	IdType *work_indptr; /* by block: its first item */
	IdType *len_kv_chunk;
	IdType *kv_indices;
	/* The reduction. */
	IdType *merge_indptr, *merge_o_indices, *num_packed_qo_len;

	uint32_t num_kv_heads;
	flashinfer::uint_fastdiv gqa_group_size, page_size;
	uint32_t q_stride_n, q_stride_h;
	uint32_t k_stride_page, k_stride_h, k_stride_n;
	uint32_t v_stride_page, v_stride_h, v_stride_n;
	/* Of the scales of a 4-bit cache; read, but not used. */
	uint32_t k_sf_stride_page, k_sf_stride_h, k_sf_stride_n;
	uint32_t v_sf_stride_page, v_sf_stride_h, v_sf_stride_n;
	float sm_scale, v_scale;
};

/* Scores as they are; the softmax wants scale * log2(e). */
struct batch_variant : flashinfer::AttentionVariantBase {
	static constexpr bool use_logits_soft_cap = false;
	float sm_scale_log2;

	template <typename Params>
	__device__ __host__ batch_variant(const Params &params, uint32_t, uint8_t *)
	    : sm_scale_log2(params.sm_scale * flashinfer::math::log2e)
	{
	}
};

constexpr uint32_t batch_head_size = 128;

} // namespace adapter

namespace flashinfer
{

template <uint32_t CTA_TILE_Q_1, uint32_t CTA_TILE_Q_2, uint32_t HEAD_DIM_QK, uint32_t HEAD_DIM_VO,
	  MaskMode MASK, typename Variant, typename Params>
cudaError_t BatchPagedAttentionPersistent(const Params params_1, const Params params_2,
					  const uint32_t num_blks_x, const uint32_t num_blks_y,
					  const cudaStream_t stream);

} // namespace flashinfer

/* Tiles of 128 rows for prefills and of 16 for decodes, as its plan assumes. */
#define BATCH_LAUNCH                                                     \
	flashinfer::BatchPagedAttentionPersistent<                       \
	    128, 16, adapter::batch_head_size, adapter::batch_head_size, \
	    flashinfer::MaskMode::kCausal, adapter::batch_variant, adapter::batch_params>
#endif
