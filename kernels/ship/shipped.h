/* shipped.h - the binaries that the library carries. */
#ifndef KERNELS_SHIP_SHIPPED_H
#define KERNELS_SHIP_SHIPPED_H

#include "kernels/device/device.h"

struct shipped {
	enum backend backend;
	const char *arch; /* "sm_90", "gfx942", "avx512"; "ptx": any NVIDIA GPU from sm_80 on */
	const char *kernel, *flags;
	struct blob blob;
};

extern const struct shipped attune_shipped[];
extern const int attune_num_shipped;

/* For the device's architecture, else for an older one the binaries of which it executes
 * (arch_runs), else the portable form; NULL when not carried. */
const struct shipped *shipped_find(const struct device_info *, const char *kernel,
				   const char *flags);
const struct shipped *shipped_among(const struct shipped *list, int n, const struct device_info *,
				    const char *kernel, const char *flags);

/* What stands in where no heuristic speaks, or what it says is illegal: for many rows the first
 * that is legal, for few the last. Ends with a NULL kernel. */
struct fallback {
	const char *kernel, *values; /* of its tunables; NULL: the defaults */
};
extern const struct fallback attune_fallbacks[];
void fallback_config(struct config *, const struct fallback *, const struct space *);

/* Compile-time shapes for which these (and the helpers) are carried, whatever was
 * measured: (head size, dtype). For AMD GPUs, of which each has code of its own, only some. */
struct carried_shape {
	int head_size;
	enum attune_dtype dtype;
	int on_amd;
};
extern const struct carried_shape attune_carried_shapes[]; /* ends with head size 0 */

#endif
