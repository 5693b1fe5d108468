/* tensor_map.h - makes tensor maps by the driver. */
#ifndef KERNELS_DEVICE_CUDA_TENSOR_MAP_H
#define KERNELS_DEVICE_CUDA_TENSOR_MAP_H

#include "kernels/device/device.h"

enum attune_status cuda_map(struct device *, struct attune_map *, const struct map_view *);

#endif
