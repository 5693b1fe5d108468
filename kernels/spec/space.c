/* SPDX-License-Identifier: Apache-2.0 */
/* space.c - turns one <kernel>.def into one struct space. The Makefile compiles this file once per
 * .def, with SPACE the path and NAME the symbol. Each inclusion of each.inc defines some words of
 * the .def and ignores the rest:
 *
 *   GIVEN(NAME, text)                  a flag that the shape sets
 *   GIVEN_WHERE(condition, NAME, text) the same, for some shapes
 *   STATIC(NAME, default, about, ...)  a tunable that is compiled in
 *   OPTION(NAME, default, about, ...)  a STATIC that was added later: texts and flags omit it at
 *                                      its default; not swept
 *   AMD_OPTION(NAME, ...)              an OPTION that is swept on AMD GPUs
 *   LAUNCH(NAME, default, about, ...)  a tunable passed at launch
 *   LATER(NAME, default, about, ...)   a LAUNCH that was added later, omitted as an OPTION is
 *   SWEPT_OPTION(NAME, ...) SWEPT_LATER(NAME, ...)  OPTION and LATER that are swept
 *   BEGINS_EARLY(NAME, default, about, ...)  a LAUNCH, omitted as an OPTION is. Not 0: the kernel
 *                                      is launched early if the caller lets it, else it is run as
 *                                      if it were 0; swept with --early alone
 *   FORMULAS(NAME, { ... }, ...)       for a LAUNCH: formulas that give its value per batch
 *   LET(name, expression)              names an int for the words below
 *   RULE(legal, why not)               may use the axes, shape s and device d
 *   BATCH_RULE(legal, why not)         may also use part p of the batch
 *   GRID(x, y, z) BLOCK(threads) SMEM(bytes) SEGMENTED(parts)
 *   REDUCED_WIDE(yes)                  reduce_wide merges the segments, not reduce
 *   CLUSTER(n)                         n neighbours in y form a cluster: they run together and see
 *                                      each other's shared memory
 *   SCRATCH(bytes, zeroed)             bytes of the workspace for args.scratch
 *   PARTIALS(rows)                     rows of partials that the kernel itself merges
 *   PASS(n, value)                     sets args.option[n]
 *   ESTIMATE(value)                    an int that geometry derived from the part's features: the
 *                                      plan keeps it, and launches have it as p->estimated
 *   ITEMS(n)                           work items, if the grid's blocks loop over them
 *   AT_ONCE(n)                         blocks that run at a time, if the kernel sees to that;
 *                                      default: as many as shared memory holds
 *   SCHEDULED(1)                       reads a list of Q blocks that is made beforehand
 *   FUSED(1)                           runs batches with both parts, in one launch
 *   BLOCK_HEADS(n)                     most heads of a KV head in a Q block, by the axes; 0, the
 *                                      default: as many as it has rows for
 *   KV_LAYOUT(CLASSIC)                 the layout of K and V that it reads (attune.h); ANY: reads
 *                                      none; default: STRIDED
 *   TAKES_MORE(1)                      takes args_more.h: reads E4M3 caches, gives the LSE
 *   LOOKS_AHEAD(1)                     reads the block table, up to args.table_last, before it
 *                                      knows the lengths
 *   MAPS(tokens)                       takes args_maps.h: maps of K and V by boxes of so many
 *                                      tokens; 0: no maps are made
 *   ARCH_SPECIFIC(1)                   its code is compiled for one chip alone: kernel_arch() */
#include "device_info.h"
#include "part.h"
#include "space.h"
#include "kernels/spec/mixed.h"
#include "kernels/gpu/helpers/schedule_list.h"
#include <stdio.h>

#define STATIC(axis, dflt, about, ...) static const int axis##_values[] = { __VA_ARGS__ };
#define LAUNCH STATIC
#define OPTION STATIC
#define AMD_OPTION STATIC
#define LATER STATIC
#define SWEPT_OPTION STATIC
#define SWEPT_LATER STATIC
#define BEGINS_EARLY STATIC
#include "each.inc"

