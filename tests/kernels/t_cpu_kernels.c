/* SPDX-License-Identifier: Apache-2.0 */
/* t_cpu_kernels.c - the CPU's kernels against the definition, on every instruction set of this
 * machine, over corner batches and shapes. Unused pages, the tails of last pages and unused
 * table entries are poison. */
#include "harness/compile/compile.h"
#include "harness/check/reference.h"
#include "harness/scenario/scenario.h"
#include "kernels/args_more.h"
#include "kernels/launch/run.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"
#include <stdio.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { POISON = 0xff, GUARD = 256, WORKSPACE = 64 << 20 };

// clang-format off
static const char *const batches[] = {
	"q1s1", "q1s15_q1s16_q1s17", "4q1s1_q3s3_q1s129", "q1s300_q4s4_q1s200_q8s129",
	"2q5s3_q12s5", "q70_q1s65_q33s300_q9s9", "q130s210_q8s8_q40s500", NULL,
};

/* Axes that are not named keep their defaults. A shape takes one half of them, its
 * neighbour the other. */
static const char *const choices[] = {
	"segmented",
	"qblock BLOCK_M=48 TILE_SIZE=128",
	"segmented SEGMENTS=4 WHOLE_PAGES=1 TILE_SIZE=32 STREAMS=8",
	"qblock",
};

#define SIZE sizeof(attune_shape)
static const struct row {
	const char *name;
	attune_shape s;
	int hnd; /* a page holds one head after another */
} shapes[] = {
	{ "group 4, bf16", { SIZE, 8, 2, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, 0 },
	{ "group 7, f32, head 80, pages of 48", { SIZE, 14, 2, 80, 48, ATTUNE_F32, ATTUNE_F32, .causal = 1 }, 0 },
	{ "group 71, f16, head 64, pages of 544", { SIZE, 71, 1, 64, 544, ATTUNE_F16, ATTUNE_F16, .causal = 1 }, 1 },
	{ "one head each, window, sinks, f32 to bf16", { SIZE, 3, 3, 96, 8, ATTUNE_F32, ATTUNE_BF16, .causal = 1,
	  .window = 21, .has_sinks = 1 }, 0 },
	{ "softcap, no mask, head 192", { SIZE, 4, 2, 192, 16, ATTUNE_BF16, ATTUNE_F16, .softcap = 3 }, 0 },
	{ "all at once, head 72, pages of 1", { SIZE, 10, 2, 72, 1, ATTUNE_BF16, ATTUNE_BF16, .causal = 1,
	  .window = 70, .softcap = 20, .has_sinks = 1, .has_alibi = 1, .scale = 0.2f }, 1 },
	{ "alibi, head 256", { SIZE, 4, 2, 256, 16, ATTUNE_F32, ATTUNE_F32, .causal = 1, .has_alibi = 1 }, 0 },
	{ "group 24, window without a mask", { SIZE, 24, 1, 128, 16, ATTUNE_F16, ATTUNE_F16, .window = 40 }, 0 },
	{ "head 16, sinks", { SIZE, 4, 2, 16, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .has_sinks = 1 }, 1 },
	{ "head 32, window, softcap", { SIZE, 6, 2, 32, 16, ATTUNE_F16, ATTUNE_F16, .causal = 1, .window = 33, .softcap = 5 }, 0 },
	{ "head 16, f32, all at once", { SIZE, 5, 1, 16, 8, ATTUNE_F32, ATTUNE_F32, .causal = 1, .window = 50, .softcap = 20,
	  .has_sinks = 1, .has_alibi = 1 }, 0 },
	{ "head 32, f32, no mask, softcap", { SIZE, 8, 8, 32, 4, ATTUNE_F32, ATTUNE_F32, .softcap = 4 }, 1 },
};
// clang-format on

static unsigned long long seed;

static float noise(void) /* -1 .. 1 */
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (float)(int)(seed >> 40) / 8388608.f - 1.f;
}

/* ---- a batch in memory ---------------------------------------------------------- */

struct world {
	struct batch *batch;
	attune_tensors t;
	size_t out_bytes;
	void *block[8];
	int blocks;
};

