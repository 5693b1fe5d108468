/* SPDX-License-Identifier: Apache-2.0 */
/* info.c - reads the sizes of an AMD GPU from attributes alone, since the struct of properties
 * differs between ROCm versions. */
#include "kernels/device/shared/gpu_names.h"
#include "hip.h"
#include <stdio.h>
#include <string.h>

/* Attribute numbers of HIP's ABI; AMD's own begin at 10000. */
enum {
	ATTR_CLOCK_KHZ = 5,
	ATTR_L2 = 19,
	ATTR_CC_MAJOR = 23,
	ATTR_MEMORY_KHZ = 60,
	ATTR_CC_MINOR = 61,
	ATTR_UNITS = 63,
	ATTR_LDS_BLOCK = 74,
	ATTR_WAVE = 87,
	ATTR_LDS_UNIT = 10002,
	ATTR_DIES = 10018 /* ROCm 7 */
};

static int attribute(const struct hip_api *hip, int device, int which)
{
	int value = 0;
	return hip->DeviceAttr(&value, which, device) ? 0 : value;
}

static const struct hip_chip *find_chip(int major, int minor, int units)
{
	for (const struct hip_chip *c = hip_chips; c->arch; c++)
		if (c->major == major && c->minor == minor && units >= c->least_units &&
		    units <= c->most_units)
			return c;
	return NULL;
}

static int dies_of(const struct hip_chip *c, int units)
{
	if (!c->die_units)
		return 1;
	return units % c->die_units ? 0 : units / c->die_units;
}

/* A runtime without its list of names calls a GPU "" or "AMD Radeon Graphics". */
static void name_gpu(struct device_info *info, const struct hip_chip *c)
{
	const int is_named = *info->name && !strstr(info->name, "Radeon Graphics");
	if (!*info->name)
		snprintf(info->name, sizeof info->name, "AMD %s", info->arch);
	if (c && !is_named)
		gpu_name_by_chip(info, c->gpu);
	else
		gpu_name(info);
}

void hip_describe(const struct hip_api *hip, int device, struct device_info *info)
{
	const int major = attribute(hip, device, ATTR_CC_MAJOR);
	const int minor = attribute(hip, device, ATTR_CC_MINOR);
	info->units = attribute(hip, device, ATTR_UNITS);
	const struct hip_chip *c = find_chip(major, minor, info->units);
	if (hip->DeviceName(info->name, sizeof info->name, device))
		*info->name = '\0';
	if (c)
		snprintf(info->arch, sizeof info->arch, "%s", c->arch);
	else
		snprintf(info->arch, sizeof info->arch, "gfx%d.%d", major, minor);
	info->backend = BACKEND_GPU;
	info->lanes = attribute(hip, device, ATTR_WAVE);
	info->smem_per_block = attribute(hip, device, ATTR_LDS_BLOCK);
	info->smem_per_unit = attribute(hip, device, ATTR_LDS_UNIT);
	if (info->smem_per_unit < info->smem_per_block)
		info->smem_per_unit = info->smem_per_block;
	info->clock_mhz = attribute(hip, device, ATTR_CLOCK_KHZ) / 1000;
	info->memory_clock_mhz = attribute(hip, device, ATTR_MEMORY_KHZ) / 1000;
	hip->DeviceMemory(&info->memory_bytes, device);
	if (hip->DeviceUuid && hip->DeviceUuid(info->uuid, device))
		memset(info->uuid, 0, sizeof info->uuid);
	info->dies = attribute(hip, device, ATTR_DIES);
	if (info->dies <= 0)
		info->dies = c ? dies_of(c, info->units) : 0;
	info->l2_bytes =
	    c && c->last_cache ? c->last_cache : (size_t)attribute(hip, device, ATTR_L2);
	name_gpu(info, c);
}

void hip_driver_text(char text[48], const struct hip_api *hip, const char *kernel_driver)
{
	char version[24] = "";
	int api = 0;
	FILE *f = fopen(kernel_driver, "re");
	if (f) {
		if (fscanf(f, "%23s", version) != 1)
			*version = '\0';
		fclose(f);
	}
	hip->RuntimeVersion(&api);
	snprintf(text, 48, "%s%s%sHIP %d.%d", *version ? "amdgpu " : "", version,
		 *version ? ", " : "", api / 10000000, api / 100000 % 100);
}
