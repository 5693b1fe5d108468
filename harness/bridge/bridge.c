/* SPDX-License-Identifier: Apache-2.0 */
/* bridge.c - lists a database's sources that are not today's, with the flags of their binaries, finds
 * their text in trees of other versions, and makes bridges where the machine code is equal. */
#include "bridge.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/store/store.h"
#include "kernels/spec/kernel.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
	struct bridges *bridges;
	int failed;
};

static int out_of_memory(struct reader *r)
{
	complain("out of memory");
	r->failed = 1;
	return 0;
}

/* Grows an array to n + 1 elements; NULL: no memory. */
static void *one_more(void *array, int n, size_t size)
{
	if (n & (n - 1))
		return array;
	return realloc(array, (size_t)(n ? 2 * n : 1) * size);
}

/* ---- sources, their builds and flags -------------------------------------------------------- */

static struct old_source *source_of(struct reader *r, const struct store_use *u)
{
	struct bridges *b = r->bridges;
	for (int i = b->n - 1; i >= 0; i--)
		if (!strcmp(b->v[i].name, u->kernel) && !strcmp(b->v[i].identity, u->identity) &&
		    !strcmp(b->v[i].arch, u->arch))
			return &b->v[i];
	struct old_source *more = one_more(b->v, b->n, sizeof *more);
	if (!more)
		return NULL;
	b->v = more;
	struct old_source *s = &more[b->n++];
	*s = (struct old_source){ .kernel = kernel_find(b->backend, u->kernel) };
	snprintf(s->name, sizeof s->name, "%s", u->kernel);
	snprintf(s->identity, sizeof s->identity, "%s", u->identity);
	snprintf(s->arch, sizeof s->arch, "%s", u->arch);
	if (s->kernel && !source_identity(s->kernel, s->today))
		s->kernel = NULL;
	return s;
}

static struct old_build *build_of(struct old_source *s, const char *flags)
{
	for (int i = s->builds - 1; i >= 0; i--)
		if (!strcmp(s->build[i].flags, flags))
			return &s->build[i];
	struct old_build *more = one_more(s->build, s->builds, sizeof *more);
	char *copy = strdup(flags);
	s->build = more ? more : s->build;
	if (!more || !copy) {
		free(copy);
		return NULL;
	}
	more[s->builds] = (struct old_build){ .flags = copy };
	return &more[s->builds++];
}

static int set_of(struct old_source *s, const char *flags)
{
	for (int i = 0; i < s->sets; i++)
		if (!strcmp(s->set[i].flags, flags))
			return i;
	struct flag_set *more = one_more(s->set, s->sets, sizeof *more);
	char *copy = strdup(flags);
	s->set = more ? more : s->set;
	if (!more || !copy) {
		free(copy);
		return -1;
	}
	more[s->sets] = (struct flag_set){ .flags = copy };
	return s->sets++;
}

/* 0: no memory. */
static int add_set(struct old_source *s, struct old_build *b, const char *flags)
{
	const int set = set_of(s, flags);
	for (int i = 0; i < b->sets; i++)
		if (b->set[i] == set)
			return 1;
	int *more = set < 0 ? NULL : one_more(b->set, b->sets, sizeof *more);
	if (!more)
		return 0;
	b->set = more;
	b->set[b->sets++] = set;
	return 1;
}

/* Adds the flags of a plan's parts that the kernel runs, if today's tables can parse them. */
static int add_plan_sets(struct old_source *s, struct old_build *b, const struct store_use *u)
{
	char part[2][MAX_PART_TEXT], flags[MAX_FLAGS], why[160];
	enum attune_how how;
	struct choice c;
	int ok = 1;
	if (!u->plan || !parts_parse(u->plan, part, &how))
		return 1;
	for (int i = 0; i < 2 && ok; i++) {
		if (!choice_parse(&c, s->kernel->backend, part[i], why, sizeof why) ||
		    c.kernel != s->kernel)
			continue;
		binary_flags(flags, sizeof flags, s->kernel, &c.config, u->shape);
		ok = add_set(s, b, flags);
	}
	return ok;
}

static int add_sets(struct old_source *s, struct old_build *b, const struct store_use *u)
{
	char flags[MAX_FLAGS];
	struct config config;
	if (!s->kernel)
		return 1;
	if (s->kernel->selectable)
		return *u->flags ? add_set(s, b, u->flags) : add_plan_sets(s, b, u);
	config_default(&config, s->kernel->space);
	binary_flags(flags, sizeof flags, s->kernel, &config, u->shape);
	return add_set(s, b, flags);
}

static int each_use(void *arg, const struct store_use *u)
{
	struct reader *r = arg;
	struct old_source *s = source_of(r, u);
	struct old_build *b = s ? build_of(s, u->flags) : NULL;
	if (!b || !add_sets(s, b, u))
		return out_of_memory(r);
	b->rows += u->rows;
	s->rows += u->rows;
	return 1;
}

static int by_rows(const void *a, const void *b)
{
	const struct old_source *x = a, *y = b;
	const int order = strcmp(x->name, y->name);
	return x->rows != y->rows ? (x->rows < y->rows ? 1 : -1)
	       : order            ? order
				  : strcmp(x->identity, y->identity);
}

