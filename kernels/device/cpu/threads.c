/* threads.c - the CPU device's threads: how many there are, a grid of cells on all of them, and how
 * much CPU time they got while a body ran. */
#include "cpu.h"
#include <errno.h>
#include <pthread.h>
#include <pthreadpool.h>
#include <sched.h>
#include <stdlib.h>

enum { MAX_THREADS = 1024 };

/* ---- a grid on all threads ------------------------------------------------------ */

struct job {
	void (*work)(void *arg, size_t i);
	void *arg;
	atomic_size_t next;
	size_t n;
};

/* One a thread. The pool itself would give each thread a fixed range of cells;
 * a shared counter starts them in order, so that a kernel can put its longest
 * cells first and the threads end together. */
static void drain(void *p, size_t thread)
{
	struct job *job = p;
	size_t i;
	(void)thread;
	while ((i = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed)) < job->n)
		job->work(job->arg, i);
}

void cpu_parallel(struct cpu *cpu, void (*work)(void *arg, size_t i), void *arg, size_t n)
{
	struct job job = { .work = work, .arg = arg, .n = n };
	size_t threads = n < (size_t)cpu->threads ? n : (size_t)cpu->threads;
	pthreadpool_parallelize_1d(cpu->pool, drain, &job, threads,
				   PTHREADPOOL_FLAG_DISABLE_DENORMALS);
}

struct roll_call {
	struct cpu *cpu;
	pthread_t caller;
	atomic_int present, clocks, failed;
};

/* Waits for all others, so that each thread answers exactly once. */
static void answer(void *p, size_t i)
{
	struct roll_call *roll = p;
	(void)i;
	if (!pthread_equal(pthread_self(), roll->caller)) {
		int at = atomic_fetch_add(&roll->clocks, 1);
		if (pthread_getcpuclockid(pthread_self(), &roll->cpu->worker_clock[at]))
			atomic_store(&roll->failed, 1);
	}
	atomic_fetch_add(&roll->present, 1);
	while (atomic_load(&roll->present) < roll->cpu->threads)
		sched_yield();
}

enum attune_status cpu_find_worker_clocks(struct cpu *cpu)
{
	struct roll_call roll = { .cpu = cpu, .caller = pthread_self() };
	cpu->worker_clock = calloc((size_t)cpu->threads, sizeof *cpu->worker_clock);
	if (!cpu->worker_clock)
		return fail(ATTUNE_NO_MEMORY, "no memory for %d threads", cpu->threads);
	cpu_parallel(cpu, answer, &roll, (size_t)cpu->threads);
	cpu->num_workers = atomic_load(&roll.clocks);
	if (atomic_load(&roll.failed))
		return fail(ATTUNE_DEVICE_ERROR, "the CPU clocks of the threads cannot be read");
	return ATTUNE_OK;
}

/* CPUs that this process may run on: a container or taskset may lend fewer than
 * are online. */
int cpu_usable(void)
{
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof set, &set))
		return 1;
	return CPU_COUNT(&set);
}

enum attune_status cpu_thread_count(int *threads)
{
	const char *text = secure_getenv("ATTUNE_THREADS");
	char *end;
	if (!text || !*text) {
		*threads = cpu_usable();
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

/* Stays until the mutex is free. */
static void *wait_for(void *mutex)
{
	pthread_mutex_lock(mutex);
	pthread_mutex_unlock(mutex);
	return NULL;
}

int cpu_try_threads(int n)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_t *thread = calloc((size_t)n + 1, sizeof *thread);
	int started = 0, error = thread ? 0 : ENOMEM;
	pthread_mutex_lock(&mutex);
	while (!error && started < n) {
		error = pthread_create(&thread[started], NULL, wait_for, &mutex);
		started += !error;
	}
	pthread_mutex_unlock(&mutex);
	while (started)
		pthread_join(thread[--started], NULL);
	free(thread);
	return error;
}

/* ---- time ----------------------------------------------------------------------- */

static double seconds_of(clockid_t clock)
{
	struct timespec t = { 0 };
	clock_gettime(clock, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void nothing(void *arg, size_t i)
{
	(void)arg, (void)i;
}

/* CPU seconds of the caller (at 0) and of each worker. */
static void read_clocks(const struct cpu *cpu, double *seconds)
{
	seconds[0] = seconds_of(CLOCK_THREAD_CPUTIME_ID);
	for (int i = 0; i < cpu->num_workers; i++)
		seconds[i + 1] = seconds_of(cpu->worker_clock[i]);
}

/* Idle workers spin for milliseconds before they sleep, so while grids follow one
 * another a thread's CPU time lags behind the wall only where another program ran
 * on its core. The empty grid wakes those that sleep. */
double cpu_timed(struct cpu *cpu, void (*body)(struct cpu *, void *arg), void *arg, double *share)
{
	double before[MAX_THREADS], after[MAX_THREADS];
	cpu_parallel(cpu, nothing, NULL, (size_t)cpu->threads);
	read_clocks(cpu, before);
	const double begin = seconds_of(CLOCK_MONOTONIC);
	body(cpu, arg);
	const double wall = seconds_of(CLOCK_MONOTONIC) - begin;
	read_clocks(cpu, after);
	*share = 1;
	for (int i = 0; i <= cpu->num_workers; i++)
		if (wall > 0 && (after[i] - before[i]) / wall < *share)
			*share = (after[i] - before[i]) / wall;
	return wall;
}
