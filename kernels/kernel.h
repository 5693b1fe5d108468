/* kernel.h - kernels, their spaces and configs as data, and the map of this folder.
 *
 *   kernels.def   --> struct kernel, one row each                 (kernel.c)
 *   <kernel>.def  --> struct space: axes, rules, geometry         (space.c)
 *   a choice      = a kernel and a value for each of its axes
 *                 = "segmented BLOCK_M=16 TILE_SIZE=64 ... SEGMENTS=8"
 *   a binary      = a kernel and its -D flags: the STATIC axes of a choice
 *                   and what the shape compiles in (GIVEN)
 *                 = "segmented -DHEAD_SIZE=128 -DDTYPE=BF16 ... -DTILE_SIZE=64"
 *
 * Choices and binaries have these two texts as names everywhere: in the database, in generated
 * headers, in caches, on the command line. */
#ifndef ATTUNE_KERNEL_H
#define ATTUNE_KERNEL_H

#include "args_maps.h"
#include "args_more.h"
#include "attune.h"
#include "segments.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { MAX_AXES = 14, MAX_FLAGS = 512, MAX_CHOICE_TEXT = 224, FORMULA_TEXT = 64 };
enum { MAX_PART_TEXT = MAX_CHOICE_TEXT + 32 }; /* a choice with its kernel's name */

enum backend { BACKEND_CPU, BACKEND_GPU };

struct device_info;
struct attune_plugin;

struct axis {
	const char *name, *about;
	int is_static; /* compiled in; else a launch argument */
	int is_option; /* texts and flags omit it at its default */
	int lanes;     /* only devices with this many lanes sweep it; 0: all, -1: none */
	int dflt;
	const int *values;
	int num_values;
};

/* Values in the order of the space's axes. On the formula axis v < 0 is formula number -1 - v: see
 * config_resolve. */
struct config {
	int v[MAX_AXES];
};

struct geometry {
	unsigned x, y, z; /* grid of blocks; on the CPU, of cells */
	unsigned threads; /* of a block; 1 on the CPU */
	unsigned smem;    /* bytes of dynamic shared memory */
	int at_once;      /* blocks that run at a time; 0: the kernel does not say */
	unsigned cluster; /* blocks of a cluster, along y; 0, 1: no clusters */
	int segments;     /* 1: no reduction follows */
	int reduced_wide; /* HELPER_REDUCE_WIDE merges the segments */
	/* bytes of the workspace for args.scratch; whether they must be zeros at the start */
	size_t scratch;
	int scratch_zeroed;
	size_t partials; /* rows of partials that the kernel merges itself */
	int map_box;     /* tokens of a box of the maps of K and V; 0: no maps */
	int option[4];   /* for args.option */
	int estimate;    /* see struct part */
	long long items; /* work items that the blocks loop over; 0: one a block */
};

/* The layout of a kernel that reads no K and V. */
enum { KV_LAYOUT_ANY = -1 };

struct space {
	const struct axis *axis;
	int num_axes;
	int formula_axis; /* -1: none; always a LAUNCH one */
	const struct formula *formulas;
	int num_formulas;
	/* The reason why this point is illegal, or NULL. Without a part only the rules that do not
	 * depend on the batch are checked. With a part a formula must be resolved first: a config
	 * that has one is illegal. */
	const char *(*why_illegal)(const struct config *, const attune_shape *, const struct part *,
				   const struct device_info *);
	void (*geometry)(const struct config *, const attune_shape *, const struct part *,
			 const struct device_info *, struct geometry *);
	/* Writes "-DHEAD_SIZE=128 ..." and returns its length. */
	int (*given)(char *text, size_t size, const attune_shape *);
	/* The answers of why_illegal, in the order it checks them; ends with NULL. */
	const char *const *rules;
	/* Runs only batches with both parts, in one launch. */
	int is_fused;
	int is_scheduled; /* loops over a list of Q blocks: gpu/helpers/schedule_list.h */
	int kv_layout;    /* an enum attune_kv_layout, or KV_LAYOUT_ANY */
	int reduces;      /* a reduction may follow */
	int reduces_wide; /* it is the wide one if COMBINE is 2 */
	/* Most heads of a KV head in a Q block; 0: all that fit */
	int (*block_heads)(const struct config *);
	int early_axis; /* its values, 1 to MOST_EARLY: begins early if it may; -1: no such axis */
	int takes_more; /* launched with struct attune_call: reads E4M3 caches, gives the LSE */
	int takes_maps; /* launched with struct attune_mapped */
	int is_arch_specific;
	int looks_ahead; /* reads the block table, up to args.table_last, before the lengths */
};

