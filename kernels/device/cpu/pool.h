/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - a pool of threads that runs grids of cells for the CPU device. Its aim is that no grid
 * takes longer than on the calling thread alone, also where other programs use the CPUs:
 *
 *   - The caller takes cells itself. It waits only for helpers that are computing a cell, never for
 *     one that the system has yet to schedule.
 *   - No more threads take cells than the process may use CPUs.
 *   - A helper that made the caller wait because another program had its CPU skips some grids.
 *   - A waiting thread yields its CPU, and sleeps after a short time. */
#ifndef KERNELS_DEVICE_CPU_POOL_H
#define KERNELS_DEVICE_CPU_POOL_H

#include <stddef.h>
#include <time.h>

struct pool;

/* Bytes of a stack on which cells run, a multiple of 64 KiB: the system's default for threads, but
 * at least 2 MiB. The largest scratch of a cell is 1.25 MiB (kernels/cpu/qblock.def). */
size_t pool_stack_bytes(void);

/* Starts threads - 1 helpers, of which the first usable - 1 compute grids. Returns 0, or the error
 * number of the thread that could not be started. */
int pool_open(struct pool **pool, int threads, int usable);
void pool_close(struct pool *pool);

/* Helpers that compute grids. */
int pool_helpers(const struct pool *pool);
/* The CPU time of helper i; 0, or an error number. */
int pool_clock(const struct pool *pool, int i, clockid_t *clock);

/* Runs work(arg, i) once for each i below n, started in order of i, in the environment of
 * float_mode.h. The caller's floating-point environment is restored at the end. */
void pool_run(struct pool *pool, void (*work)(void *arg, size_t i), void *arg, size_t n);
/* The same on all threads, also where these are more than the usable CPUs: for work that waits for
 * other work of the grid. n up to the number of threads run at a time. */
void pool_run_together(struct pool *pool, void (*work)(void *arg, size_t i), void *arg, size_t n);

/* For measuring: between hold and let_go active helpers neither sleep nor skip grids. */
void pool_hold(struct pool *pool);
void pool_let_go(struct pool *pool);

#endif
