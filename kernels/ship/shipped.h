/* SPDX-License-Identifier: Apache-2.0 */
/* shipped.h - the binaries that the library carries. */
#ifndef KERNELS_SHIP_SHIPPED_H
#define KERNELS_SHIP_SHIPPED_H

#include "kernels/device/device.h"

struct config;
struct space;

struct shipped {
	enum backend backend;
	const char *arch; /* "sm_90", "gfx942", "avx512"; "ptx": any NVIDIA GPU from sm_80 on */
	const char *kernel, *flags;
	struct blob blob;
};

extern const struct shipped attune_shipped[];
extern const int attune_num_shipped;

/* The binary for the device's architecture, else for an older one that it executes (arch_runs),
 * else PTX; NULL: not carried. */
const struct shipped *shipped_find(const struct device_info *, const char *kernel,
				   const char *flags);
/* The same by the device's own `find`, if it has one. */
const struct shipped *shipped_for(const struct device *, const char *kernel, const char *flags);
const struct shipped *shipped_among(const struct shipped *list, int n, const struct device_info *,
				    const char *kernel, const char *flags);

/* The defaults, which stand behind all rules: the first legal one for prefills, the last for decodes.
 * Ends with a NULL kernel. */
struct fallback {
	const char *kernel, *values; /* of its tunables; NULL: the defaults */
};
extern const struct fallback attune_fallbacks[];
void fallback_config(struct config *, const struct fallback *, const struct space *);

/* Head sizes and types for which the defaults and the helpers are always carried; on_amd: for AMD
 * GPUs too, each of which needs its own code; is_small: of models for tests, by the first default
 * alone, which runs prefills and decodes without a helper. */
struct carried_shape {
	int head_size;
	enum attune_dtype dtype;
	int on_amd, is_small;
};
extern const struct carried_shape attune_carried_shapes[]; /* ends with head size 0 */
/* Whether what the rules of NVIDIA GPUs name is carried for the head size, measured or not. */
int carries_rules(int head_size);

#endif
