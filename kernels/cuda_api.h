/* cuda_api.h - the driver calls by which all CUDA code goes. */
#ifndef ATTUNE_CUDA_API_H
#define ATTUNE_CUDA_API_H

#include <stddef.h>

struct cuda_api {
#define CU_FN(ours, symbol, arguments) int(*ours) arguments;
#include "cuda_api.def"
#undef CU_FN
};

#endif
