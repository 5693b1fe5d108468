/* kv_pool.c - the values of tensors, and the pool: the K and V memory of timed workloads. A value
 * depends on its offset in the pool only, so filling needs no layout and the reference no copy. */
#include "fill.h"
#include "workload.h"
#include "harness/compile/compile.h"
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 256, MAX_FILLERS = 64, PROBES = 64 }; /* THREADS as in fill.cu */

_Static_assert((int)FILL_F32 == ATTUNE_F32 && (int)FILL_F16 == ATTUNE_F16 &&
		   (int)FILL_BF16 == ATTUNE_BF16 && (int)FILL_E4M3 == ATTUNE_E4M3,
	       "fill.h and attune.h name the types alike");

unsigned long long k_stream(void)
{
	return fill_mix(1);
}

unsigned long long v_stream(void)
{
	return fill_mix(2);
}

unsigned long long q_stream(unsigned long long seed)
{
	return fill_mix(fill_mix(seed) + 3);
}

void write_values(void *to, unsigned long long stream, unsigned long long first, size_t n,
		  enum attune_dtype dtype)
{
	uint32_t *wide = to;
	uint16_t *narrow = to;
	uint8_t *bytes = to;
	if (dtype == ATTUNE_F32)
		for (size_t i = 0; i < n; i++)
			wide[i] = fill_bits(stream, first + i, FILL_F32);
	else if (dtype == ATTUNE_F16)
		for (size_t i = 0; i < n; i++)
			narrow[i] = (uint16_t)fill_bits(stream, first + i, FILL_F16);
	else if (dtype == ATTUNE_E4M3)
		for (size_t i = 0; i < n; i++)
			bytes[i] = (uint8_t)fill_bits(stream, first + i, FILL_E4M3);
	else
		for (size_t i = 0; i < n; i++)
			narrow[i] = (uint16_t)fill_bits(stream, first + i, FILL_BF16);
}

/* Shifts bits: no F16 value is subnormal, see fill.h. */
static float widen(unsigned bits, enum attune_dtype dtype)
{
	float f;
	const uint8_t byte = (uint8_t)bits;
	if (dtype == ATTUNE_E4M3)
		return (float)value_of(dtype, &byte, 0);
	if (dtype == ATTUNE_BF16)
		bits <<= 16;
	else if (dtype == ATTUNE_F16)
		bits = bits ? bits >> 15 << 31 | (((bits & 0x7fff) << 13) + (112u << 23)) : 0;
	memcpy(&f, &bits, sizeof f);
	return f;
}

void read_values(double *to, unsigned long long stream, unsigned long long first, size_t n,
		 enum attune_dtype dtype)
{
	for (size_t i = 0; i < n; i++)
		to[i] = widen(fill_bits(stream, first + i, (int)dtype), dtype);
}

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
	struct binary binary = { 0 };
	enum attune_status status;
	if (!source_root())
		return fail(ATTUNE_UNSUPPORTED,
			    "the sources of kernels are missing; set ATTUNE_SOURCE to "
			    "the kernels folder");
	snprintf(path, sizeof path, "%s/../harness/check/fill.cu", source_root());
	if (jit_compile_source(&binary, path, "", dev->info.arch)) {
		status = fail(ATTUNE_UNSUPPORTED, "%s does not compile: %.300s", path,
			      binary.log ? binary.log : "no compiler");
	} else {
		status = dev->ops->load(dev, code, &binary.blob);
	}
	jit_free(&binary);
	return status;
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

static enum attune_status fill_device(struct device *dev, const struct pool *p)
{
	struct code *code = NULL;
	enum attune_status status = load_filler(dev, &code);
	if (status)
		return status;
	status = launch_filler(dev, code, p->k, k_stream(), p->elements, p->dtype);
	if (!status)
		status = launch_filler(dev, code, p->v, v_stream(), p->elements, p->dtype);
	if (!status)
		status = dev->ops->wait(dev, dev->ops->stream(dev));
	if (!status)
		status = probe(dev, p->k, k_stream(), p->elements, p->dtype);
	if (!status)
		status = probe(dev, p->v, v_stream(), p->elements, p->dtype);
	dev->ops->unload(dev, code);
	return status;
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
	if (!status && dev->info.backend == BACKEND_CPU) {
		fill_host(dev, p->k, k_stream(), elements, dtype);
		fill_host(dev, p->v, v_stream(), elements, dtype);
	} else if (!status) {
		status = fill_device(dev, p);
	}
	if (status)
		pool_drop(dev, p);
	return status;
}
