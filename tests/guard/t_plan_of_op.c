/* SPDX-License-Identifier: Apache-2.0 */
/* t_plan_of_op.c - a plan runs on the op that it was made for, and on no other. */
#include "kernels/attune_plugin.h"
#include "tests/library/cpu_step.h"

static attune_context *ctx;
static struct step s;
static char workspace[1 << 20] __attribute__((aligned(64)));

static attune_plan plan_of(const attune_op *op)
{
	attune_plan plan = { .size = sizeof plan };
	if (attune_plan_batch(op, &s.batch, &plan))
		fail_msg("%s", attune_last_error());
	return plan;
}

static void assert_refused(enum attune_status status, const char *call)
{
	char line[100];
	snprintf(line, sizeof line, "%s: the plan is not of this op", call);
	assert_int_equal(status, ATTUNE_INVALID);
	assert_string_equal(attune_last_error(), line);
}

static void assert_not_of(const attune_op *op, const attune_plan *plan)
{
	char text[512];
	size_t words;
	assert_refused(attune_run(op, plan, &s.t, workspace, sizeof workspace, NULL), "attune_run");
	assert_refused(attune_plan_text(op, plan, text, sizeof text), "attune_plan_text");
	assert_refused(attune_schedule(op, plan, &s.batch, NULL, 0, &words), "attune_schedule");
}

/* An equal shape, and shapes whose plans look the same and compute something else. */
static void a_plan_of_another_op_is_refused(void **state)
{
	attune_shape shapes[] = { shape, shape, shape };
	attune_op *op = prepare(ctx), *other;
	const attune_plan plan = plan_of(op);
	(void)state;
	shapes[1].window = 10;
	shapes[2].num_query_heads = 2 * QUERY_HEADS;
	for (size_t i = 0; i < COUNT(shapes); i++) {
		assert_int_equal(attune_prepare(ctx, &shapes[i], &other), ATTUNE_OK);
		const attune_plan theirs = plan_of(other);
		assert_not_of(other, &plan);
		assert_not_of(op, &theirs);
		assert_int_equal(attune_plan_serves(&plan, &theirs), 0);
		assert_int_equal(attune_plan_serves(&theirs, &plan), 0);
		attune_release(other);
	}
	attune_release(op);
}

/* The next op may get the memory of the one before. */
static void a_plan_of_a_released_op_is_refused(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		attune_op *op = prepare(ctx);
		const attune_plan plan = plan_of(op);
		attune_release(op);
		op = prepare(ctx);
		assert_not_of(op, &plan);
		attune_release(op);
	}
}

static void a_plan_that_no_call_made_is_refused(void **state)
{
	const attune_plan none = { .size = sizeof none };
	attune_op *op = prepare(ctx);
	(void)state;
	assert_not_of(op, &none);
	attune_release(op);
}

static void *run_copy(void *arg)
{
	attune_plan copy = { .size = sizeof copy };
	const attune_plan *plan = ((void **)arg)[1];
	memcpy(&copy, plan, plan->size);
	return (void *)(uintptr_t)attune_run(((void **)arg)[0], &copy, &s.t, workspace,
					     sizeof workspace, NULL);
}

static void copies_run_on_any_thread(void **state)
{
	attune_op *op = prepare(ctx), *later = prepare(ctx);
	attune_plan plan = plan_of(op);
	void *arg[] = { op, &plan }, *status;
	pthread_t thread;
	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, run_copy, arg), 0);
	assert_int_equal(pthread_join(thread, &status), 0);
	assert_int_equal((uintptr_t)status, ATTUNE_OK);
	assert_step_is_right(&s);
	const attune_plan again = plan_of(op);
	assert_int_equal(attune_plan_serves(&plan, &again), ATTUNE_SERVES_ALIKE);
	attune_release(later);
	attune_release(op);
}

static int begin(void **state)
{
	(void)state;
	ctx = open_cpu();
	step_make(&s, COUNT(mixed), mixed);
	return 0;
}

static int end(void **state)
{
	(void)state;
	step_free(&s);
	attune_close(ctx);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plan_of_another_op_is_refused),
		cmocka_unit_test(a_plan_of_a_released_op_is_refused),
		cmocka_unit_test(a_plan_that_no_call_made_is_refused),
		cmocka_unit_test(copies_run_on_any_thread),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("plan of an op", tests, begin, end);
}
