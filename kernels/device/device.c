/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - opens the device of a name: "cpu", "cpu:avx2", "cuda:1", "hip:1". */
#include "device.h"
#include "kernels/spec/status.h"
#include <string.h>

/* Without a name they are tried in this order; the CPU always opens. */
static const struct device_ops *const all_ops[] = { &cuda_ops, &hip_ops, &cpu_ops };

static enum attune_status open_with(struct device *dev, const struct device_ops *ops,
				    const char *which)
{
	enum attune_status status;
	memset(dev, 0, sizeof *dev);
	dev->ops = ops;
	status = ops->open(dev, which);
	if (status)
		device_close(dev);
	return status;
}

enum attune_status device_open(struct device *dev, const char *which)
{
	if (!which) {
		enum attune_status status = ATTUNE_NO_DEVICE;
		for (size_t i = 0; status == ATTUNE_NO_DEVICE && i < COUNT(all_ops); i++)
			status = open_with(dev, all_ops[i], NULL);
		return status;
	}
	for (size_t i = 0; i < COUNT(all_ops); i++) {
		size_t len = strlen(all_ops[i]->name);
		if (!strncmp(which, all_ops[i]->name, len) && (!which[len] || which[len] == ':'))
			return open_with(dev, all_ops[i], which[len] ? which + len + 1 : NULL);
	}
	memset(dev, 0, sizeof *dev);
	return fail(ATTUNE_INVALID,
		    "device \"%s\": \"cpu\", \"cpu:<isa>\", \"cuda\", \"cuda:<n>\", \"hip\" or "
		    "\"hip:<n>\" is expected",
		    which);
}

void device_close(struct device *dev)
{
	if (dev->ops)
		dev->ops->close(dev);
	memset(dev, 0, sizeof *dev);
}
