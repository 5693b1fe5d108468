/* bridge_code.c - bridges by equal machine code: compiles the old source and today's with the
 * flags of the database's binaries, and compares. */
#include "bridge.h"
#include "harness/compile/compile.h"
#include "harness/store/store.h"
#include <string.h>

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
