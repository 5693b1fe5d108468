/* SPDX-License-Identifier: Apache-2.0 */
/* space.h - the axes of a kernel, the rules that say which of their values run a part of a batch, and
 * the launch that follows. space.c makes one from each .def. */
#ifndef KERNELS_SPEC_SPACE_H
#define KERNELS_SPEC_SPACE_H

#include "choice.h"

struct block_shape;
struct device_info;
struct formula;
struct part;

struct axis {
	const char *name, *about;
	int is_static; /* compiled in; else a launch argument */
	int is_option; /* texts and flags omit it at its default */
	int lanes;     /* only devices with this many lanes sweep it; 0: all, -1: none */
	int dflt;
	const int *values;
	int num_values;
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

/* Work items of a launch. */
long long geometry_items(const struct geometry *);
/* Blocks of this geometry that fit the shared memory of a unit. */
int blocks_resident(const struct geometry *, const struct device_info *);
/* Whether sweeps on a device with so many lanes go through the values of the axis. */
int axis_is_swept(const struct axis *, int lanes);
/* The number of that axis; -1: the kernel has none. */
int space_spares(const struct space *);
/* Lets a choice leave `units` to a concurrent launch. 0, and unchanged: it cannot, running this
 * part. */
int config_spare(struct config *, const struct space *, int units, const attune_shape *,
		 const struct part *, const struct device_info *);

#endif
