/* shipped.c - finds a binary among those that the build linked in. */
#include "shipped.h"
#include <string.h>

/* shipped.inc is written by list_shipped: the symbols, then a row each. */
#define SYMBOLS
#include "shipped.inc"
#undef SYMBOLS

const struct shipped attune_shipped[] = {
#define CELL(isa, kernel, flags, symbol) \
	{ BACKEND_CPU, isa, kernel, flags, { .cell = symbol, .entry = #symbol } },
#define BLOB(isa, kernel, flags, name, symbol) \
	{ BACKEND_GPU, isa, kernel, flags, { .data = symbol, .entry = name } },
#include "shipped.inc"
#undef CELL
#undef BLOB
	{ 0 }
};
const int attune_num_shipped = COUNT(attune_shipped) - 1;

static const struct shipped *find(enum backend backend, const char *arch, const char *kernel,
				  const char *flags)
{
	for (int i = 0; i < attune_num_shipped; i++) {
		const struct shipped *s = &attune_shipped[i];
		if (s->backend == backend && !strcmp(s->arch, arch) && !strcmp(s->kernel, kernel) &&
		    !strcmp(s->flags, flags))
			return s;
	}
	return NULL;
}

const struct shipped *shipped_find(const struct device_info *d, const char *kernel,
				   const char *flags)
{
	const struct shipped *s = find(d->backend, d->arch, kernel, flags);
	return s || strncmp(d->arch, "sm_", 3) ? s : find(d->backend, "ptx", kernel, flags);
}