enum { AMD_LANES = 64 };
#define AXIS(axis, is_static, is_option, lanes, dflt, about) \
	{ #axis, about, is_static, is_option, lanes, dflt, axis##_values, COUNT(axis##_values) },
#define STATIC(axis, dflt, about, ...) AXIS(axis, 1, 0, 0, dflt, about)
#define OPTION(axis, dflt, about, ...) AXIS(axis, 1, 1, -1, dflt, about)
#define AMD_OPTION(axis, dflt, about, ...) AXIS(axis, 1, 1, AMD_LANES, dflt, about)
#define LAUNCH(axis, dflt, about, ...) AXIS(axis, 0, 0, 0, dflt, about)
#define LATER(axis, dflt, about, ...) AXIS(axis, 0, 1, -1, dflt, about)
#define SWEPT_OPTION(axis, dflt, about, ...) AXIS(axis, 1, 1, 0, dflt, about)
#define SWEPT_LATER(axis, dflt, about, ...) AXIS(axis, 0, 1, 0, dflt, about)
#define BEGINS_EARLY(axis, dflt, about, ...) AXIS(axis, 0, 1, -1, dflt, about)
static const struct axis axes[] = {
#include "each.inc"
	{ 0 }
};

#define STATIC(axis, ...) axis##_at,
#define LAUNCH STATIC
#define OPTION STATIC
#define AMD_OPTION STATIC
#define LATER STATIC
#define SWEPT_OPTION STATIC
#define SWEPT_LATER STATIC
#define BEGINS_EARLY STATIC
enum {
#include "each.inc"
	NUM_AXES
};
_Static_assert((int)NUM_AXES <= (int)MAX_AXES, "raise MAX_AXES");

#define FORMULAS(axis, ...) __VA_ARGS__,
static const struct formula formulas[] = {
#include "each.inc"
	{ 0 }
};

#define FORMULAS(axis, ...) +1 + axis##_at
enum {
	FORMULA_AXIS = -1
#include "each.inc"
};

#define BEGINS_EARLY(axis, ...) +1 + axis##_at
enum {
	EARLY_AXIS = -1
#include "each.inc"
};

#define KV_LAYOUT_CLASSIC ATTUNE_KV_CLASSIC
#define KV_LAYOUT(which) +KV_LAYOUT_##which
enum {
	LAYOUT = ATTUNE_KV_STRIDED
#include "each.inc"
};

#define LAYOUT_WHY                                                     \
	((int)LAYOUT == ATTUNE_KV_CLASSIC                              \
	     ? "reads the cache in the classic layout, not by strides" \
	     : "reads the cache by strides, not in the classic layout")

#define TAKES_MORE(yes) +yes
enum {
	HAS_MORE = 0
#include "each.inc"
};

#define LSE_WHY "does not give the LSE of rows"
#define E4M3_WHY "reads caches of 16 and 32 bits, not E4M3"

/* Why a kernel without TAKES_MORE cannot run the shape; NULL: it can. */
static const char *why_more(const attune_shape *s)
{
	if (HAS_MORE || (int)LAYOUT == KV_LAYOUT_ANY)
		return NULL;
	return s->has_lse ? LSE_WHY : s->kv_dtype == ATTUNE_E4M3 ? E4M3_WHY : NULL;
}

#define NAME_AXIS(axis, ...)              \
	const int axis = c->v[axis##_at]; \
	(void)axis;
#define NAME_LET(name, expression)          \
	const int name = (int)(expression); \
	(void)name;

static const char *why_illegal(const struct config *c, const attune_shape *s, const struct part *p,
			       const struct device_info *d)
{
	(void)c, (void)s, (void)p, (void)d;
	if (p && FORMULA_AXIS >= 0 && c->v[FORMULA_AXIS] <= 0)
		return "a formula has no value before config_resolve";
	if ((int)LAYOUT != KV_LAYOUT_ANY && (int)s->kv_layout != (int)LAYOUT)
		return LAYOUT_WHY;
	if (why_more(s))
		return why_more(s);
#define STATIC NAME_AXIS
#define OPTION NAME_AXIS
#define AMD_OPTION NAME_AXIS
#define LAUNCH NAME_AXIS
#define LATER NAME_AXIS
#define SWEPT_OPTION NAME_AXIS
#define SWEPT_LATER NAME_AXIS
#define BEGINS_EARLY NAME_AXIS
#include "each.inc"
#define LET NAME_LET
#define RULE(legal, why) \
	if (!(legal))    \
		return why;
#define BATCH_RULE(legal, why) \
	if (p && !(legal))     \
		return why;
#include "each.inc"
	return NULL;
}

static void geometry(const struct config *c, const attune_shape *s, const struct part *p,
		     const struct device_info *d, struct geometry *g)
{
	(void)c, (void)s, (void)p, (void)d;
	*g = (struct geometry){ .x = 1, .y = 1, .z = 1, .threads = 1, .segments = 1 };
#define STATIC NAME_AXIS
#define OPTION NAME_AXIS
#define AMD_OPTION NAME_AXIS
#define LAUNCH NAME_AXIS
#define LATER NAME_AXIS
#define SWEPT_OPTION NAME_AXIS
#define SWEPT_LATER NAME_AXIS
#define BEGINS_EARLY NAME_AXIS
#include "each.inc"
#define LET NAME_LET
#define GRID(gx, gy, gz) g->x = (unsigned)(gx), g->y = (unsigned)(gy), g->z = (unsigned)(gz);
#define BLOCK(n) g->threads = (unsigned)(n);
#define SMEM(n) g->smem = (unsigned)(n);
#define SEGMENTED(n) g->segments = (n);
#define REDUCED_WIDE(yes) g->reduced_wide = (yes);
#define SCRATCH(bytes, zeroed) g->scratch = (size_t)(bytes), g->scratch_zeroed = (zeroed);
#define PASS(n, value) g->option[n] = (int)(value);
#define ITEMS(n) g->items = (n);
#define ESTIMATE(value) g->estimate = (value);
#define AT_ONCE(n) g->at_once = (n);
#define CLUSTER(n) g->cluster = (unsigned)(n);
#define MAPS(n) g->map_box = (n);
#define PARTIALS(rows) g->partials = (size_t)(rows);
#include "each.inc"
}

static int block_heads(const struct config *c)
{
	int heads = 0;
	(void)c;
#define STATIC NAME_AXIS
#define OPTION NAME_AXIS
#define AMD_OPTION NAME_AXIS
#define LAUNCH NAME_AXIS
#define LATER NAME_AXIS
#define SWEPT_OPTION NAME_AXIS
#define SWEPT_LATER NAME_AXIS
#define BEGINS_EARLY NAME_AXIS
#define BLOCK_HEADS(n) heads = (n);
#include "each.inc"
	return heads;
}

static const char *number(char text[16], int n)
{
	snprintf(text, 16, "%d", n);
	return text;
}

static int given(char *text, size_t size, const attune_shape *s)
{
	char digits[16];
	size_t n = 0;
	(void)s, (void)digits, (void)number;
	if (size)
		text[0] = '\0';
#define NUMBER(x) number(digits, x)
#define GIVEN(name, word) \
	if (n < size)     \
		n += (size_t)snprintf(text + n, size - n, "%s-D" #name "=%s", n ? " " : "", word);
#define GIVEN_WHERE(condition, name, word) \
	if (condition)                     \
	GIVEN(name, word)
#include "each.inc"
	return (int)n;
}

#define RULE(legal, why) why,
#define BATCH_RULE(legal, why) why,
static const char *const rules[] = { LAYOUT_WHY, LSE_WHY, E4M3_WHY,
#include "each.inc"
				     NULL };

#define SEGMENTED(n) +1
enum {
	REDUCES = 0
#include "each.inc"
};

#define REDUCED_WIDE(yes) +1
enum {
	REDUCES_WIDE = 0
#include "each.inc"
};

#define FUSED(yes) +yes
enum {
	IS_FUSED = 0
#include "each.inc"
};

#define SCHEDULED(yes) +yes
enum {
	IS_SCHEDULED = 0
#include "each.inc"
};

#define LOOKS_AHEAD(yes) +yes
enum {
	IS_AHEAD = 0
#include "each.inc"
};

#define MAPS(tokens) +1
enum {
	HAS_MAPS = 0
#include "each.inc"
};

#define ARCH_SPECIFIC(yes) +yes
enum {
	IS_ARCH_SPECIFIC = 0
#include "each.inc"
};

extern const struct space NAME;
// clang-format off
const struct space NAME = {
	axes,         NUM_AXES, FORMULA_AXIS,    formulas,    COUNT(formulas) - 1,
	why_illegal,  geometry, given,           rules,       IS_FUSED,
	IS_SCHEDULED, LAYOUT,   REDUCES,         REDUCES_WIDE, block_heads, EARLY_AXIS,
	HAS_MORE,     HAS_MAPS, IS_ARCH_SPECIFIC, IS_AHEAD
};
// clang-format on