/* `bytes` of poison between two guards. */
static void *poisoned(struct world *w, size_t bytes)
{
	char *p = malloc(bytes + 2 * GUARD);
	assert_non_null(p);
	memset(p, POISON, bytes + 2 * GUARD);
	w->block[w->blocks++] = p;
	return p + GUARD;
}

static int pages_of(const attune_shape *s, int tokens)
{
	return (tokens + s->page_size - 1) / s->page_size;
}

/* Physical pages are a permutation with gaps; only tokens are written. */
static void fill_cache(struct world *w, const attune_shape *s, int *table, int stride, int pages)
{
	const attune_batch *b = &w->batch->view;
	const attune_tensors *t = &w->t;
	int number = 0;
	for (int i = 0; i < b->num_seqs; i++) {
		for (int p = 0; p < pages_of(s, b->seq_lens[i]); p++)
			table[i * stride + p] = number++ * 7 % pages; /* 7 and pages: coprime */
		for (int token = 0; token < b->seq_lens[i]; token++)
			for (int h = 0; h < s->num_kv_heads; h++) {
				long long at =
				    table[i * stride + token / s->page_size] * t->k_page_stride +
				    token % s->page_size * t->k_slot_stride + h * t->k_head_stride;
				for (int d = 0; d < s->head_size; d++, at++) {
					value_put(s->kv_dtype, (void *)t->k_cache, at, noise());
					value_put(s->kv_dtype, (void *)t->v_cache, at, noise());
				}
			}
	}
}

static void set_strides(attune_tensors *t, const attune_shape *s, int hnd)
{
	const long long head = s->head_size, heads = s->num_kv_heads, slots = s->page_size;
	t->q_token_stride = t->out_token_stride = s->num_query_heads * head;
	t->q_head_stride = t->out_head_stride = head;
	t->k_page_stride = t->v_page_stride = slots * heads * head;
	t->k_slot_stride = t->v_slot_stride = hnd ? head : heads * head;
	t->k_head_stride = t->v_head_stride = hnd ? slots * head : head;
}

static void make_world(struct world *w, const attune_shape *s, const char *text, int hnd)
{
	char error[200];
	int used = 0, longest = 1;
	memset(w, 0, sizeof *w);
	w->batch = batch_parse(text, error, sizeof error);
	assert_non_null(w->batch);
	const attune_batch *b = &w->batch->view;
	for (int i = 0; i < b->num_seqs; i++) {
		const int n = pages_of(s, b->seq_lens[i]);
		used += n;
		longest = n > longest ? n : longest;
	}
	const int pages = used + 2 + ((used + 2) % 7 == 0);
	const int tokens = b->query_start[b->num_seqs];
	set_strides(&w->t, s, hnd);
	const size_t cache = (size_t)(pages * w->t.k_page_stride * dtype_bytes(s->kv_dtype));
	const size_t rows = (size_t)tokens * (size_t)w->t.q_token_stride;
	float *sinks = poisoned(w, (size_t)s->num_query_heads * sizeof *sinks);
	float *slopes = poisoned(w, (size_t)s->num_query_heads * sizeof *slopes);
	void *q = poisoned(w, rows * (size_t)dtype_bytes(s->dtype));
	int *table = poisoned(w, (size_t)(b->num_seqs * longest) * sizeof *table);
	w->out_bytes = rows * (size_t)dtype_bytes(s->dtype);
	w->t.out = poisoned(w, w->out_bytes);
	w->t.k_cache = poisoned(w, cache);
	w->t.v_cache = poisoned(w, cache);
	for (int i = 0; i < s->num_query_heads; i++) {
		sinks[i] = 2 * noise();
		slopes[i] = 0.01f * (float)(i % 9 + 1);
	}
	for (size_t i = 0; i < rows; i++)
		value_put(s->dtype, q, (long long)i, noise());
	fill_cache(w, s, table, longest, pages);
	w->t.q = q;
	w->t.sinks = sinks;
	w->t.alibi_slopes = slopes;
	w->t.block_table = table;
	w->t.block_table_stride = longest;
	w->t.query_start = b->query_start;
	w->t.seq_lens = b->seq_lens;
}

static void free_world(struct world *w)
{
	while (w->blocks)
		free(w->block[--w->blocks]);
	batch_free(w->batch);
}

