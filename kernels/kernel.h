/* kernel.h - what a kernel is, as data; the map of this folder.
 *
 *   kernels.def   --> struct kernel, one row each                 (kernel.c)
 *   <kernel>.def  --> struct space: axes, rules, geometry         (space.c)
 *   a choice      = a kernel and a value for each of its axes
 *                 = "segmented BLOCK_M=16 TILE_SIZE=64 ... SEGMENTS=8"
 *   a binary      = a kernel and its -D flags: the STATIC axes of a choice
 *                   and what the shape compiles in (GIVEN)
 *                 = "segmented -DHEAD_SIZE=128 -DDTYPE=BF16 ... -DTILE_SIZE=64"
 *
 * These two texts are the names of things everywhere: in the database, in
 * generated headers, in caches, on the command line. */
#ifndef ATTUNE_KERNEL_H
#define ATTUNE_KERNEL_H

#if defined(ATTUNE_PART_H) && !defined(ATTUNE_H)
#error "include kernel.h before part.h: on the host struct part has more members"
#endif
#include "args_maps.h"
#include "args_more.h"
#include "attune.h"
#include "segments.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { MAX_AXES = 14, MAX_FLAGS = 320, MAX_CHOICE_TEXT = 224, FORMULA_TEXT = 64 };
enum { MAX_PART_TEXT = MAX_CHOICE_TEXT + 32 }; /* a choice with its kernel's name */

enum backend { BACKEND_CPU, BACKEND_GPU };

struct device_info;

struct axis {
	const char *name, *about;
	int is_static; /* compiled in; else a launch argument */
	int is_option; /* texts and flags leave it out at its default */
	int lanes;     /* of devices whose sweeps go through its values; 0: of all, -1: none */
	int dflt;
	const int *values;
	int num_values;
};

/* In the order of the space's axes. A value below 0, on the space's formula axis
 * alone, is formula number -1 - v: see config_resolve. */
struct config {
	int v[MAX_AXES];
};

struct geometry {
	unsigned x, y, z; /* grid of blocks; on the CPU, of cells */
	unsigned threads; /* of a block; 1 on the CPU */
	unsigned smem;    /* bytes of dynamic shared memory */
	int at_once;      /* blocks that run at a time; 0: the kernel does not say */
	unsigned cluster; /* blocks of one, along y; 0, 1: there are none */
	int segments;     /* 1: no reduction follows */
	int reduced_wide; /* by HELPER_REDUCE_WIDE */
	/* bytes of the workspace for args.scratch; whether they must be zeros at the start */
	size_t scratch;
	int scratch_zeroed;
	size_t partials; /* rows of them that no reduction follows on */
	int map_box;     /* tokens of a box of K and V's maps */
	int option[4];   /* for args.option */
	int estimate;    /* of the part: see struct part */
	long long items; /* blocks of work that the grid goes through; 0: one a block */
};

/* Of a kernel that reads no K and V itself. */
enum { KV_LAYOUT_ANY = -1 };

struct space {
	const struct axis *axis;
	int num_axes;
	int formula_axis; /* -1: none; always a LAUNCH one */
	const struct formula *formulas;
	int num_formulas;
	/* The reason why this point is illegal, or NULL. `part` may be NULL:
	 * then only what does not depend on the batch is asked. With a part,
	 * a config with a formula is to be resolved first: it is never legal. */
	const char *(*why_illegal)(const struct config *, const attune_shape *, const struct part *,
				   const struct device_info *);
	void (*geometry)(const struct config *, const attune_shape *, const struct part *,
			 const struct device_info *, struct geometry *);
	/* Writes "-DHEAD_SIZE=128 ..." and returns its length. */
	int (*given)(char *text, size_t size, const attune_shape *);
	/* What why_illegal may answer, in the order it asks; ends with NULL. */
	const char *const *rules;
	/* Runs batches that have both parts, in one launch, and nothing else. */
	int is_fused;
	int is_scheduled; /* goes through a list of Q blocks: schedule.h */
	int kv_layout;    /* an enum attune_kv_layout, or KV_LAYOUT_ANY */
	int reduces;      /* a reduction may follow */
	int reduces_wide; /* it may be the wide one: where COMBINE is 2 */
	/* Heads of a KV head that a Q block holds at most; 0: all that fit */
	int (*block_heads)(const struct config *);
	int early_axis; /* not 0, to MOST_EARLY: begins early if it may; -1: it has none */
	int takes_more; /* launched with struct attune_call: reads E4M3 caches, gives the LSE */
	int takes_maps; /* launched with struct attune_mapped */
	int is_arch_specific;
	int looks_ahead; /* reads the block table, up to args.table_last, before lengths are known */
};

struct kernel {
	const char *name;
	enum backend backend;
	int selectable;     /* 0: a helper such as the reduction */
	const char *source; /* below kernels/: "gpu/qblock.cu"; of a plug-in a whole path */
	const char *about;
	const struct space *space;
};

