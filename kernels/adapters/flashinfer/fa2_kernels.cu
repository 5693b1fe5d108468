/* fa2_kernels.cu - instantiates FlashInfer's fa2 kernel for one tile of TILE query rows (token and
 * head of a group), one MASK, kNone for decodes, as its decode wrapper has it, else kCausal, and one
 * CACHE, fa2_bf16 or fa2_e4m3. Compiled once for each combination. */
#include <flashinfer/attention/prefill.cuh>
#include "fa2.h"

using cache = adapter::CACHE;

template cudaError_t FA2_LAUNCH(cache, TILE, MASK)(cache::params params,
						   adapter::fa2_element *tmp_v, float *tmp_s,
						   bool enable_pdl, cudaStream_t stream);