/* ---- kernels -------------------------------------------------------------------- */

static struct device dev;
static void *workspace;

static struct code *load(const struct kernel *k, const struct config *c, const attune_shape *s)
{
	struct binary binary;
	struct code *code = NULL;
	char flags[MAX_FLAGS];
	binary_flags(flags, sizeof flags, k, c, s);
	if (jit_compile(&binary, k, flags, dev.info.arch))
		fail_msg("%s %s: %s", k->name, flags, binary.log ? binary.log : "no compiler");
	if (dev.ops->load(&dev, &code, &binary.blob))
		fail_msg("%s", attune_last_error());
	jit_free(&binary);
	return code;
}

/* "segmented SEGMENTS=4": defaults for all other axes. */
static const struct kernel *choose(struct config *c, const char *text)
{
	char name[32];
	const size_t len = strcspn(text, " ");
	snprintf(name, sizeof name, "%.*s", (int)len, text);
	const struct kernel *k = kernel_find(BACKEND_CPU, name);
	assert_non_null(k);
	config_default(c, k->space);
	for (int i = 0; i < k->space->num_axes; i++) {
		const char *at = strstr(text, k->space->axis[i].name);
		if (at)
			c->v[i] = atoi(strchr(at, '=') + 1);
	}
	return k;
}

static double tolerance(const attune_shape *s, double want)
{
	static const double half_an_ulp[] = { 0, 0x1p-11, 0x1p-8 };
	return 2e-5 + 1.01 * half_an_ulp[s->dtype] * fabs(want);
}

static int is_poison(const struct world *w, long long at, int bytes)
{
	const unsigned char *p = (const unsigned char *)w->t.out + at * bytes;
	int n = 0;
	while (n < bytes && p[n] == POISON)
		n++;
	return n == bytes;
}

/* Of many tokens or heads some, the last among them. */
static int is_looked_at(const attune_shape *s, int token, int head, int query)
{
	return (query <= 20 || token % 13 == 0 || token + 1 == query) &&
	       (s->num_query_heads <= 8 || head % 5 == 0 || head + 1 == s->num_query_heads);
}

/* Every row that is looked at, as it should be. */
static double *reference(const struct world *w, const attune_shape *s)
{
	const attune_batch *b = &w->batch->view;
	struct attune_args args;
	double *want = calloc((size_t)b->query_start[b->num_seqs] * (size_t)w->t.out_token_stride,
			      sizeof *want);
	assert_non_null(want);
	args_from_tensors(&args, s, &w->t, b->num_seqs);
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		for (int token = 0; token < query; token++)
			for (int head = 0; head < s->num_query_heads; head++)
				if (is_looked_at(s, token, head, query))
					reference_row(&args, s, i, token, head,
						      want +
							  (b->query_start[i] + token) *
							      w->t.out_token_stride +
							  head * w->t.out_head_stride);
	}
	return want;
}

static void compare_row(const struct world *w, const attune_shape *s, long long at,
			const double *want, const char *what)
{
	for (int d = 0; d < s->head_size; d++, at++) {
		const double got = value_of(s->dtype, w->t.out, at);
		if (!(fabs(got - want[at]) <= tolerance(s, want[at])))
			fail_msg("%s: out[token %lld][head %lld][%d] = %g, want %g", what,
				 at / w->t.out_token_stride,
				 at % w->t.out_token_stride / s->head_size, d, got, want[at]);
	}
}

static void compare(const struct world *w, const attune_shape *s, enum phase phase,
		    const double *want, const char *what)
{
	const attune_batch *b = &w->batch->view;
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		const enum phase part = query <= DECODE_MAX_QUERY ? PHASE_DECODE : PHASE_PREFILL;
		const int is_in = phase == PHASE_ALL || phase == part;
		for (int n = 0; n < query * s->num_query_heads; n++) {
			const int token = n / s->num_query_heads, head = n % s->num_query_heads;
			const long long at = (b->query_start[i] + token) * w->t.out_token_stride +
					     head * w->t.out_head_stride;
			if (!is_in && !is_poison(w, at, dtype_bytes(s->dtype)))
				fail_msg("%s: sequence %d is not of the part", what, i);
			if (is_in && is_looked_at(s, token, head, query))
				compare_row(w, s, at, want, what);
		}
	}
	for (size_t i = 0; i < GUARD; i++) {
		assert_int_equal(((unsigned char *)w->t.out)[w->out_bytes + i], POISON);
		assert_int_equal(((unsigned char *)w->t.out - GUARD)[i], POISON);
	}
}

