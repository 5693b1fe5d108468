/* SPDX-License-Identifier: Apache-2.0 */
/* workload.h - shared by the files that build workloads and check outputs:
 *
 *   values.c          the values of tensors, and random numbers
 *   kv_order.c        where K and V of a layout lie
 *   kv_pool.c         the K and V memory that timed workloads share
 *   workload.c        page tables, queries, guarded outputs
 *   scales_and_lse.c  scales of an 8-bit cache; the LSE and its check; K and V of the new tokens,
 *                     apart from the cache
 *   expected.c        expected rows, by the fp64 reference
 *   check_cache.c     check workloads that a pool keeps
 *   tolerance.c       the tolerance of an element
 *   check.c           runs a candidate and compares its output */
#ifndef HARNESS_CHECK_WORKLOAD_H
#define HARNESS_CHECK_WORKLOAD_H

#include "fill.h"
#include "harness/scenario/scenario.h"
#include "kernels/attune.h"
#include <stdint.h>

struct attune_more;
struct device;
struct kv_order;
struct verdict;
struct workload;

/* Every byte of memory that a kernel must not write, a NaN in all types. */
enum { POISON = 0xff };
/* Poisoned bytes before and after an output. */
enum { GUARD = 4096 };

/* ---- values.c: random numbers -------------------------------------------------------------------- */
/* A stream of random numbers; state from a seed. */
unsigned long long next_random(unsigned long long *state);
/* 0 .. n-1 in an order that depends on the seed alone; the caller's to free. */
int32_t *permutation(int n, unsigned long long seed);

/* ---- kv_pool.c ---------------------------------------------------------------------- */
struct cached_check;
struct pool {
	void *k, *v;
	size_t elements; /* of each */
	enum attune_dtype dtype;
	struct cached_check *cached_checks;
	struct code *filler; /* fill.cu, once it was used */
};
/* Makes K and V hold at least this many elements each. May move them. */
enum attune_status pool_reserve(struct pool **, struct device *, size_t elements,
				enum attune_dtype);
/* Fills device memory with n elements of a stream from its first on; n: whole 32-bit words. */
enum attune_status pool_fill(struct pool *, struct device *, void *to, unsigned long long stream,
			     size_t n, enum attune_dtype);
/* Frees the memory of K and V. */
void pool_drop(struct device *, struct pool *);

/* ---- kv_order.c -------------------------------------------------------------------- */
struct kv_order kv_order(const attune_shape *, enum layout, int64_t pages);

/* ---- values.c ---------------------------------------------------------------------- */
unsigned long long k_stream(void), v_stream(void), q_stream(unsigned long long seed);
/* Where element `first` of K or V stands: the stream, and its number there. */
struct in_stream {
	unsigned long long stream, first;
};
struct in_stream in_stream_of(const struct kv_order *, int is_v, long long first);
/* n elements of a stream from `first` on. */
void write_values(void *to, unsigned long long stream, unsigned long long first, size_t n,
		  enum attune_dtype);
void read_values(double *to, unsigned long long stream, unsigned long long first, size_t n,
		 enum attune_dtype);

/* ---- scales_and_lse.c -------------------------------------------------------------------- */
/* Allocates and fills *k and *v and points the tensors at them. Needs the page tables and the
 * strides of q. */
enum attune_status new_kv_make(struct workload *, void **k, void **v);

/* ---- scales_and_lse.c ---------------------------------------------------------------------- */
/* Allocates what the shape needs of both and points the tensors at it. Needs the strides of q. */
enum attune_status scales_and_lse_make(struct workload *, void **scales, void **lse);
enum scales workload_scales(const struct workload *);
/* The scales with host pointers, and no LSE. */
void workload_host_scales(const struct workload *, struct attune_more *);
struct expected;
/* Checks the LSE at `memory`, which includes its guards. Leaves *v unchanged if it is right. */
void check_lse(struct verdict *v, const struct workload *, const void *memory,
	       const struct expected *, enum phase);

/* ---- expected.c -------------------------------------------------------------------- */
struct expected_row {
	int seq, token, head; /* token: of the sequence */
};
struct expected {
	int max_rows, num_rows;
	struct expected_row *row;
	float *want, *tolerance; /* [num_rows][head_size] */
	float *rounding;         /* the same: rounding_tolerance; or NULL */
	float *lse;              /* [num_rows] */
};
/* Of page set 0. with_rounding: also for plug-ins of which check_rounding is not 0. NULL: no memory. */
struct expected *expected_make(const struct workload *, int max_rows, int with_rounding);
void expected_free(struct expected *);

/* ---- check_cache.c ---------------------------------------------------------------------- */
/* Finds or makes the check workload of the scenario's shape, layout, lengths and seed, and of what
 * a plug-in needs. The pool owns it. */
enum attune_status cached_check_find(struct workload **, struct device *, struct pool **,
				     const struct scenario *, unsigned needs);

#endif
