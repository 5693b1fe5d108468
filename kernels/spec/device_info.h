/* SPDX-License-Identifier: Apache-2.0 */
/* device_info.h - struct device_info: the name, architecture and sizes of a device. */
#ifndef KERNELS_SPEC_DEVICE_INFO_H
#define KERNELS_SPEC_DEVICE_INFO_H

#include "kernels/spec/choice.h"
#include <stdlib.h>
#include <string.h>

enum { GPU_NAME = 64 }; /* bytes of a name, gpu_names.h */

struct device_info {
	char name[80];      /* "NVIDIA H200", "AMD EPYC 9B14" */
	char gpu[GPU_NAME]; /* the name in GPU= and in file names: "h200", "cpu" */
	char arch[16];      /* "sm_90"; "avx512", "avx2", "neon", "scalar" */
	char driver[48];    /* driver and API version, or the kernel's */
	enum backend backend;
	int ordinal; /* of a GPU, as its driver counts */
	int units; /* SMs, or threads */
	int lanes; /* threads of a warp, or floats of a vector */
	int smem_per_block, smem_per_unit;
	size_t l2_bytes; /* the last cache before DRAM; on a CPU the sum of all L3 */
	size_t memory_bytes;
	int clock_mhz, memory_clock_mhz; /* nominal; 0: not known */
	double power_limit_w;            /* 0: not known */
	int dies; /* compute dies (XCDs) that share the units, each with an L2; 0: not known */
	unsigned char uuid[16]; /* of a GPU; zeros: not known */
};

/* Whether blocks can form clusters that share their memory. */
static inline int has_clusters(const struct device_info *d)
{
	return !strncmp(d->arch, "sm_", 3) && atoi(d->arch + 3) >= 90;
}

/* Whether it compiles the library's PTX, which is sm_80's. */
static inline int runs_ptx(const struct device_info *d)
{
	return !strncmp(d->arch, "sm_", 3) && atoi(d->arch + 3) >= 80;
}

/* Whether it has matrix products by warpgroups. */
static inline int has_warpgroups(const struct device_info *d)
{
	return !strcmp(d->arch, "sm_90");
}

/* The largest number of tokens that divides both tiles and pages. */
static inline int box_tokens(int page_size, int tile)
{
	return tile ? box_tokens(tile, page_size % tile) : page_size;
}

/* Keys of a tile of warpgroup_ragged: registers and shared memory are for so many. 0: none. */
static inline int ragged_tile(int head_size)
{
	switch (head_size) {
	case 64:
	case 96:
	case 128: return 128;
	case 192: return 112;
	case 256: return 80;
	default: return 0;
	}
}

#endif
