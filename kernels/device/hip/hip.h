/* SPDX-License-Identifier: Apache-2.0 */
/* hip.h - AMD's runtime calls, chips and device attributes, for hip.c. */
#ifndef KERNELS_DEVICE_HIP_HIP_H
#define KERNELS_DEVICE_HIP_HIP_H

#include "kernels/device/device.h"

struct hip_api {
#define HIP_FN(ours, symbol, arguments) int(*ours) arguments;
#include "api.def"
#undef HIP_FN
	const char *(*ErrorString)(int error);
};

/* api.c. Uses the runtime that the process has loaded, if any: the caller's stream handles belong
 * to it. It stays loaded until the process ends, since its threads do. ATTUNE_HIP_LIBRARY: see
 * attune_open. */
enum attune_status hip_find(struct hip_api *);

/* chips.c: the known chips. The capability does not distinguish gfx90a from older chips, but the
 * number of units does: those have 120, or at most 64. units / die_units, if whole, is the number
 * of dies; it is whole in all partitions of a package. After the L2 of each die newer chips have
 * one cache for all. */
struct hip_chip {
	int major, minor, least_units, most_units;
	const char *arch, *gpu;
	int die_units, lds,
	    lds_granule; /* bytes of a unit, of which a block takes whole granules */
	size_t last_cache;
};
extern const struct hip_chip hip_chips[];          /* ends with a NULL arch */
const struct hip_chip *hip_chip(const char *arch); /* NULL: none of ours */

/* info.c: all but driver, ordinal and power_limit_w. */
void hip_describe(const struct hip_api *, int device, struct device_info *);
/* "HIP 6.4", preceded by the kernel driver's version if known. */
void hip_driver_text(char text[48], const struct hip_api *, const char *kernel_driver);

#endif
