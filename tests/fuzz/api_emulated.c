/* SPDX-License-Identifier: Apache-2.0 */
/* api_emulated.c - contexts on the emulated GPUs, of which a process has one device. */
#include "api.h"
#include "kernels/launch/run.h"
#include "tests/simt/simt_device.h"

static struct device emulated;

void open_emulated(attune_context **ctx, struct dice *d, enum where where)
{
	static const int units[] = { 1, 2, 4, 16, 132 };
	if (!emulated.ops && simt_open(&emulated, 4, 0))
		fault("the test: %s", attune_last_error());
	simt_pose(&emulated, where == ON_H200 ? SIMT_H200 : SIMT_MI300X);
	simt_set(&emulated, units[below(d, (int)COUNT(units))],
		 one_in(d, 2) ? 0 : (unsigned)roll(d));
	if (attune_adopt(ctx, &emulated))
		fault("attune_adopt: %s", attune_last_error());
}

void close_emulated(void)
{
	if (emulated.ops)
		emulated.ops->close(&emulated);
}
