/* fa3_kernels.cu - the kernels of FlashAttention-3 that fa3.cu launches: head size 128, BF16,
 * causal, packed GQA. It is compiled once for each pair of
 *
 *   FA3_SPLIT    1: partials of several splits, which a second kernel combines; 0: outputs
 *   FA3_GATHER   1: keys are gathered by cp.async, pages of any size; 0: by TMA, where a tile of
 *                keys lies in one page */
#include <cstdio>

/* FA3's macros are replaced before its templates use them. An error of CUDA is thrown to
 * fa3_call.cu; FA3 would end the process. Kernels without a causal mask or with a window are not
 * compiled. */
#include "cuda_check.h"
#include "static_switch.h"
#undef CHECK_CUDA
#define CHECK_CUDA(call)                     \
	do {                                 \
		cudaError_t error_ = (call); \
		if (error_ != cudaSuccess)   \
			throw error_;        \
	} while (0)
#undef CAUSAL_LOCAL_SWITCH
#define CAUSAL_LOCAL_SWITCH(is_causal, is_local, CAUSAL, LOCAL, ...) \
	[&] {                                                        \
		constexpr static bool CAUSAL = true, LOCAL = false;  \
		return __VA_ARGS__();                                \
	}()

#include "flash_fwd_combine_launch_template.h"
#include "flash_fwd_launch_template.h"

template void run_mha_fwd_<90, cutlass::bfloat16_t, 128, 128, FA3_SPLIT, FA3_GATHER, false, true>(
    Flash_fwd_params &, cudaStream_t);

#if FA3_SPLIT && FA3_GATHER
template void run_mha_fwd_combine_<cutlass::bfloat16_t, float, 128>(Flash_fwd_params &,
								    cudaStream_t, bool);
#endif
