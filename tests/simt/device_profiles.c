/* SPDX-License-Identifier: Apache-2.0 */
/* device_profiles.c - the properties of the emulated GPUs, except their number of units. */
#include "simt_device.h"

const struct device_info simt_poses[] = {
	[SIMT_H200] = { .name = "NVIDIA H200",
			.gpu = "h200",
			.arch = "sm_90",
			.driver = "emulated",
			.backend = BACKEND_GPU,
			.lanes = 32,
			.smem_per_block = 232448,
			.smem_per_unit = 233472,
			.l2_bytes = 60 << 20,
			.memory_bytes = 4ul << 30,
			.clock_mhz = 1980,
			.memory_clock_mhz = 3201 },
	[SIMT_MI300X] = { .name = "AMD Instinct MI300X",
			  .gpu = "mi300",
			  .arch = "gfx942",
			  .driver = "emulated",
			  .backend = BACKEND_GPU,
			  .lanes = 64,
			  .smem_per_block = 65536,
			  .smem_per_unit = 65536,
			  .l2_bytes = 256 << 20,
			  .memory_bytes = 4ul << 30,
			  .clock_mhz = 2100,
			  .memory_clock_mhz = 2600,
			  .dies = 8 },
};
