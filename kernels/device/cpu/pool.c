/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - the threads of a CPU device (pool.h).
 *
 * `door` is the state of the current grid. While OPEN is set, helpers may enter: each counts itself
 * in, takes cells by a shared counter until none is left, and counts itself out. By the counter
 * cells start in order and threads end at nearly the same time. The caller takes cells, too, then
 * clears OPEN and waits until no helper is inside. A helper that comes later does not enter.
 *
 *   door   number of the grid (32 bits) | OPEN, TOGETHER | helpers inside (16 bits) */
#include "pool.h"
#include "float_mode.h"
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define INSIDE 0xffffull
#define OPEN 0x10000ull
#define TOGETHER 0x20000ull
#define GRID_SHIFT 32

/* A waiting thread yields its CPU every YIELD_NS and sleeps after AWAKE_NS. To wake it costs the
 * caller a system call, and grids follow one another soon: within a call and from layer to layer.
 * So it does not sleep at once. */
enum { YIELD_NS = 10000, AWAKE_NS = 300000, PAUSES = 4, WAKE_AT_ONCE = 2 };
/* A helper that was late skips the next LEAST_OUT grids, and each further time twice as many as the
 * last time, up to MOST_OUT times the helpers. After CLEAN grids in which it was not late it begins
 * with LEAST_OUT again. So a helper that is often late delays few grids. */
enum { LEAST_OUT = 8, MOST_OUT = 512, CLEAN = 100 };

struct helper {
	_Alignas(64) atomic_uint asleep; /* a futex: 1: sleeps, or is about to */
	atomic_uint back;                /* number of the first grid that it no longer skips */
	int out, clean;                  /* grids that it skipped last time; not late in since */
	unsigned seen;                   /* number of the last grid that it has seen */
	long long idle;                  /* ns: since when it has no work */
	long preempted;                  /* how often it was preempted before this grid */
	int number;
	struct pool *pool;
	pthread_t thread;
};

struct pool {
	pthread_mutex_t caller; /* one grid at a time */
	void (*work)(void *arg, size_t i);
	void *arg;
	size_t n;
	int threads, active; /* active: helpers that take part in a grid that is not TOGETHER */
	atomic_int held, closing;
	atomic_llong begun;        /* ns: when the grid began */
	atomic_llong waiting;      /* ns: since when its caller waits; 0: it does not */
	int to_wake;               /* helpers below this number may be woken for the grid */
	atomic_int woken;          /* helpers below this number were woken for it, or were awake */
	atomic_uint caller_asleep; /* a futex */
	_Alignas(64) atomic_ullong door;
	_Alignas(64) atomic_size_t next;
	struct helper helper[];
};

/* ---- waiting -------------------------------------------------------------------------- */

static long long now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1000000000ll * t.tv_sec + t.tv_nsec;
}

