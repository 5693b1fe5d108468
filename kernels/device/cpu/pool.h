/* pool.h - a pool of threads that runs grids of work for the CPU device, and never makes a grid slower
 * than the calling thread alone would be:
 *
 *   - The caller takes cells itself, and waits only for helpers that are computing a cell, never for
 *     one that the system has not started yet.
 *   - Not more threads take cells than the process may use CPUs.
 *   - A helper that made the caller wait, since another program had its CPU, sits out a while.
 *   - What waits sleeps after a short time, and gives up its CPU before. */
#ifndef KERNELS_DEVICE_CPU_POOL_H
#define KERNELS_DEVICE_CPU_POOL_H

#include <stddef.h>
#include <time.h>

struct pool;

/* Bytes of a stack on which cells run, a multiple of 64 KiB: what threads have without a wish, and at
 * least room for the largest scratch of a cell (1.25 MiB, kernels/cpu/qblock.def). */
size_t pool_stack_bytes(void);

/* Starts threads - 1 helpers, of which as many compute grids as `usable` CPUs allow. Returns 0, or
 * the error number of what could not be started. */
int pool_open(struct pool **pool, int threads, int usable);
void pool_close(struct pool *pool);

/* Helpers that compute grids. */
int pool_helpers(const struct pool *pool);
/* The CPU time of helper i; 0, or an error number. */
int pool_clock(const struct pool *pool, int i, clockid_t *clock);

/* Runs work(arg, i) once for each i below n, and starts them in order of i. In each thread denormal
 * floats are zeros, sums round to nearest and no exception traps; the caller then has its own
 * floating-point environment again. */
void pool_run(struct pool *pool, void (*work)(void *arg, size_t i), void *arg, size_t n);
/* The same, for work that waits for others of the grid: n up to the number of threads run at a
 * time, on all CPUs or not. */
void pool_run_together(struct pool *pool, void (*work)(void *arg, size_t i), void *arg, size_t n);

/* For measuring: between hold and let_go helpers neither sleep nor sit out. */
void pool_hold(struct pool *pool);
void pool_let_go(struct pool *pool);

#endif
