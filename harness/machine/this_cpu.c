/* SPDX-License-Identifier: Apache-2.0 */
/* this_cpu.c - describes this machine's CPU, and makes an id of the machine. */
#include "machine.h"
#include "kernels/device/device.h"
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

void anonymous_id(char id[MACHINE_ID], const void *bytes, size_t n)
{
	snprintf(id, MACHINE_ID, "%016llx", (unsigned long long)XXH3_64bits(bytes, n));
}

void machine_id(char id[MACHINE_ID])
{
	char text[64];
	FILE *f = fopen("/etc/machine-id", "re");
	id[0] = '\0';
	if (f && fgets(text, sizeof text, f) && strlen(text) >= 32)
		anonymous_id(id, text, 32);
	if (f)
		fclose(f);
}

int this_cpu(struct device_info *info)
{
	struct device dev;
	if (device_open(&dev, "cpu"))
		return 0;
	*info = dev.info;
	device_close(&dev);
	return 1;
}

int is_this_cpu(const char *name, const char *arch, int units)
{
	struct device_info here;
	return this_cpu(&here) && !strcmp(here.name, name) && !strcmp(here.arch, arch) &&
	       here.units == units;
}
