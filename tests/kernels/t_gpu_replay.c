/* t_gpu_replay.c - steps recorded in a CUDA graph and replayed for other lengths. The device's
 * plan equals the host's, the output is right, and the same lengths give the same bits. Prefills
 * run by warpgroup and decodes by ring_list where these take them. Steps are recorded by
 * attune_record_*, by attune_run on a captured stream, and by a SWITCH node over graphs of
 * plans.
 *
 * Without an NVIDIA GPU the emulated one runs small batches, fewer replays and rows, in another
 * order of turns each, and no SWITCH. Argument: only rows that begin so. */
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "harness/check/workload.h"
#include "kernels/replan/replan.h"
#include "kernels/launch/run.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/gpu_here.h"

enum {
	REPLAYS = 24,
	EMULATED_REPLAYS = 5,
	MOST_ROWS = 60,
	BODIES = 8,
	LARGE_WORKSPACE = 512 << 20
};

#define SIZE sizeof(attune_shape)
// clang-format off
static const struct row {
	const char *name;
	const char *batch, *small; /* the captured batch: its lengths are the most that replays have */
	attune_shape s;
} rows[] = {
	{ "decodes, group 4, head 128", "9q1s6k", "4q1s700", { SIZE, 32, 8, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 } },
	{ "speculative decodes, group 8, head 64, window, sinks", "20q5s2k", "3q5s1200", { SIZE, 16, 2, 64, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .window = 900, .has_sinks = 1 } },
	{ "mixed, group 4, head 128", "3q300s2k_12q40s3k", "q50s300_4q20s500", { SIZE, 8, 2, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 } },
	{ "mixed, group 40, head 128, pages of 48, softcap", "2q100s1k_5q1s3k", "q20s300_3q1s400", { SIZE, 40, 1, 128, 48, ATTUNE_F16, ATTUNE_F16, .causal = 1, .softcap = 30 } },
	{ "mixed, head 256, ALiBi", "2q70s900_3q8s1k", "q20s200_2q8s300", { SIZE, 4, 2, 256, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .has_alibi = 1 } },
	{ "decodes of a token and speculative ones, group 2", "30q8s2k", "9q8s500", { SIZE, 4, 2, 128, 16, ATTUNE_F16, ATTUNE_F16, .causal = 1 } },
	{ "prompts alone", "3q300s2k", "2q60s300", { SIZE, 8, 2, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 } },
	{ "mixed, F16, head 64, window", "2q200s1k_9q2s3k", "q40s300_5q2s600", { SIZE, 8, 4, 64, 32, ATTUNE_F16, ATTUNE_F16, .causal = 1, .window = 200 } },
	{ "decodes by bodies, pages of 12", "9q1s6k", "4q1s700", { SIZE, 32, 8, 128, 12, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 } },
	{ "mixed by bodies, pages of 4", "3q300s2k_12q40s3k", "q50s300_4q20s500", { SIZE, 8, 2, 128, 4, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 } },
	{ "a head size without measured choices", "q90s600_4q1s2k", "q30s200_3q1s400", { SIZE, 6, 3, 96, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 } },
	{ "a head size that warpgroup does not take", "q90s600_4q1s2k", "q30s200_3q1s400", { SIZE, 6, 3, 80, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 } },
};
// clang-format on

static struct device dev;
static attune_context *ctx;
static struct pool *pool;
static unsigned long long seed = 77;

struct stage {
	struct scenario scenario;
	struct workload w;
	attune_op *op;
	attune_bounds bounds;
	int *most_lens;
	size_t out_bytes;
	char *out[2]; /* the output, replayed twice */
	void *plan, *workspace, *leaves;
	size_t plan_bytes, workspace_bytes;
	struct code *leaf;
	attune_plan body[BODIES];
	int num_bodies;
	struct graph *graph;
};

static unsigned below(unsigned n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33) % n;
}

static void ok(enum attune_status status)
{
	if (status)
		fail_msg("%s", attune_last_error());
}

/* ---- a stage -------------------------------------------------------------------------- */

static int has_warpgroup(const attune_shape *s)
{
	return s->head_size != 80;
}

