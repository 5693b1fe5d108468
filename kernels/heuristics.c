/* heuristics.c - compiles every generated/attune_<gpu>.h into one table. The
 * Makefile writes heuristics.inc: HEURISTIC(gpu, GPU) for each header that it
 * finds, after including them all. */
#include "heuristics.h"
#include <string.h>

#define HEADERS
#include "heuristics.inc"
#undef HEADERS

#define ROW(id, kernel, text)	   { #kernel, text },
#define BINARY_ROW(kernel, flags) { #kernel, flags },
#define HEURISTIC(gpu, GPU)                                                                   \
	static const struct heuristic_row gpu##_choices[] = { ATTUNE_##GPU##_CHOICES(ROW) }; \
	static const struct heuristic_row gpu##_binaries[] = { ATTUNE_##GPU##_BINARIES(BINARY_ROW) };
#include "heuristics.inc"
#undef HEURISTIC

const struct heuristic attune_heuristics[] = {
#define HEURISTIC(name, NAME)                          \
	{ .gpu = ATTUNE_##NAME##_GPU,                  \
	  .arch = ATTUNE_##NAME##_ARCH,                \
	  .kernels_hash = ATTUNE_##NAME##_KERNELS_HASH, \
	  .choices = name##_choices,                   \
	  .binaries = name##_binaries,                 \
	  .num_choices = COUNT(name##_choices),        \
	  .num_binaries = COUNT(name##_binaries),      \
	  .prefill = attune_##name##_prefill,          \
	  .decode = attune_##name##_decode,            \
	  .join = attune_##name##_join },
#include "heuristics.inc"
#undef HEURISTIC
	{ 0 }
};
const int attune_num_heuristics = COUNT(attune_heuristics) - 1;

int heuristic_is_stale(const struct heuristic *h)
{
	return h->kernels_hash != kernels_hash();
}

const struct heuristic *heuristic_for(const struct device_info *d)
{
	for (int i = 0; i < attune_num_heuristics; i++)
		if (!strcmp(attune_heuristics[i].gpu, d->gpu))
			return &attune_heuristics[i];
	for (int i = 0; i < attune_num_heuristics; i++)
		if (!strcmp(attune_heuristics[i].arch, d->arch))
			return &attune_heuristics[i];
	return NULL;
}
