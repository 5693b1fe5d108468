/* SPDX-License-Identifier: Apache-2.0 */
/* context.h - the state of an open CUDA device and of its loaded code, for the files of this
 * folder. */
#ifndef KERNELS_DEVICE_CUDA_CONTEXT_H
#define KERNELS_DEVICE_CUDA_CONTEXT_H

#include "launch.h"
#include "kernels/device/shared/side_streams.h"

struct cuda {
	struct cuda_api cu;
	struct sides sides;
	void *library, *ctx, *stream, *begin, *end;
	int device, recording;
};

struct code {
	void *module;
	struct cuda_function function;
	int smem_allowed; /* dynamic shared memory granted so far */
	int registers, spill_bytes, smem_static;
};

/* The library's status for an error of the driver, and its text; 0 is no error. */
enum attune_status cuda_check(const struct cuda *, int error, const char *what);
/* The same after the context was pushed, which it pops; error -1: the push failed. */
enum attune_status cuda_leave(const struct cuda *, int error, const char *what);
/* Runs `call` with the device's context current. */
#define IN_CONTEXT(c, call, what) cuda_leave(c, (c)->cu.CtxPush((c)->ctx) ? -1 : (call), what)

/* tensor_map.c */
enum attune_status cuda_map(struct device *, struct attune_map *, const struct map_view *);
int cuda_goes_on(struct device *, const void *from, size_t bytes);

#endif
