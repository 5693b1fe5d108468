/* selector.c - the table of all generated/attune_<gpu>.h, the choice of the one for a device, and
 * what its trees answer for a batch. The Makefile writes heuristics.inc, which includes the
 * headers and then has HEURISTIC(gpu, GPU) for each, and trees.inc, their trees as nodes. */
#include "selector.h"
#include "kernels/device/shared/gpu_names.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include <stdio.h>
#include <string.h>

#define HEADERS
#include "heuristics.inc"
#undef HEADERS
#include "trees.inc"

#define ROW(id, name, kernel, text) { #kernel, text },
#define KERNEL_ROW(where, kernel, hash) { #where, #kernel, hash },
#define SHAPES_ROW(sizes, types) { sizes, types },
#define NODE_ROW(feature, above, value) { feature, above, value },
#define COSTS_ROW(id, head_size, slots, start, path, split, segments, merge) \
	{ id, head_size, { slots, start, path, split, segments, merge } },
#define LIST_ROW(first, a, b, c) { 1 + ((a) >= 0) + ((b) >= 0) + ((c) >= 0), { first, a, b, c } },
/* A header may have no costs and no lists; a last row keeps the arrays from being empty. */
#define HEURISTIC(gpu, GPU)                                                                      \
	static const struct selector_kernel gpu##_kernels[] = { ATTUNE_##GPU##_KERNELS(          \
	    KERNEL_ROW) };                                                                       \
	static const struct selector_row gpu##_choices[] = { ATTUNE_##GPU##_CHOICES(ROW) };      \
	static const struct selector_costs gpu##_costs[] = { ATTUNE_##GPU##_SEGMENTS(COSTS_ROW){ \
	    .id = -1 } };                                                                        \
	static const struct attune_list gpu##_lists[] = { ATTUNE_##GPU##_ROWS(LIST_ROW){ 0 } };  \
	static const struct selector_node gpu##_nodes[] = { ATTUNE_##GPU##_NODES(NODE_ROW) };    \
	static const struct selector_shapes gpu##_shapes[] = { ATTUNE_##GPU##_SHAPES(SHAPES_ROW) };
#include "heuristics.inc"
#undef HEURISTIC

const char *const feature_names[ATTUNE_NUM_FEATURES] = {
#define FEATURE(name, replay, meaning) #name,
#include "kernels/features.def"
#undef FEATURE
};

int feature_named(const char *name)
{
	for (int i = 0; i < ATTUNE_NUM_FEATURES; i++)
		if (!strcmp(feature_names[i], name))
			return i;
	return -1;
}

