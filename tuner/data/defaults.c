/* SPDX-License-Identifier: Apache-2.0 */
/* defaults.c - resolves choices for a batch as the library does: formulas become concrete, and
 * illegal choices give way to the kernels' defaults. */
#include "data.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"

/* In the library's order (kernels/api/context.c); short queries try it from the end. */
static const char *const default_order[] = { "qblock", "segmented" };

int decided_legal(const struct data *d, const struct measured *m, enum phase phase,
		  const struct choice *c, struct choice *out)
{
	struct choice made = { .kernel = c->kernel };
	if (config_resolve(&made.config, &c->config, c->kernel, &m->shape, &m->part[phase],
			   &d->run.device) ||
	    c->kernel->space->why_illegal(&made.config, &m->shape, &m->part[phase], &d->run.device))
		return 0;
	*out = made;
	return 1;
}

int default_made(const struct data *d, const struct measured *m, enum phase phase,
		 struct choice *out)
{
	const int n = (int)COUNT(default_order);
	const int few = m->part[phase].max_query <= DECODE_MAX_QUERY;
	for (int i = 0; i < n; i++) {
		struct choice c;
		c.kernel = kernel_find(d->run.device.backend, default_order[few ? n - 1 - i : i]);
		if (!c.kernel)
			continue;
		config_default(&c.config, c.kernel->space);
		if (decided_legal(d, m, phase, &c, out))
			return 1;
	}
	out->kernel = NULL;
	return 0;
}

int default_choice(const struct data *d, int scenario, enum phase phase)
{
	struct choice c;
	return default_made(d, &d->v[scenario], phase, &c) ? data_find(d, &c) : -1;
}

void decided_pick(const struct data *d, const struct decided *made, struct pick *out)
{
	out->prefill = made->prefill.kernel ? data_find(d, &made->prefill) : -1;
	out->decode = made->decode.kernel ? data_find(d, &made->decode) : -1;
	out->join = made->join;
	out->how = made->how;
}