/* Kernels that others need, each a launch of its own: the list of Q blocks before, the merge
 * of segments after, or the one for few rows of many segments. */
enum helper { HELPER_SCHEDULE, HELPER_REDUCE, HELPER_REDUCE_WIDE, NUM_HELPERS };

/* kernel.c, formula.c */
extern const struct kernel attune_kernels[]; /* ends with a NULL name */
const struct kernel *kernel_find(enum backend backend, const char *name);
/* The path of a kernel's source below a kernels folder, or a plug-in's own. 0: it is too long. */
int kernel_path(char *path, size_t size, const struct kernel *, const char *root);
/* NULL: the backend has none. A helper has one configuration, its defaults. */
const struct kernel *kernel_helper(enum backend, enum helper);
/* Whether this choice takes the helper's launch on any batch; config NULL: whether any of
 * the kernel's does. */
int kernel_takes(const struct kernel *, const struct config *, enum helper);
/* The same where segments are estimated: whatever number of them the choice names. */
int kernel_may_take(const struct kernel *, const struct config *, enum helper);
/* What its code for a device of that architecture is compiled for: "sm_90a" where it uses what
 * no other chip has, else the same; below CODE_ARCH characters. */
enum { CODE_ARCH = 20 };
void kernel_arch(char text[CODE_ARCH], const struct kernel *, const char *arch);
/* Blocks of work of a launch. */
long long geometry_items(const struct geometry *);
void config_default(struct config *, const struct space *);
/* Whether sweeps on a device with so many lanes go through its values. */
int axis_is_swept(const struct axis *, int lanes);
/* Counts through all points of a sweep on a device with so many lanes, last axis fastest; 0
 * after the last. Formulas are no points: what is measured has numbers only. Options that
 * are not swept there stay at their defaults. */
void config_first(struct config *, const struct space *, int lanes);
int config_next(struct config *, const struct space *, int lanes);
int config_value(const struct config *, const struct space *, const char *axis, int absent);
/* choice.c: "segmented TILE_SIZE=64 ... SEGMENTS=8" */
struct choice {
	const struct kernel *kernel;
	struct config config;
};
/* 0: `error` says in one line what is wrong and what would be right. */
int choice_parse(struct choice *, enum backend, const char *text, char *error, size_t size);
/* The length it takes, as snprintf. */
int choice_text(char *text, size_t size, const struct choice *);
/* Units that it leaves to what runs beside it: its SPARE_UNITS; 0 without that axis. Alone
 * such a choice gains nothing: it is for plans. */
int choice_spares(const struct choice *);
/* That axis; -1: the kernel has none. */
int space_spares(const struct space *);
/* The value of its early axis; 0 without one. Its times are those of a chain of calls that
 * overlap: sweeps take it with --early alone, and only the early tree is made of them. */
enum { MOST_EARLY = 2 /* of all early axes */ };
int choice_early(const struct choice *);
/* Whether it is for the overlap decision alone. */
int choice_overlaps(const struct choice *);
/* By kernel, then by values. */
int choice_compare(const struct choice *, const struct choice *);
int choice_same(const struct choice *, const struct choice *);
/* The first of its family: the formula axis at its first value. */
struct choice choice_family(const struct choice *);
/* A plan of two parts from theirs: "prefill: A | decode: B", side by side "prefill: A ||
 * decode: B". The length it takes, as snprintf; the inverse is 0 for other texts. */
int parts_text(char *text, size_t size, const char *prefill, const char *decode, enum attune_how);
int parts_parse(const char *text, char part[2][MAX_PART_TEXT], enum attune_how *);
/* formula.c. A value of the formula axis: the number of segments follows from the costs that the
 * header has for this choice and head size. */
enum { SEGMENTS_FITTED = 0 };
int config_is_fitted(const struct config *, const struct space *);
int config_is_formula(const struct config *, const struct space *);
/* Blocks of this geometry that a unit runs at a time, as far as shared memory tells. */
int blocks_resident(const struct geometry *, const struct device_info *);
/* The concrete point that c means for this part: of the axis's values that are
 * legal there the one with the least estimate, of equals the smallest; c itself
 * where it has no formula. NULL, else the reason why no value is legal. */
const char *config_resolve(struct config *out, const struct config *c, const struct kernel *,
			   const attune_shape *, const struct part *, const struct device_info *);
/* segments.c */
void block_shape_of(struct block_shape *, const struct config *, const struct kernel *);
/* As config_resolve, by these costs. Without any (NULL) a choice that says SEGMENTS=fitted is
 * illegal. */
const char *config_fitted(struct config *out, const struct config *c, const struct kernel *,
			  const struct segment_costs *, const attune_shape *, const struct part *,
			  const struct device_info *);
