/* gpu_here.h - the GPU that is here, with code for it, or the one that was named and must be;
 * else the emulated one, as where ATTUNE_SIMT_SOURCES is set. Include after cmocka.h. */
#ifndef GPU_HERE_H
#define GPU_HERE_H

#include "../kernels/shipped.h"
#include "simt/simt_device.h"

enum { EMULATED_UNITS = 16 };

/* Where no CUDA compiler was, each is a zero that an emulated GPU knows it by. */
static inline int carries_gpu_code(void)
{
	for (int i = 0; i < attune_num_shipped; i++)
		if (attune_shipped[i].backend == BACKEND_GPU)
			return *(const unsigned char *)attune_shipped[i].blob.data != 0;
	return 0;
}

static inline enum attune_status gpu_open(struct device *dev)
{
	const char *wanted = getenv("ATTUNE_TEST_GPU");
	if (getenv("ATTUNE_SIMT_SOURCES"))
		return simt_open(dev, EMULATED_UNITS, 0);
	if (wanted && *wanted && strcmp(wanted, "cpu"))
		return device_open(dev, "cuda");
	if (carries_gpu_code() && !device_open(dev, "cuda"))
		return ATTUNE_OK;
	return simt_open(dev, EMULATED_UNITS, 0);
}

static inline int is_emulated(const struct device *dev)
{
	return dev->ops == &simt_ops;
}

#endif
