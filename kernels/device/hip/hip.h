/* hip.h - AMD GPUs below hip.c: the runtime's calls, what a GPU says of itself, and the
 * sensors of its kernel driver. */
#ifndef KERNELS_DEVICE_HIP_HIP_H
#define KERNELS_DEVICE_HIP_HIP_H

#include "kernels/device/device.h"

struct hip_api {
#define HIP_FN(ours, symbol, arguments) int(*ours) arguments;
#include "api.def"
#undef HIP_FN
	const char *(*ErrorString)(int error);
};

/* api.c. Finds the runtime once more where the process has it already: handles of the
 * caller's streams are that one's. It stays loaded until the process ends, since its threads do.
 * ATTUNE_HIP_LIBRARY: see attune_open. */
enum attune_status hip_find(struct hip_api *);

/* chips.c: what is known of the chips, without one at hand. The capability does not tell gfx90a
 * from its elders, but the number of units does: these have 120, or no more than 64. Where a
 * whole number of `die_units` is there, as in all of the ways in which a package may be
 * partitioned, it says how many dies they are of. Behind the L2 of each die the newer ones have
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

/* info.c: all but driver and power_limit_w, which are of the sensors. */
void hip_describe(const struct hip_api *, int device, struct device_info *);
/* "HIP 6.4", after the kernel driver's version where that is known. */
void hip_driver_text(char text[48], const struct hip_api *, const char *kernel_driver);

/* sensors.c: files below `folder`, that of a PCI device in sysfs. What is not there is 0. */
struct hip_sensors {
	char folder[128], hwmon[192];
};
void hip_sensors_open(struct hip_sensors *, const char *folder);
double hip_power_limit(const struct hip_sensors *); /* watts */
void hip_sensors_read(const struct hip_sensors *, struct conditions *);
void hip_sensors_read_use(const struct hip_sensors *, struct device_use *);

#endif
