/* SPDX-License-Identifier: Apache-2.0 */
/* emit_lists.c - the two lists of a header that the build reads: kernels and shapes. */
#include "writing.h"
#include "kernels/ship/shipped.h"
#include "kernels/spec/kernel.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include <stdio.h>
#include <string.h>

/* ---- the kernels that a forest runs, with hashes of their tunables. The forest is valid only while
 * the hashes match. */

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

enum { KERNELS_A_LINE = 3 };

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

/* ---- the head sizes and types that were measured, for which the library compiles the choices. Sizes
 * with the same types share a row. */

enum { MOST_SIZES = 32, TYPES = 128, TYPE = 24 };
struct sized {
	int head_size;
	char types[TYPES]; /* "BF16 F16", "BF16/E4M3" where the cache has another type */
};

static int has_word(const char *words, const char *word)
{
	const size_t n = strlen(word);
	for (const char *at = strstr(words, word); at; at = strstr(at + n, word))
		if ((at == words || at[-1] == ' ') && (!at[n] || at[n] == ' '))
			return 1;
	return 0;
}

static void add(struct sized *v, int *n, const attune_shape *shape)
{
	char type[TYPE];
	int i = 0;
	snprintf(type, sizeof type, "%s%s%s", dtype_name(shape->dtype),
		 shape->kv_dtype == shape->dtype ? "" : "/",
		 shape->kv_dtype == shape->dtype ? "" : dtype_name(shape->kv_dtype));
	while (i < *n && v[i].head_size < shape->head_size)
		i++;
	if (i == *n || v[i].head_size != shape->head_size) {
		if (*n == MOST_SIZES)
			return;
		memmove(&v[i + 1], &v[i], (size_t)(*n - i) * sizeof *v);
		v[i] = (struct sized){ .head_size = shape->head_size };
		++*n;
	}
	const size_t length = strlen(v[i].types);
	if (!has_word(v[i].types, type))
		snprintf(v[i].types + length, TYPES - length, "%s%s", length ? " " : "", type);
}

/* Kernels do the same work for F16 and BF16, so times of BF16 choose for both. */
static void add_twin(struct sized *v, int *n, const struct data *d, const attune_shape *shape)
{
	attune_shape other = *shape;
	if (d->run.device.backend == BACKEND_CPU || shape->dtype != ATTUNE_BF16)
		return;
	other.dtype = ATTUNE_F16;
	other.kv_dtype = shape->kv_dtype == ATTUNE_BF16 ? ATTUNE_F16 : shape->kv_dtype;
	add(v, n, &other);
}

void emit_shapes(const struct emitter *e)
{
	struct sized v[MOST_SIZES];
	int n = 0;
	for (const struct carried_shape *c = attune_carried_shapes;
	     e->d->is_portable && c->head_size; c++)
		if (c->dtype != ATTUNE_F32 && !c->is_small)
			add(v, &n,
			    &(attune_shape){ .head_size = c->head_size,
					     .dtype = c->dtype,
					     .kv_dtype = c->dtype });
	for (int s = 0; s < e->d->n; s++) {
		add(v, &n, &e->d->v[s].shape);
		add_twin(v, &n, e->d, &e->d->v[s].shape);
	}
	fprintf(e->out, "#define ATTUNE_%s_SHAPES(SHAPES)", e->upper);
	for (int i = 0; i < n; i++) {
		int before = 0;
		while (strcmp(v[before].types, v[i].types))
			before++;
		if (before < i)
			continue;
		fprintf(e->out, " SHAPES(\"%d", v[i].head_size);
		for (int k = i + 1; k < n; k++)
			if (!strcmp(v[k].types, v[i].types))
				fprintf(e->out, " %d", v[k].head_size);
		fprintf(e->out, "\", \"%s\")", v[i].types);
	}
	fputs("\n", e->out);
}