/* kernel.c: "BLOCK_M=16 TILE_SIZE=64": all axes, in order, one blank between; a formula as
 * "SEGMENTS=balance(1,96,192,16)", the members of struct formula; by costs "SEGMENTS=fitted". */
int config_text(char *text, size_t size, const struct config *, const struct space *);
/* The inverse; a missing axis that is no option, an unknown one or a value or formula that the
 * .def does not list is an error: returns 0 and points *where at the offending text. */
int config_parse(struct config *, const struct space *, const char *text, const char **where);
/* The compiler's arguments: GIVEN, then STATIC axes. */
int binary_flags(char *text, size_t size, const struct kernel *, const struct config *,
		 const attune_shape *);
/* The name of a binary's entry, by which profilers tell kernels apart:
 * "attune_ring_d128_bf16_bm8_tile16_warps4_stages2". Whoever compiles a binary passes it as
 * -DENTRY=, and whoever loads one asks for it. Not part of the flags. */
enum { ENTRY_TEXT = MAX_FLAGS + 64 };
void entry_name(char text[ENTRY_TEXT], const char *kernel, const char *flags);
void formula_text(char text[FORMULA_TEXT], const struct formula *);
const char *dtype_name(enum attune_dtype); /* "F32" "F16" "BF16" "E4M3" */
int dtype_bytes(enum attune_dtype);
/* Hash of a kernel's tunables: names and values of its axes, and its formulas, not defaults or
 * prose. What was learned of the kernel stays valid as long as this does. */
unsigned long long kernel_hash(const struct kernel *);
/* Hash of the names of features and of segment costs, in which rules are written. */
unsigned long long rules_hash(void);

/* part.c: batches, parts and features, beside part.h */
void part_shape_of(struct part_shape *, const attune_shape *, const struct device_info *);
/* 0 when no sequence of the batch is in the phase (sequences of query length
 * 0 are in none). */
int part_make(struct part *, enum phase, const attune_shape *, const attune_batch *,
	      const struct device_info *);
/* The same for several parts of a batch whose sequences are gone through once. */
struct batch_sums {
	struct part_shape shape;
	struct part_sums of[PHASE_DECODE + 1];
};
void batch_count(struct batch_sums *, const attune_shape *, const attune_batch *,
		 const struct device_info *);
int part_of_batch(struct part *, enum phase, const struct batch_sums *, const attune_batch *);
/* Q blocks of one phase of a part, as part_q_blocks counts them. */
long long span_q_blocks(const attune_span *, int block_q);
/* Rows of partials at one segment: of each query token, and as many for every query as the
 * longest has, and query head. */
long long span_rows(const attune_span *, const attune_shape *);
/* Key tokens a part reads, by window and causality: for bytes. Query-key pairs
 * for FLOPs. Both of one head. */
long long part_live_keys(const attune_shape *, const attune_batch *, enum phase);
long long part_pairs(const attune_shape *, const attune_batch *, enum phase);
const char *shape_error(const attune_shape *); /* NULL when sound */
/* For that shape; NULL: only what holds for all. */
const char *batch_error(const attune_batch *, const attune_shape *);
/* The window of kernels; 0: there is none, as where it is longer than any sequence. */
int window_of(const attune_shape *);
/* The last sequence that has keys, and its pages: as the block table ends. 0, 0: none has. */
void batch_table(const attune_batch *, int page_size, int *seq, int *pages);
unsigned page_magic(int page_size);

/* reference.c: the definition, in fp64, on the host. Computes query token
 * `token` of sequence `seq` for query head `head` into out[head_size]. All
 * pointers of `args` are host memory; dtypes from the shape. */
void reference_row(const struct attune_args *args, const attune_shape *shape, int seq, int token,
		   int head, double *out);
/* The same with K and V from elsewhere: fetch fills row[head_size] with what the
 * cache holds at (page, slot, kv_head). */
struct kv_source {
	void (*fetch)(const struct kv_source *, int is_v, int page, int slot, int kv_head,
		      double *row);
	const struct attune_args *args;
	const attune_shape *shape;
	const void *more;
	double *mass; /* [head_size], or NULL: out with |v| for v, the scale of rounding */
	const struct attune_more *scales; /* NULL: all are 1 */
	double *lse;                      /* of the row, or NULL */
};
/* Where an element of K or V lies: element d of (page, slot, kv_head) at
 * first + d / run * step + d % run. */
struct kv_place {
	long long first;
	int run, step;
};
struct kv_place kv_place(const struct attune_args *, const attune_shape *, int is_v, int page,
			 int slot, int kv_head);
void reference_row_from(const struct kv_source *, int seq, int token, int head, double *out);
double value_of(enum attune_dtype, const void *array, long long index);
/* Rounded to nearest, ties to even; keeps NaN and infinities. */
void value_put(enum attune_dtype, void *array, long long index, float value);

/* status.c: fail() keeps one line for attune_last_error and returns status. */
enum attune_status fail(enum attune_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
