/* pod_kernels.cu - instantiates FlashInfer's BatchPOD for prefill tiles of TILE rows. */
#include <flashinfer/attention/batch_pod.cuh>
#include "pod.h"

template cudaError_t POD_LAUNCH(TILE)(adapter::fa2_params prefills, adapter::fa2_element *tmp_v_p,
				      float *tmp_s_p, adapter::fa2_params decodes,
				      adapter::fa2_element *tmp_v_d, float *tmp_s_d,
				      bool enable_pdl, cudaStream_t stream, int *sm_aware_sched);
