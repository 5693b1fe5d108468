/* openmp.c - the part of GCC's OpenMP runtime that the adapters' kernels use, on attune's threads.
 * */
#include "openmp.h"
#include <sched.h>
#include <stdatomic.h>

#define PUBLIC __attribute__((visibility("default")))

/* Longer waits give up the core: another program may need it to get on. */
enum { SPINS = 1 << 14 };

struct region {
	void (*body)(void *data);
	void *data;
	int num_threads;
	atomic_int arrived, turn; /* at the barrier; barriers that are over */
	atomic_int singles;       /* blocks of `single` that a thread has taken */
};

static attune_plugin_device threads = { .units = 1 };
static _Thread_local struct region *current; /* NULL: outside of a region */
static _Thread_local int number, singles_met;

void openmp_use(const attune_plugin_device *device)
{
	threads = *device;
}

static void run_thread(void *arg, size_t i)
{
	current = arg;
	number = (int)i;
	singles_met = 0;
	current->body(current->data);
	current = NULL;
	number = 0;
}

PUBLIC void GOMP_parallel(void (*body)(void *data), void *data, unsigned num_threads,
			  unsigned flags)
{
	const int most = current || !threads.parallel ? 1 : threads.units;
	struct region r = { .body = body, .data = data, .num_threads = most };
	struct region *const outer = current;
	const int outer_number = number, outer_singles = singles_met;
	(void)flags;
	if (num_threads && num_threads < (unsigned)most)
		r.num_threads = (int)num_threads;
	if (r.num_threads > 1)
		threads.parallel(threads.threads, run_thread, &r, (size_t)r.num_threads);
	else
		run_thread(&r, 0);
	current = outer;
	number = outer_number;
	singles_met = outer_singles;
}

PUBLIC void GOMP_barrier(void)
{
	struct region *r = current;
	if (!r || r->num_threads == 1)
		return;
	const int turn = atomic_load(&r->turn);
	if (atomic_fetch_add(&r->arrived, 1) + 1 == r->num_threads) {
		atomic_store(&r->arrived, 0);
		atomic_store(&r->turn, turn + 1);
		return;
	}
	for (int spins = 0; atomic_load(&r->turn) == turn; spins++)
		if (spins >= SPINS)
			sched_yield();
#if defined(__x86_64__)
		else
			__builtin_ia32_pause();
#endif
}

/* All threads meet the same blocks in the same order: the first at a block takes it. */
PUBLIC bool GOMP_single_start(void)
{
	if (!current)
		return true;
	int taken = singles_met++;
	return atomic_compare_exchange_strong(&current->singles, &taken, taken + 1);
}

PUBLIC int omp_get_thread_num(void)
{
	return number;
}

PUBLIC int omp_get_num_threads(void)
{
	return current ? current->num_threads : 1;
}

PUBLIC int omp_get_max_threads(void)
{
	return threads.units;
}
