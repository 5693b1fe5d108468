/* SPDX-License-Identifier: Apache-2.0 */
/* selector.c - the table of all generated/attune_<gpu>.h, and what the trees of one answer for a
 * batch. The Makefile writes heuristics.inc, which includes the
 * headers and then has HEURISTIC(gpu, GPU) for each, and trees.inc, their trees as nodes. */
#include "selector.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
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
