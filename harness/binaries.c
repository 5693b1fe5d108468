/* binaries.c - the code of all choices of a sweep, each binary once, compiled on as
 * many threads as there are CPUs. */
#include "sweep.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_THREADS = 64 };

int binaries_add(struct binaries *b, const struct choice *c, const attune_shape *shape)
{
	char flags[MAX_FLAGS];
	binary_flags(flags, sizeof flags, c->kernel, &c->config, shape);
	for (int i = 0; i < b->n; i++)
		if (b->v[i].kernel == c->kernel && !strcmp(b->v[i].flags, flags))
			return i;
	if (b->n == b->room) {
		int room = b->room ? 2 * b->room : 64;
		struct built *v = realloc(b->v, (size_t)room * sizeof *v);
		if (!v) {
			complain("out of memory");
			return -1;
		}
		b->v = v;
		b->room = room;
	}
	b->v[b->n] = (struct built){ .kernel = c->kernel, .status = NOT_BUILT };
	memcpy(b->v[b->n].flags, flags, sizeof flags);
	return b->n++;
}

struct yard {
	struct binaries *b;
	atomic_int next, done, hopeless;
};

static void *compile_some(void *p)
{
	struct yard *y = p;
	int i;
	while (!interrupted && !atomic_load(&y->hopeless) &&
	       (i = atomic_fetch_add(&y->next, 1)) < y->b->n) {
		struct built *v = &y->b->v[i];
		if (v->status == NOT_BUILT)
			v->status = jit_compile(&v->binary, v->kernel, v->flags, y->b->arch);
		if (v->status == NO_COMPILER)
			atomic_store(&y->hopeless, 1);
		atomic_fetch_add(&y->done, 1);
	}
	return NULL;
}

static void watch(struct yard *y)
{
	const struct timespec tick = { .tv_nsec = 50000000 };
	int done;
	while ((done = atomic_load(&y->done)) < y->b->n && !interrupted &&
	       !atomic_load(&y->hopeless)) {
		progress("compiling", done, y->b->n);
		nanosleep(&tick, NULL);
	}
	progress_end();
}

int binaries_compile(struct binaries *b)
{
	pthread_t thread[MOST_THREADS];
	struct yard yard = { .b = b };
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int started = 0, most = cpus < 1 ? 1 : cpus > MOST_THREADS ? MOST_THREADS : (int)cpus;
	while (started < most && started < b->n &&
	       !pthread_create(&thread[started], NULL, compile_some, &yard))
		started++;
	if (started)
		watch(&yard);
	else
		compile_some(&yard);
	for (int i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
	return !interrupted && !atomic_load(&yard.hopeless);
}

void binaries_free(struct binaries *b)
{
	for (int i = 0; i < b->n; i++)
		if (b->v[i].status != NOT_BUILT)
			jit_free(&b->v[i].binary);
	free(b->v);
	*b = (struct binaries){ .arch = b->arch };
}
