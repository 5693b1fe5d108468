/* SPDX-License-Identifier: Apache-2.0 */
/* toy_kernel.h - a toy kernel, which runs the reference with one fault out of many, and checks of it
 * by the correctness gate. */
#ifndef TESTS_HARNESS_TOY_KERNEL_H
#define TESTS_HARNESS_TOY_KERNEL_H

#include "harness/base/base.h"
#include "harness/check/reference.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "kernels/args.h"
#include "kernels/device/device.h"
#include "harness/check/workload.h"
#include "kernels/spec/space.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MAX_SEQS = 64, MAX_TABLE = 1024, MAX_KEYS = 8192, MAX_HEAD = 64, ROWS = 64 };

enum fault {
	RIGHT,
	ROUNDS_WEIGHTS,   /* as a tensor core has them: no fault */
	ROUNDS_TO_E4M3,   /* q and weights */
	ROUNDS_TO_Q_TYPE, /* K and V times a scale, and weights */
	DROPS_LAST_KEY,
	NO_MASK,
	NO_WINDOW,
	WINDOW_PLUS_ONE,
	WINDOW_MINUS_ONE,
	NEIGHBOUR_PAGE,
	READS_TAIL,
	NO_SINKS,
	NO_SOFTCAP,
	NO_ALIBI,
	SCALE_OFF,
	HEADS_SWAPPED,
	CONTIGUOUS_OUT,
	CONTIGUOUS_Q,
	NARROW_TABLE,
	LEAVES_ELEMENT,
	LEAVES_LAST_SEQ,
	WRITES_BEHIND,
	WRITES_BEFORE,
	WRITES_OTHER_PART,
	WRITES_BEHIND_WORKSPACE,
	READS_WORKSPACE,
	EMPTY_IS_NAN,
};

static struct { /* of the kernel under way; its cells only read it */
	enum fault fault;
	attune_shape shape;
} toy;

/* ---- the toy -------------------------------------------------------------------- */

static double narrow(double p, enum attune_dtype dtype)
{
	union {
		uint16_t half[2];
		float wide;
	} u = { { 0 } };
	value_put(dtype, &u, 0, (float)p);
	return value_of(dtype, &u, 0);
}

static double q_of(const struct attune_args *a, long long at)
{
	const double q = value_of(toy.shape.dtype, a->q, at);
	return toy.fault == ROUNDS_TO_E4M3 ? narrow(q, ATTUNE_E4M3) : q;
}

/* An element of K or V. One that was multiplied by a scale is no longer exact in q's type. */
static double kv_of(const void *cache, long long at)
{
	const double x = value_of(toy.shape.kv_dtype, cache, at), scale = 1.2;
	return toy.fault == ROUNDS_TO_Q_TYPE ? narrow(x * scale, toy.shape.dtype) / scale : x;
}

/* Causal and nothing else. Weights are rounded after they were summed. */
static void attend_rounded(const struct attune_args *a, int seq, int token, int head, double *out)
{
	const int *table = a->block_table + (size_t)seq * (size_t)a->block_table_stride;
	const int query = a->query_start[seq + 1] - a->query_start[seq];
	const int keys = a->seq_lens[seq] - query + token + 1, size = toy.shape.head_size;
	const long long q =
	    (a->query_start[seq] + token) * a->q_token_stride + head * a->q_head_stride;
	const enum attune_dtype weights = toy.fault == ROUNDS_TO_E4M3     ? ATTUNE_E4M3
					  : toy.fault == ROUNDS_TO_Q_TYPE ? toy.shape.dtype
									  : toy.shape.kv_dtype;
	double score[MAX_KEYS], m = -INFINITY, l = 0;
	memset(out, 0, (size_t)size * sizeof *out);
	for (int key = 0; key < keys; key++) {
		const long long k = table[key / a->page_size] * a->k_page_stride +
				    key % a->page_size * a->k_slot_stride +
				    head / a->group * a->k_head_stride;
		score[key] = 0;
		for (int d = 0; d < size; d++)
			score[key] += q_of(a, q + d) * kv_of(a->k_cache, k + d);
		score[key] *= a->scale;
		m = fmax(m, score[key]);
	}
	for (int key = 0; key < keys; key++) {
		const long long v = table[key / a->page_size] * a->v_page_stride +
				    key % a->page_size * a->v_slot_stride +
				    head / a->group * a->v_head_stride;
		const double p = exp(score[key] - m);
		l += p;
		for (int d = 0; d < size; d++)
			out[d] += narrow(p, weights) * kv_of(a->v_cache, v + d);
	}
	for (int d = 0; d < size && l > 0; d++)
		out[d] /= l;
}

