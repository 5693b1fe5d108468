/* SPDX-License-Identifier: Apache-2.0 */
/* llama_on_devices.h - a CPU, an H200, and the shape of Llama 3.1 8B. */
#ifndef TESTS_SWEEP_LLAMA_ON_DEVICES_H
#define TESTS_SWEEP_LLAMA_ON_DEVICES_H

#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/store.h"
#include <stdio.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#undef fail

static const struct device_info cpu = {
	.backend = BACKEND_CPU, .gpu = "cpu", .units = 4, .l2_bytes = 32 << 20
};
static const struct device_info gpu = { .backend = BACKEND_GPU,
					.gpu = "h200",
					.arch = "sm_90",
					.units = 132,
					.lanes = 32,
					.smem_per_block = 227 << 10,
					.smem_per_unit = 228 << 10,
					.l2_bytes = 50 << 20 };
static const attune_shape llama = { .size = sizeof(attune_shape),
				    .num_query_heads = 32,
				    .num_kv_heads = 8,
				    .head_size = 128,
				    .page_size = 16,
				    .dtype = ATTUNE_BF16,
				    .kv_dtype = ATTUNE_BF16,
				    .causal = 1,
				    .has_new_kv = 1 };

#endif
