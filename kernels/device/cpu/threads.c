/* SPDX-License-Identifier: Apache-2.0 */
/* threads.c - the CPU device's threads: how many there are, a grid of cells on them, and how much
 * CPU time they got while a function ran. */
#include "cpu.h"
#include "pool.h"
#include "usable.h"
#include "kernels/spec/status.h"
#include <errno.h>
#include <stdlib.h>

enum { MAX_THREADS = 1024 };

enum attune_status cpu_find_worker_clocks(struct cpu *cpu)
{
	cpu->num_workers = pool_helpers(cpu->pool);
	cpu->worker_clock = calloc((size_t)cpu->num_workers + 1, sizeof *cpu->worker_clock);
	if (!cpu->worker_clock)
		return fail(ATTUNE_NO_MEMORY, "no memory for %d threads", cpu->threads);
	for (int i = 0; i < cpu->num_workers; i++)
		if (pool_clock(cpu->pool, i, &cpu->worker_clock[i]))
			return fail(ATTUNE_DEVICE_ERROR,
				    "the CPU clocks of the threads cannot be read");
	return ATTUNE_OK;
}

enum attune_status cpu_thread_count(int *threads)
{
	const char *text = secure_getenv("ATTUNE_THREADS");
	char *end;
	if (!text || !*text) {
		const int usable = cpu_usable();
		*threads = usable < MAX_THREADS ? usable : MAX_THREADS;
		return ATTUNE_OK;
	}
	errno = 0;
	long n = strtol(text, &end, 10);
	if (*end || errno || n < 1 || n > MAX_THREADS)
		return fail(ATTUNE_INVALID,
			    "ATTUNE_THREADS is \"%s\": a number from 1 to %d is "
			    "expected",
			    text, MAX_THREADS);
	*threads = (int)n;
	return ATTUNE_OK;
}

/* ---- time ----------------------------------------------------------------------- */

static double seconds_of(clockid_t clock)
{
	struct timespec t = { 0 };
	clock_gettime(clock, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* CPU seconds of the caller (at 0) and of each worker. */
static void read_clocks(const struct cpu *cpu, double *seconds)
{
	seconds[0] = seconds_of(CLOCK_THREAD_CPUTIME_ID);
	for (int i = 0; i < cpu->num_workers; i++)
		seconds[i + 1] = seconds_of(cpu->worker_clock[i]);
}

/* Workers that are held spin, so a thread's CPU time lags behind the wall only where another
 * program ran on its core. */
double cpu_timed(struct cpu *cpu, void (*body)(struct cpu *, void *arg), void *arg, double *share)
{
	double before[MAX_THREADS], after[MAX_THREADS];
	pool_hold(cpu->pool);
	read_clocks(cpu, before);
	const double begin = seconds_of(CLOCK_MONOTONIC);
	body(cpu, arg);
	const double wall = seconds_of(CLOCK_MONOTONIC) - begin;
	read_clocks(cpu, after);
	pool_let_go(cpu->pool);
	*share = 1;
	for (int i = 0; i <= cpu->num_workers; i++)
		if (wall > 0 && (after[i] - before[i]) / wall < *share)
			*share = (after[i] - before[i]) / wall;
	return wall;
}
