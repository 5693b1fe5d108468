/* SPDX-License-Identifier: Apache-2.0 */
/* choice.h - a kernel with a value for each of its axes, and what nearly every file needs of a kernel.
 *
 *   kernels.def   --> struct kernel, one row each                 (kernel.h)
 *   <kernel>.def  --> struct space: axes, rules, geometry         (space.h)
 *   a choice      = a kernel and a value for each of its axes
 *                 = "segmented BLOCK_M=16 TILE_SIZE=64 ... SEGMENTS=8"
 *   a binary      = a kernel and its -D flags: the STATIC axes of a choice
 *                   and what the shape compiles in (GIVEN)
 *                 = "segmented -DHEAD_SIZE=128 -DDTYPE=BF16 ... -DTILE_SIZE=64"
 *
 * Choices and binaries have these two texts as names everywhere: in the database, in generated
 * headers, in caches, on the command line. */
#ifndef KERNELS_SPEC_CHOICE_H
#define KERNELS_SPEC_CHOICE_H

#include "kernels/attune.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { MAX_AXES = 14, MAX_FLAGS = 512, MAX_CHOICE_TEXT = 224, FORMULA_TEXT = 64 };
enum { CODE_ARCH = 20, ENTRY_TEXT = MAX_FLAGS + 64 };
enum { MAX_PART_TEXT = MAX_CHOICE_TEXT + 32 }; /* a choice with its kernel's name */

enum backend { BACKEND_CPU, BACKEND_GPU };

struct attune_plugin;
struct space;

/* Values in the order of the space's axes. On the formula axis v < 0 is formula number -1 - v: see
 * config_resolve. */
struct config {
	int v[MAX_AXES];
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

/* "segmented TILE_SIZE=64 ... SEGMENTS=8" */
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
const char *dtype_name(enum attune_dtype); /* "F32" "F16" "BF16" "E4M3" */
int dtype_bytes(enum attune_dtype);

#endif
