/* SPDX-License-Identifier: Apache-2.0 */
/* parallel.c - runs tasks on threads of their own; one after the other if none can be started. */
#include "base.h"
#include "kernels/device/cpu/usable.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct tasks {
	void (*task)(void *arg, size_t i);
	void *arg;
	size_t n;
	atomic_size_t next;
};

static void *drain(void *p)
{
	struct tasks *t = p;
	size_t i;
	while ((i = atomic_fetch_add(&t->next, 1)) < t->n)
		t->task(t->arg, i);
	return NULL;
}

void in_parallel(int n, void (*task)(void *arg, size_t i), void *arg)
{
	struct tasks t = { .task = task, .arg = arg, .n = n > 0 ? (size_t)n : 0 };
	const int usable = cpu_usable(), most = (n < usable ? n : usable) - 1;
	pthread_t *thread = most > 0 ? calloc((size_t)most, sizeof *thread) : NULL;
	int started = 0;
	while (thread && started < most && !pthread_create(&thread[started], NULL, drain, &t))
		started++;
	drain(&t);
	while (started)
		pthread_join(thread[--started], NULL);
	free(thread);
}
