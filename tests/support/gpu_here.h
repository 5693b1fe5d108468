/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_here.h - this machine's GPU, with code for it, or the GPU that ATTUNE_TEST_GPU names,
 * which must be present; else the emulated one, as when ATTUNE_SIMT_SOURCES is set. Include
 * after cmocka.h. */
#ifndef TESTS_SUPPORT_GPU_HERE_H
#define TESTS_SUPPORT_GPU_HERE_H

#include "kernels/device/hip/hip.h"
#include "kernels/ship/shipped.h"
#include "kernels/spec/status.h"
#include "tests/simt/simt_device.h"

enum { EMULATED_UNITS = 16 };

/* Where no CUDA compiler was, each is a zero that an emulated GPU knows it by. */
static inline int carries_gpu_code(void)
{
	for (int i = 0; i < attune_num_shipped; i++)
		if (attune_shipped[i].backend == BACKEND_GPU)
			return *(const unsigned char *)attune_shipped[i].blob.data != 0;
	return 0;
}

/* The GPU that ATTUNE_TEST_GPU names; NULL: any. */
static inline const char *gpu_named(void)
{
	const char *wanted = getenv("ATTUNE_TEST_GPU");
	return wanted && *wanted && strcmp(wanted, "cpu") ? wanted : NULL;
}

/* No emulated one: the one that was named, else one of either vendor. */
static inline enum attune_status gpu_open_real(struct device *dev)
{
	if (gpu_named())
		return device_open(dev, device_for(gpu_named()));
	if (!device_open(dev, "cuda"))
		return ATTUNE_OK;
	if (!device_open(dev, "hip") && hip_chip(dev->info.arch))
		return ATTUNE_OK;
	device_close(dev);
	/* cmocka has a macro of that name */
	return (fail)(ATTUNE_NO_DEVICE, "no GPU is here that there are kernels for");
}

/* A GPU that runs the library's binaries. */
static inline enum attune_status gpu_open(struct device *dev)
{
	const int is_cuda = gpu_named() && !strcmp(device_for(gpu_named()), "cuda");
	if (getenv("ATTUNE_SIMT_SOURCES") || (!carries_gpu_code() && !is_cuda))
		return simt_open(dev, EMULATED_UNITS, 0);
	const enum attune_status status = gpu_open_real(dev);
	return status && !gpu_named() ? simt_open(dev, EMULATED_UNITS, 0) : status;
}

/* For the teardown of rows that capture: ends what a failed row began, which would take in the launches
 * of the next. 0, as cmocka wants it. */
static inline int end_capture(struct device *dev)
{
	struct graph *graph = NULL;
	if (dev->ops->capturing(dev, dev->ops->stream(dev)) && !dev->ops->graph_end(dev, &graph))
		dev->ops->graph_free(dev, graph);
	return 0;
}

static inline int is_emulated(const struct device *dev)
{
	return dev->ops == &simt_ops;
}

#endif
