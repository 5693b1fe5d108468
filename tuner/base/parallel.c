/* parallel.c - runs tasks on pthreadpool; one after the other if it cannot start. */
#include "parallel.h"
#include "kernels/device/cpu/cpu.h"
#include <pthreadpool.h>

void in_parallel(int n, void (*task)(void *arg, size_t i), void *arg)
{
	const int threads = cpu_usable();
	pthreadpool_t pool =
	    n > 1 && !cpu_try_threads(threads - 1) ? pthreadpool_create((size_t)threads) : NULL;
	if (pool)
		pthreadpool_parallelize_1d(pool, task, arg, (size_t)n, 0);
	for (int i = 0; !pool && i < n; i++)
		task(arg, (size_t)i);
	pthreadpool_destroy(pool);
}
