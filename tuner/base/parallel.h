/* parallel.h - runs independent tasks on all CPUs. */
#ifndef TUNER_BASE_PARALLEL_H
#define TUNER_BASE_PARALLEL_H

#include <stddef.h>

/* Calls task(arg, i) for 0 <= i < n, in any order and several at a time; returns when all are done.
 * A task writes nothing that another one reads or writes, so that results do not depend on the
 * order. */
void in_parallel(int n, void (*task)(void *arg, size_t i), void *arg);

#endif
