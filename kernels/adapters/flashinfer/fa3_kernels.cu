/* fa3_kernels.cu - instantiates FlashInfer's fa3 kernel with both of its schedulers. */
#include <flashinfer/attention/hopper/prefill_sm90.cuh>
#include "fa3.h"

template cudaError_t FA3_LAUNCH(true)(adapter::fa3_params &params, bool enable_pdl,
				      cudaStream_t stream);
template cudaError_t FA3_LAUNCH(false)(adapter::fa3_params &params, bool enable_pdl,
				       cudaStream_t stream);
