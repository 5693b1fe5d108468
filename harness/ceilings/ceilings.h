/* ceilings.h - what a device gives at most without attention: bandwidth of reads, time of a launch.
 * Includes base, compile, measure, store. */
#ifndef HARNESS_CEILINGS_CEILINGS_H
#define HARNESS_CEILINGS_CEILINGS_H

#include "kernels/attune.h"

struct device;

/* ---- ceilings.c ---------------------------------------------------------------- */
/* GB/s of a linear read, TFLOP/s of matrix steps from registers; 0 and a status where
 * they cannot be measured. */
enum attune_status gpu_ceilings(struct device *, double *dram_gbps, double *tflops);

#endif
