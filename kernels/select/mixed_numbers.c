/* SPDX-License-Identifier: Apache-2.0 */
/* mixed_numbers.c - divides a mixed batch by the rates of a header (kernels/spec/mixed.h). The numbers
 * are those that a database can hold times of: values of the axes, and the kernel's own estimate. */
#include "selector.h"
#include "kernels/spec/device_info.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/mixed.h"
#include "kernels/spec/space.h"

enum { ROWS = 128 /* of a prefill's Q block */ };

static long long estimate_ns(const struct mixed_rates *r, const attune_shape *shape,
			     const struct part *p, const struct device_info *d, int units,
			     int segments)
{
	const struct mixed m = mixed_of(p, shape, d->units, ROWS, segments, r);
	const long long ns = mixed_sum_ns(&m, units);
	return segments > 1 ? ns + ns / CUT_GAIN : ns;
}

void config_divide(struct config *c, const struct kernel *k, const struct mixed_rates *r,
		   const attune_shape *shape, const struct part *p, const struct device_info *d)
{
	const struct space *s = k->space;
	const int u = s->is_fused ? axis_named(s, "DECODE_UNITS") : -1;
	const int g = s->is_fused ? axis_named(s, "PREFILL_SEGMENTS") : -1;
	struct config at = *c;
	struct geometry own;
	if (!r->unit_flops || u < 0 || g < 0 || c->v[u] || c->v[g])
		return;
	s->geometry(c, shape, p, d, &own);
	const int units = own.estimate % 65536, segments = own.estimate / 65536;
	long long least = estimate_ns(r, shape, p, d, units, segments);
	for (int i = 0; i < s->axis[u].num_values; i++)
		for (int j = 0; j < s->axis[g].num_values; j++) {
			at.v[u] = s->axis[u].values[i];
			at.v[g] = s->axis[g].values[j];
			if (!at.v[u] || !at.v[g] || at.v[u] > d->units ||
			    (at.v[u] == units && at.v[g] == segments))
				continue;
			const long long ns = estimate_ns(r, shape, p, d, at.v[u], at.v[g]);
			if (ns >= least || s->why_illegal(&at, shape, p, d))
				continue;
			least = ns;
			*c = at;
		}
}
