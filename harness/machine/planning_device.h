/* planning_device.h - stands for a device that need not be here. The library plans for it
 * (attune_adopt) with the binaries that a library built with all compilers carries. Nothing runs on
 * it. */
#ifndef HARNESS_MACHINE_PLANNING_DEVICE_H
#define HARNESS_MACHINE_PLANNING_DEVICE_H

#include "kernels/device/device.h"

void planning_device(struct device *, const struct device_info *);

#endif
