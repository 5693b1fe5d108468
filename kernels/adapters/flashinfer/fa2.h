/* fa2.h - FlashInfer's fa2 template as this adapter uses it: bf16, head size 128, neither window
 * nor soft cap. fa2_kernels.cu instantiates what fa2.cu launches. */
#ifndef ATTUNE_FLASHINFER_FA2_H
#define ATTUNE_FLASHINFER_FA2_H

#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/mask.cuh>
#include <flashinfer/attention/variants.cuh>
#include <flashinfer/pos_enc.cuh>
#include <cuda_bf16.h>
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

constexpr uint32_t fa2_head_size = 128;

} // namespace adapter

/* `prefix`: nothing to call it, `template cudaError_t` to instantiate it. */
#define FA2_LAUNCH(tile, mask)                                                     \
	flashinfer::BatchPrefillWithPagedKVCacheDispatched<                        \
	    tile, adapter::fa2_head_size, adapter::fa2_head_size,                  \
	    flashinfer::PosEncodingMode::kNone, false, flashinfer::MaskMode::mask, \
	    adapter::fa2_variant, adapter::fa2_params>
#endif
