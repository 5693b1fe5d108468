/* openmp.h - regions of OpenMP on attune's threads, for adapters of CPU kernels.
 *
 * Kernels that are compiled with GCC's -fopenmp call the functions of openmp.c in place of
 * libgomp's. So they run on the threads that run attune's kernels, and no thread of another pool
 * spins beside either. */
#ifndef ATTUNE_ADAPTERS_OPENMP_H
#define ATTUNE_ADAPTERS_OPENMP_H

#include "attune_plugin.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Before the first region, from the device that prepare was given. */
void openmp_use(const attune_plugin_device *device);

/* What GCC calls for a region, and what code inside calls. Regions come from one thread; a region
 * inside of a region has one thread. Work sharing is static; there are no tasks. */
void GOMP_parallel(void (*body)(void *data), void *data, unsigned num_threads, unsigned flags);
void GOMP_barrier(void);
bool GOMP_single_start(void); /* true for one thread of the region */
int omp_get_thread_num(void);
int omp_get_num_threads(void);
int omp_get_max_threads(void);

#ifdef __cplusplus
}
#endif
#endif
