/* SPDX-License-Identifier: Apache-2.0 */
/* estimates.h - estimated times of choices in batches that were never measured, at any head size,
 * group and page size: by costs that are fitted to all times of a database (struct part_costs). */
#ifndef TESTS_COSTMODEL_ESTIMATES_H
#define TESTS_COSTMODEL_ESTIMATES_H

#include "kernels/segments.h"
#include "kernels/spec/choice.h"
#include "kernels/spec/device_info.h"

struct data;
struct selector;

/* The terms of a choice's time at one head size, in femtoseconds (tuner/costmodel/costmodel.h): the
 * launch, the segments, and for each of these amounts of the part. */
struct part_costs {
	int head_size;
	struct segment_costs segments;
	long long launch, total, kib, rows;
};

enum { ESTIMATE_SIZES = 3 };

struct estimate {
	struct choice choice;               /* segments do not count */
	struct part_costs at[ESTIMATE_SIZES]; /* slots 0: too few times at that head size */
	double error[ESTIMATE_SIZES]; /* of estimates for the times that the costs were fitted to */
	/* It has enough times, with small enough errors, to be called the fastest of a batch. */
	char is_sure[ESTIMATE_SIZES];
};
struct estimates {
	struct device_info device;
	/* Lower bounds of any time: the least that was measured, and the device's ceilings; 0: not
	 * known. */
	double least_us, dram_gbps, fma_tflops;
	struct estimate *v;
	int n;
};

/* ---- estimates_fit.c --------------------------------------------------------------------- */
/* Of the choices that a header or `also` names (NULL: no other one) and of some more. NULL: no memory. */
struct estimates *estimates_new(const struct data *, const struct selector *also, enum phase);

/* ---- estimates.c ------------------------------------------------------------------------- */
void estimates_free(struct estimates *);
/* Us of a part by a concrete choice, and the relative error of such estimates; INFINITY: not
 * known. */
double estimate_us(const struct estimates *, const struct choice *, const struct part *,
		   double *error);
/* The least time of the choices that are legal for the part and whose estimates are sure; INFINITY
 * and a NULL kernel: there is none. */
double estimate_least(const struct estimates *, const attune_shape *, const struct part *,
		      struct choice *);

#endif
