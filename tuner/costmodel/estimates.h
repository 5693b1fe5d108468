/* estimates.h - estimated times of choices in batches that were never measured, at any head size, group
 * and page size: by costs fitted to all times of a database (struct part_costs). */
#ifndef TUNER_COSTMODEL_ESTIMATES_H
#define TUNER_COSTMODEL_ESTIMATES_H

#include "kernels/ship/priced.h"

struct data;

struct estimate {
	struct choice choice;               /* segments do not count */
	struct part_costs at[PRICED_SIZES]; /* slots 0: hardly measured at that head size */
	double error[PRICED_SIZES]; /* of estimates for the times that the costs were fitted to */
	/* Measured often enough, and the error is small enough, to say of a batch that it would be
	 * the fastest. */
	char is_sure[PRICED_SIZES];
};
struct estimates {
	struct device_info device;
	enum phase phase;
	/* What no time is below: the least that was measured, and the work at the device's measured
	 * ceilings; 0: not known. */
	double least_us, dram_gbps, fma_tflops;
	struct estimate *v;
	int n;
};

/* priced_fit.c: of the choices that were measured often, and of those that the header of the GPU
 * names. NULL without memory. */
struct estimates *estimates_new(const struct data *, enum phase);
void estimates_free(struct estimates *);
/* Us of a part by a concrete choice, and the relative error of such estimates; INFINITY: not known. */
double estimate_us(const struct estimates *, const struct choice *, const struct part *,
		   double *error);
/* The least of the choices that are legal for the part and whose estimates are sure; INFINITY, and no kernel: none is known. */
double estimate_least(const struct estimates *, const attune_shape *, const struct part *,
		      struct choice *);

#endif
