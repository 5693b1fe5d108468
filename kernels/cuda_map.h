/* cuda_map.h - maps of tensors, by the driver. */
#ifndef ATTUNE_CUDA_MAP_H
#define ATTUNE_CUDA_MAP_H

#include "device.h"

enum attune_status cuda_map(struct device *, struct attune_map *, const struct map_view *);

#endif
