/* batch_kernels.cu - instantiates FlashInfer's persistent kernel. */
#include <flashinfer/attention/persistent.cuh>
#include "batch.h"

template cudaError_t BATCH_LAUNCH(const adapter::batch_params prefills,
				  const adapter::batch_params decodes, const uint32_t blocks_x,
				  const uint32_t blocks_y, const cudaStream_t stream);
