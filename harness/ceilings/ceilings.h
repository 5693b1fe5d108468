/* ceilings.h - measures the limits of a GPU: bandwidth of a read, rate of matrix steps. */
#ifndef HARNESS_CEILINGS_CEILINGS_H
#define HARNESS_CEILINGS_CEILINGS_H

#include "kernels/attune.h"

struct device;

/* ---- ceilings.c ---------------------------------------------------------------- */
/* GB/s of a linear read, TFLOP/s of matrix steps on registers; 0 and a status if they cannot be
 * measured. */
enum attune_status gpu_ceilings(struct device *, double *dram_gbps, double *tflops);

#endif