static void stage_make(struct stage *t, const struct row *r)
{
	char error[160];
	const char *text = is_emulated(&dev) ? r->small : r->batch;
	memset(t, 0, sizeof *t);
	t->scenario = (struct scenario){ .batch_text = (char *)(uintptr_t)text,
					 .batch = batch_parse(text, error, sizeof error),
					 .shape = r->s,
					 .seed = 5 };
	assert_non_null(t->scenario.batch);
	const attune_batch *b = &t->scenario.batch->view;
	t->bounds = (attune_bounds){ .size = sizeof(attune_bounds),
				     .num_seqs = b->num_seqs,
				     .num_tokens = b->query_start[b->num_seqs] };
	t->most_lens = malloc((size_t)b->num_seqs * sizeof *t->most_lens);
	assert_non_null(t->most_lens);
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		t->most_lens[i] = b->seq_lens[i];
		if (query > t->bounds.max_query)
			t->bounds.max_query = query;
	}
	ok(workload_make(&t->w, &dev, &pool, &t->scenario, WORKLOAD_CHECK, 0));
	ok(attune_prepare(ctx, &r->s, &t->op));
	/* on another GPU the library need not carry ring_list for the head size */
	if (!strcmp(dev.info.gpu, "h200")) {
		assert_non_null(t->op->recorder); /* NULL: built without its header */
		for (int w = 0; w < NUM_RECORDED; w++)
			assert_int_equal(t->op->recorder->alone[w] != NULL,
					 r->s.page_size % 8 == 0 && (w || has_warpgroup(&r->s)));
	}
	t->out_bytes = (size_t)t->bounds.num_tokens * (size_t)r->s.num_query_heads *
		       (size_t)r->s.head_size * 2;
	for (int i = 0; i < 2; i++) {
		t->out[i] = malloc(t->out_bytes);
		assert_non_null(t->out[i]);
	}
	ok(attune_record_sizes(t->op, &t->bounds, &t->plan_bytes, &t->workspace_bytes));
	ok(dev.ops->alloc(&dev, &t->plan, t->plan_bytes));
	ok(dev.ops->alloc(&dev, &t->workspace, t->workspace_bytes));
}

static void stage_free(struct stage *t)
{
	if (t->graph)
		dev.ops->graph_free(&dev, t->graph);
	dev.ops->unload(&dev, t->leaf);
	dev.ops->release(&dev, t->plan);
	dev.ops->release(&dev, t->workspace);
	dev.ops->release(&dev, t->leaves);
	attune_release(t->op);
	workload_free(&t->w);
	batch_free(t->scenario.batch);
	free(t->most_lens);
	free(t->out[0]);
	free(t->out[1]);
}

/* How queries vary; ANY: some have one token and some sequences none; ONES: one token, or too
 * many for a decode. */
enum queries { KEPT, ANY, ONES, DECODES, NO_DECODES };

static int any_query(enum queries kind, int was, int most)
{
	switch (kind) {
	case ANY: return below(2) ? 1 : (int)below((unsigned)most + 1);
	case ONES: return below(3) ? 1 : any_query(NO_DECODES, was, most);
	case DECODES: return 1 + (int)below(DECODE_MAX_QUERY);
	case NO_DECODES:
		return most > DECODE_MAX_QUERY
			   ? most - (int)below((unsigned)(most - DECODE_MAX_QUERY))
			   : 0;
	default: return was;
	}
}

/* Other lengths within the bounds. */
static void change(struct stage *t, enum queries kind)
{
	struct batch *b = t->scenario.batch;
	const unsigned top = 1 + below(below(2) ? 100 : 2000);
	int left = t->bounds.num_tokens, start = 0;
	for (int i = 0; i < b->view.num_seqs; i++) {
		const int most = (int)min_of(left, t->bounds.max_query);
		const int was = b->query_start[i + 1] - start;
		const int any = any_query(kind, was, most);
		const int query = kind == KEPT ? was : (int)min_of(any, most);
		const long long context = (long long)below((unsigned)t->most_lens[i]) * top / 2000;
		b->seq_lens[i] = query ? (int)min_of(query + context, t->most_lens[i]) : 0;
		start = b->query_start[i + 1];
		left -= query;
		b->query_start[i + 1] = b->query_start[i] + query;
	}
	expected_free(t->w.expected);
	t->w.expected = NULL;
	ok(dev.ops->put(&dev, (void *)(uintptr_t)t->w.tensors.query_start, b->query_start,
			((size_t)b->view.num_seqs + 1) * sizeof *b->query_start));
	ok(dev.ops->put(&dev, (void *)(uintptr_t)t->w.tensors.seq_lens, b->seq_lens,
			(size_t)b->view.num_seqs * sizeof *b->seq_lens));
}

static void replay_once(struct stage *t, char *out, unsigned order)
{
	double ns;
	if (is_emulated(&dev))
		simt_set(&dev, EMULATED_UNITS, order);
	ok(workload_poison(&t->w));
	ok(dev.ops->graph_play(&dev, t->graph, &ns));
	ok(dev.ops->get(&dev, out, t->w.tensors.out, t->out_bytes));
}

