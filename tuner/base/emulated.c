/* SPDX-License-Identifier: Apache-2.0 */
/* emulated.c - an emulated device is for tests of the tools: its times mean nothing. */
#include "base.h"
#include "harness/base/base.h"
#include "kernels/device/shared/gpu_names.h"
#include <stdlib.h>
#include <string.h>

int times_count(const struct device_info *d)
{
	const char *asked = getenv("ATTUNE_EMULATED");
	return !device_is_emulated(d) || (asked && !strcmp(asked, "1"));
}

int refuse_emulated(const struct device_info *d)
{
	if (times_count(d))
		return 0;
	complain("nothing was measured: the device is emulated (%s), so times mean nothing",
		 d->name);
	return 1;
}
