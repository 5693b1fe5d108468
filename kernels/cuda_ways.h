/* cuda_ways.h - the launches among which `attune bench --host` compares. */
#ifndef ATTUNE_CUDA_WAYS_H
#define ATTUNE_CUDA_WAYS_H

#include "device.h"

extern const struct launch_ways cuda_ways;

#endif