static void sleep_while(atomic_uint *word, unsigned value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(atomic_uint *word)
{
	if (atomic_load(word) && atomic_exchange(word, 0))
		syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Spins for a moment of a wait that began at `begin`. *yielded: when the thread last yielded its
 * CPU. Returns how long it has waited. */
static long long pass_time(long long begin, long long *yielded)
{
	for (int i = 0; i < PAUSES; i++) {
#if defined(__x86_64__) || defined(__i386__)
		__builtin_ia32_pause();
#elif defined(__aarch64__)
		__asm__ volatile("isb");
#endif
	}
	const long long now = now_ns();
	if (now - *yielded > YIELD_NS) {
		sched_yield();
		*yielded = now;
	}
	return now - begin;
}

/* ---- cells ---------------------------------------------------------------------------- */

/* Returns how many cells this thread took. */
static size_t drain(struct pool *pool)
{
	size_t i, taken = 0;
	for (; (i = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed)) < pool->n;
	     taken++)
		pool->work(pool->arg, i);
	return taken;
}

static unsigned number_of(unsigned long long door)
{
	return (unsigned)(door >> GRID_SHIFT);
}

/* Whether the helper takes part in the grid. */
static int takes_part(const struct helper *h, unsigned long long door)
{
	const struct pool *pool = h->pool;
	if (door & TOGETHER)
		return 1;
	/* Grids that it still skips; huge where `back` has passed: numbers wrap around. */
	const unsigned left = atomic_load(&h->back) - number_of(door);
	return h->number < pool->active &&
	       (atomic_load(&pool->held) || left - 1 >= (unsigned)(MOST_OUT * pool->active));
}

/* Wakes the next WAKE_AT_ONCE helpers that sleep. Each of them then wakes others. */
static void wake_others(struct pool *pool, unsigned long long door)
{
	for (int n = 0; n < WAKE_AT_ONCE;) {
		const int i = atomic_fetch_add(&pool->woken, 1);
		if (i >= pool->to_wake)
			return;
		struct helper *h = &pool->helper[i];
		if (!takes_part(h, door) || !atomic_load(&h->asleep))
			continue;
		wake(&h->asleep);
		n++;
	}
}

/* ---- helpers -------------------------------------------------------------------------- */

static long preemptions(void)
{
	struct rusage use;
	return getrusage(RUSAGE_THREAD, &use) ? 0 : use.ru_nivcsw;
}

/* Returns 1 if the helper entered the grid, 0 if it takes no part or comes too late. */
static int enter(struct helper *h, unsigned long long door)
{
	h->seen = number_of(door);
	if (!takes_part(h, door))
		return 0;
	while (door & OPEN && number_of(door) == h->seen)
		if (atomic_compare_exchange_weak(&h->pool->door, &door, door + 1))
			return 1;
	return 0;
}

/* Whether the grid would have ended earlier, by more than an eighth of the time, if this helper had
 * left its cells to the other threads; and whether another thread took its CPU during the grid. */
static int was_late(const struct helper *h, size_t taken)
{
	const long long begun = atomic_load(&h->pool->begun), n = (long long)h->pool->n;
	const long long waiting = atomic_load(&h->pool->waiting);
	const double without = 1.125 * (double)(waiting - begun) * (double)n;
	return waiting && (double)(now_ns() - begun) * (double)(n - (long long)taken) > without &&
	       preemptions() != h->preempted;
}

static void judge(struct helper *h, size_t taken)
{
	const int most = MOST_OUT * h->pool->active;
	if (atomic_load(&h->pool->held))
		return;
	if (was_late(h, taken)) {
		h->out = !h->out ? LEAST_OUT : 2 * h->out < most ? 2 * h->out : most;
		h->clean = 0;
		atomic_store(&h->back, h->seen + (unsigned)h->out);
	} else if (h->out && ++h->clean == CLEAN) {
		h->out = 0;
		h->clean = 0;
	}
}

static void leave(struct helper *h, size_t taken)
{
	judge(h, taken);
	const unsigned long long door = atomic_fetch_sub(&h->pool->door, 1) - 1;
	if (!(door & (OPEN | INSIDE)))
		wake(&h->pool->caller_asleep);
	h->idle = now_ns();
}

static int stays_awake(const struct helper *h, long long idle_ns)
{
	return idle_ns < AWAKE_NS || (atomic_load(&h->pool->held) && h->number < h->pool->active);
}

/* Waits for the next grid. Returns the door. */
static unsigned long long next_grid(struct helper *h)
{
	struct pool *pool = h->pool;
	long long yielded = h->idle;
	unsigned long long door;
	h->preempted = preemptions();
	while (number_of(door = atomic_load(&pool->door)) == h->seen) {
		if (stays_awake(h, pass_time(h->idle, &yielded)))
			continue;
		atomic_store(&h->asleep, 1);
		if (number_of(atomic_load(&pool->door)) == h->seen)
			sleep_while(&h->asleep, 1);
		atomic_store(&h->asleep, 0);
		h->idle = yielded = now_ns();
	}
	if (yielded != h->idle) /* to yield the CPU counts as a preemption */
		h->preempted = preemptions();
	return door;
}

static void *help(void *arg)
{
	struct helper *h = arg;
	struct float_mode before; /* not restored: it may be what a plug-in's cell left */
	h->idle = now_ns();
	while (!atomic_load(&h->pool->closing)) {
		const unsigned long long door = next_grid(h);
		if (!enter(h, door))
			continue;
		wake_others(h->pool, door);
		float_mode_enter(&before);
		leave(h, drain(h->pool));
	}
	return NULL;
}

/* ---- the caller ------------------------------------------------------------------------- */

static void wait_for_helpers(struct pool *pool)
{
	const long long begin = now_ns();
	long long yielded = begin;
	atomic_store(&pool->waiting, begin);
	while (atomic_load(&pool->door) & INSIDE) {
		if (pass_time(begin, &yielded) < AWAKE_NS)
			continue;
		atomic_store(&pool->caller_asleep, 1);
		if (atomic_load(&pool->door) & INSIDE)
			sleep_while(&pool->caller_asleep, 1);
		atomic_store(&pool->caller_asleep, 0);
	}
}

/* Opens a grid for the helpers and takes cells of it; returns when all cells are done. */
static void run_grid(struct pool *pool, void (*work)(void *arg, size_t i), void *arg, size_t n,
		     unsigned long long how)
{
	const int most = how & TOGETHER ? pool->threads - 1 : pool->active;
	pthread_mutex_lock(&pool->caller);
	pool->work = work;
	pool->arg = arg;
	pool->n = n;
	pool->to_wake = n - 1 < (size_t)most ? (int)n - 1 : most;
	atomic_store(&pool->woken, 0);
	atomic_store(&pool->next, 0);
	atomic_store(&pool->begun, now_ns());
	atomic_store(&pool->waiting, 0);
	const unsigned grid = number_of(atomic_load(&pool->door)) + 1;
	const unsigned long long door = (unsigned long long)grid << GRID_SHIFT | OPEN | how;
	atomic_store(&pool->door, door);
	wake_others(pool, door);
	drain(pool);
	if (atomic_fetch_and(&pool->door, ~OPEN) & INSIDE)
		wait_for_helpers(pool);
	pthread_mutex_unlock(&pool->caller);
}

static void run(struct pool *pool, void (*work)(void *arg, size_t i), void *arg, size_t n,
		unsigned long long how)
{
	struct float_mode of_caller;
	float_mode_enter(&of_caller);
	if (n > 1 && (how & TOGETHER ? pool->threads - 1 : pool->active))
		run_grid(pool, work, arg, n, how);
	else
		for (size_t i = 0; i < n; i++)
			work(arg, i);
	float_mode_leave(&of_caller);
}

void pool_run(struct pool *pool, void (*work)(void *arg, size_t i), void *arg, size_t n)
{
	run(pool, work, arg, n, 0);
}

void pool_run_together(struct pool *pool, void (*work)(void *arg, size_t i), void *arg, size_t n)
{
	run(pool, work, arg, n, TOGETHER);
}

struct meeting {
	int threads;
	atomic_int present;
};

static void meet(void *arg, size_t i)
{
	struct meeting *m = arg;
	(void)i;
	atomic_fetch_add(&m->present, 1);
	while (atomic_load(&m->present) < m->threads)
		sched_yield();
}

/* Returns when all active helpers are awake. */
void pool_hold(struct pool *pool)
{
	struct meeting m = { .threads = pool->active + 1 };
	atomic_store(&pool->held, 1);
	for (int i = 0; i < pool->active; i++)
		wake(&pool->helper[i].asleep);
	pool_run(pool, meet, &m, (size_t)m.threads);
}

void pool_let_go(struct pool *pool)
{
	atomic_store(&pool->held, 0);
}

/* ---- open and close ---------------------------------------------------------------------- */

int pool_helpers(const struct pool *pool)
{
	return pool->active;
}

int pool_clock(const struct pool *pool, int i, clockid_t *clock)
{
	return pthread_getcpuclockid(pool->helper[i].thread, clock);
}

size_t pool_stack_bytes(void)
{
	const size_t least = 2 << 20, unit = 64 << 10;
	pthread_attr_t usual;
	size_t bytes = 0;
	if (pthread_attr_init(&usual))
		return least;
	pthread_attr_getstacksize(&usual, &bytes);
	pthread_attr_destroy(&usual);
	return bytes < least ? least : (bytes + unit - 1) / unit * unit;
}

/* All signals except those that a thread's own fault raises: where one of these is blocked the
 * fault ends the process, whatever its handler. */
static void set_of_others(sigset_t *set)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS };
	sigfillset(set);
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		sigdelset(set, faults[i]);
}