struct kernel {
	const char *name;
	enum backend backend;
	int selectable;     /* 0: a helper such as the reduction */
	const char *source; /* below kernels/: "gpu/attend/qblock.cu"; of a plug-in a whole path */
	const char *about;
	const struct space *space;
	const struct attune_plugin *plugin; /* NULL, or its code: no source is compiled */
};

/* Kernels that others need, each a launch of its own: before them the list of Q blocks, after them
 * the merge of segments; the wide one is for few rows of many segments. */
enum helper { HELPER_SCHEDULE, HELPER_REDUCE, HELPER_REDUCE_WIDE, NUM_HELPERS };

/* kernel.c, formula.c */
enum { MOST_PLUGINS = 12 };
extern struct kernel attune_kernels[]; /* ends with a NULL name; has room for MOST_PLUGINS more */
const struct kernel *kernel_find(enum backend backend, const char *name);
/* The path of a kernel's source below a kernels folder, or a plug-in's own. 0: it is too long. */
int kernel_path(char *path, size_t size, const struct kernel *, const char *root);
/* NULL: the backend has none. A helper has one configuration, its defaults. */
const struct kernel *kernel_helper(enum backend, enum helper);
/* Whether this choice needs the helper on some batch; config NULL: whether any of the kernel's
 * choices does. */
int kernel_takes(const struct kernel *, const struct config *, enum helper);
/* The same for any number of segments, whichever the choice names. */
int kernel_may_take(const struct kernel *, const struct config *, enum helper);
/* The architecture to compile the kernel for: "sm_90a" if it uses instructions of that chip alone,
 * else `arch`. Shorter than CODE_ARCH. */
enum { CODE_ARCH = 20 };
void kernel_arch(char text[CODE_ARCH], const struct kernel *, const char *arch);
/* Work items of a launch. */
long long geometry_items(const struct geometry *);
void config_default(struct config *, const struct space *);
/* Whether sweeps on a device with so many lanes go through the values of the axis. */
int axis_is_swept(const struct axis *, int lanes);
/* Iterate over all points of a sweep on a device with so many lanes, last axis fastest; 0 after the
 * last. Only numbers are measured, no formulas. Axes that are not swept there stay at their
 * defaults. */
void config_first(struct config *, const struct space *, int lanes);
int config_next(struct config *, const struct space *, int lanes);
int config_value(const struct config *, const struct space *, const char *axis, int absent);
/* choice.c: "segmented TILE_SIZE=64 ... SEGMENTS=8" */
struct choice {
	const struct kernel *kernel;
	struct config config;
};
/* 0: `error` has one line, what is wrong and what would be right. */
int choice_parse(struct choice *, enum backend, const char *text, char *error, size_t size);
/* Returns the length, as snprintf. */
int choice_text(char *text, size_t size, const struct choice *);
/* SPARE_UNITS, the units that it leaves to a concurrent launch; 0 without that axis. Such a choice
 * is for plans of two streams: alone it gains nothing. */
int choice_spares(const struct choice *);
/* The number of that axis; -1: the kernel has none. */
int space_spares(const struct space *);
/* The value of its early axis; 0 without one. Other values are timed in a chain of overlapping
 * calls: only sweeps with --early take them, and only the early tree uses their times. */
enum { MOST_EARLY = 2 /* of all early axes */ };
int choice_early(const struct choice *);
/* Whether only the overlap decision may name it. */
int choice_overlaps(const struct choice *);
/* Orders by kernel, then by values. */
int choice_compare(const struct choice *, const struct choice *);
int choice_same(const struct choice *, const struct choice *);
/* The same choice with the formula axis at its first value. */
struct choice choice_family(const struct choice *);
/* The text of a two-part plan: "prefill: A | decode: B"; on two streams "prefill: A || decode: B".
 * Returns the length, as snprintf. The inverse returns 0 for other texts. */
int parts_text(char *text, size_t size, const char *prefill, const char *decode, enum attune_how);
int parts_parse(const char *text, char part[2][MAX_PART_TEXT], enum attune_how *);
/* formula.c. The value "fitted" of the formula axis: the number of segments follows from the
 * header's costs for this choice and head size. */
enum { SEGMENTS_FITTED = 0 };
int config_is_fitted(const struct config *, const struct space *);
int config_is_formula(const struct config *, const struct space *);
/* Blocks of this geometry that fit the shared memory of a unit. */
int blocks_resident(const struct geometry *, const struct device_info *);
/* *out: c with its formula replaced by a number for this part, the legal value with the least
 * estimate (of equals the smallest); c itself if it has no formula. Returns NULL, or why no value
 * is legal. */
