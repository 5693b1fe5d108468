/* pod.h - FlashInfer's BatchPOD as this adapter uses it: prefills with a causal mask and decodes in
 * one grid, both by the fa2 template. pod_kernels.cu instantiates what pod.cu launches. */
#ifndef ATTUNE_FLASHINFER_POD_H
#define ATTUNE_FLASHINFER_POD_H

#include "fa2.h"

namespace flashinfer
{

template <uint32_t HEAD_DIM_QK, uint32_t HEAD_DIM_VO, PosEncodingMode POSITIONS, bool FP16_QK,
	  uint32_t CTA_TILE_Q_P, MaskMode MASK_P, uint32_t CTA_TILE_Q_D, MaskMode MASK_D,
	  typename PrefillVariant, typename DecodeVariant, typename PrefillParams,
	  typename DecodeParams>
cudaError_t
BatchPODWithKVCacheTensorDispatched(PrefillParams prefills, typename PrefillParams::DTypeO *tmp_v_p,
				    float *tmp_s_p, DecodeParams decodes,
				    typename DecodeParams::DTypeO *tmp_v_d, float *tmp_s_d,
				    bool enable_pdl, cudaStream_t stream, int *sm_aware_sched);

} // namespace flashinfer

/* tile: rows of a prefill's tile. */
#define POD_LAUNCH(tile)                                                                        \
	flashinfer::BatchPODWithKVCacheTensorDispatched<                                        \
	    adapter::fa2_head_size, adapter::fa2_head_size, flashinfer::PosEncodingMode::kNone, \
	    false, tile, flashinfer::MaskMode::kCausal, 16, flashinfer::MaskMode::kNone,        \
	    adapter::fa2_variant, adapter::fa2_variant, adapter::fa2_params, adapter::fa2_params>
#endif
