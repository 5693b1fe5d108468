/* t_gpu_replay.c - steps recorded in a CUDA graph and replayed for other lengths. The device's
 * plan equals the host's, the output is right, and the same lengths give the same bits. Prefills
 * run by warpgroup and decodes by ring_list where these take them. Steps are recorded by
 * attune_record_*, by attune_run on a captured stream, and by a SWITCH node over graphs of
 * plans. A captured plan of the host is replayed for lengths below its own.
 *
 * Without an NVIDIA GPU the emulated one runs small batches, fewer replays and rows, in another
 * order of turns each, and no SWITCH. Argument: only rows that begin so. */
#include "tests/support/replay_stage.h"

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

static const enum queries kinds[] = { ANY, NO_DECODES, ONES, DECODES };

static void replay(struct stage *t, const void *plan)
{
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

/* Each query and sequence at or below its planned length. */
static void shorten(struct stage *t, const int32_t *start)
{
	struct batch *b = t->scenario.batch;
	for (int i = 0; i < b->view.num_seqs; i++) {
		const int most = start[i + 1] - start[i];
		const int query = below(3) ? (int)below((unsigned)most + 1) : most;
		const int seq = (int)below((unsigned)t->most_lens[i] + 1);
		b->seq_lens[i] = query ? (int)max_of(query, seq) : 0;
		b->query_start[i + 1] = b->query_start[i] + query;
	}
	ok(put_lengths(&dev, &t->w, b));
}

/* Captures a plan of the host, of the step or its maxima, and replays it. */
static void replay_below(struct stage *t, int by_bounds)
{
	const attune_batch *b = &t->scenario.batch->view;
	const int n = is_emulated(&dev) ? EMULATED_REPLAYS - 2 : REPLAYS;
	int32_t start[MOST_SEQS + 1];
	attune_plan plan = { .size = sizeof plan };
	int most = 0;
	assert_true(b->num_seqs <= MOST_SEQS);
	memcpy(start, b->query_start, ((size_t)b->num_seqs + 1) * sizeof *start);
	for (int i = 0; i < b->num_seqs; i++)
		most = (int)max_of(most, t->most_lens[i]);
	ok(by_bounds ? attune_plan_bounds(t->op, b->num_seqs, t->bounds.num_tokens,
					  t->bounds.max_query, most, &plan)
		     : attune_plan_batch(t->op, b, &plan));
	dev.ops->release(&dev, t->workspace);
	ok(dev.ops->alloc(&dev, &t->workspace, plan.workspace + 16));
	ok(dev.ops->graph_begin(&dev));
	ok(attune_run(t->op, &plan, &t->w.tensors, t->workspace, plan.workspace,
		      dev.ops->stream(&dev)));
	ok(dev.ops->graph_end(&dev, &t->graph));
	for (int i = 0; i < n; i++) {
		if (by_bounds)
			change(t, kinds[i % (int)COUNT(kinds)]);
		else
			shorten(t, start);
		is_right(t, (unsigned)i);
	}
}

static void plans_of_lengths(void **state)
{
	struct stage t;
	stage_make(&t, *state);
	replay_below(&t, 0);
	stage_free(&t);
}

static void plans_of_maxima(void **state)
{
	struct stage t;
	stage_make(&t, *state);
	replay_below(&t, 1);
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
	static struct CMUnitTest tests[6 * COUNT(rows)];
	static char names[6 * COUNT(rows)][120];
	static const struct {
		const char *name;
		void (*test)(void **);
	} ways[] = { { "recorded steps", replays_plan_anew },
		     { "captured attune_run", captured_runs_plan_anew },
		     { "the host's plan", plans_can_be_run },
		     { "a plan of longer lengths", plans_of_lengths },
		     { "a plan of maxima", plans_of_maxima },
		     { "SWITCH", switches_are_right } };
	int n = 0;
	if (gpu_open(&dev) || attune_adopt(&ctx, &dev)) {
		printf("1..1\nnot ok 1 - %s\n", attune_last_error());
		return 1;
	}
	for (size_t k = 0;
	     k < COUNT(ways) && (dev.ops->graph_switch || ways[k].test != switches_are_right); k++)
		for (size_t i = 0; i < COUNT(rows); i++) {
			if (argc > 1 && strncmp(rows[i].name, argv[1], strlen(argv[1])))
				continue;
			if (k && i % 2 && is_emulated(&dev)) /* which takes seconds for each */
				continue;
			snprintf(names[n], sizeof names[n], "%s: %s", ways[k].name, rows[i].name);
			tests[n] = (struct CMUnitTest){ names[n], ways[k].test, NULL, end_row,
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
