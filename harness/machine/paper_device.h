/* paper_device.h - a device that need not be here, for plans alone: the library's planner takes it
 * (attune_adopt) and finds the code that a library carries which was built with all compilers.
 * Nothing runs on it. */
#ifndef HARNESS_MACHINE_PAPER_DEVICE_H
#define HARNESS_MACHINE_PAPER_DEVICE_H

#include "kernels/device/device.h"

void paper_device(struct device *, const struct device_info *);

#endif
