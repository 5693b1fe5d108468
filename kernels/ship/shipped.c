/* SPDX-License-Identifier: Apache-2.0 */
/* shipped.c - finds a binary among those that the build linked in. */
#include "shipped.h"
#include "kernels/device/shared/gpu_names.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <stdlib.h>
#include <string.h>

/* list_shipped writes shipped.inc: the symbols, then a row each. The tool that measures has
 * NOTHING_SHIPPED: it compiles what it runs. */
#ifndef NOTHING_SHIPPED
#define SYMBOLS
#include "shipped.inc"
#undef SYMBOLS
#endif

const struct shipped attune_shipped[] = {
#define CELL(isa, kernel, flags, symbol) \
	{ BACKEND_CPU, isa, kernel, flags, { .cell = symbol, .entry = #symbol } },
#define BLOB(isa, kernel, flags, name, symbol) \
	{ BACKEND_GPU, isa, kernel, flags, { .data = symbol, .entry = name } },
#ifndef NOTHING_SHIPPED
#include "shipped.inc"
#endif
#undef CELL
#undef BLOB
	{ 0 }
};
const int attune_num_shipped = COUNT(attune_shipped) - 1;

/* Ranks the binaries that the device executes: those for its architecture first, then those for the
 * nearest lower minor version (not of kernels compiled for one chip), then PTX. */
static int worth(const struct shipped *s, const struct device_info *d, int is_arch_specific)
{
	if (!strcmp(s->arch, d->arch))
		return 1000;
	if (!strcmp(s->arch, "ptx"))
		return runs_ptx(d);
	return !is_arch_specific && arch_runs(d->arch, s->arch) ? atoi(s->arch + 3) : 0;
}

const struct shipped *shipped_among(const struct shipped *list, int n, const struct device_info *d,
				    const char *kernel, const char *flags)
{
	const struct kernel *k = kernel_find(d->backend, kernel);
	const struct shipped *best = NULL;
	int most = 0;
	for (const struct shipped *s = list; s < list + n; s++) {
		if (s->backend != d->backend || strcmp(s->kernel, kernel) ||
		    strcmp(s->flags, flags))
			continue;
		const int w = worth(s, d, k && k->space->is_arch_specific);
		if (w > most) {
			best = s;
			most = w;
		}
	}
	return best;
}

const struct shipped *shipped_find(const struct device_info *d, const char *kernel,
				   const char *flags)
{
	return shipped_among(attune_shipped, attune_num_shipped, d, kernel, flags);
}

const struct shipped *shipped_for(const struct device *dev, const char *kernel, const char *flags)
{
	return dev->ops->find ? dev->ops->find(dev, kernel, flags)
			      : shipped_find(&dev->info, kernel, flags);
}