int bridges_read(struct bridges *b)
{
	struct reader r = { b, 0 };
	b->backend = strcmp(b->gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU;
	if (!store_uses(b->store, b->gpu, each_use, &r) || r.failed)
		return 0;
	if (b->n)
		qsort(b->v, (size_t)b->n, sizeof *b->v, by_rows);
	return 1;
}

/* ---- their text ------------------------------------------------------------------------------ */

static int looked_for(const struct bridges *b)
{
	int n = 0;
	for (int i = 0; i < b->n; i++)
		n += b->v[i].kernel && !b->v[i].root;
	return n;
}

/* Looks for all sources of a kernel in a tree. */
static void look(struct bridges *b, const struct kernel *k, const struct tree *t)
{
	char path[PATH_MAX], identity[33];
	if (!kernel_path(path, sizeof path, k, t->root) ||
	    !source_identity_of(path, t->root, identity))
		return;
	for (int i = 0; i < b->n; i++)
		if (b->v[i].kernel == k && !b->v[i].root && !strcmp(b->v[i].identity, identity)) {
			b->v[i].root = t->root;
			b->v[i].tree = t->name;
		}
}

int bridges_find(struct bridges *b, struct trees *t)
{
	for (int i = 0; i < t->n && looked_for(b) && !interrupted; i++) {
		if (!tree_root(&t->v[i]))
			return 0;
		progress("reading trees", i, t->n);
		for (const struct kernel *k = attune_kernels; k->name; k++)
			for (int s = 0; s < b->n; s++)
				if (b->v[s].kernel == k && !b->v[s].root) {
					look(b, k, &t->v[i]);
					break;
				}
	}
	progress_end();
	return !interrupted;
}

void bridges_free(struct bridges *b)
{
	for (int i = 0; i < b->n; i++) {
		struct old_source *s = &b->v[i];
		for (int k = 0; k < s->builds; k++) {
			free(s->build[k].flags);
			free(s->build[k].set);
		}
		for (int k = 0; k < s->sets; k++)
			free(s->set[k].flags);
		free(s->build);
		free(s->set);
	}
	free(b->v);
	b->v = NULL;
	b->n = 0;
}

/* ---- equal machine code ------------------------------------------------------------ */
/* Bridges by equal machine code: compiles the old source and today's with the flags of the database's
 * binaries, and compares. */

/* Adds the old and new binary of flag set i as 2i and 2i + 1. 0: no memory. */
static int add_pairs(struct binaries *b, const struct old_source *s)
{
	for (int i = 0; i < s->sets; i++)
		if (binaries_add_source(b, s->kernel, s->root, s->set[i].flags) < 0 ||
		    binaries_add_source(b, s->kernel, NULL, s->set[i].flags) < 0)
			return 0;
	return 1;
}

static int is_built(const struct built *b)
{
	return b->status == BUILT || b->status == USES_SCRATCH;
}

static enum equality compare(const struct built *old, const struct built *new)
{
	char a[33], b[33];
	if (old->status == NOT_BUILT || new->status == NOT_BUILT)
		return NOT_COMPARED;
	if (!is_built(old) || !is_built(new))
		return is_built(old) ? NEW_REFUSED : OLD_REFUSED;
	return machine_code(&old->binary.blob, a) && machine_code(&new->binary.blob, b) &&
		       !strcmp(a, b)
		   ? EQUAL
		   : DIFFERENT;
}

static int has(const struct old_source *s, const struct old_build *b, enum equality is)
{
	for (int i = 0; i < b->sets; i++)
		if (s->set[b->set[i]].is == is)
			return 1;
	return 0;
}

/* Whether all binaries of the build are equal. */
static int is_equal(const struct old_source *s, const struct old_build *b)
{
	return b->sets && !has(s, b, DIFFERENT) && !has(s, b, NEW_REFUSED) &&
	       !has(s, b, OLD_REFUSED) && !has(s, b, NOT_COMPARED);
}

static int store(struct bridges *b, const struct old_source *s, const char *flags)
{
	const struct store_bridge row = {
		.kernel = s->name,
		.old = s->identity,
		.today = s->today,
		.arch = s->arch,
		.flags = flags,
		.toolkit = jit_version(b->backend, s->arch),
		.commit = b->commit,
	};
	return store_add_bridge(b->store, &row);
}

/* Stores one bridge for all flags, else one for each build with equal code. Plans have no flags,
 * so only a bridge for all flags applies to them. */
static int store_equal(struct bridges *b, const struct old_source *s, struct finding *f)
{
	int ok = 1;
	f->bridged = 0;
	if (f->equal == s->sets) {
		f->bridged = s->rows;
		return store(b, s, "");
	}
	for (int i = 0; i < s->builds && ok; i++)
		if (*s->build[i].flags && is_equal(s, &s->build[i])) {
			ok = store(b, s, s->build[i].flags);
			f->bridged += s->build[i].rows;
		}
	return ok;
}

/* Complains here once, as otherwise each thread of the pool would. */
static int compiler_runs(const struct old_source *s)
{
	struct binary b;
	if (!s->sets)
		return 1;
	if (jit_compile(&b, s->kernel, s->set[0].flags, s->arch) == NO_COMPILER)
		return 0;
	jit_free(&b);
	return 1;
}

int bridge_by_code(struct bridges *b, struct old_source *s, struct finding *f)
{
	struct binaries pairs = { .arch = s->arch };
	*f = (struct finding){ .compared = 1 };
	if (!add_pairs(&pairs, s) || !compiler_runs(s) || !binaries_compile(&pairs)) {
		binaries_free(&pairs);
		return 0;
	}
	for (int i = 0; i < s->sets; i++) {
		s->set[i].is = compare(&pairs.v[2 * i], &pairs.v[2 * i + 1]);
		f->equal += s->set[i].is == EQUAL;
		f->refused += s->set[i].is == NEW_REFUSED;
	}
	binaries_free(&pairs);
	f->result = !s->sets                ? "no flags are known"
		    : f->equal == s->sets   ? "bridged"
		    : f->equal              ? "bridged in part"
		    : f->refused == s->sets ? "no longer compiles"
					    : "differs";
	return !f->equal || store_equal(b, s, f);
}
