/* SPDX-License-Identifier: Apache-2.0 */
/* t_process.c - the CPU device where the process gets in its way: threads that cannot be started (F1 of
 * tests/FAULTS.md), and children of fork() (F2). Both would wait for ever. */
#include "tests/library/cpu_step.h"
#include <signal.h>
#include <sys/wait.h>

enum { PATIENCE_S = 1200 };

/* Runs what may hang as a child; returns its exit status, negative for a signal. */
static int in_child(int (*call)(void *), void *arg)
{
	int status;
	fflush(NULL);
	const pid_t pid = fork();
	if (!pid) {
		alarm(PATIENCE_S);
		_exit(call(arg));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* Stacks of which the address space holds three: the fourth thread cannot be started. */
static int open_without_threads(void *arg)
{
	pthread_attr_t large, small;
	attune_context *ctx = NULL;
	(void)arg;
	setenv("ATTUNE_THREADS", "9", 1);
	if (pthread_getattr_default_np(&small) || pthread_attr_init(&large) ||
	    pthread_attr_setstacksize(&large, 1ull << 45) || pthread_setattr_default_np(&large))
		return 2;
	if (attune_open(&ctx, "cpu") != ATTUNE_NO_MEMORY || ctx)
		return 3;
	if (strncmp(attune_last_error(), "9 threads cannot be started: ", 29) != 0 ||
	    !strstr(attune_last_error(), "; ATTUNE_THREADS sets another number"))
		return 4;
	/* Nothing is left of the attempt. */
	if (pthread_setattr_default_np(&small) || attune_open(&ctx, "cpu"))
		return 5;
	attune_close(ctx);
	return 0;
}

static void threads_that_cannot_be_started(void **state)
{
	(void)state;
	assert_int_equal(in_child(open_without_threads, NULL), 0);
}

struct opened {
	attune_context *ctx;
	attune_op *op;
	struct step step;
};

static int use_in_child(void *arg)
{
	struct opened *o = arg;
	attune_context *own = NULL;
	attune_op *op = NULL;
	attune_plan plan = { .size = sizeof plan };
	char workspace[64];
	if (attune_plan_batch(o->op, &o->step.batch, &plan))
		return 2;
	plan.workspace = 0;
	if (attune_run(o->op, &plan, &o->step.t, workspace, 1 << 30, NULL) != ATTUNE_INVALID ||
	    !strstr(attune_last_error(), "before fork()"))
		return 3;
	attune_release(o->op);
	attune_close(o->ctx);
	if (attune_open(&own, "cpu") || attune_prepare(own, &shape, &op))
		return 4;
	run(op, &o->step);
	assert_step_is_right(&o->step);
	attune_release(op);
	attune_close(own);
	return 0;
}

/* The child is refused, may close what it has, and may open a context of its own; the parent goes
 * on. */
static void forked_children(void **state)
{
	static const int one[][2] = { { 1, 20 } };
	struct opened o;
	(void)state;
	setenv("ATTUNE_THREADS", "3", 1);
	o.ctx = open_cpu();
	o.op = prepare(o.ctx);
	step_make(&o.step, 1, one);
	run(o.op, &o.step);
	assert_int_equal(in_child(use_in_child, &o), 0);
	run(o.op, &o.step);
	assert_step_is_right(&o.step);
	step_free(&o.step);
	attune_release(o.op);
	attune_close(o.ctx);
	unsetenv("ATTUNE_THREADS");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{ "F1: threads that cannot be started", threads_that_cannot_be_started, NULL, NULL,
		  NULL },
		{ "F2: forked children", forked_children, NULL, NULL, NULL },
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
