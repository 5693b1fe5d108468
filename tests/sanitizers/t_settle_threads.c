/* SPDX-License-Identifier: Apache-2.0 */
/* t_settle_threads.c - threads settle, report, commit, write and read texts of one context while
 * others plan and run on it: every output is right, and what is remembered in the end is a text that
 * another context reads as the same. A child of fork() settles on a context of its own, whatever its
 * parent's threads were at. t_sanitizers.sh builds the program again with -fsanitize=thread. */
#include "tests/library/cpu_step.h"
#include "kernels/attune_settle.h"
#include "kernels/launch/run.h"
#include <stdatomic.h>
#include <sys/wait.h>

enum { RUNNERS = 2, ROUNDS = 8, CHILDREN = 4, MOST_TEXT = 1 << 20 };

static struct device dev;
static attune_context *ctx;
static attune_op *op;
static _Atomic int left; /* runners that are at it */

static const int prefills[][2] = { { 40, 40 }, { 12, 300 } };
static const struct lengths {
	int n;
	const int (*of)[2];
} batches[] = { { COUNT(mixed), mixed },
		{ COUNT(decodes), decodes },
		{ COUNT(prefills), prefills } };

/* A thread's own tensors of all batches. */
struct own_steps {
	struct step of[COUNT(batches)];
};

static void steps_make(struct own_steps *s)
{
	for (size_t b = 0; b < COUNT(batches); b++)
		step_make(&s->of[b], batches[b].n, batches[b].of);
}

static void steps_free(struct own_steps *s)
{
	for (size_t b = 0; b < COUNT(batches); b++)
		step_free(&s->of[b]);
}

/* ---- what the threads do; NULL: all was well --------------------------------------------- */

static const char *run_once(struct step *s, const float *want)
{
	const size_t n = (size_t)s->tokens * QUERY_HEADS * HEAD;
	attune_plan plan = { .size = sizeof plan };
	size_t most = 0;
	if (attune_plan_batch(op, &s->batch, &plan) ||
	    attune_max_workspace(op, s->batch.num_seqs, s->tokens, &most))
		return "a plan fails";
	if (most < plan.workspace)
		return "the plan needs more than the largest workspace";
	void *workspace = aligned_alloc(64, (plan.workspace + 64) / 64 * 64);
	memset(s->out, 0xff, n * sizeof *s->out);
	const enum attune_status status =
	    workspace ? attune_run(op, &plan, &s->t, workspace, plan.workspace, NULL)
		      : ATTUNE_NO_MEMORY;
	free(workspace);
	for (size_t i = 0; i < n && !status; i++)
		if (!(fabsf(s->out[i] - want[i]) < 1e-5f))
			return "an output is wrong";
	return status ? "a run fails" : NULL;
}

static void *run_all(void *wants)
{
	const char *wrong = NULL;
	struct own_steps s;
	steps_make(&s);
	for (int round = 0; round < ROUNDS; round++)
		for (size_t b = 0; b < COUNT(batches) && !wrong; b++)
			wrong = run_once(&s.of[b], ((float **)wants)[b]);
	steps_free(&s);
	left--;
	return (void *)(uintptr_t)wrong;
}

static const char *settle_step(const attune_op *by, struct step *s)
{
	const attune_settle_how how = {
		.size = sizeof how, .num_layers = 1, .num_pages = 64, .most_ms = 20
	};
	size_t bytes;
	if (attune_settle_sizes(by, &s->batch, &how, &bytes))
		return "attune_settle_sizes fails";
	void *workspace = aligned_alloc(64, (bytes + 63) / 64 * 64);
	const enum attune_status status =
	    attune_settle(by, &s->batch, &s->t, &how, workspace, bytes, NULL, NULL);
	free(workspace);
	return status ? "attune_settle fails" : NULL;
}

static void *settle_all(void *arg)
{
	const char *wrong = NULL;
	struct own_steps s;
	(void)arg;
	steps_make(&s);
	for (size_t b = 0; left && !wrong; b = (b + 1) % COUNT(batches))
		wrong = settle_step(op, &s.of[b]);
	steps_free(&s);
	return (void *)(uintptr_t)wrong;
}

/* A commit of another thread may change the alternatives in between. */
static void *report_all(void *arg)
{
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES] = { { .size = sizeof *plans } };
	double us[ATTUNE_MOST_ALTERNATIVES];
	const char *wrong = NULL;
	struct own_steps s;
	int n = 0;
	(void)arg;
	steps_make(&s);
	for (size_t b = 0; left && !wrong; b = (b + 1) % COUNT(batches)) {
		const attune_batch *batch = &s.of[b].batch;
		if (attune_plan_alternatives(op, batch, plans, ATTUNE_MOST_ALTERNATIVES, &n))
			wrong = "attune_plan_alternatives fails";
		for (int round = 0; round < 4 && !wrong; round++) {
			for (int i = 0; i < n; i++)
				us[i] = 100 + 90 * noise();
			const enum attune_status status = attune_report(op, batch, plans, us, n);
			if (status && status != ATTUNE_INVALID)
				wrong = "attune_report fails";
		}
	}
	steps_free(&s);
	return (void *)(uintptr_t)wrong;
}

