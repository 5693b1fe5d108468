/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h - the table of kernels, their configs, binaries and helpers. */
#ifndef KERNELS_SPEC_KERNEL_H
#define KERNELS_SPEC_KERNEL_H

#include "choice.h"

struct block_shape;
struct device_info;
struct formula;
struct geometry;
struct part;
struct segment_costs;

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
void kernel_arch(char text[CODE_ARCH], const struct kernel *, const char *arch);
void config_default(struct config *, const struct space *);
/* Iterate over all points of a sweep on a device with so many lanes, last axis fastest; 0 after the
 * last. Only numbers are measured, no formulas. Axes that are not swept there stay at their
 * defaults. */
void config_first(struct config *, const struct space *, int lanes);
int config_next(struct config *, const struct space *, int lanes);
int axis_named(const struct space *, const char *name); /* -1: none */
int config_value(const struct config *, const struct space *, const char *axis, int absent);
/* formula.c. The value "fitted" of the formula axis: the number of segments follows from the
 * header's costs for this choice and head size. */
enum { SEGMENTS_FITTED = 0 };
int config_is_fitted(const struct config *, const struct space *);
int config_is_formula(const struct config *, const struct space *);
/* *out: c with its formula replaced by a number for this part, the legal value with the least
 * estimate (of equals the smallest); c itself if it has no formula. Returns NULL, or why no value
 * is legal. */
const char *config_resolve(struct config *out, const struct config *c, const struct kernel *,
			   const attune_shape *, const struct part *, const struct device_info *);
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
void entry_name(char text[ENTRY_TEXT], const char *kernel, const char *flags);
void formula_text(char text[FORMULA_TEXT], const struct formula *);
/* Hash of a kernel's tunables: names and values of its axes and its formulas, without defaults and
 * prose. Rules learned for the kernel are valid while it stays the same. */
unsigned long long kernel_hash(const struct kernel *);
/* Hash of the names of features and of segment costs, the terms of rules. */
unsigned long long rules_hash(void);
/* Adds a text and its end to a hash, which begins as HASH_START. */
#define HASH_START 14695981039346656037ull
unsigned long long hash_word(unsigned long long, const char *);

#endif
