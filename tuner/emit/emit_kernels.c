/* emit_kernels.c - lists the kernels that a forest runs, with hashes of their tunables. The forest
 * is valid only while the hashes match. */
#include "writing.h"
#include "tuner/forest/forest.h"
#include <stdio.h>
#include <string.h>

static enum backend backend_of(const struct forest *f)
{
	return strcmp(f->gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU;
}

static int is_run(const struct forest *f, const struct kernel *k)
{
	/* The defaults may have segments. */
	if (k == kernel_helper(k->backend, HELPER_REDUCE))
		return 1;
	for (int i = 0; i < f->num_choices; i++) {
		const struct choice *c = &f->choice[i];
		if (c->kernel == k)
			return 1;
		for (enum helper h = 0; h < NUM_HELPERS; h++)
			if (kernel_helper(k->backend, h) == k &&
			    kernel_may_take(c->kernel, &c->config, h))
				return 1;
	}
	return 0;
}

const struct kernel *forest_next_kernel(const struct forest *f, const struct kernel *last)
{
	for (const struct kernel *k = last ? last + 1 : attune_kernels; k->name; k++)
		if (k->backend == backend_of(f) && is_run(f, k))
			return k;
	return NULL;
}

enum { KERNELS_A_LINE = 2 };

void emit_kernels(const struct emitter *e)
{
	const char *where = backend_of(e->f) == BACKEND_CPU ? "cpu" : "gpu";
	int n = 0;
	fprintf(e->out, "#define ATTUNE_%s_KERNELS(KERNEL)", e->upper);
	for (const struct kernel *k = NULL; (k = forest_next_kernel(e->f, k)) != NULL; n++)
		fprintf(e->out, "%sKERNEL(%s, %s, 0x%016llxull)",
			n % KERNELS_A_LINE ? " " : " \\\n\t", where, k->name, kernel_hash(k));
	fprintf(e->out, " \\\n\tKERNEL(rules, features, 0x%016llxull)\n", rules_hash());
}
