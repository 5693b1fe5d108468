/* SPDX-License-Identifier: Apache-2.0 */
/* t_gpu_early.c - calls that begin early, behind a launch that is slow to write Q and this
 * step's keys (late.cu): on a stream and in a captured graph the output equals that of launches
 * in turn, bit for bit. Skips itself without an NVIDIA GPU that has such launches.
 *
 *   late:  | next may begin |  50 us  | writes Q, K, V |
 *   call:      | reads old keys ....    waits          | reads Q, new keys |
 *
 * Until then Q, K and V hold NaN in every element, so a call that does not wait for all blocks
 * in front reads NaN and writes it. The last row launches such a call, by code that does not
 * wait but with the driver's early attribute, and must see it fail. */
#include "harness/check/check.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "kernels/launch/op.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/gpu_here.h"

enum { ROUNDS = 3, LATE_US = 50, LATE_THREADS = 256, MOST_PIECES = 4096 };

static const attune_shape shape = { .size = sizeof(attune_shape),
				    .num_query_heads = 8,
				    .num_kv_heads = 2,
				    .head_size = 128,
				    .page_size = 16,
				    .dtype = ATTUNE_BF16,
				    .kv_dtype = ATTUNE_BF16,
				    .causal = 1 };
static const char *const decodes[] = { "8q1s3000", "q1s16_q1s1_q4s700_q8s1100_q1s5000", NULL };
static const char *const prefills[] = { "q300s3000", "q40s700_5q64s64_q9s500_q200s201", NULL };

// clang-format off
#define RING "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 "
#define LIST "ring_list BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=2 BLOCKS_PER_SM=2 START=64 LEAST=64 BESIDE=1 "
#define GROUP "warpgroup BLOCK_M=128 TILE_SIZE=128 NUM_STAGES=2 BLOCKS_PER_SM=1 TURNS=1 PERSISTENT=1 HEADS=0 "
static const struct row {
	const char *name, *choice;
	int waits;
	const char *const *batches;
} rows[] = {
	{ "one segment, after the last key",   RING "COMBINE=0 SEGMENTS=1 EARLY=1", 1, decodes },
	{ "one segment, at once",              RING "COMBINE=0 SEGMENTS=1 EARLY=2", 1, decodes },
	{ "a reduction, after the last key",   RING "COMBINE=0 SEGMENTS=4 EARLY=1", 1, decodes },
	{ "a reduction, at once",              RING "COMBINE=0 SEGMENTS=4 EARLY=2", 1, decodes },
	{ "a cluster, after the last key",     RING "COMBINE=1 SEGMENTS=4 EARLY=1", 1, decodes },
	{ "a cluster, at once",                RING "COMBINE=1 SEGMENTS=4 EARLY=2", 1, decodes },
	{ "a list, after the first keys",      LIST "EARLY=1", 1, decodes },
	{ "a list, at once",                   LIST "EARLY=2", 1, decodes },
	{ "prefills",                          GROUP "SEGMENTS=1 EARLY=1", 1, prefills },
	{ "prefills, packed, a reduction",     GROUP "PACKED=1 SEGMENTS=3 EARLY=1", 1, prefills },
	{ "what does not wait is seen",        RING "COMBINE=0 SEGMENTS=1",         0, decodes },
};
// clang-format on

static struct device dev;
static struct pool *pool;

/* ---- the launch in front ----------------------------------------------------------------- */

struct late_args { /* as in late.cu */
	void **to;
	void *from;
	long long words, cycles;
};

/* The pieces that it writes: device memory, in 8-byte words. */
struct late {
	struct code *code;
	struct late_args args;
	struct piece {
		char *at;
		size_t bytes;
	} piece[MOST_PIECES];
	int n;
};

static void done(enum attune_status status)
{
	if (status)
		fail_msg("%s", attune_last_error());
}

static void add_piece(struct late *l, const void *at, size_t bytes)
{
	assert_true(l->n < MOST_PIECES && bytes % 8 == 0 && (uintptr_t)at % 8 == 0);
	l->piece[l->n++] = (struct piece){ (char *)(uintptr_t)at, bytes };
	l->args.words += (long long)bytes / 8;
}

/* K and V of one slot in each head. */
static void add_slot(struct late *l, const attune_tensors *t, long long page, long long slot)
{
	const size_t bytes = (size_t)shape.head_size * 2;
	for (int h = 0; h < shape.num_kv_heads; h++) {
		add_piece(l,
			  (const char *)t->k_cache +
			      2 * (page * t->k_page_stride + slot * t->k_slot_stride +
				   h * t->k_head_stride),
			  bytes);
		add_piece(l,
			  (const char *)t->v_cache +
			      2 * (page * t->v_page_stride + slot * t->v_slot_stride +
				   h * t->v_head_stride),
			  bytes);
	}
}

