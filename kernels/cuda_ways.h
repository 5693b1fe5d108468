/* cuda_ways.h - between device_cuda.c and cuda_ways.c. */
#ifndef ATTUNE_CUDA_WAYS_H
#define ATTUNE_CUDA_WAYS_H

#include "cuda_launch.h"

extern const struct launch_ways cuda_ways; /* cuda_ways.c */

/* ---- device_cuda.c ---- */
struct cuda_view { /* of a device and of code of it, which may be NULL */
	const struct cuda_api *cu;
	void *ctx, *stream;
	const struct cuda_function *function;
};
struct cuda_view cuda_view(const struct device *, const struct code *);
enum attune_status cuda_status(const struct device *, int error, const char *what);

#endif
