/* SPDX-License-Identifier: Apache-2.0 */
/* kv_pool.c - the pool: the K and V memory of timed workloads. A value depends on its offset in the
 * pool only, so filling needs no layout and the reference no copy. */
#include "fill.h"
#include "workload.h"
#include "harness/compile/compile.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 256, MAX_FILLERS = 64, PROBES = 64 }; /* THREADS as in fill.cu */

/* ---- filling --------------------------------------------------------------------- */

struct filler {
	pthread_t thread;
	char *to;
	unsigned long long stream;
	size_t first, n;
	enum attune_dtype dtype;
};

static void *fill_range(void *p)
{
	const struct filler *f = p;
	write_values(f->to + f->first * (size_t)dtype_bytes(f->dtype), f->stream, f->first, f->n,
		     f->dtype);
	return NULL;
}

/* The caller fills the range of a thread that cannot be started. */
static void fill_host(const struct device *dev, void *to, unsigned long long stream, size_t n,
		      enum attune_dtype dtype)
{
	struct filler f[MAX_FILLERS];
	const size_t threads =
	    (size_t)dev->info.units < MAX_FILLERS ? (size_t)dev->info.units : MAX_FILLERS;
	int started[MAX_FILLERS];
	for (size_t i = 0; i < threads; i++) {
		const size_t begin = n * i / threads, end = n * (i + 1) / threads;
		f[i] = (struct filler){
			.to = to, .stream = stream, .first = begin, .n = end - begin, .dtype = dtype
		};
		started[i] = !pthread_create(&f[i].thread, NULL, fill_range, &f[i]);
		if (!started[i])
			fill_range(&f[i]);
	}
	for (size_t i = 0; i < threads; i++)
		if (started[i])
			pthread_join(f[i].thread, NULL);
}

static enum attune_status load_filler(struct device *dev, struct code **code)
{
	char path[PATH_MAX];
	if (!source_root())
		return fail(ATTUNE_UNSUPPORTED,
			    "the sources of kernels are missing; set ATTUNE_SOURCE to "
			    "the kernels folder");
	snprintf(path, sizeof path, "%s/../harness/check/fill.cu", source_root());
	return jit_load_source(dev, code, path, "", dev->info.arch);
}

static enum attune_status launch_filler(struct device *dev, const struct code *code, void *to,
					unsigned long long stream, size_t n,
					enum attune_dtype dtype)
{
	const struct fill_args args = { .to = to,
					.stream = stream,
					.dtype = (int)dtype,
					.words = n * (size_t)dtype_bytes(dtype) / 4 };
	const struct geometry g = { .x = 8 * (unsigned)dev->info.units,
				    .y = 1,
				    .z = 1,
				    .threads = THREADS,
				    .segments = 1 };
	return dev->ops->launch(dev, code, &g, &args, sizeof args, dev->ops->stream(dev));
}

/* Compares PROBES elements with the host's, the first and the last among them. */
static enum attune_status probe(struct device *dev, const char *from, unsigned long long stream,
				size_t n, enum attune_dtype dtype)
{
	const size_t size = (size_t)dtype_bytes(dtype);
	for (size_t i = 0; i < PROBES; i++) {
		const size_t at = i + 1 < PROBES ? n / PROBES * i : n - 1;
		uint32_t got = 0, want = 0;
		enum attune_status status = dev->ops->get(dev, &got, from + at * size, size);
		if (status)
			return status;
		write_values(&want, stream, at, 1, dtype);
		if (got != want)
			return fail(ATTUNE_DEVICE_ERROR,
				    "element %zu of %zu was filled with "
				    "0x%x, expected 0x%x",
				    at, n, got, want);
	}
	return ATTUNE_OK;
}

enum attune_status pool_fill(struct pool *p, struct device *dev, void *to,
			     unsigned long long stream, size_t n, enum attune_dtype dtype)
{
	enum attune_status status = ATTUNE_OK;
	if (dev->info.backend == BACKEND_CPU) {
		fill_host(dev, to, stream, n, dtype);
		return status;
	}
	if (!p->filler)
		status = load_filler(dev, &p->filler);
	if (!status)
		status = launch_filler(dev, p->filler, to, stream, n, dtype);
	if (!status)
		status = dev->ops->wait(dev, dev->ops->stream(dev));
	return status ? status : probe(dev, to, stream, n, dtype);
}

/* ---- the pool -------------------------------------------------------------------- */

void pool_drop(struct device *dev, struct pool *p)
{
	if (p->k)
		dev->ops->release(dev, p->k);
	if (p->v)
		dev->ops->release(dev, p->v);
	p->k = p->v = NULL;
	p->elements = 0;
}

enum attune_status pool_reserve(struct pool **pool, struct device *dev, size_t elements,
				enum attune_dtype dtype)
{
	enum attune_status status;
	struct pool *p = *pool ? *pool : calloc(1, sizeof *p);
	if (!p)
		return fail(ATTUNE_NO_MEMORY, "out of memory");
	*pool = p;
	if (p->dtype == dtype && p->elements >= elements)
		return ATTUNE_OK;
	pool_drop(dev, p);
	elements += dtype == ATTUNE_E4M3 ? -elements % 4 : elements % 2; /* whole words */
	status = dev->ops->alloc(dev, &p->k, elements * (size_t)dtype_bytes(dtype));
	if (!status)
		status = dev->ops->alloc(dev, &p->v, elements * (size_t)dtype_bytes(dtype));
	p->elements = elements;
	p->dtype = dtype;
	if (!status)
		status = pool_fill(p, dev, p->k, k_stream(), elements, dtype);
	if (!status)
		status = pool_fill(p, dev, p->v, v_stream(), elements, dtype);
	if (status)
		pool_drop(dev, p);
	return status;
}
