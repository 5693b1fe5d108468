/* ceilings.h - measures the limits of a GPU: bandwidth of a read, rate of matrix steps. */
#ifndef HARNESS_CEILINGS_CEILINGS_H
#define HARNESS_CEILINGS_CEILINGS_H

#include "kernels/attune.h"

struct device;

/* ---- ceilings.c ---------------------------------------------------------------- */
/* GB/s of a linear read, TFLOP/s of matrix steps on registers; 0 and a status if they cannot be
 * measured. */
enum attune_status gpu_ceilings(struct device *, double *dram_gbps, double *tflops);

/* cpu_ceilings.c */
/* The current ceilings of the CPU, to be measured in the same round as a sample: reading memory
 * (about 7 ms) and multiply-adds in registers (about 1 ms), by all threads with the widest
 * instructions. 0: not known, since other programs kept running in between or memory is short. */
double cpu_dram_gbps(struct device *);
double cpu_fma_gflops(struct device *);

#endif
