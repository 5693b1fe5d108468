/* cuda_launch.h - one launch, of two kinds; with the device's context current. */
#ifndef ATTUNE_CUDA_LAUNCH_H
#define ATTUNE_CUDA_LAUNCH_H

#include "cuda_api.h"
#include "device.h"

/* Errors are the driver's. `args`: the kernel's one parameter. */
typedef int launch_kind(const struct cuda_api *, void *function, const struct geometry *,
			const void *args, void *stream);
launch_kind launch_in_turn;
/* The same, by the call that takes attributes. */
launch_kind launch_extended;
/* It may begin before the launch in front of it is over. */
launch_kind launch_early;

#endif
