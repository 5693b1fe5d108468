/* selector.h - what chooses: the generated headers as a table, one row a GPU, and
 * override files with the same rules as data. */
#ifndef KERNELS_SELECT_SELECTOR_H
#define KERNELS_SELECT_SELECTOR_H

#include "kernels/spec/device_info.h"
#include "kernels/tree.h"

/* One tree each (tree.h). Prefill and decode answer with the id of a choice or with one of
 * enum says. Of a batch with both parts overlap answers how they share the device: SAYS_SERIAL,
 * SAYS_STREAMS, or the id of a choice:
 *
 *   of a fused kernel  one launch of it over the whole batch
 *   of any other       the prefill part by that one, which leaves units to others, and
 *                      the decode part as it is, on two streams
 *
 * What may not run, or is not at hand, gives way to serial.
 *
 * The last changes no plan. It is asked of a part whose choice has an early axis, and answers
 * with the value that the choice takes on it where the caller lets launches begin early, or
 * with SAYS_OWN. A header without such times has no such tree: that is SAYS_OWN everywhere. */
enum decision {
	DECIDE_PREFILL,
	DECIDE_DECODE,
	DECIDE_OVERLAP,
	DECIDE_EARLY,
	NUM_DECISIONS
};
extern const char *const decision_names[NUM_DECISIONS];
extern const char *const feature_names[ATTUNE_NUM_FEATURES];
_Static_assert(sizeof(struct attune_features) == ATTUNE_NUM_FEATURES * sizeof(long long),
	       "features are read as an array");

struct selector_row { /* of CHOICES: kernel and tunables */
	const char *kernel, *text;
};

/* Of BINARIES: a kernel with these tunables compiled in, at each of the head sizes in each of the
 * types. Types are words such as "BF16 F16"; where the cache has another type, "BF16/E4M3". One
 * blank divides words. No sizes: one binary for all. */
struct selector_binaries {
	const char *kernel, *sizes, *types, *tunables;
};

/* A row of SEGMENTS: for a choice that says SEGMENTS=fitted, and one head size, the costs by which
 * the library finds the number of segments. */
struct selector_costs {
	int id, head_size;
	struct segment_costs costs;
};

/* Of KERNELS: a kernel that the choices run, and its kernel_hash() when the header was made; in
 * the row "rules" the rules_hash(). */
struct selector_kernel {
	const char *where, *name; /* "gpu", "cpu" or "rules" */
	unsigned long long hash;
};

struct selector {
	const char *gpu, *arch;
	const struct selector_kernel *kernels;
	int num_kernels;
	const struct selector_row *choices;
	const struct selector_binaries *binaries;
	const struct selector_costs *costs;
	int num_choices, num_binaries /* rows */, num_costs;
	int overlaps; /* some leaf of that tree says other than serial */
	/* A tree is the nodes from its root on; where it was compiled, that function too, but
	 * of the early tree, which not every header has. */
	int (*compiled[NUM_DECISIONS])(const struct attune_features *);
	int root[NUM_DECISIONS];
	const struct selector_node *nodes;
	int num_nodes;
};

extern const struct selector attune_selectors[];
extern const int attune_num_selectors;

/* The header that chooses on a device, or NULL: its own; else that of the GPU of which the device
 * is a slice or partition; else of those for the same architecture the nearest in units, DRAM
 * bandwidth and matrix rate; else the nearest whose binaries the device executes. For E4M3 caches
 * headers that were learned on these come first, whose GPU is named "h200_e4m3"; for others they
 * never count. */
#define E4M3_SUFFIX "_e4m3"
const struct selector *selector_for(const struct device_info *, enum attune_dtype kv_dtype);
const struct selector *selector_among(const struct selector *, int n, const struct device_info *,
				      enum attune_dtype kv_dtype);
/* Why the header for caches of 16 bits was chosen from the list, on one line. */
void selector_why(char *text, size_t size, const struct selector *list, int n,
		  const struct device_info *);
/* Characters of a name before that suffix; of others all. */
int gpu_length(const char *name);
/* Its GPU; "untuned": there is none. */
const char *selector_name(const struct device_info *);
/* Whether the kernel has other tunables than when the header was made: its choices may name what
 * no longer exists. */
int selector_kernel_is_stale(const struct selector_kernel *);
/* Whether one of its kernels is. */
int selector_is_stale(const struct selector *);
/* The costs of a choice, from a list of n rows. Where the head size has no row, the next larger one
 * stands for it, else the largest. NULL: the choice has no row. */
const struct segment_costs *costs_for(const struct selector_costs *, int n, int id, int head_size);
/* Goes through the binaries, with the flags of each as of binary_flags:
 *
 *   struct binary_walk w = { 0 };
 *   while (selector_next_binary(h, &w)) ... w.kernel, w.flags */
struct binary_walk {
	const char *kernel;
	char flags[MAX_FLAGS];
	int row, size, type; /* private: what comes next */
};
int selector_next_binary(const struct selector *, struct binary_walk *); /* 0 behind the last */
/* What the tree of a decision answers. */
int selector_says(const struct selector *, enum decision, const struct attune_features *);

/* What a heuristic says of a batch: its parts, and what their decisions answer; SAYS_DEFAULTS where
 * there is no heuristic. Whether the choice is legal and at hand is the caller's to check. */
struct selection {
	int num_parts;
	struct part part[2];
	int choice[2];
};
void select_apart(struct selection *, const struct selector *, const struct batch_sums *,
		  const attune_batch *);

/* rules_file.c: reads the rules of a file, in the format that stands there. All of it
 * is checked: what attune_open refuses leaves ATTUNE_INVALID, one line "FILE:LINE:
 * what is wrong; what would be right" and *out NULL. */
struct override;
enum attune_status override_open(struct override **out, const char *path,
				 const struct device_info *);
/* rules_file_read.c: the whole file and a '\0' behind it. */
enum attune_status override_text(const char *path, char **text, size_t *size);
const struct selector *override_selector(const struct override *);
void override_close(struct override *);

#endif
