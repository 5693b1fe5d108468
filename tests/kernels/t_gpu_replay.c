/* SPDX-License-Identifier: Apache-2.0 */
/* t_gpu_replay.c - a graph captured once and replayed for other lengths at or below those of its plan:
 * a plan of lengths (attune_plan_batch), and one of maxima (attune_plan_bounds). The output is
 * right, and the same lengths give the same bits.
 *
 * Without an NVIDIA GPU the emulated one runs small batches, fewer replays and rows, in another
 * order of turns each. Argument: only rows that begin so. */
#include "tests/support/replay_stage.h"

/* ---- the tests ------------------------------------------------------------------------ */

static const enum queries kinds[] = { ANY, NO_DECODES, ONES, DECODES };

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
	ok(by_bounds
	       ? attune_plan_bounds(t->op, b->num_seqs, t->num_tokens, t->max_query, most, &plan)
	       : attune_plan_batch(t->op, b, &plan));
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

static int end_row(void **state)
{
	(void)state;
	return end_capture(&dev);
}

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[2 * COUNT(rows)];
	static char names[2 * COUNT(rows)][120];
	static const struct {
		const char *name;
		void (*test)(void **);
	} ways[] = { { "a plan of longer lengths", plans_of_lengths },
		     { "a plan of maxima", plans_of_maxima } };
	int n = 0;
	if (gpu_open(&dev) || attune_adopt(&ctx, &dev)) {
		printf("1..1\nnot ok 1 - %s\n", attune_last_error());
		return 1;
	}
	for (size_t k = 0; k < COUNT(ways); k++)
		for (size_t i = 0; i < COUNT(rows); i++) {
			if (argc > 1 && strncmp(rows[i].name, argv[1], strlen(argv[1])))
				continue;
			if (!k && i % 2 && is_emulated(&dev)) /* which takes seconds for each */
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