static void add_all(struct late *l, const struct workload *w)
{
	const attune_batch *b = &w->scenario->batch->view;
	const attune_tensors *t = &w->tensors;
	add_piece(l, t->q, (size_t)(2 * b->query_start[b->num_seqs] * t->q_token_stride));
	for (int s = 0; s < b->num_seqs; s++) {
		const int len = b->seq_lens[s], query = b->query_start[s + 1] - b->query_start[s];
		for (int key = len - query; key < len; key++)
			add_slot(l, t,
				 w->host_table[s * t->block_table_stride + key / shape.page_size],
				 key % shape.page_size);
	}
}

/* The words as they are now, in `from`; where they go, in `to`. */
static void stage(struct late *l)
{
	char *words = malloc((size_t)l->args.words * 8);
	char **to = malloc((size_t)l->args.words * sizeof *to);
	size_t n = 0;
	assert_true(words && to);
	for (int i = 0; i < l->n; i++) {
		done(dev.ops->get(&dev, words + 8 * n, l->piece[i].at, l->piece[i].bytes));
		for (size_t k = 0; k < l->piece[i].bytes; k += 8)
			to[n++] = l->piece[i].at + k;
	}
	done(dev.ops->alloc(&dev, (void **)&l->args.to, n * sizeof *to));
	done(dev.ops->alloc(&dev, &l->args.from, n * 8));
	done(dev.ops->put(&dev, l->args.to, to, n * sizeof *to));
	done(dev.ops->put(&dev, l->args.from, words, n * 8));
	free(words);
	free(to);
}

static struct late *late_make(const struct workload *w)
{
	struct late *l = calloc(1, sizeof *l);
	const int mhz = dev.info.clock_mhz ? dev.info.clock_mhz : 2000;
	char path[4096];
	struct binary b;
	assert_non_null(l);
	snprintf(path, sizeof path, "%s/../tests/kernels/late.cu", source_root());
	if (jit_compile_source(&b, path, "", dev.info.arch))
		fail_msg("%s: %s", path, b.log ? b.log : "no compiler");
	done(dev.ops->load(&dev, &l->code, &b.blob));
	jit_free(&b);
	add_all(l, w);
	stage(l);
	l->args.cycles = (long long)LATE_US * mhz;
	return l;
}

static void late_free(struct late *l)
{
	dev.ops->release(&dev, l->args.to);
	dev.ops->release(&dev, l->args.from);
	dev.ops->unload(&dev, l->code);
	free(l);
}

/* NaN in all that it is to write. */
static void poison(const struct late *l)
{
	for (int i = 0; i < l->n; i++)
		done(dev.ops->fill(&dev, l->piece[i].at, 0xff, l->piece[i].bytes));
}

static void launch_late(const struct late *l)
{
	const struct geometry g = {
		.x = 1, .y = 1, .z = 1, .threads = LATE_THREADS, .segments = 1
	};
	done(dev.ops->launch(&dev, l->code, &g, &l->args, sizeof l->args, dev.ops->stream(&dev)));
}

/* ---- calls ------------------------------------------------------------------------------- */

struct caller {
	attune_op *op;
	attune_plan plan;
	struct workload w;
	struct late *late;
	void *workspace;
	size_t bytes;      /* of the output */
	char *want, *have; /* the output in turn, and that of the call */
};

static struct code *code_of(const struct kernel *k, const struct config *c)
{
	char flags[MAX_FLAGS];
	struct binary b;
	struct code *code = NULL;
	binary_flags(flags, sizeof flags, k, c, &shape);
	if (jit_compile(&b, k, flags, dev.info.arch))
		fail_msg("%s %s: %s", k->name, flags, b.log ? b.log : "no compiler");
	done(dev.ops->load(&dev, &code, &b.blob));
	jit_free(&b);
	return code;
}

static void run(struct caller *c)
{
	done(attune_run(c->op, &c->plan, &c->w.tensors, c->workspace, c->plan.workspace,
			dev.ops->stream(&dev)));
}

static void fetch(const struct caller *c, char *to)
{
	done(dev.ops->wait(&dev, dev.ops->stream(&dev)));
	done(dev.ops->get(&dev, to, c->w.tensors.out, c->bytes));
}

