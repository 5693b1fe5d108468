/* fa2_kernels.cu - instantiates FlashInfer's fa2 kernel for one tile of TILE query rows
 * (token and head of a group) and one MASK: kNone for decodes, as its decode wrapper has it, else
 * kCausal. Compiled once for each pair. */
#include <flashinfer/attention/prefill.cuh>
#include "fa2.h"

template cudaError_t FA2_LAUNCH(TILE, MASK)(adapter::fa2_params params, adapter::fa2_element *tmp_v,
					    float *tmp_s, bool enable_pdl, cudaStream_t stream);
