/* binaries.c - the code of all choices of a sweep, each binary once, compiled on as
 * many threads as there are CPUs. A compilation that takes too long is left to itself:
 * its thread cannot be stopped, but what it makes is thrown away. */
#include "../kernels/hip.h"
#include "sweep.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_THREADS = 64, LIMIT_S = 120 };

int binaries_add(struct binaries *b, const struct choice *c, const attune_shape *shape)
{
	char flags[MAX_FLAGS];
	binary_flags(flags, sizeof flags, c->kernel, &c->config, shape);
	return binaries_add_source(b, c->kernel, NULL, flags);
}

int binaries_add_source(struct binaries *b, const struct kernel *kernel, const char *root,
			const char *flags)
{
	for (int i = 0; i < b->n; i++)
		if (b->v[i].kernel == kernel && b->v[i].root == root &&
		    !strcmp(b->v[i].flags, flags))
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
	b->v[b->n] = (struct built){ .kernel = kernel, .root = root, .status = NOT_BUILT };
	snprintf(b->v[b->n].flags, sizeof b->v->flags, "%s", flags);
	return b->n++;
}

int binaries_add_helpers(struct binaries *b, const struct choice *of, const attune_shape *shape,
			 int helper[NUM_HELPERS])
{
	for (enum helper i = 0; i < NUM_HELPERS; i++) {
		struct choice c = { .kernel = kernel_helper(of->kernel->backend, i) };
		helper[i] = -1;
		if (!c.kernel || !kernel_takes(of->kernel, &of->config, i))
			continue;
		config_default(&c.config, c.kernel->space);
		helper[i] = binaries_add(b, &c, shape);
		if (helper[i] < 0)
			return 0;
	}
	return 1;
}

struct hand {
	struct yard *yard;
	pthread_t thread;
	int at; /* what it works on, -1: nothing */
	double since;
	int lost; /* nobody waits for it any more */
};

/* Outlives the call where a hand was lost. */
struct yard {
	struct binaries *b;
	pthread_mutex_t lock;
	int next, done, hopeless, lost, n;
	struct hand hand[2 * MOST_THREADS];
};

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The next one that is not built; 0: none. */
static int take(struct hand *h, const struct kernel **kernel, const char **root,
		char flags[MAX_FLAGS])
{
	struct yard *y = h->yard;
	pthread_mutex_lock(&y->lock);
	while (y->next < y->b->n && y->b->v[y->next].status != NOT_BUILT)
		y->next++, y->done++;
	h->at = !interrupted && !y->hopeless && y->next < y->b->n ? y->next++ : -1;
	h->since = now();
	if (h->at >= 0) {
		*kernel = y->b->v[h->at].kernel;
		*root = y->b->v[h->at].root;
		memcpy(flags, y->b->v[h->at].flags, MAX_FLAGS);
	}
	pthread_mutex_unlock(&y->lock);
	return h->at >= 0;
}

static int judged(const struct built *v, const struct binary *b, const char *arch, int status)
{
	const int in_memory = status == BUILT && b->spill_bytes > 0 && hip_chip(arch);
	return in_memory && v->kernel->selectable ? USES_SCRATCH : status;
}

/* 0: it came too late. */
static int put(struct hand *h, struct binary *binary, int status)
{
	struct yard *y = h->yard;
	pthread_mutex_lock(&y->lock);
	const int lost = h->lost;
	if (!lost) {
		y->b->v[h->at].binary = *binary;
		y->b->v[h->at].status = judged(&y->b->v[h->at], binary, y->b->arch, status);
		y->b->compiled += status == BUILT && !binary->cached;
		y->hopeless |= status == NO_COMPILER;
		y->done++;
	}
	h->at = -1;
	pthread_mutex_unlock(&y->lock);
	if (lost)
		jit_free(binary);
	return !lost;
}

static void *compile_some(void *p)
{
	struct hand *h = p;
	const char *arch = h->yard->b->arch;
	const struct kernel *kernel = NULL;
	const char *root = NULL;
	char flags[MAX_FLAGS];
	while (take(h, &kernel, &root, flags)) {
		struct binary binary = { 0 };
		const int status = root ? jit_compile_below(&binary, root, kernel, flags, arch)
					: jit_compile(&binary, kernel, flags, arch);
		if (!put(h, &binary, status))
			break;
	}
	return NULL;
}

static int start(struct yard *y)
{
	struct hand *h = &y->hand[y->n];
	*h = (struct hand){ .yard = y, .at = -1 };
	if (y->n == COUNT(y->hand) || pthread_create(&h->thread, NULL, compile_some, h))
		return 0;
	y->n++;
	return 1;
}

/* Gives up what takes too long; another hand takes the place of its own. */
static void give_up(struct yard *y)
{
	int places = 0;
	pthread_mutex_lock(&y->lock);
	for (int i = 0; i < y->n; i++) {
		struct hand *h = &y->hand[i];
		if (h->lost || h->at < 0 || now() - h->since < LIMIT_S)
			continue;
		struct built *v = &y->b->v[h->at];
		char text[80];
		snprintf(text, sizeof text, "given up after %d s", LIMIT_S);
		v->binary =
		    (struct binary){ .log = strdup(text), .registers = -1, .spill_bytes = -1 };
		v->status = REFUSED_BY_COMPILER;
		h->lost = 1;
		pthread_detach(h->thread);
		y->lost++;
		y->done++;
		places++;
	}
	pthread_mutex_unlock(&y->lock);
	while (places-- > 0)
		start(y);
}

static void watch(struct yard *y)
{
	const struct timespec tick = { .tv_nsec = 50000000 };
	for (int done = 0; done < y->b->n && !interrupted;) {
		pthread_mutex_lock(&y->lock);
		done = y->hopeless ? y->b->n : y->done;
		pthread_mutex_unlock(&y->lock);
		if (done == y->b->n)
			break;
		give_up(y);
		progress("compiling", done, y->b->n);
		nanosleep(&tick, NULL);
	}
	progress_end();
}

int binaries_compile(struct binaries *b)
{
	struct yard *y = calloc(1, sizeof *y);
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	const int most = cpus < 1 ? 1 : cpus > MOST_THREADS ? MOST_THREADS : (int)cpus;
	const double began = now();
	if (!y) {
		complain("out of memory");
		return 0;
	}
	y->b = b;
	pthread_mutex_init(&y->lock, NULL);
	while (y->n < most && y->n < b->n && start(y))
		;
	if (y->n) {
		watch(y);
	} else {
		struct hand mine = { .yard = y, .at = -1 };
		compile_some(&mine);
	}
	for (int i = 0; i < y->n; i++)
		if (!y->hand[i].lost)
			pthread_join(y->hand[i].thread, NULL);
	const int ok = !interrupted && !y->hopeless;
	b->seconds += now() - began;
	if (!y->lost)
		free(y);
	return ok;
}

void binaries_free(struct binaries *b)
{
	for (int i = 0; i < b->n; i++)
		if (b->v[i].status != NOT_BUILT)
			jit_free(&b->v[i].binary);
	free(b->v);
	*b = (struct binaries){ .arch = b->arch };
}
