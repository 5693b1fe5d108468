/* estimates.h - estimated times of choices in batches that were never measured, at any head size,
 * group and page size: by costs that are fitted to all times of a database (struct part_costs). */
#ifndef TESTS_COSTMODEL_ESTIMATES_H
#define TESTS_COSTMODEL_ESTIMATES_H

#include "kernels/ship/priced.h"

struct data;

struct estimate {
	struct choice choice;               /* segments do not count */
	struct part_costs at[PRICED_SIZES]; /* slots 0: too few times at that head size */
	double error[PRICED_SIZES]; /* of estimates for the times that the costs were fitted to */
	/* It has enough times, with small enough errors, to be called the fastest of a batch. */
	char is_sure[PRICED_SIZES];
};
struct estimates {
	struct device_info device;
	/* Lower bounds of any time: the least that was measured, and the device's ceilings; 0: not
	 * known. */
	double least_us, dram_gbps, fma_tflops;
	struct estimate *v;
	int n;
};

/* ---- priced_fit.c ------------------------------------------------------------------------ */
/* Fits the costs of a choice in kernels/ship/untuned_costs.c, by head size, to all its times in
 * parts of the phase. Costs stay 0 at a head size with too few times. 0: no memory. */
int priced_fit(struct priced *, const struct data *);
/* Of the choices that a header names or the library prices. NULL: no memory. */
struct estimates *estimates_new(const struct data *, enum phase);

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