static void run_and_compare(struct world *w, const attune_shape *s, const struct launchable *l,
			    enum phase phase, const double *want, const char *what)
{
	struct attune_call call;
	struct part part;
	if (!part_make(&part, phase, s, &w->batch->view, &dev.info))
		return;
	memset(w->t.out, POISON, w->out_bytes);
	call_from_tensors(&call, s, &w->t, w->batch->view.num_seqs);
	const size_t bytes = part_workspace(l->kernel, l->config, s, &part, &dev.info);
	assert_true(bytes <= WORKSPACE);
	memset(workspace, POISON, bytes);
	if (run_part(&dev, l, s, &part, &call, workspace, WORKSPACE, ALL_STEPS, NULL))
		fail_msg("%s: %s", what, attune_last_error());
	compare(w, s, phase, want, what);
}

struct loaded_choice {
	const char *text;
	struct config config;
	struct launchable l;
};

static void batch_is_right(const struct row *row, const char *batch,
			   const struct loaded_choice *choice, int n)
{
	struct world w;
	char what[200];
	make_world(&w, &row->s, batch, row->hnd);
	double *want = reference(&w, &row->s);
	for (int i = 0; i < n; i++)
		for (int phase = PHASE_ALL; phase <= PHASE_DECODE; phase++) {
			snprintf(what, sizeof what, "cpu:%s %s, batch %s, phase %d", dev.info.arch,
				 choice[i].text, batch, phase);
			run_and_compare(&w, &row->s, &choice[i].l, (enum phase)phase, want, what);
		}
	free(want);
	free_world(&w);
}

static void shape_is_right(const struct row *row)
{
	struct loaded_choice choice[COUNT(choices)];
	struct config none;
	int n = 0;
	struct code *reduce = load(choose(&none, "reduce"), &none, &row->s);
	for (size_t i = (size_t)(row - shapes) % 2; i < COUNT(choices); i += 2, n++) {
		struct loaded_choice *c = &choice[n];
		const struct kernel *k = choose(&c->config, choices[i]);
		assert_null(k->space->why_illegal(&c->config, &row->s, NULL, &dev.info));
		c->text = choices[i];
		c->l = (struct launchable){ .kernel = k,
					    .config = &c->config,
					    .code = load(k, &c->config, &row->s),
					    .helper = { [HELPER_REDUCE] = reduce } };
	}
	seed = 1;
	for (int i = 0; batches[i]; i++)
		batch_is_right(row, batches[i], choice, n);
	while (n--)
		dev.ops->unload(&dev, (struct code *)choice[n].l.code);
	dev.ops->unload(&dev, reduce);
}

/* The widest instruction set takes all shapes, each lower one some. */
static void right_on_all(void **state)
{
	static const char *const isas[] = { "avx512", "avx2", "neon", "scalar" };
	const struct row *row = *state;
	const size_t number = (size_t)(row - shapes);
	size_t taken = 0;
	for (size_t i = 0; i < COUNT(isas); i++) {
		if (cpu_ops.open(&dev, isas[i]))
			continue;
		dev.ops = &cpu_ops;
		if (taken == 0 || number % 4 == taken || number % 4 == taken - 1)
			shape_is_right(row);
		taken++;
		cpu_ops.close(&dev);
	}
	assert_true(taken >= 1);
}

int main(void)
{
	struct CMUnitTest test[COUNT(shapes)];
	for (size_t i = 0; i < COUNT(shapes); i++)
		test[i] = (struct CMUnitTest){ .name = shapes[i].name,
					       .test_func = right_on_all,
					       .initial_state = (void *)&shapes[i] };
	workspace = malloc(WORKSPACE);
	if (!workspace)
		return 1;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	int failed = _cmocka_run_group_tests("cpu_kernels", test, COUNT(test), NULL, NULL);
	free(workspace);
	return failed;
}
