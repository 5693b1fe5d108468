/* SPDX-License-Identifier: Apache-2.0 */
/* t_threads.c - threads share contexts and ops: each plans and runs batches of its own, and gets the
 * bits that one thread alone gets. Pools of several sizes, with ATTUNE_INVARIANT and without. The
 * threads also prepare and release ops, open contexts, and provoke errors. t_sanitizers.sh builds the
 * program again with -fsanitize=thread. */
#include "tests/library/cpu_step.h"
#include "kernels/attune_features.h"

enum { THREADS = 4, ROUNDS = 3 };

static const struct row {
	const char *name, *pool, *invariant;
} rows[] = {
	{ "a pool of one thread", "1", "0" },
	{ "a pool of two", "2", "0" },
	{ "a pool of five", "5", "0" },
	{ "a pool of three, invariant", "3", "1" },
};

/* All lengths differ by thread, so plans do. */
static void make_step(struct step *s, int id)
{
	const int lens[][2] = {
		{ 1, 300 + 40 * id }, { 12 + id, 40 }, { 1, 17 }, { 0, 9 }, { 4, 64 }
	};
	step_make(s, (int)COUNT(lens), lens);
}

/* ---- one thread -------------------------------------------------------------------------- */

struct worker {
	attune_context *ctx;
	attune_op *op;
	int id;
	float *want; /* the output of one thread alone */
	const char *wrong;
};

/* Plans and runs; NULL: done. */
static const char *plan_and_run(const struct attune_op *op, struct step *s)
{
	attune_plan plan = { .size = sizeof plan };
	char text[600];
	size_t most = 0;
	if (attune_plan_batch(op, &s->batch, &plan) ||
	    attune_plan_text(op, &plan, text, sizeof text) ||
	    attune_max_workspace(op, s->batch.num_seqs, s->tokens, &most))
		return "a plan fails";
	if (most < plan.workspace)
		return "the plan needs more than the largest workspace";
	void *workspace = aligned_alloc(64, (plan.workspace + 64) / 64 * 64);
	const enum attune_status status =
	    workspace ? attune_run(op, &plan, &s->t, workspace, plan.workspace, NULL)
		      : ATTUNE_NO_MEMORY;
	free(workspace);
	return status ? "a run fails" : NULL;
}

static const char *make_and_break(struct worker *w, const struct step *s)
{
	struct attune_features f;
	attune_context *other;
	attune_op *op;
	char number[32];
	if (attune_prepare(w->ctx, &shape, &op))
		return "attune_prepare fails";
	attune_release(op);
	snprintf(number, sizeof number, "cpu:%d", w->id);
	if (attune_open(&other, number) != ATTUNE_INVALID || !strstr(attune_last_error(), number))
		return "the message is another thread's";
	if (attune_batch_features(w->op, &s->batch, ATTUNE_PHASE_ALL, &f, sizeof f))
		return "attune_batch_features fails";
	return attune_device_name(w->ctx) && attune_heuristic(w->ctx) ? NULL : "no name";
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct step s;
	make_step(&s, w->id);
	const size_t bytes = (size_t)s.tokens * QUERY_HEADS * HEAD * sizeof *s.out;
	for (int round = 0; round < ROUNDS && !w->wrong; round++) {
		memset(s.out, 0xff, bytes);
		w->wrong = plan_and_run(w->op, &s);
		if (!w->wrong && memcmp(s.out, w->want, bytes))
			w->wrong = "other bits than alone";
		if (!w->wrong)
			w->wrong = make_and_break(w, &s);
	}
	step_free(&s);
	return NULL;
}

/* ---- rows -------------------------------------------------------------------------------- */

static void expect_alone(struct worker *w)
{
	struct step s;
	make_step(&s, w->id);
	const char *wrong = plan_and_run(w->op, &s);
	if (wrong)
		fail_msg("alone: %s: %s", wrong, attune_last_error());
	assert_step_is_right(&s);
	w->want = s.out;
	s.out = NULL;
	step_free(&s);
}

static void threads_share(void **state)
{
	const struct row *r = *state;
	struct worker w[THREADS] = { 0 };
	pthread_t thread[THREADS];
	attune_context *ctx;
	attune_op *op;
	setenv("ATTUNE_THREADS", r->pool, 1);
	setenv("ATTUNE_INVARIANT", r->invariant, 1);
	if (attune_open(&ctx, "cpu") || attune_prepare(ctx, &shape, &op))
		fail_msg("%s", attune_last_error());
	for (int i = 0; i < THREADS; i++) {
		w[i] = (struct worker){ .ctx = ctx, .op = op, .id = i };
		expect_alone(&w[i]);
	}
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < THREADS; i++) {
		if (w[i].wrong)
			fail_msg("thread %d: %s", i, w[i].wrong);
		free(w[i].want);
	}
	attune_release(op);
	attune_close(ctx);
}

int main(void)
{
	struct CMUnitTest tests[COUNT(rows)];
	for (size_t i = 0; i < COUNT(rows); i++)
		tests[i] = (struct CMUnitTest){ rows[i].name, threads_share, NULL, NULL,
						(void *)(uintptr_t)&rows[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
