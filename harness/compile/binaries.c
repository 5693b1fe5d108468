/* binaries.c - the list of all binaries of a sweep, each once. builders.c compiles them. */
#include "builders.h"
#include "compile.h"
#include "harness/base/base.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int binaries_add(struct binaries *b, const struct choice *c, const attune_shape *shape)
{
	char flags[MAX_FLAGS];
	binary_flags(flags, sizeof flags, c->kernel, &c->config, shape);
	return binaries_add_source(b, c->kernel, NULL, flags);
}

int binaries_add_source(struct binaries *b, const struct kernel *kernel, const char *root,
			const char *flags)
{
	for (int k = 0; k < b->n; k++) { /* choices of one binary follow one another */
		const int i = (b->found + k) % b->n;
		if (b->v[i].kernel == kernel && b->v[i].root == root &&
		    !strcmp(b->v[i].flags, flags))
			return b->found = i;
	}
	if (b->n == b->room) {
		int room = b->room ? 2 * b->room : 64;
		struct built *v = realloc(b->v, (size_t)room * sizeof *v);
		if (!v) {
			complain("out of memory");
			return -1;
		}
		b->v = v;
		b->room = room;
	}
	b->v[b->n] = (struct built){ .kernel = kernel, .root = root, .status = NOT_BUILT };
	snprintf(b->v[b->n].flags, sizeof b->v->flags, "%s", flags);
	return b->n++;
}

int binaries_add_helpers(struct binaries *b, const struct choice *of, const attune_shape *shape,
			 int helper[NUM_HELPERS])
{
	for (enum helper i = 0; i < NUM_HELPERS; i++) {
		struct choice c = { .kernel = kernel_helper(of->kernel->backend, i) };
		helper[i] = -1;
		if (!c.kernel || !kernel_takes(of->kernel, &of->config, i))
			continue;
		config_default(&c.config, c.kernel->space);
		helper[i] = binaries_add(b, &c, shape);
		if (helper[i] < 0)
			return 0;
	}
	return 1;
}

int binaries_compile(struct binaries *b)
{
	int *all = malloc(((size_t)b->n + 1) * sizeof *all), ok;
	for (int i = 0; all && i < b->n; i++)
		all[i] = i;
	ok = all && binaries_need(b, all, b->n);
	binaries_end(b);
	free(all);
	return ok;
}

void binaries_free(struct binaries *b)
{
	binaries_end(b);
	for (int i = 0; i < b->n; i++)
		if (b->v[i].status != NOT_BUILT)
			jit_free(&b->v[i].binary);
	free(b->v);
	*b = (struct binaries){ .arch = b->arch };
}