/* Arguments that a wrong kernel believes in; lens and table: room for its own. */
static void deceive(struct attune_args *a, int seq, int *lens, int *table)
{
	const int pages = (a->seq_lens[seq] + a->page_size - 1) / a->page_size;
	const int row = a->num_query_heads * toy.shape.head_size;
	switch (toy.fault) {
	case NO_MASK: a->causal = 0; break;
	case NO_WINDOW: a->window = 0; break;
	case WINDOW_PLUS_ONE: a->window += a->window > 0; break;
	case WINDOW_MINUS_ONE: a->window -= a->window > 1; break;
	case NO_SINKS: a->sinks = NULL; break;
	case NO_SOFTCAP: a->softcap = 0; break;
	case NO_ALIBI: a->alibi_slopes = NULL; break;
	case SCALE_OFF: a->scale *= 1.02f; break;
	case CONTIGUOUS_OUT: a->out_token_stride = row; break;
	case CONTIGUOUS_Q: a->q_token_stride = row; break;
	case NARROW_TABLE: a->block_table_stride = pages; break;
	case DROPS_LAST_KEY:
		memcpy(lens, a->seq_lens, (size_t)a->num_seqs * sizeof *lens);
		lens[seq] -= lens[seq] > 0;
		a->seq_lens = lens;
		break;
	case NEIGHBOUR_PAGE:
		memcpy(table, a->block_table + (size_t)seq * (size_t)a->block_table_stride,
		       (size_t)pages * sizeof *table);
		if (pages && table[pages / 2])
			table[pages / 2]--;
		else if (pages > 1) /* else there may be no page 1 to read */
			table[pages / 2]++;
		a->block_table = table;
		a->block_table_stride = 0;
		break;
	default: break;
	}
}

static void write_row(const struct attune_args *a, int seq, int token, int head, const double *row)
{
	const long long t = a->query_start[seq] + token;
	const long long at = t * a->out_token_stride + head * a->out_head_stride;
	const int last = seq == a->num_seqs - 1 && head == a->num_query_heads - 1 &&
			 t + 1 == a->query_start[seq + 1];
	const int size = toy.shape.head_size;
	for (int d = 0; d < size; d++)
		if (toy.fault != LEAVES_ELEMENT || d != 5 || !last)
			value_put(toy.shape.dtype, a->out, at + d, (float)row[d]);
	if (toy.fault == WRITES_BEHIND && last)
		value_put(toy.shape.dtype, a->out, at + size, 0);
	if (toy.fault == WRITES_BEFORE && !t && !head)
		value_put(toy.shape.dtype, a->out, at - 1, 0);
}

static void compute(const struct attune_args *a, int seq, int token, int head)
{
	const struct attune_args before = *a;
	struct attune_args b = *a;
	int lens[MAX_SEQS], table[MAX_TABLE];
	double row[MAX_HEAD];
	const int swapped = toy.fault == HEADS_SWAPPED ? head ^ 1 : head;
	deceive(&b, seq, lens, table);
	if (toy.fault == ROUNDS_WEIGHTS || toy.fault == ROUNDS_TO_E4M3 ||
	    toy.fault == ROUNDS_TO_Q_TYPE)
		attend_rounded(&b, seq, token, head, row);
	else
		reference_row(&b, &toy.shape, seq, token, swapped, row);
	if (toy.fault == READS_TAIL && a->seq_lens[seq]) {
		const int page = a->seq_lens[seq] / a->page_size;
		row[0] += 0 * value_of(toy.shape.kv_dtype, a->v_cache,
				       a->block_table[seq * a->block_table_stride + page] *
					       a->v_page_stride +
					   a->seq_lens[seq] % a->page_size * a->v_slot_stride);
	}
	if (toy.fault == EMPTY_IS_NAN && row[0] == 0 && row[1] == 0)
		row[0] = NAN;
	if (toy.fault == READS_WORKSPACE)
		row[0] += 0 * *a->partial_ml;
	if (toy.fault == WRITES_BEHIND_WORKSPACE)
		a->partial_ml[(size_t)a->seq_count * (size_t)a->max_query *
			      (size_t)a->num_query_heads * 2 * (size_t)(toy.shape.head_size + 2)] =
		    0;
	write_row(toy.fault == CONTIGUOUS_OUT ? &b : &before, seq, token, head, row);
}

