/* SPDX-License-Identifier: Apache-2.0 */
/* selector.h - heuristics: the table of generated headers, one row a GPU, and override files, which
 * hold the same rules as data. */
#ifndef KERNELS_SELECT_SELECTOR_H
#define KERNELS_SELECT_SELECTOR_H

#include "kernels/attune_list.h"
#include "kernels/segments.h"
#include "kernels/spec/device_info.h"
#include "kernels/spec/mixed_rates.h"

struct batch_sums;
struct config;
struct kernel;

/* Answers of trees other than a choice's id. */
enum says {
	SAYS_DEFAULTS = -1,
	SAYS_SERIAL = -1, /* overlap tree */
	SAYS_OWN = -1,    /* early tree: the choice's own value */
	/* overlap tree: the whole batch in one launch by the choice of the prefills */
	SAYS_ONE_LAUNCH = -2,
	SAYS_STREAMS = -3, /* overlap tree: both parts unchanged, on two streams */
	/* overlap tree: the same, and the prefills' choice leaves 16, 32 ... 112 units to the
	 * decodes, if it has SPARE_UNITS and may leave that many */
	SAYS_SPARING16 = -4,
	SAYS_SPARING112 = -10
};

/* The units that an answer of the overlap tree leaves to the decodes; 0: not SAYS_SPARING. */
static inline int says_spares(int answer)
{
	return answer <= SAYS_SPARING16 && answer >= SAYS_SPARING112 ? 16 * (SAYS_STREAMS - answer)
								     : 0;
}

/* Nodes in preorder: the next node is for features at or below the threshold. */
struct selector_node {
	int feature; /* -1: a leaf; `value` is the answer */
	int above;   /* node of the features above the threshold */
	long long value;
};

static inline int tree_says(const struct selector_node *nodes, int root,
			    const struct attune_features *f)
{
	const long long *feature = (const long long *)f;
	const struct selector_node *n = &nodes[root];
	while (n->feature >= 0)
		n = feature[n->feature] <= n->value ? n + 1 : &nodes[n->above];
	return (int)n->value;
}

/* Each decision has a tree.
 *
 *   PREFILL, DECODE  the id of a choice, or SAYS_DEFAULTS
 *   OVERLAP          how the two parts of a mixed batch share the device: SAYS_SERIAL,
 *                    SAYS_ONE_LAUNCH (the prefill part's choice runs the whole batch),
 *                    SAYS_STREAMS, SAYS_SPARING16 to SAYS_SPARING112, or the id of a choice. A
 *                    choice of a fused kernel runs the whole batch in one launch. Any other
 *                    choice leaves units free: it runs the prefill part while the decode part
 *                    runs on a second stream. If the choice is illegal or not loaded: serial.
 *   EARLY            for a choice with an early axis, its value there if the caller lets launches
 *                    begin early, or SAYS_OWN. It changes no plan. A header without such times has
 *                    no tree for it: SAYS_OWN everywhere. */
enum decision { DECIDE_PREFILL, DECIDE_DECODE, DECIDE_OVERLAP, DECIDE_EARLY, NUM_DECISIONS };
extern const char *const decision_names[NUM_DECISIONS];
extern const char *const feature_names[ATTUNE_NUM_FEATURES];
int feature_named(const char *name); /* -1: none */
_Static_assert(sizeof(struct attune_features) == ATTUNE_NUM_FEATURES * sizeof(long long),
	       "features are read as an array");

struct selector_row { /* a row of CHOICES: kernel and tunables */
	const char *kernel, *text;
};

/* A row of SHAPES: head sizes and types that were measured. Types are words, "BF16 F16";
 * "BF16/E4M3" where the cache has another type. One blank separates words. */
struct selector_shapes {
	const char *sizes, *types;
};

/* A row of SEGMENTS: the costs that set the number of segments of a choice with SEGMENTS=fitted, at
 * one head size. */
struct selector_costs {
	int id, head_size;
	struct segment_costs costs;
};

/* A row of KERNELS: a kernel that the choices use and its kernel_hash() when the header was made.
 * The row "rules" has the rules_hash(). */
struct selector_kernel {
	const char *where, *name; /* "gpu", "cpu" or "rules" */
	unsigned long long hash;
};

struct selector {
	const char *gpu, *arch;
	/* The device that was measured: "AMD EPYC, avx512, 2 threads"; NULL, "": not known. */
	const char *device;
	const struct selector_kernel *kernels;
	int num_kernels;
	const struct selector_row *choices;
	const struct selector_shapes *shapes;
	const struct selector_costs *costs;
	const struct attune_list *lists; /* rows of LISTS, at most one for each at[0] */
	int num_choices, num_shapes /* rows */, num_costs, num_lists;
	struct mixed_rates mixed; /* the row of MIXED; unit_flops 0: it has none */
	int overlaps;             /* some leaf of the overlap tree is not serial */
	/* A tree is the nodes from its root on. Compiled headers also have each as a function,
	 * except the early tree, which not every header has. */
	int (*compiled[NUM_DECISIONS])(const struct attune_features *);
	int root[NUM_DECISIONS];
	const struct selector_node *nodes;
	int num_nodes;
};