static void is_right(struct stage *t, unsigned order)
{
	struct verdict v;
	char *text = batch_format(&t->scenario.batch->view);
	replay_once(t, t->out[0], order);
	check_output(&v, &t->w, PHASE_ALL, MOST_ROWS, 0);
	if (v.outcome != OUTCOME_OK)
		fail_msg("%s: %s: %s", text, outcome_name(v.outcome), v.text);
	replay_once(t, t->out[1], order + REPLAYS);
	if (memcmp(t->out[0], t->out[1], t->out_bytes))
		fail_msg("%s: other bits the next time", text);
	free(text);
}

/* The device's plan against the host's. */
static void same_plan(struct stage *t, const void *on_device)
{
	struct recorded_plan got;
	attune_plan want = { .size = sizeof want };
	int next = 0;
	ok(dev.ops->get(&dev, &got, on_device, sizeof got));
	ok(attune_plan_recorded(t->op, &t->bounds, &t->scenario.batch->view, &want));
	for (int w = 0; w < NUM_RECORDED; w++) {
		const struct recorded_part *g = &got.part[w];
		assert_int_equal(g->taken, 0);
		assert_int_equal(g->finished, 0);
		if (g->choice < 0)
			continue;
		assert_true(next < want.num_parts);
		const attune_part *p = &want.part[next++];
		assert_int_equal(g->body < 0,
				 p->max_query <= t->op->recorder->table->alone_query[w]);
		assert_int_equal(g->choice, p->choice);
		assert_int_equal(g->segments, p->resolved ? p->resolved : 1);
		assert_int_equal(g->seq_begin, p->seq_begin);
		assert_int_equal(g->seq_count, p->seq_count);
		assert_int_equal(g->min_query, p->min_query);
		assert_int_equal(g->max_query, p->max_query);
	}
	assert_int_equal(next, want.num_parts);
}

/* ---- the tests ------------------------------------------------------------------------ */

static void replay(struct stage *t, const void *plan)
{
	static const enum queries kinds[] = { ANY, NO_DECODES, ONES, DECODES };
	const int n = is_emulated(&dev) ? EMULATED_REPLAYS : REPLAYS;
	for (int i = 0; i < n; i++) {
		is_right(t, (unsigned)i);
		same_plan(t, plan);
		change(t, kinds[i % (int)COUNT(kinds)]);
	}
}

static void replays_plan_anew(void **state)
{
	struct stage t;
	stage_make(&t, *state);
	ok(dev.ops->graph_begin(&dev));
	ok(attune_record_plan(t.op, &t.bounds, t.w.tensors.query_start, t.w.tensors.seq_lens,
			      t.plan, t.plan_bytes, dev.ops->stream(&dev)));
	for (int layer = 0; layer < 2; layer++)
		ok(attune_record_run(t.op, &t.bounds, t.plan, &t.w.tensors, t.workspace,
				     t.workspace_bytes, dev.ops->stream(&dev)));
	ok(dev.ops->graph_end(&dev, &t.graph));
	replay(&t, t.plan);
	stage_free(&t);
}

/* The public call alone, as a user of recorded steps would call it. */
static void captured_runs_plan_anew(void **state)
{
	struct stage t;
	attune_plan plan = { .size = sizeof plan };
	size_t bytes;
	stage_make(&t, *state);
	ok(attune_max_workspace(t.op, t.bounds.num_seqs, t.bounds.num_tokens, &bytes));
	dev.ops->release(&dev, t.workspace);
	ok(dev.ops->alloc(&dev, &t.workspace, bytes));
	ok(attune_plan_batch(t.op, &t.scenario.batch->view, &plan));
	plan.lengths = ATTUNE_LENGTHS_VARY;
	ok(dev.ops->graph_begin(&dev));
	ok(attune_run(t.op, &plan, &t.w.tensors, t.workspace, bytes, dev.ops->stream(&dev)));
	assert_int_equal(
	    attune_run(t.op, &plan, &t.w.tensors, t.workspace, 16, dev.ops->stream(&dev)),
	    ATTUNE_TOO_SMALL);
	ok(dev.ops->graph_end(&dev, &t.graph));
	replay(&t, t.workspace);
	stage_free(&t);
}

/* The host's plan of the step, run by attune_run. */
static void plans_can_be_run(void **state)
{
	struct stage t;
	stage_make(&t, *state);
	for (int i = 0; i < 4; i++) {
		attune_plan plan = { .size = sizeof plan };
		struct verdict v;
		ok(attune_plan_recorded(t.op, &t.bounds, &t.scenario.batch->view, &plan));
		dev.ops->release(&dev, t.workspace);
		t.workspace = NULL;
		if (plan.workspace)
			ok(dev.ops->alloc(&dev, &t.workspace, plan.workspace));
		ok(workload_poison(&t.w));
		ok(attune_run(t.op, &plan, &t.w.tensors, t.workspace, plan.workspace,
			      dev.ops->stream(&dev)));
		check_output(&v, &t.w, PHASE_ALL, MOST_ROWS, 0);
		if (v.outcome != OUTCOME_OK)
			fail_msg("%s: %s", outcome_name(v.outcome), v.text);
		change(&t, KEPT);
	}
	stage_free(&t);
}

