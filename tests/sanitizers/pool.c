/* pool.c - a stand-in for libpthreadpool, by mutexes and conditions. The thread sanitizer knows these;
 * of the library, which is not built with it, it sees neither locks nor atomics. */
#include <pthread.h>
#include <pthreadpool.h>
#include <stdlib.h>

struct pthreadpool {
	pthread_mutex_t caller; /* one grid at a time */
	pthread_mutex_t lock;   /* of all below */
	pthread_cond_t begin, end;
	pthread_t *thread;
	size_t threads; /* with the caller's */
	pthreadpool_task_1d_t task;
	void *arg;
	size_t next, n, busy;
	unsigned grid; /* its number */
	int closing;
};

static void drain(struct pthreadpool *p)
{
	pthread_mutex_lock(&p->lock);
	while (p->next < p->n) {
		const size_t i = p->next++;
		pthread_mutex_unlock(&p->lock);
		p->task(p->arg, i);
		pthread_mutex_lock(&p->lock);
	}
	pthread_mutex_unlock(&p->lock);
}

static void *work(void *arg)
{
	struct pthreadpool *p = arg;
	unsigned done = 0;
	pthread_mutex_lock(&p->lock);
	for (;;) {
		while (p->grid == done && !p->closing)
			pthread_cond_wait(&p->begin, &p->lock);
		if (p->closing)
			break;
		done = p->grid;
		pthread_mutex_unlock(&p->lock);
		drain(p);
		pthread_mutex_lock(&p->lock);
		if (!--p->busy)
			pthread_cond_signal(&p->end);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

pthreadpool_t pthreadpool_create(size_t threads)
{
	struct pthreadpool *p = calloc(1, sizeof *p);
	if (!p || !(p->thread = calloc(threads, sizeof *p->thread)))
		abort();
	p->threads = threads;
	pthread_mutex_init(&p->caller, NULL);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->begin, NULL);
	pthread_cond_init(&p->end, NULL);
	for (size_t i = 1; i < threads; i++)
		if (pthread_create(&p->thread[i], NULL, work, p))
			abort();
	return p;
}

void pthreadpool_parallelize_1d(pthreadpool_t p, pthreadpool_task_1d_t task, void *arg, size_t n,
				uint32_t flags)
{
	(void)flags;
	pthread_mutex_lock(&p->caller);
	pthread_mutex_lock(&p->lock);
	p->task = task;
	p->arg = arg;
	p->next = 0;
	p->n = n;
	p->busy = p->threads - 1;
	p->grid++;
	pthread_cond_broadcast(&p->begin);
	pthread_mutex_unlock(&p->lock);
	drain(p);
	pthread_mutex_lock(&p->lock);
	while (p->busy)
		pthread_cond_wait(&p->end, &p->lock);
	pthread_mutex_unlock(&p->lock);
	pthread_mutex_unlock(&p->caller);
}

void pthreadpool_destroy(pthreadpool_t p)
{
	pthread_mutex_lock(&p->lock);
	p->closing = 1;
	pthread_cond_broadcast(&p->begin);
	pthread_mutex_unlock(&p->lock);
	for (size_t i = 1; i < p->threads; i++)
		pthread_join(p->thread[i], NULL);
	pthread_mutex_destroy(&p->caller);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->begin);
	pthread_cond_destroy(&p->end);
	free(p->thread);
	free(p);
}
