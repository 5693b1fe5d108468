/* SPDX-License-Identifier: Apache-2.0 */
/* api.h - random calls of the library's API, each case drawn from one seed. What a call computes is
 * compared with the fp64 reference; what it refuses must have a status and one line of text. t_api.c
 * has the program.
 *
 *   api_draw.c      dice, shapes and lengths
 *   api_layout.c    how the tensors of a batch lie in memory: strides, gaps, pages
 *   api_values.c    what they hold
 *   api_memory.c    the memory, poisoned and between guard pages
 *   api_check.c     outputs against harness/check/reference.c
 *   api_emulated.c  contexts on the emulated GPUs
 *   api_case.c      a case: contexts, ops, plans and runs
 *   api_settle.c    times, texts and commits of what is settled
 *   api_hostile.c   calls that must be refused */
#ifndef TESTS_FUZZ_API_H
#define TESTS_FUZZ_API_H

#include "kernels/device/device.h"
#include <stdint.h>

/* ---- t_api.c ----------------------------------------------------------------------------- */

/* Adds to the description of the case, which is shown if it fails. */
__attribute__((format(printf, 1, 2))) void note(const char *format, ...);
/* Ends the case with one line. */
__attribute__((noreturn, format(printf, 1, 2))) void fault(const char *format, ...);

/* ---- api_draw.c -------------------------------------------------------------------------- */

enum where { ON_CPU, ON_H200, ON_MI300X, NUM_WHERE }; /* the GPUs are emulated */

struct dice {
	uint64_t state;
};
struct dice dice_of(uint64_t seed, enum where);
uint64_t roll(struct dice *);
int below(struct dice *, int n);               /* 0 .. n - 1 */
int between(struct dice *, int low, int high); /* both included */
int one_in(struct dice *, int n);
float noise(struct dice *); /* -1 .. 1 */
int pick_int(struct dice *, const int *v, size_t n);
#define PICK(dice, ...)                              \
	pick_int(dice, (const int[]){ __VA_ARGS__ }, \
		 sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int))

enum { MOST_SEQS = 40 };
struct lengths {
	int n;
	int query[MOST_SEQS], seq[MOST_SEQS];
};
void draw_shape(struct dice *, enum where, attune_shape *);
void draw_lengths(struct dice *, enum where, const attune_shape *, struct lengths *);
/* Lengths at or below these. */
void draw_below(struct dice *, const struct lengths *, struct lengths *);
/* Nearly the same lengths, for which the plan may be the same. */
void draw_similar(struct dice *, const struct lengths *, struct lengths *);
void note_shape(const attune_shape *);
void note_lengths(const struct lengths *);

/* What attune.h and README.md say of a shape. */
enum promise { IS_INVALID, IS_SUPPORTED, MAY_BE_REFUSED };
enum promise promise_of(enum where, const attune_shape *);

/* ---- api_memory.c ------------------------------------------------------------------------ */

enum { API_POISON = 0xff };

/* Memory of the device that ends, or begins, where nobody may read. */
void *guarded(struct device *, size_t bytes, int at_front);
void release_guarded(struct device *, void *);

enum array_name {
	OUT,
	Q,
	K,
	V,
	TABLE,
	STARTS,
	LENS,
	SINKS,
	SLOPES,
	K_SCALES,
	V_SCALES,
	LSE,
	K_NEW,
	V_NEW,
	NUM_ARRAYS
};
struct array {
	char *host, *device;
	size_t bytes;
};

/* A batch with its tensors. */
struct world {
	attune_shape s;
	struct device *dev;
	attune_batch batch;
	int32_t query_start[MOST_SEQS + 1], seq_lens[MOST_SEQS];
	struct array a[NUM_ARRAYS];
	attune_tensors host, device;
	size_t v_from; /* where V begins in the array of K; 0: it has its own */
	int pages;     /* of the cache */
	int entries;   /* of the block table */
	int row_pages; /* each row has so many or more; 0: the last ends with its last page in use */
	float *key, *value; /* what the cache holds, [pages][page_size][num_kv_heads][head_size] */
	float *sinks;       /* as floats */
	double largest_value, largest_score;
	int slots_in_groups; /* page strides are multiples of 8 slot strides */
};
void world_make(struct world *, struct device *, struct dice *, const attune_shape *,
		const struct lengths *);
/* The same with a block table of whole rows of row_pages entries or more. */
void world_make_wide(struct world *, struct device *, struct dice *, const attune_shape *,
		     const struct lengths *, int row_pages);
void world_free(struct world *);
void world_poison(struct world *);      /* out and lse, on the device */
void world_fetch(struct world *);       /* the same, from the device */
int is_untouched(const struct world *); /* out as world_poison left it */

/* ---- api_layout.c ------------------------------------------------------------------------ */

/* Draws strides, the number of pages and the size of each array. */
void layout_draw(struct world *, struct dice *);
void table_fill(struct world *, struct dice *);
/* The index of an element of K or V. */
int64_t element_at(const attune_shape *, const attune_tensors *, int is_v, int page, int slot,
		   int head, int e);
/* The first slot of sequence i that any of its queries sees; its length if none. */
int first_live(const struct world *, int i);

/* ---- api_values.c ------------------------------------------------------------------------ */

/* Needs the block table. */
void values_fill(struct world *, struct dice *);

/* ---- api_check.c ------------------------------------------------------------------------- */

void check_world(struct world *, struct dice *, const char *what);

/* ---- api_case.c -------------------------------------------------------------------------- */

struct planned {
	attune_op *op;
	attune_plan plan;
	struct world *w;
};
void run_case(uint64_t seed, enum where);
/* The line of the last refusal is sound; fails if the status is none of `allowed` (bits). */
void check_refusal(enum attune_status, unsigned allowed, const char *what);

/* ---- api_settle.c ------------------------------------------------------------------------ */

/* Plans of before stay right; new ones may run other launches. *some: one of the alternatives of before;
 * returns 0 if there is none. */
int settle_some(struct dice *, enum where, const struct planned *, attune_plan *some);

/* ---- api_emulated.c ---------------------------------------------------------------------- */

/* Left out of a program with LIBRARY_ALONE, which has CPU kernels of few shapes: sanitizers.mk. */
void open_emulated(attune_context **, struct dice *, enum where);
void close_emulated(void);
#ifdef LIBRARY_ALONE
#define open_emulated(ctx, dice, where) fault("the test: the emulated GPU is not linked")
#define close_emulated() ((void)0)
#endif

/* ---- api_hostile.c ----------------------------------------------------------------------- */

void hostile_shapes(struct dice *, enum where, attune_context *, const attune_shape *);
void hostile_batches(struct dice *, const struct planned *);
void hostile_runs(struct dice *, enum where, const struct planned *);
void hostile_opens(struct dice *);

#endif
