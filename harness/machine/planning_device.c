/* SPDX-License-Identifier: Apache-2.0 */
/* planning_device.c - operations for plans alone: they find binaries and load none. */
#include "machine.h"
#include "kernels/ship/shipped.h"

static const struct shipped carried[] = {
#define CELL(isa, kernel, flags) { BACKEND_CPU, isa, kernel, flags, { 0 } },
#define BLOB(isa, kernel, flags, entry) { BACKEND_GPU, isa, kernel, flags, { 0 } },
#include "carried.inc"
#undef CELL
#undef BLOB
};

static const struct shipped *find(const struct device *dev, const char *kernel, const char *flags)
{
	return shipped_among(carried, (int)COUNT(carried), &dev->info, kernel, flags);
}

static enum attune_status load(struct device *dev, struct code **code, const struct blob *blob)
{
	static char loaded;
	(void)dev, (void)blob;
	*code = (struct code *)&loaded;
	return ATTUNE_OK;
}

static void unload(struct device *dev, struct code *code)
{
	(void)dev, (void)code;
}

static void release(struct device *dev, void *mem)
{
	(void)dev, (void)mem;
}

static void close_it(struct device *dev)
{
	(void)dev;
}

static const struct device_ops planning_ops = {
	.name = "planning",
	.close = close_it,
	.release = release,
	.load = load,
	.unload = unload,
	.find = find,
};

void planning_device(struct device *dev, const struct device_info *info)
{
	*dev = (struct device){ .ops = &planning_ops, .info = *info };
}
