/* SPDX-License-Identifier: Apache-2.0 */
/* chips.c - the table of AMD chips for which kernels are compiled. */
#include "hip.h"
#include <string.h>

const struct hip_chip hip_chips[] = {
	// clang-format off
	{ 9, 0, 104, 110, "gfx90a", "mi250", 0,   64 << 10,  512, 0          },
	{ 9, 4,   1, 304, "gfx942", "mi300", 38,  64 << 10,  512, 256u << 20 },
	{ 9, 5,   1, 256, "gfx950", "mi350", 32, 160 << 10, 1280, 256u << 20 },
	{ .arch = NULL },
	// clang-format on
};

const struct hip_chip *hip_chip(const char *arch)
{
	for (const struct hip_chip *c = hip_chips; c->arch; c++)
		if (!strcmp(c->arch, arch))
			return c;
	return NULL;
}
