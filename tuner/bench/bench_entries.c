/* bench_entries.c - what plug-ins (--plugin) run a batch by in `attune bench`. */
#include "bench.h"
#include <math.h>

int bench_plugins(const struct kernel *out[MOST_PLUGINS], enum backend backend)
{
	int n = 0;
	for (const struct kernel *k = attune_kernels; k->name; k++)
		if (k->plugin && k->backend == backend)
			out[n++] = k;
	return n;
}

/* The fastest choice of a plug-in for a phase; where none was measured its default. NULL: it cannot
 * run this, or failed. */
static double fastest(struct choice *out, const struct data *d, const struct measured *m, int s,
		      enum phase phase, const struct kernel *k, const struct device_info *device)
{
	struct choice_iter i = { .choice = -1 };
	double best = INFINITY;
	int measured = 0;
	*out = (struct choice){ .kernel = NULL };
	if (!m->has[phase])
		return 0;
	if (s >= 0)
		i = choices_of(d, s, phase, phase);
	while (s >= 0 && choices_next(&i)) {
		const double us = cells_time(d, s, &i.cells[0]);
		measured |= d->choice[i.choice].kernel == k;
		if (d->choice[i.choice].kernel == k && us < best)
			best = us, *out = d->choice[i.choice];
	}
	if (measured)
		return best;
	config_default(&out->config, k->space);
	if (!k->space->why_illegal(&out->config, &m->shape, &m->part[phase], device))
		out->kernel = k;
	return INFINITY;
}

struct entry bench_plugin_entry(const struct data *d, const struct measured *m, int s,
				const struct kernel *k, const struct device_info *device)
{
	struct entry e = { .made = { .join = 1 } };
	struct choice whole;
	const double all = fastest(&whole, d, m, s, PHASE_ALL, k, device);
	const double parts = fastest(&e.made.prefill, d, m, s, PHASE_PREFILL, k, device) +
			     fastest(&e.made.decode, d, m, s, PHASE_DECODE, k, device);
	const int has_parts = (e.made.prefill.kernel || !m->has[PHASE_PREFILL]) &&
			      (e.made.decode.kernel || !m->has[PHASE_DECODE]);
	e.runs = has_parts;
	if (measured_is_mixed(m) && whole.kernel && (!has_parts || !(parts < all)))
		e = (struct entry){ .runs = 1, .made = { .prefill = whole } };
	return e;
}