static void *commit_all(void *arg)
{
	char *text = malloc(MOST_TEXT);
	const char *wrong = text ? NULL : "out of memory";
	size_t size;
	(void)arg;
	while (left && !wrong) {
		int dropped = 0;
		attune_settled_digest(ctx);
		if (attune_settled_commit(ctx) ||
		    attune_settled_text(ctx, text, MOST_TEXT, &size) ||
		    attune_settled_read(ctx, text, size, NULL, &dropped) || dropped)
			wrong = "a commit or a text fails";
	}
	free(text);
	return (void *)(uintptr_t)wrong;
}

/* ---- rows -------------------------------------------------------------------------------- */

/* A last cache that is soon overwritten. */
static void open_all(const char *pool)
{
	setenv("ATTUNE_THREADS", pool, 1);
	if (device_open(&dev, "cpu"))
		fail_msg("%s", attune_last_error());
	dev.info.l2_bytes = 64 << 10;
	if (attune_adopt(&ctx, &dev))
		fail_msg("%s", attune_last_error());
	op = prepare(ctx);
}

static void close_all(void)
{
	attune_release(op);
	attune_close(ctx);
	device_close(&dev);
}

static void join(pthread_t thread, const char *what)
{
	void *wrong = NULL;
	assert_int_equal(pthread_join(thread, &wrong), 0);
	if (wrong)
		fail_msg("%s: %s", what, (const char *)wrong);
}

static void assert_same_when_read(void)
{
	char *text = malloc(2 * (size_t)MOST_TEXT);
	attune_context *other;
	size_t size, again;
	assert_non_null(text);
	if (attune_settled_commit(ctx) || attune_settled_text(ctx, text, MOST_TEXT, &size) ||
	    attune_adopt(&other, &dev) || attune_settled_read(other, text, size, NULL, NULL) ||
	    attune_settled_commit(other) ||
	    attune_settled_text(other, text + MOST_TEXT, MOST_TEXT, &again))
		fail_msg("%s", attune_last_error());
	assert_true(attune_settled_digest(ctx) == attune_settled_digest(other));
	assert_int_equal(size, again);
	assert_memory_equal(text, text + MOST_TEXT, size);
	attune_close(other);
	free(text);
}

static void threads_share(void **state)
{
	pthread_t runner[RUNNERS], settler, reporter, committer;
	float *want[COUNT(batches)];
	open_all(*state);
	for (size_t b = 0; b < COUNT(batches); b++) {
		struct step s;
		step_make(&s, batches[b].n, batches[b].of);
		run(op, &s);
		assert_step_is_right(&s);
		want[b] = s.out;
		s.out = NULL;
		step_free(&s);
	}
	left = RUNNERS;
	for (int i = 0; i < RUNNERS; i++)
		assert_int_equal(pthread_create(&runner[i], NULL, run_all, want), 0);
	assert_int_equal(pthread_create(&settler, NULL, settle_all, NULL), 0);
	assert_int_equal(pthread_create(&reporter, NULL, report_all, NULL), 0);
	assert_int_equal(pthread_create(&committer, NULL, commit_all, NULL), 0);
	for (int i = 0; i < RUNNERS; i++)
		join(runner[i], "a runner");
	join(settler, "the settler");
	join(reporter, "the reporter");
	join(committer, "the committer");
	assert_same_when_read();
	for (size_t b = 0; b < COUNT(batches); b++)
		free(want[b]);
	close_all();
}

/* Exits with 0 if all calls come back and are right. */
static void settle_in_child(void)
{
	struct step s;
	attune_context *own;
	attune_op *of;
	alarm(300); /* ends one that hangs */
	step_make(&s, COUNT(decodes), decodes);
	setenv("ATTUNE_THREADS", "1", 1);
	const int wrong = attune_open(&own, "cpu") || attune_prepare(own, &shape, &of) ||
			  settle_step(of, &s) || attune_settled_commit(own);
	_exit(wrong);
}

static void children_settle_on_their_own(void **state)
{
	pthread_t settler, committer;
	(void)state;
	open_all("1");
	left = 1;
	assert_int_equal(pthread_create(&settler, NULL, settle_all, NULL), 0);
	assert_int_equal(pthread_create(&committer, NULL, commit_all, NULL), 0);
	for (int i = 0; i < CHILDREN; i++) {
		int status;
		usleep(5000);
		const pid_t child = fork();
		assert_true(child >= 0);
		if (!child)
			settle_in_child();
		assert_int_equal(waitpid(child, &status, 0), child);
		if (status)
			fail_msg("child %d: status %x", i, (unsigned)status);
	}
	left = 0;
	join(settler, "the settler");
	join(committer, "the committer");
	close_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{ "threads share a memory, a pool of one", threads_share, NULL, NULL, "1" },
		{ "threads share a memory, a pool of three", threads_share, NULL, NULL, "3" },
		cmocka_unit_test(children_settle_on_their_own),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("settle threads", tests, NULL, NULL);
}