extern const struct selector attune_selectors[];
extern const int attune_num_selectors;

/* The header for a device, or NULL. The first of:
 *
 *   its own
 *   that of the whole GPU, if the device is a slice or partition
 *   the nearest of the same architecture, by units, DRAM bandwidth and matrix rate
 *   the nearest with binaries that the device executes
 *   the portable one, for NVIDIA GPUs from sm_80 on: learned from choices that all of them run
 *
 * Headers named "h200_e4m3" were learned on E4M3 caches: for these they come first, for other
 * caches they never count. */
#define E4M3_SUFFIX "_e4m3"
#define PORTABLE_GPU "portable"
const struct selector *selector_for(const struct device_info *, enum attune_dtype kv_dtype);
const struct selector *selector_among(const struct selector *, int n, const struct device_info *,
				      enum attune_dtype kv_dtype);
const struct selector *selector_portable(void); /* NULL: the build has none */
/* Why the smallest GPU that portable rules serve cannot run a choice for a shape; NULL: it can. Their
 * rows were learned without such choices, which are no members on larger GPUs either. */
const char *why_not_portable(const struct kernel *, const struct config *, const attune_shape *);
/* What a device gets from the list, for a 16-bit cache: "own", "nearest" or "portable" rules,
 * "defaults", or "refused": no kernel is for it. */
const char *selector_gets(const struct selector *, int n, const struct device_info *);
/* Writes one line: why this header was chosen from the list, for a 16-bit cache. On a CPU it also
 * says which CPU was measured. */
enum { SELECTOR_WHY = 384 };
void selector_why(char *text, size_t size, const struct selector *list, int n,
		  const struct device_info *);
/* Whether a header's GPU, with or without E4M3_SUFFIX, has the device's name. */
int gpu_is_own(const char *gpu, const struct device_info *);
/* Length of a name without E4M3_SUFFIX. */
int gpu_length(const char *name);
/* The GPU of the header for a device; "untuned": none. */
const char *selector_name(const struct device_info *);
/* Whether the kernel's tunables have changed since the header was made: its choices may name values
 * that no longer exist. */
int selector_kernel_is_stale(const struct selector_kernel *);
/* Whether any of its kernels is stale. */
int selector_is_stale(const struct selector *);
/* The costs of a choice, from a list of n rows. A head size without a row takes the next larger
 * one, else the largest. NULL: the choice has no row. */
const struct segment_costs *costs_for(const struct selector_costs *, int n, int id, int head_size);
/* The row of LISTS of a choice. A choice without a row: itself alone. */
struct attune_list selector_list(const struct selector *, int id);
/* Sets DECODE_UNITS and PREFILL_SEGMENTS of a choice that leaves both to the kernel's estimate: the
 * listed and legal numbers with the least estimate by these rates. Where that launch is the kernel's
 * own estimate, and with rates of unit_flops 0, the choice stays as it is. */
void config_divide(struct config *, const struct kernel *, const struct mixed_rates *,
		   const attune_shape *, const struct part *, const struct device_info *);
/* The answer of a decision's tree. */
int selector_says(const struct selector *, enum decision, const struct attune_features *);

/* How an answer of the overlap tree runs both parts, if the choice that it names may run.
 * by_defaults: one of the parts has no choice of its tree; nothing is known about overlapping the
 * defaults. */
enum overlap_way { RUN_SERIAL, RUN_ON_STREAMS, RUN_ONE_LAUNCH };
enum overlap_way overlap_way(int answer, int is_fused, int by_defaults);

/* The parts of a batch and the heuristic's answer for each; SAYS_DEFAULTS without a heuristic. The
 * caller checks that the choices are legal and loaded. */
struct selection {
	int num_parts;
	struct part part[2];
	int choice[2];
};
void select_parts(struct selection *, const struct selector *, const struct batch_sums *,
		  const attune_batch *);

/* binaries.c: the binaries that a header needs for its SHAPES, with flags as binary_flags writes
 * them. One may come more than once.
 *
 *   struct binary_walk w = { 0 };
 *   while (selector_next_binary(h, &w)) ... w.kernel, w.flags */
struct binary_walk {
	const char *kernel;
	char flags[MAX_FLAGS];
	int row, size, type, item; /* private: what comes next */
};
int selector_next_binary(const struct selector *, struct binary_walk *); /* 0 after the last */
/* The same for one shape alone, on devices with these limits. */
int selector_binary_of(const struct selector *, const attune_shape *, const struct device_info *,
		       struct binary_walk *);
/* A shape with all else so that kernels take it: one binary serves all numbers of heads, page sizes
 * and windows. */
attune_shape shape_of_binary(int head_size, enum attune_dtype dtype, enum attune_dtype kv_dtype);
/* The sizes of a GPU of an architecture, where a build tool has no device to ask. */
struct device_info device_of_arch(const char *arch);

/* rules_file.c: reads and checks the header that a file holds. A file that is refused leaves *out
 * NULL, ATTUNE_INVALID and one line "FILE:LINE: "what stands there"; what is expected". */
struct override;
enum attune_status override_open(struct override **out, const char *path,
				 const struct device_info *);
const struct selector *override_selector(const struct override *);
void override_close(struct override *);

#endif