/* cell = one sequence of the part */
static void toy_cell(const struct attune_args *a, int x, int y, int z)
{
	const int seq = a->seq_begin + x;
	const int query = a->query_start[seq + 1] - a->query_start[seq];
	(void)y, (void)z;
	if ((query < a->min_query || query > a->max_query) && toy.fault != WRITES_OTHER_PART)
		return;
	if (toy.fault == LEAVES_LAST_SEQ && x && x == a->seq_count - 1)
		return;
	for (int t = 0; t < query; t++)
		for (int h = 0; h < a->num_query_heads; h++)
			compute(a, seq, t, h);
}

static void toy_reduce(const struct attune_args *a, int x, int y, int z)
{
	(void)a, (void)x, (void)y, (void)z;
}

static const char *toy_why_illegal(const struct config *c, const attune_shape *s,
				   const struct part *p, const struct device_info *d)
{
	(void)c, (void)s, (void)p, (void)d;
	return NULL;
}

/* Two segments where a fault has to do with partials. */
static void toy_geometry(const struct config *c, const attune_shape *s, const struct part *p,
			 const struct device_info *d, struct geometry *g)
{
	const int partials = toy.fault == READS_WORKSPACE || toy.fault == WRITES_BEHIND_WORKSPACE;
	(void)c, (void)s, (void)d;
	*g = (struct geometry){ .x = (unsigned)p->seq_count,
				.y = 1,
				.z = 1,
				.threads = 1,
				.segments = partials ? 2 : 1 };
}

static const struct space toy_space = { .why_illegal = toy_why_illegal, .geometry = toy_geometry };
static const struct kernel toy_kernel = { .name = "toy", .selectable = 1, .space = &toy_space };

/* ---- the gate ------------------------------------------------------------------- */

static struct device cpu;
static struct pool *pool;
static struct loaded loaded;

static enum attune_status load(struct code **code,
			       void (*cell)(const struct attune_args *, int, int, int))
{
	const struct blob blob = { .cell = cell };
	return cpu.ops->load(&cpu, code, &blob);
}

static int set_up(void **state)
{
	(void)state;
	return device_open(&cpu, "cpu") || load(&loaded.code, toy_cell) ||
	       load(&loaded.helper[HELPER_REDUCE], toy_reduce);
}

static int tear_down(void **state)
{
	(void)state;
	pool_free(&cpu, pool);
	cpu.ops->unload(&cpu, loaded.code);
	cpu.ops->unload(&cpu, loaded.helper[HELPER_REDUCE]);
	device_close(&cpu);
	return 0;
}

static void scenario_make(struct scenario *s, const attune_shape *shape, const char *text)
{
	char error[120];
	*s = (struct scenario){ .shape = *shape,
				.seed = 11,
				.layout = shape->page_size % 16 ? LAYOUT_HND : LAYOUT_NHD };
	s->batch = batch_parse(text, error, sizeof error);
	assert_non_null(s->batch);
}

static void check_kernel(struct verdict *v, const struct kernel *kernel, const attune_shape *shape,
			 enum fault fault, enum phase phase, const char *text, int rows)
{
	const struct choice choice = { .kernel = kernel };
	struct scenario s;
	toy.fault = fault;
	toy.shape = *shape;
	scenario_make(&s, shape, text);
	check_choice(v, &cpu, &pool, &choice, &loaded, &s, phase, rows);
	batch_free(s.batch);
}

static inline void check_one(struct verdict *v, const attune_shape *shape, enum fault fault,
			     enum phase phase, const char *text, int rows)
{
	check_kernel(v, &toy_kernel, shape, fault, phase, text, rows);
}

#define PLAIN                                                                                   \
	.size = sizeof(attune_shape), .num_query_heads = 4, .num_kv_heads = 2, .head_size = 32, \
	.page_size = 16, .causal = 1
static const attune_shape f32 = { PLAIN },
			  f16 = { PLAIN, .dtype = ATTUNE_F16, .kv_dtype = ATTUNE_F16 },
			  bf16 = { PLAIN, .dtype = ATTUNE_BF16, .kv_dtype = ATTUNE_BF16 },
			  window = { PLAIN, .dtype = ATTUNE_BF16, .kv_dtype = ATTUNE_BF16,
				     .window = 100 },
			  odd_pages = { .num_query_heads = 6,
					.num_kv_heads = 2,
					.head_size = 24,
					.page_size = 7,
					.causal = 1,
					.kv_dtype = ATTUNE_F16 },
			  all = { PLAIN,         .dtype = ATTUNE_F16, .kv_dtype = ATTUNE_F16,
				  .window = 37,  .softcap = 2,        .has_sinks = 1,
				  .has_alibi = 1 };

#endif