static enum attune_status decide(void *arg, unsigned long long handle)
{
	struct stage *t = arg;
	const struct leaf_args a = { t->plan, t->leaves, handle, t->num_bodies };
	const struct geometry g = { .x = 1, .y = 1, .z = 1, .threads = 32 };
	const enum attune_status status =
	    attune_record_plan(t->op, &t->bounds, t->w.tensors.query_start, t->w.tensors.seq_lens,
			       t->plan, t->plan_bytes, dev.ops->stream(&dev));
	return status ? status
		      : dev.ops->launch(&dev, t->leaf, &g, &a, sizeof a, dev.ops->stream(&dev));
}

static enum attune_status body(void *arg, int i, void *stream)
{
	struct stage *t = arg;
	return attune_run(t->op, &t->body[i], &t->w.tensors, t->workspace, LARGE_WORKSPACE, stream);
}

/* Bodies for plans of random lengths; a plan without a body runs the last, which is right too. */
static void switches_are_right(void **state)
{
	struct stage t;
	struct recorded_leaf leaf[BODIES];
	const struct shipped *s = shipped_find(&dev.info, "leaf", "");
	const struct graph_switch node = { decide, body, &t, BODIES };
	stage_make(&t, *state);
	assert_non_null(s);
	ok(dev.ops->load(&dev, &t.leaf, &s->blob));
	dev.ops->release(&dev, t.workspace);
	ok(dev.ops->alloc(&dev, &t.workspace, LARGE_WORKSPACE));
	ok(dev.ops->alloc(&dev, &t.leaves, sizeof leaf));
	for (t.num_bodies = 0; t.num_bodies < BODIES; t.num_bodies++) {
		attune_plan *plan = &t.body[t.num_bodies];
		change(&t, KEPT);
		plan->size = sizeof *plan;
		ok(attune_plan_recorded(t.op, &t.bounds, &t.scenario.batch->view, plan));
		leaf[t.num_bodies] = (struct recorded_leaf){ { -1, -1 }, { 0, 0 } };
		for (int i = 0; i < plan->num_parts; i++) {
			const int which = plan->part[i].max_query > DECODE_MAX_QUERY
					      ? RECORDED_PREFILL
					      : RECORDED_DECODE;
			leaf[t.num_bodies].choice[which] = plan->part[i].choice;
			leaf[t.num_bodies].segments[which] =
			    plan->part[i].resolved ? plan->part[i].resolved : 1;
		}
	}
	ok(dev.ops->put(&dev, t.leaves, leaf, sizeof leaf));
	ok(dev.ops->graph_begin(&dev));
	const enum attune_status known = dev.ops->graph_switch(&dev, &node);
	ok(dev.ops->graph_end(&dev, &t.graph));
	if (known == ATTUNE_UNSUPPORTED) {
		stage_free(&t); /* an older driver */
		return;
	}
	ok(known);
	for (int i = 0; i < REPLAYS; i++) {
		is_right(&t, (unsigned)i);
		change(&t, KEPT);
	}
	stage_free(&t);
}

static int end_row(void **state)
{
	(void)state;
	return end_capture(&dev);
}

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[4 * COUNT(rows)];
	static char names[4 * COUNT(rows)][120];
	static const struct {
		const char *name;
		void (*test)(void **);
	} kinds[] = { { "recorded steps", replays_plan_anew },
		      { "captured attune_run", captured_runs_plan_anew },
		      { "the host's plan", plans_can_be_run },
		      { "SWITCH", switches_are_right } };
	int n = 0;
	if (gpu_open(&dev) || attune_adopt(&ctx, &dev)) {
		printf("1..1\nnot ok 1 - %s\n", attune_last_error());
		return 1;
	}
	for (size_t k = 0;
	     k < COUNT(kinds) && (dev.ops->graph_switch || kinds[k].test != switches_are_right);
	     k++)
		for (size_t i = 0; i < COUNT(rows); i++) {
			if (argc > 1 && strncmp(rows[i].name, argv[1], strlen(argv[1])))
				continue;
			if (k && i % 2 && is_emulated(&dev)) /* which takes seconds for each */
				continue;
			snprintf(names[n], sizeof names[n], "%s: %s", kinds[k].name, rows[i].name);
			tests[n] = (struct CMUnitTest){ names[n], kinds[k].test, NULL, end_row,
							(void *)(uintptr_t)&rows[i] };
			n++;
		}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	n = _cmocka_run_group_tests("gpu_replay", tests, (size_t)n, NULL, NULL);
	attune_close(ctx);
	pool_free(&dev, pool);
	device_close(&dev);
	return n;
}
