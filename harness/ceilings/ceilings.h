/* SPDX-License-Identifier: Apache-2.0 */
/* ceilings.h - measures the limits of a device: the bandwidth of reads, and the rate of matrix steps
 * (GPU) or of multiply-adds (CPU). */
#ifndef HARNESS_CEILINGS_CEILINGS_H
#define HARNESS_CEILINGS_CEILINGS_H

#include "kernels/attune.h"

struct device;

/* ---- ceilings.c ---------------------------------------------------------------- */
/* GB/s of a linear read, TFLOP/s of matrix steps on registers; 0 and a status if they cannot be
 * measured. */
enum attune_status gpu_ceilings(struct device *, double *dram_gbps, double *tflops);

/* ---- cpu_ceilings.c ------------------------------------------------------------ */
/* What the CPU can do at present, with all threads and the widest instructions: memory reads (about
 * 7 ms) and multiply-adds in registers (about 1 ms). 0: not measured, because other programs kept
 * running in between, or there is no memory for the reads. */
double cpu_dram_gbps(struct device *);
double cpu_fma_gflops(struct device *);

#endif
