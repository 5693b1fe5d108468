/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_types.h - names that the dialects of all vendors share. */
#ifndef ATTUNE_GPU_GPU_TYPES_H
#define ATTUNE_GPU_GPU_TYPES_H

#include "../args.h"

#ifndef ENTRY
#define ENTRY attune_kernel
#endif
#define UNROLL _Pragma("unroll")

typedef unsigned int u32;
typedef unsigned short half16; /* the bits of an f16 or bf16 */

/* -DDTYPE=BF16 */
#define F32  0
#define F16  1
#define BF16 2

#define LOG2E	  1.4426950408889634f
#define MINUS_INF (-__int_as_float(0x7f800000))

#endif
