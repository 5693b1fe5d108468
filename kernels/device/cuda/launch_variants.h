/* launch_variants.h - the launch variants that `attune bench --host` compares. */
#ifndef KERNELS_DEVICE_CUDA_LAUNCH_VARIANTS_H
#define KERNELS_DEVICE_CUDA_LAUNCH_VARIANTS_H

#include "kernels/device/device.h"

extern const struct launch_ways cuda_ways;

#endif
