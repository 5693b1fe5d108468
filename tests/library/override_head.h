/* override_head.h - writes the first lines of an override file. */
#ifndef TESTS_LIBRARY_OVERRIDE_HEAD_H
#define TESTS_LIBRARY_OVERRIDE_HEAD_H

#include "kernels/kernel.h"
#include <stdio.h>
#include <string.h>

enum { OVERRIDE_HEAD = 4000 };

/* The version, the GPU and this library's hashes: of features, and of all kernels of such a
 * device. */
static inline const char *override_head(const char *gpu)
{
	static char text[OVERRIDE_HEAD];
	const enum backend backend = strcmp(gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU;
	int n = snprintf(text, sizeof text, "attune heuristics 4\ngpu %s\nrules 0x%016llx\n", gpu,
			 rules_hash());
	for (const struct kernel *k = attune_kernels; k->name; k++)
		if (k->backend == backend)
			n += snprintf(text + n, sizeof text - (size_t)n, "kernel %s 0x%016llx\n",
				      k->name, kernel_hash(k));
	return text;
}

#endif
