/* SPDX-License-Identifier: Apache-2.0 */
/* t_ring_list.c - ring_list, and kernels that contain it, on batches of unequal lengths:
 * captured once, replayed for other lengths on the same grid and workspace, right each time, and
 * the same bits for the same lengths. The emulated GPU also takes other orders of turns. */
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "harness/check/workload.h"
#include "kernels/launch/run.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/gpu_here.h"
#include "tests/support/gpu_rows.h"
#include "tests/support/replay.h"

enum { REPLAYS = 12, EMULATED_REPLAYS = 5, AGAIN = 3, SAMPLES = 60 };

// clang-format off
static const struct captured {
	const char *shape; /* its name begins so */
	const char *batch, *small; /* the first one's lengths are the most that replays have */
	const char *choice; /* the other sequences stay prefills or decodes */
} captures[] = {
	{ "group 4", "100q1s2000", "30q1s900", "ring_list BLOCKS_PER_SM=1" },
	{ "group 4", "100q1s2000", "30q1s900", "ring_list NUM_WARPS=2 NUM_STAGES=2 BLOCKS_PER_SM=2 START=0 BESIDE=0" },
	{ "group 4", "100q1s2000", "30q1s900", "ring_list BLOCKS_PER_SM=8 BESIDE=0" },
	{ "group 4", "q1s30k", "q1s2000", "ring_list BLOCKS_PER_SM=2 START=256" },
	{ "group 4", "40q8s2000_q1s2000", "7q8s500_q1s500", "ring_list NUM_WARPS=2 NUM_STAGES=2 BLOCKS_PER_SM=3 BESIDE=0" },
	{ "group 4", "40q5s2000_q1s2000", "7q5s500_q1s500", "ring_list BLOCK_M=32 NUM_WARPS=2 NUM_STAGES=2 BLOCKS_PER_SM=1" },
	{ "group 7", "100q2s2000_q1s2000", "9q2s700_q1s700", "ring_list BLOCK_M=16 TILE_SIZE=32 BLOCKS_PER_SM=1 LEAST=256" },
	{ "one KV head", "30q1s2000", "5q1s900", "ring_list BLOCK_M=16 BLOCKS_PER_SM=1" },
	{ "head 256", "30q4s2000_q1s2000", "5q4s500_q1s500", "ring_list NUM_STAGES=2 BLOCKS_PER_SM=1" },
	{ "window and sinks", "100q3s2000_q1s2000", "20q3s700_q1s700", "ring_list BLOCK_M=16 START=0" },
	{ "softcap", "60q1s2000", "10q1s700", "ring_list TILE_SIZE=32 NUM_STAGES=2 BLOCKS_PER_SM=1 BESIDE=0" },
	{ "all at once", "60q2s2000_q1s2000", "8q2s700_q1s700", "ring_list NUM_WARPS=8 NUM_STAGES=2 BLOCKS_PER_SM=1" },
	{ "group 16", "60q2s2000_q1s2000", "8q2s900_q1s900", "ring_list BLOCK_M=16 NUM_WARPS=2 BLOCKS_PER_SM=2 BESIDE=0" },
	{ "all at once", "60q1s3000_q129s3000_q300s3000_8q1s3000_3q300s3000", "q150s600_5q1s600_q130s600_3q1s600", "warpgroup_mixed PREFILL_SEGMENTS=2" },
	{ "group 4", "60q1s3000_q129s3000_q300s3000_8q2s3000_3q300s3000", "q150s600_5q1s600_q130s600_3q2s600", "warpgroup_mixed PREFILL_SEGMENTS=3" },
};
// clang-format on

struct stage {
	struct row row;
	struct loaded loaded;
	struct scenario scenario;
	struct workload w;
	void *workspace;
	struct graph *graph;
	int max_query, max_seq, num_tokens;
	size_t bytes; /* of output, and room for it twice */
	char *out[2];
};

static void ok(enum attune_status status)
{
	if (status)
		fail_msg("%s", attune_last_error());
}

static enum attune_status load_code(struct code **code, const struct kernel *k, const char *flags)
{
	struct binary b;
	if (is_emulated(&dev))
		return simt_load(&dev, code, k->source, flags);
	if (jit_compile(&b, k, flags, dev.info.arch))
		fail_msg("%s %s: %s", k->name, flags, b.log);
	const enum attune_status status = dev.ops->load(&dev, code, &b.blob);
	jit_free(&b);
	return status;
}

static void find_row(struct row *r, const struct captured *c)
{
	char kernel[32];
	const char *why;
	int n;
	assert_int_equal(sscanf(c->choice, "%31s%n", kernel, &n), 1);
	r->choice = default_choice(kernel_find(BACKEND_GPU, kernel));
	choice_change(&r->choice, c->choice + n);
	while (strncmp(shapes[r->shape].name, c->shape, strlen(c->shape)))
		assert_true(++r->shape < (int)COUNT(shapes));
	why = r->choice.kernel->space->why_illegal(&r->choice.config, &shapes[r->shape].s, NULL,
						   &dev.info);
	if (why)
		fail_msg("%s: %s", c->choice, why);
}