const struct selector attune_selectors[] = {
#define HEURISTIC(name, NAME)                                                   \
	{ .gpu = ATTUNE_##NAME##_GPU,                                           \
	  .arch = ATTUNE_##NAME##_ARCH,                                         \
	  .device = ATTUNE_##NAME##_DEVICE,                                     \
	  .kernels = name##_kernels,                                            \
	  .num_kernels = COUNT(name##_kernels),                                 \
	  .choices = name##_choices,                                            \
	  .costs = name##_costs,                                                \
	  .shapes = name##_shapes,                                              \
	  .lists = name##_lists,                                                \
	  .num_choices = COUNT(name##_choices),                                 \
	  .num_shapes = COUNT(name##_shapes),                                   \
	  .num_costs = COUNT(name##_costs) - 1,                                 \
	  .num_lists = COUNT(name##_lists) - 1,                                 \
	  .mixed = ATTUNE_##NAME##_RATES,                                       \
	  .nodes = name##_nodes,                                                \
	  .num_nodes = COUNT(name##_nodes),                                     \
	  .root = { ATTUNE_##NAME##_ROOT_prefill, ATTUNE_##NAME##_ROOT_decode,  \
		    ATTUNE_##NAME##_ROOT_overlap, ATTUNE_##NAME##_ROOT_early }, \
	  .overlaps = ATTUNE_##NAME##_OVERLAPS,                                 \
	  .compiled = { attune_##name##_prefill, attune_##name##_decode,        \
			attune_##name##_overlap } },
#include "heuristics.inc"
#undef HEURISTIC
	{ 0 }
};
const int attune_num_selectors = COUNT(attune_selectors) - 1;

int selector_kernel_is_stale(const struct selector_kernel *s)
{
	const enum backend backend = strcmp(s->where, "cpu") ? BACKEND_GPU : BACKEND_CPU;
	if (!strcmp(s->where, "rules"))
		return s->hash != rules_hash();
	const struct kernel *k = kernel_find(backend, s->name);
	return !k || s->hash != kernel_hash(k);
}

int selector_is_stale(const struct selector *h)
{
	for (int i = 0; i < h->num_kernels; i++)
		if (selector_kernel_is_stale(&h->kernels[i]))
			return 1;
	return 0;
}

int gpu_length(const char *name)
{
	const size_t n = strlen(name), suffix = strlen(E4M3_SUFFIX);
	return (int)(n > suffix && !strcmp(name + n - suffix, E4M3_SUFFIX) ? n - suffix : n);
}

int gpu_is_own(const char *gpu, const struct device_info *d)
{
	const size_t n = (size_t)gpu_length(gpu);
	return strlen(d->gpu) == n && !strncmp(gpu, d->gpu, n);
}

/* How a header's GPU is related to a device, worst first. */
enum relation {
	UNRELATED, /* its binaries do not run here */
	RUNS,      /* another architecture; its binaries run here */
	SAME_ARCH,
	WHOLE, /* the GPU that the device is a slice or a partition of */
	OWN
};

static enum relation relation_of(const char *gpu, const char *arch, const struct device_info *d)
{
	const struct gpu_model *whole = gpu_whole(d->gpu);
	if (!strcmp(gpu, d->gpu))
		return OWN;
	if (!arch_runs(d->arch, arch))
		return UNRELATED;
	if (whole && !strcmp(gpu, whole->gpu))
		return WHOLE;
	return strcmp(d->arch, arch) ? RUNS : SAME_ARCH;
}

static double ratio(double a, double b)
{
	return a > b ? a / b : b / a;
}

/* Between two GPUs of one vendor: the product of the ratios of their units, DRAM bandwidths and
 * matrix rates. A device that is not in the table counts by its units alone; headers of GPUs that
 * are not in the table are all equally far. */
static double distance(const char *gpu, const struct device_info *d)
{
	const struct gpu_model *a = gpu_whole(gpu), *b = gpu_whole(d->gpu);
	if (!a)
		return 1e9;
	return ratio(a->units, d->units > 0 ? d->units : a->units) *
	       (b ? ratio(a->dram_gbps, b->dram_gbps) * ratio(a->tflops, b->tflops) : 1);
}

/* The header for a device. Of equally near ones the first in the list. */
static const struct selector *nearest(const struct selector *list, int n,
				      const struct device_info *d, int of_e4m3,
				      enum relation *found)
{
	const struct selector *best = NULL;
	double least = 0;
	*found = UNRELATED;
	for (int i = 0; i < n; i++) {
		char gpu[GPU_NAME];
		const int length = gpu_length(list[i].gpu);
		if ((list[i].gpu[length] != '\0') != of_e4m3)
			continue;
		snprintf(gpu, sizeof gpu, "%.*s", length, list[i].gpu);
		const enum relation relation = relation_of(gpu, list[i].arch, d);
		const double far = distance(gpu, d);
		if (relation > *found || (best && relation == *found && far < least)) {
			best = &list[i];
			least = far;
			*found = relation;
		}
	}
	return best;
}

const struct selector *selector_among(const struct selector *list, int n,
				      const struct device_info *d, enum attune_dtype kv_dtype)
{
	enum relation relation;
	const struct selector *own =
	    kv_dtype == ATTUNE_E4M3 ? nearest(list, n, d, 1, &relation) : NULL;
	return own ? own : nearest(list, n, d, 0, &relation);
}

static const char *units_of(const struct device_info *d)
{
	return d->backend == BACKEND_CPU ? "threads" : strncmp(d->arch, "gfx", 3) ? "SMs" : "CUs";
}

/* "borrowed from h200 (132 SMs; here 114)" */
static int borrowed(char *text, size_t size, const struct selector *h, const struct device_info *d)
{
	const struct gpu_model *from = gpu_whole(h->gpu);
	int n = snprintf(text, size, "borrowed from %s", h->gpu);
	if (from && n >= 0 && (size_t)n < size)
		n += snprintf(text + n, size - (size_t)n, " (%d %s; here %d)", from->units,
			      units_of(d), d->units);
	return n >= 0 && (size_t)n < size ? n : (int)size - 1;
}

/* Whether the device is a part of the header's GPU: a MIG slice, or fewer units. An H100 with more
 * memory is not: it has the name of an H100 as well. */
static int is_part(const struct selector *h, const struct device_info *d)
{
	const struct gpu_model *whole = gpu_whole(h->gpu);
	return !whole || d->units < whole->units || strstr(d->gpu, "_mig_");
}

/* All CPUs have the name "cpu", so the header may be of another CPU than this one. */
static void own_why(char *text, size_t size, const struct selector *h, const struct device_info *d)
{
	char here[DEVICE_TEXT];
	device_text(here, d);
	if (strcmp(d->gpu, "cpu") || !h->device || !*h->device)
		snprintf(text, size, "measured on %s", d->gpu);
	else if (!strcmp(h->device, here))
		snprintf(text, size, "measured on %s", here);
	else
		snprintf(text, size, "borrowed: measured on %s; here %s", h->device, here);
}

void selector_why(char *text, size_t size, const struct selector *list, int n,
		  const struct device_info *d)
{
	enum relation relation;
	const struct selector *h = nearest(list, n, d, 0, &relation);
	const int at = relation == UNRELATED || relation == OWN ? 0 : borrowed(text, size, h, d);
	const size_t room = size - (size_t)at;
	switch (relation) {
	case UNRELATED:
		snprintf(text, room, "the defaults: no header's binaries run on %s", d->arch);
		break;
	case OWN: own_why(text, room, h, d); break;
	case WHOLE:
		snprintf(text + at, room, "%s",
			 is_part(h, d) ? ", of which this is a part"
				       : ", of which this is a variant");
		break;
	case SAME_ARCH: snprintf(text + at, room, ": the nearest of those for %s", d->arch); break;
	case RUNS: snprintf(text + at, room, ": %s runs binaries for %s", d->arch, h->arch); break;
	}
}

const struct selector *selector_for(const struct device_info *d, enum attune_dtype kv_dtype)
{
	return selector_among(attune_selectors, attune_num_selectors, d, kv_dtype);
}

const char *selector_name(const struct device_info *d)
{
	const struct selector *h = selector_for(d, ATTUNE_BF16);
	return h ? h->gpu : "untuned";
}

int selector_says(const struct selector *h, enum decision decision, const struct attune_features *f)
{
	return h->compiled[decision] ? h->compiled[decision](f)
				     : tree_says(h->nodes, h->root[decision], f);
}

enum overlap_way overlap_way(int answer, int is_fused, int by_defaults)
{
	if (answer == SAYS_SERIAL || (by_defaults && !is_fused))
		return RUN_SERIAL;
	return is_fused || answer == SAYS_ONE_LAUNCH ? RUN_ONE_LAUNCH : RUN_ON_STREAMS;
}

const struct segment_costs *costs_for(const struct selector_costs *list, int n, int id,
				      int head_size)
{
	const struct selector_costs *best = NULL;
	for (int i = 0; i < n; i++) {
		const int size = list[i].head_size, of = best ? best->head_size : 0;
		if (list[i].id == id &&
		    (of < head_size ? size > of : size >= head_size && size < of))
			best = &list[i];
	}
	return best ? &best->costs : NULL;
}

struct attune_list selector_list(const struct selector *h, int id)
{
	for (int i = 0; i < h->num_lists; i++)
		if (h->lists[i].at[0] == id)
			return h->lists[i];
	return (struct attune_list){ 1, { (short)id, -1, -1, -1 } };
}

static void add(struct selection *out, const struct part *p, const struct selector *h,
		enum decision decision)
{
	out->part[out->num_parts] = *p;
	out->choice[out->num_parts] = h ? selector_says(h, decision, &p->f) : SAYS_DEFAULTS;
	out->num_parts++;
}

void select_parts(struct selection *out, const struct selector *h, const struct batch_sums *c,
		  const attune_batch *b)
{
	struct part p;
	out->num_parts = 0;
	if (part_of_batch(&p, PHASE_PREFILL, c, b))
		add(out, &p, h, DECIDE_PREFILL);
	if (part_of_batch(&p, PHASE_DECODE, c, b))
		add(out, &p, h, DECIDE_DECODE);
}