/* Starts the helpers with signals blocked, so that the program's handlers run on its own
 * threads. */
static int start_all(struct pool *pool)
{
	pthread_attr_t attr;
	sigset_t others, mask;
	int error = pthread_attr_init(&attr), started = 0;
	if (error)
		return error;
	error = pthread_attr_setstacksize(&attr, pool_stack_bytes());
	set_of_others(&others);
	pthread_sigmask(SIG_SETMASK, &others, &mask);
	while (!error && started < pool->threads - 1) {
		struct helper *h = &pool->helper[started];
		h->number = started;
		h->pool = pool;
		error = pthread_create(&h->thread, &attr, help, h);
		started += !error;
	}
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	pthread_attr_destroy(&attr);
	if (error)
		pool->threads = started + 1; /* those to be ended */
	return error;
}

int pool_open(struct pool **out, int threads, int usable)
{
	const size_t helpers = (size_t)threads - 1;
	const size_t bytes = sizeof(struct pool) + helpers * sizeof(struct helper);
	struct pool *pool = aligned_alloc(64, (bytes + 63) / 64 * 64);
	if (!pool)
		return ENOMEM;
	memset(pool, 0, bytes);
	pool->threads = threads;
	pool->active = threads < usable ? threads - 1 : usable - 1;
	int error = pthread_mutex_init(&pool->caller, NULL);
	if (error) {
		free(pool);
		return error;
	}
	error = start_all(pool);
	if (error)
		pool_close(pool);
	else
		*out = pool;
	return error;
}

void pool_close(struct pool *pool)
{
	if (!pool)
		return;
	atomic_store(&pool->closing, 1);
	atomic_fetch_add(&pool->door, 1ull << GRID_SHIFT);
	for (int i = 0; i < pool->threads - 1; i++)
		wake(&pool->helper[i].asleep);
	for (int i = 0; i < pool->threads - 1; i++)
		pthread_join(pool->helper[i].thread, NULL);
	pthread_mutex_destroy(&pool->caller);
	free(pool);
}