/* Whether the outputs of all rounds equal those of launches in turn. */
static int is_same(struct caller *c, int in_graph)
{
	struct graph *graph = NULL;
	int same = 1;
	double ns;
	if (in_graph) {
		done(dev.ops->graph_begin(&dev));
		launch_late(c->late);
		run(c);
		done(dev.ops->graph_end(&dev, &graph));
	}
	for (int i = 0; i < ROUNDS; i++) {
		poison(c->late);
		done(workload_poison(&c->w));
		if (in_graph) {
			done(dev.ops->graph_play(&dev, graph, &ns));
		} else {
			launch_late(c->late);
			run(c);
		}
		fetch(c, c->have);
		same &= !memcmp(c->have, c->want, c->bytes);
	}
	dev.ops->graph_free(&dev, graph);
	return same;
}

static void caller_make(struct caller *c, attune_op *op, const struct scenario *s)
{
	const attune_batch *b = &s->batch->view;
	*c = (struct caller){ .op = op };
	done(workload_make(&c->w, &dev, &pool, s, WORKLOAD_CHECK, 0));
	c->plan.size = sizeof c->plan;
	done(attune_plan_batch(op, b, &c->plan));
	done(dev.ops->alloc(&dev, &c->workspace, c->plan.workspace + 16));
	c->bytes = (size_t)(2 * b->query_start[b->num_seqs] * c->w.tensors.out_token_stride);
	c->want = malloc(c->bytes);
	c->have = malloc(c->bytes);
	assert_true(c->want && c->have);
	done(workload_poison(&c->w));
	run(c);
	fetch(c, c->want);
	c->late = late_make(&c->w);
}

static void caller_free(struct caller *c)
{
	late_free(c->late);
	free(c->want);
	free(c->have);
	dev.ops->release(&dev, c->workspace);
	workload_free(&c->w);
}

static void batch_is_right(const struct row *r, attune_op *op, const char *text)
{
	char error[160];
	struct scenario s = { .batch_text = (char *)(uintptr_t)text,
			      .batch = batch_parse(text, error, sizeof error),
			      .shape = shape,
			      .seed = 5 };
	struct device_ops careless = *dev.ops;
	struct caller c;
	assert_non_null(s.batch);
	caller_make(&c, op, &s);
	careless.launch = dev.ops->launch_early;
	c.plan.start = ATTUNE_START_EARLY;
	op->ctx->device.ops = r->waits ? dev.ops : &careless;
	for (int in_graph = 0; in_graph < 2; in_graph++)
		if (is_same(&c, in_graph) != r->waits)
			fail_msg("%s, %s: %s", text, in_graph ? "in a graph" : "on a stream",
				 r->waits ? "not as in turn" : "a call that does not wait passes");
	op->ctx->device.ops = dev.ops;
	caller_free(&c);
	batch_free(s.batch);
}

static void as_in_turn(void **state)
{
	const struct row *r = *state;
	const struct kernel *reduce = kernel_helper(BACKEND_GPU, HELPER_REDUCE);
	char error[200];
	struct choice c;
	struct config defaults;
	if (!choice_parse(&c, BACKEND_GPU, r->choice, error, sizeof error))
		fail_msg("%s", error);
	config_default(&defaults, reduce->space);
	attune_context ctx = { .device = dev };
	struct ready ready = { .kernel = c.kernel,
			       .config = c.config,
			       .code = code_of(c.kernel, &c.config) };
	attune_op op = { .ctx = &ctx,
			 .shape = shape,
			 .helper[HELPER_REDUCE] = code_of(reduce, &defaults),
			 .num_ready = 1,
			 .ready = &ready };
	for (const char *const *text = r->batches; *text; text++)
		batch_is_right(r, &op, *text);
	dev.ops->unload(&dev, ready.code);
	dev.ops->unload(&dev, op.helper[HELPER_REDUCE]);
}

static int end_row(void **state)
{
	(void)state;
	return end_capture(&dev);
}

int main(void)
{
	struct CMUnitTest tests[COUNT(rows)];
	const int missing = gpu_open_real(&dev);
	if (missing || !dev.ops->launch_early || !has_clusters(&dev.info)) {
		printf("1..0 # SKIP %s\n",
		       missing ? attune_last_error() : "this GPU begins no launch early");
		return missing && gpu_named() ? 1 : 0;
	}
	for (size_t i = 0; i < COUNT(rows); i++)
		tests[i] = (struct CMUnitTest){ rows[i].name, as_in_turn, NULL, end_row,
						(void *)(uintptr_t)&rows[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = _cmocka_run_group_tests("gpu_early", tests, COUNT(rows), NULL, NULL);
	pool_free(&dev, pool);
	device_close(&dev);
	return failed;
}
