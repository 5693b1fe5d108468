/* heuristics.c - what the generated headers say of a batch. Compiles every generated/attune_<gpu>.h into one table. The
 * Makefile writes heuristics.inc: HEURISTIC(gpu, GPU) for each header that it
 * finds, after including them all. */
#include "heuristics.h"
#include <string.h>

#define HEADERS
#include "heuristics.inc"
#undef HEADERS

#define ROW(id, kernel, text) { #kernel, text },
#define BINARY_ROW(kernel, flags) { #kernel, flags },
#define HEURISTIC(gpu, GPU)                                                                 \
	static const struct selector_row gpu##_choices[] = { ATTUNE_##GPU##_CHOICES(ROW) }; \
	static const struct selector_row gpu##_binaries[] = { ATTUNE_##GPU##_BINARIES(BINARY_ROW) };
#include "heuristics.inc"
#undef HEURISTIC

const struct selector attune_selectors[] = {
#define HEURISTIC(name, NAME)                           \
	{ .gpu = ATTUNE_##NAME##_GPU,                   \
	  .arch = ATTUNE_##NAME##_ARCH,                 \
	  .kernels_hash = ATTUNE_##NAME##_KERNELS_HASH, \
	  .choices = name##_choices,                    \
	  .binaries = name##_binaries,                  \
	  .num_choices = COUNT(name##_choices),         \
	  .num_binaries = COUNT(name##_binaries),       \
	  .prefill = attune_##name##_prefill,           \
	  .decode = attune_##name##_decode,             \
	  .join = attune_##name##_join },
#include "heuristics.inc"
#undef HEURISTIC
	{ 0 }
};
const int attune_num_selectors = COUNT(attune_selectors) - 1;

int selector_is_stale(const struct selector *h)
{
	return h->kernels_hash != kernels_hash();
}

const struct selector *selector_for(const struct device_info *d)
{
	for (int i = 0; i < attune_num_selectors; i++)
		if (!strcmp(attune_selectors[i].gpu, d->gpu))
			return &attune_selectors[i];
	for (int i = 0; i < attune_num_selectors; i++)
		if (!strcmp(attune_selectors[i].arch, d->arch))
			return &attune_selectors[i];
	return NULL;
}

static void add(struct selection *out, const struct part *p,
		int (*choose)(const struct attune_features *))
{
	out->part[out->num_parts] = *p;
	out->choice[out->num_parts] = choose ? choose(&p->f) : -1;
	out->num_parts++;
}

void select_apart(struct selection *out, const struct selector *h, const attune_shape *s,
		  const attune_batch *b, const struct device_info *d)
{
	struct part p;
	out->num_parts = 0;
	if (part_make(&p, PHASE_PREFILL, s, b, d))
		add(out, &p, h ? h->prefill : NULL);
	if (part_make(&p, PHASE_DECODE, s, b, d))
		add(out, &p, h ? h->decode : NULL);
}

void select_choices(struct selection *out, const struct selector *h, const attune_shape *s,
		    const attune_batch *b, const struct device_info *d)
{
	struct part all;
	select_apart(out, h, s, b, d);
	if (out->num_parts < 2 || !h || !part_make(&all, PHASE_ALL, s, b, d) || h->join(&all.f))
		return;
	out->num_parts = 1; /* one launch, by the prefill part's choice */
	out->part[0] = all;
}