static void capture(struct stage *t)
{
	size_t bytes;
	ok(choice_workspace(&dev, &t->row.choice, &t->scenario, PHASE_ALL, &bytes));
	ok(dev.ops->alloc(&dev, &t->workspace, bytes));
	ok(dev.ops->graph_begin(&dev));
	ok(choice_launch(&dev, &t->row.choice, &t->loaded, &t->w, 0, PHASE_ALL, t->workspace, bytes,
			 ALL_STEPS, dev.ops->stream(&dev)));
	ok(dev.ops->graph_end(&dev, &t->graph));
}

static void stage_make(struct stage *t, const struct captured *c)
{
	char error[160];
	const char *text = is_emulated(&dev) ? c->small : c->batch;
	memset(t, 0, sizeof *t);
	find_row(&t->row, c);
	const attune_shape *s = &shapes[t->row.shape].s;
	t->scenario = (struct scenario){ .batch_text = (char *)(uintptr_t)text,
					 .batch = batch_parse(text, error, sizeof error),
					 .shape = *s,
					 .layout = shapes[t->row.shape].layout,
					 .seed = 9 };
	assert_non_null(t->scenario.batch);
	const attune_batch *b = &t->scenario.batch->view;
	t->max_query = b->query_start[1];
	t->max_seq = b->seq_lens[0];
	t->num_tokens = b->query_start[b->num_seqs];
	load_choice(&t->loaded, &t->row.choice, s);
	ok(workload_make(&t->w, &dev, &pool, &t->scenario, WORKLOAD_CHECK, 0));
	t->bytes = (size_t)(t->num_tokens * s->num_query_heads * s->head_size) * 2;
	for (int i = 0; i < 2; i++) {
		t->out[i] = malloc(t->bytes);
		assert_non_null(t->out[i]);
	}
	capture(t);
}

static void stage_free(struct stage *t)
{
	dev.ops->graph_free(&dev, t->graph);
	dev.ops->release(&dev, t->workspace);
	unload_choice(&t->loaded);
	workload_free(&t->w);
	batch_free(t->scenario.batch);
	free(t->out[0]);
	free(t->out[1]);
}

/* Some have no query, some no more keys than queries; most are short, and now and then none is. */
static void change(struct stage *t)
{
	struct batch *b = t->scenario.batch;
	const unsigned longest = 1 + any_number() % (unsigned)t->max_seq;
	int was = 0; /* where this one's queries began */
	for (int i = 0; i < b->view.num_seqs; i++) {
		const unsigned top = any_number() % 4 ? longest / 8 + 1 : longest;
		int query = 1 + (int)(any_number() % (unsigned)t->max_query);
		query = any_number() % 9 ? query : 0;
		if (t->row.choice.kernel->space->is_fused)
			query = b->query_start[i + 1] - was;
		was = b->query_start[i + 1];
		query = (int)min_of(query, t->num_tokens - b->query_start[i]);
		const int seq = query + (int)(any_number() % top);
		b->query_start[i + 1] = b->query_start[i] + query;
		b->seq_lens[i] = query ? (int)min_of(seq, t->max_seq) : 0;
	}
	ok(put_lengths(&dev, &t->w, b));
}

static void replays_are_right(void **state)
{
	struct stage t;
	struct verdict v;
	stage_make(&t, *state);
	const int n = is_emulated(&dev) ? EMULATED_REPLAYS : REPLAYS;
	for (int i = 0; i < n; i++) {
		char *text = batch_format(&t.scenario.batch->view);
		ok(replay_graph(&dev, t.graph, &t.w, t.out[0], t.bytes, 0));
		check_output(&v, &t.w, PHASE_ALL, SAMPLES, 0);
		if (v.outcome != OUTCOME_OK)
			fail_msg("%s: %s: %s", text, outcome_name(v.outcome), v.text);
		for (unsigned again = 1; again < AGAIN; again++) {
			ok(replay_graph(&dev, t.graph, &t.w, t.out[1], t.bytes, again));
			if (memcmp(t.out[0], t.out[1], t.bytes))
				fail_msg("%s: other bits the next time", text);
		}
		free(text);
		change(&t);
	}
	stage_free(&t);
}

static int end_row(void **state)
{
	(void)state;
	return end_capture(&dev);
}

int main(void)
{
	static struct CMUnitTest tests[COUNT(captures)];
	static char names[COUNT(captures)][200];
	if (gpu_open(&dev)) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	for (size_t i = 0; i < COUNT(captures); i++) {
		snprintf(names[i], sizeof names[i], "%s: %s", captures[i].shape,
			 captures[i].choice);
		tests[i] = (struct CMUnitTest){ names[i], replays_are_right, NULL, end_row,
						(void *)(uintptr_t)&captures[i] };
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = _cmocka_run_group_tests("ring_list", tests, COUNT(tests), NULL, NULL);
	pool_free(&dev, pool);
	device_close(&dev);
	return failed;
}