const char *config_resolve(struct config *out, const struct config *c, const struct kernel *,
			   const attune_shape *, const struct part *, const struct device_info *);
/* segments.c */
void block_shape_of(struct block_shape *, const struct config *, const struct kernel *);
/* As config_resolve, and resolves SEGMENTS=fitted by these costs; NULL: such a choice is
 * illegal. */
const char *config_fitted(struct config *out, const struct config *c, const struct kernel *,
			  const struct segment_costs *, const attune_shape *, const struct part *,
			  const struct device_info *);
/* The same where the shape of the choice's blocks is known: finding it takes half of the time. */
const char *config_fitted_by(struct config *out, const struct config *c, const struct kernel *,
			     const struct block_shape *, const struct segment_costs *,
			     const attune_shape *, const struct part *, const struct device_info *);
/* kernel.c: "BLOCK_M=16 TILE_SIZE=64": the axes in order, one blank between. A formula is written
 * "SEGMENTS=balance(1,96,192,16)", with the members of struct formula; or "SEGMENTS=fitted". */
int config_text(char *text, size_t size, const struct config *, const struct space *);
/* The inverse. Returns 0 and points *where at the offending text if an axis that is no option is
 * missing, or an axis, value or formula is not in the .def. */
int config_parse(struct config *, const struct space *, const char *text, const char **where);
/* The compiler's arguments: GIVEN, then STATIC axes. */
int binary_flags(char *text, size_t size, const struct kernel *, const struct config *,
		 const attune_shape *);
/* The symbol of a binary's entry, which profilers show:
 * "attune_ring_d128_bf16_bm8_tile16_warps4_stages2". Compilers get it as -DENTRY=, outside the
 * flags. */
enum { ENTRY_TEXT = MAX_FLAGS + 64 };
void entry_name(char text[ENTRY_TEXT], const char *kernel, const char *flags);
void formula_text(char text[FORMULA_TEXT], const struct formula *);
const char *dtype_name(enum attune_dtype); /* "F32" "F16" "BF16" "E4M3" */
int dtype_bytes(enum attune_dtype);
/* Hash of a kernel's tunables: names and values of its axes and its formulas, without defaults and
 * prose. Rules learned for the kernel are valid while it stays the same. */
unsigned long long kernel_hash(const struct kernel *);
/* Hash of the names of features and of segment costs, the terms of rules. */
unsigned long long rules_hash(void);

/* part.c: batches, parts and features; see segments.h */
void part_shape_of(struct part_shape *, const attune_shape *, const struct device_info *);
/* 0: no sequence of the batch is in the phase. Query length 0 is in none. */
int part_make(struct part *, enum phase, const attune_shape *, const attune_batch *,
	      const struct device_info *);
/* The same for several parts, in one pass over the sequences. */
struct batch_sums {
	struct part_shape shape;
	struct part_sums of[PHASE_DECODE + 1];
};
void batch_count(struct batch_sums *, const attune_shape *, const attune_batch *,
		 const struct device_info *);
int part_of_batch(struct part *, enum phase, const struct batch_sums *, const attune_batch *);
/* Q blocks of one phase of a part, as part_q_blocks counts them. */
long long span_q_blocks(const attune_span *, int block_q);
/* Rows of partials at one segment: sequences x tokens of the longest query x query heads. */
long long span_rows(const attune_span *, const attune_shape *);
/* For one head: key tokens that a part reads, which count its bytes, and query-key pairs, which
 * count its flops. */
long long part_live_keys(const attune_shape *, const attune_batch *, enum phase);
long long part_pairs(const attune_shape *, const attune_batch *, enum phase);
/* (query tokens + sequences) x query heads of a batch stay within this. */
enum { MOST_BATCH_ROWS = 0x7fffffff };
const char *shape_error(const attune_shape *); /* NULL when sound */
/* Without a shape only the checks that hold for all shapes. */
const char *batch_error(const attune_batch *, const attune_shape *);
/* The same for the largest batch within these maxima. */
const char *maxima_error(int num_seqs, int num_tokens, int max_query, int max_keys,
			 const attune_shape *);
/* The window as kernels get it; 0: none, or longer than any sequence may be. */
int window_of(const attune_shape *);
/* The last sequence with keys and the number of its pages: the end of the block table. 0, 0: no
 * sequence has keys. */
void batch_table(const attune_batch *, int page_size, int *seq, int *pages);
unsigned page_magic(int page_size);

/* status.c: sets the line of attune_last_error and returns status. */
enum attune_status fail(enum attune_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
