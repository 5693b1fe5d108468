/* SPDX-License-Identifier: Apache-2.0 */
/* t_side_streams.c - two parts side by side on two streams: which stream waits for which, what
 * the parts do not share, and what happens without a second stream. The device and the driver
 * only record calls. */
#include "kernels/device/shared/side_streams.h"
#include "kernels/launch/run.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static char notes[400];

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
	const size_t n = strlen(notes);
	va_list ap;
	va_start(ap, format);
	vsnprintf(notes + n, sizeof notes - n, format, ap);
	va_end(ap);
}

/* ---- the driver ------------------------------------------------------------------------ */
/* Streams made here are 101, 102 ...; events are 1001, 1002 ... */
static int made, refuse; /* refuse: the events that are recorded from then on fail */

static int make_stream(void **stream, unsigned flags, int priority)
{
	assert_int_equal(flags, 1);
	assert_int_equal(priority, -5);
	*stream = (void *)(uintptr_t)(101 + made++);
	return 0;
}

static int make_event(void **event, unsigned flags)
{
	assert_int_equal(flags, 2);
	*event = (void *)(uintptr_t)(1000 + made);
	return 0;
}

static int range(int *least, int *greatest)
{
	*least = 0;
	*greatest = -5;
	return 0;
}

static int record(void *event, void *stream)
{
	(void)event;
	note("r%d ", (int)(uintptr_t)stream);
	return refuse ? 700 : 0;
}

static int wait(void *stream, void *event, unsigned flags)
{
	(void)event, (void)flags;
	note("w%d ", (int)(uintptr_t)stream);
	return 0;
}

static int gone(void *what)
{
	made -= (uintptr_t)what < 1000;
	return 0;
}

static const struct side_calls api = { .StreamCreatePrior = make_stream,
				       .EventCreate = make_event,
				       .PriorityRange = range,
				       .EventRecord = record,
				       .StreamFollow = wait,
				       .StreamDestroy = gone,
				       .EventDestroy = gone };

static struct sides sides;

static int begin(void **state)
{
	(void)state;
	memset(&sides, 0, sizeof sides);
	notes[0] = '\0';
	made = refuse = 0;
	return sides_open(&sides, &api);
}

static int end(void **state)
{
	(void)state;
	sides_close(&sides);
	return made != 0;
}

static int fork_of(int stream)
{
	void *side;
	assert_int_equal(sides_fork(&sides, (void *)(uintptr_t)stream, &side), 0);
	return (int)(uintptr_t)side;
}

static void join_of(int stream, int side)
{
	assert_int_equal(sides_join(&sides, (void *)(uintptr_t)stream, (void *)(uintptr_t)side), 0);
}

static void each_waits_for_the_other(void **state)
{
	(void)state;
	assert_int_equal(fork_of(7), 101);
	assert_string_equal(notes, "r7 w101 r101 w7 ");
	notes[0] = '\0';
	join_of(7, 101);
	assert_string_equal(notes, "r101 w7 ");
}

static void a_side_is_lent_to_one_at_a_time(void **state)
{
	(void)state;
	assert_int_equal(fork_of(0), 101); /* the default stream is one like others */
	assert_int_equal(fork_of(0), 0);
	join_of(0, 0);
	assert_int_equal(fork_of(0), 0);
	join_of(0, 101);
	assert_int_equal(fork_of(0), 101);
	join_of(0, 101);
}

static void a_stream_keeps_its_side(void **state)
{
	(void)state;
	for (int turn = 0; turn < 2; turn++)
		for (int i = 0; i < NUM_SIDES; i++) {
			assert_int_equal(fork_of(10 + i), 101 + i);
			join_of(10 + i, 101 + i);
		}
	assert_int_equal(fork_of(99), 99);
	assert_int_equal(fork_of(2), 2); /* the handle of as many streams as threads */
}

static void a_fork_that_fails_lends_nothing(void **state)
{
	void *side;
	(void)state;
	refuse = 1;
	assert_int_equal(sides_fork(&sides, (void *)7, &side), 700);
	assert_ptr_equal(side, (void *)7);
	refuse = 0;
	assert_int_equal(fork_of(7), 101);
	join_of(7, 101);
}

