/* fa2.h - FlashInfer's fa2 template as this adapter uses it: BF16 queries over a BF16 or E4M3 cache,
 * head size 128, neither window nor soft cap. fa2_kernels.cu instantiates what fa2.cu launches. */
#ifndef ATTUNE_FLASHINFER_FA2_H
#define ATTUNE_FLASHINFER_FA2_H

#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/mask.cuh>
#include <flashinfer/attention/variants.cuh>
#include <flashinfer/pos_enc.cuh>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cstdint>

namespace flashinfer
{

template <uint32_t CTA_TILE_Q, uint32_t HEAD_DIM_QK, uint32_t HEAD_DIM_VO,
	  PosEncodingMode POSITIONS, bool FP16_QK, MaskMode MASK, typename Variant, typename Params>
cudaError_t BatchPrefillWithPagedKVCacheDispatched(Params params, typename Params::DTypeO *tmp_v,
						   float *tmp_s, bool enable_pdl,
						   cudaStream_t stream);

} // namespace flashinfer

namespace adapter
{

using fa2_element = __nv_bfloat16;
using fa2_params =
    flashinfer::BatchPrefillPagedParams<fa2_element, fa2_element, fa2_element, int32_t>;
using fa2_variant = flashinfer::DefaultAttention</*custom mask*/ false, /*window*/ false,
						 /*soft cap*/ false, /*ALiBi*/ false>;

/* An E4M3 cache: K and V become BF16 before they are multiplied. The pointers name one scale each in
 * device memory; NULL: 1. */
struct fa2_scaled_params
    : flashinfer::BatchPrefillPagedParams<fa2_element, __nv_fp8_e4m3, fa2_element, int32_t> {
	const float *d_k_scale, *d_v_scale;
};

/* K's scale becomes part of that of the scores, and V's is multiplied into the result. FlashInfer's
 * wrapper takes K's on the host, and multiplies the output by V's in a launch of its own. */
struct fa2_scaled_variant : fa2_variant {
	float output_scale;

	template <typename Params>
	__device__ __host__ fa2_scaled_variant(const Params &params, uint32_t batch_idx,
					       uint8_t *smem)
	    : fa2_variant(params, batch_idx, smem)
	{
		sm_scale_log2 *= params.d_k_scale ? *params.d_k_scale : 1;
		output_scale = params.d_v_scale ? *params.d_v_scale : 1;
	}

	REGISTER_OUTPUT_TRANSFORM(params, output, batch_idx, qo_idx, qo_head_idx, m, d, scale, {
		return output_scale * fa2_variant::OutputTransform(params, output, batch_idx,
								   qo_idx, qo_head_idx, m, d,
								   scale);
	})
};

/* What depends on the type of the cache. */
struct fa2_bf16 {
	using element = fa2_element;
	using params = fa2_params;
	using variant = fa2_variant;
};
struct fa2_e4m3 {
	using element = __nv_fp8_e4m3;
	using params = fa2_scaled_params;
	using variant = fa2_scaled_variant;
};

constexpr uint32_t fa2_head_size = 128;

} // namespace adapter

/* cache: fa2_bf16 or fa2_e4m3. */
#define FA2_LAUNCH(cache, tile, mask)                                              \
	flashinfer::BatchPrefillWithPagedKVCacheDispatched<                        \
	    tile, adapter::fa2_head_size, adapter::fa2_head_size,                  \
	    flashinfer::PosEncodingMode::kNone, false, flashinfer::MaskMode::mask, \
	    typename cache::variant, typename cache::params>
#endif
