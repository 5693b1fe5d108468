/* device.c - "cpu", "cpu:avx2", "cuda:1", "hip:1" -> a device. */
#include "device.h"
#include <stdio.h>
#include <string.h>

/* What GPU= and file names call a device, by a part of its marketing name. The
 * first match wins, so longer names come first. */
static const struct {
	const char *part, *gpu;
} short_names[] = {
	{ "A100", "a100" },   { "H100", "h100" },   { "H200", "h200" },
	{ "B200", "b200" },   { "L40S", "l40s" },   { "RTX 4090", "rtx4090" },
	{ "MI250", "mi250" }, { "MI210", "mi210" }, { "MI300A", "mi300a" },
	{ "MI300", "mi300" }, { "MI325", "mi325" }, { "MI350", "mi350" },
	{ "MI355", "mi350" },
};

const char *gpu_short_name(const char *name)
{
	for (size_t i = 0; i < COUNT(short_names); i++)
		if (strstr(name, short_names[i].part))
			return short_names[i].gpu;
	return "gpu";
}

int device_is_emulated(const struct device_info *info)
{
	return strstr(info->name, "(emulated)") != NULL;
}

/* AMD's names all begin alike. */
const char *device_for(const char *gpu)
{
	return !gpu ? NULL : !strcmp(gpu, "cpu") ? "cpu" : !strncmp(gpu, "mi", 2) ? "hip" : "cuda";
}

/* In the order in which they are tried for whoever names none; the CPU always opens. */
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