/* ---- the parts of a plan ----------------------------------------------------------------- */
static int spare; /* the device has a second stream */

static enum attune_status take_fork(struct device *dev, void *stream, void **side)
{
	(void)dev;
	note("fork ");
	*side = spare ? (void *)8 : stream;
	return ATTUNE_OK;
}

static enum attune_status take_join(struct device *dev, void *stream, void *side)
{
	(void)dev;
	note("join %d %d", (int)(uintptr_t)stream, (int)(uintptr_t)side);
	return ATTUNE_OK;
}

static enum attune_status launch(void *arg, int part, int steps, void *stream)
{
	note("%s%d:%d ",
	     steps == STEP_PREPARE  ? "p"
	     : steps == STEP_ATTEND ? "a"
				    : "",
	     part, (int)(uintptr_t)stream);
	return steps != STEP_PREPARE && part == *(int *)arg ? ATTUNE_DEVICE_ERROR : ATTUNE_OK;
}

static void parts_go_to_their_streams(void **state)
{
	static const struct {
		enum attune_how how;
		int parts, spare, fails; /* fails: part */
		const char *notes;
	} rows[] = {
		{ ATTUNE_SERIAL, 2, 1, -1, "0:7 1:7 " },
		{ ATTUNE_STREAMS, 2, 1, -1, "p0:7 p1:7 fork a0:8 a1:7 join 7 8" },
		{ ATTUNE_STREAMS, 2, 0, -1, "p0:7 p1:7 fork a0:7 a1:7 " },
		{ ATTUNE_STREAMS, 1, 1, -1, "0:7 " },
		{ ATTUNE_STREAMS, 2, 1, 0, "p0:7 p1:7 fork a0:8 join 7 8" },
		{ ATTUNE_STREAMS, 2, 1, 1, "p0:7 p1:7 fork a0:8 a1:7 join 7 8" },
		{ ATTUNE_SERIAL, 2, 1, 0, "0:7 " },
	};
	static const struct device_ops ops = { .fork = take_fork, .join = take_join };
	struct device dev = { .ops = &ops };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		int fails = rows[i].fails;
		notes[0] = '\0';
		spare = rows[i].spare;
		assert_int_equal(
		    run_parts(&dev, rows[i].how, rows[i].parts, launch, &fails, (void *)7),
		    fails < 0 ? ATTUNE_OK : ATTUNE_DEVICE_ERROR);
		assert_string_equal(notes, rows[i].notes);
	}
}

static void workspaces_are_apart_only_side_by_side(void **state)
{
	static const struct {
		enum attune_how how;
		int n;
		size_t part[2], at[2], all;
	} rows[] = {
		{ ATTUNE_SERIAL, 2, { 100, 40 }, { 0, 0 }, 100 },
		{ ATTUNE_SERIAL, 2, { 40, 100 }, { 0, 0 }, 100 },
		{ ATTUNE_STREAMS, 2, { 100, 40 }, { 0, 112 }, 152 },
		{ ATTUNE_STREAMS, 2, { 0, 40 }, { 0, 0 }, 40 },
		{ ATTUNE_STREAMS, 2, { 96, 0 }, { 0, 96 }, 96 },
		{ ATTUNE_STREAMS, 1, { 100, 40 }, { 0, 0 }, 100 },
		{ ATTUNE_STREAMS, 0, { 100, 40 }, { 0, 0 }, 0 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		size_t at[2] = { 0 };
		assert_int_equal(parts_workspace(rows[i].how, rows[i].part, rows[i].n, at),
				 rows[i].all);
		assert_memory_equal(at, rows[i].at, sizeof at);
		assert_int_equal(parts_workspace(rows[i].how, rows[i].part, rows[i].n, NULL),
				 rows[i].all);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_waits_for_the_other, begin, end),
		cmocka_unit_test_setup_teardown(a_side_is_lent_to_one_at_a_time, begin, end),
		cmocka_unit_test_setup_teardown(a_stream_keeps_its_side, begin, end),
		cmocka_unit_test_setup_teardown(a_fork_that_fails_lends_nothing, begin, end),
		cmocka_unit_test(parts_go_to_their_streams),
		cmocka_unit_test(workspaces_are_apart_only_side_by_side),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("beside", tests, NULL, NULL);
}
