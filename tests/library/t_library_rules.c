/* SPDX-License-Identifier: Apache-2.0 */
/* t_library_rules.c - the public API with rules from a file, on the CPU: formulas, overlaps, and the
 * defaults where rules name nothing that can run. */
#include "cpu_step.h"
#include "harness/compile/compile.h"
#include "harness/machine/machine.h"
#include "harness/scenario/scenario.h"
#include "kernels/launch/run.h"

/* ---- rules from a file ------------------------------------------------------------- */
/* Opens the CPU with these rules for both parts, and for their overlap; NULL: refused. It plans for
 * three threads on any machine: an adopted device is taken at its word. */
static struct device three;

static attune_context *open_rules(const struct rules *rules)
{
	char path[] = "/tmp/attune_rules_XXXXXX";
	attune_context *ctx = NULL;
	const int fd = mkstemp(path);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	assert_non_null(out);
	fputs(rules_header("cpu", rules), out);
	fclose(out);
	setenv("ATTUNE_HEURISTICS", path, 1);
	setenv("ATTUNE_THREADS", "3", 1);
	assert_int_equal(device_open(&three, "cpu"), ATTUNE_OK);
	if (attune_adopt(&ctx, &three))
		device_close(&three);
	unsetenv("ATTUNE_THREADS");
	unsetenv("ATTUNE_HEURISTICS");
	unlink(path); /* it was read: nothing looks at it again */
	return ctx;
}

static attune_context *open_beside(const char *choice, const char *leaf, const char *overlap)
{
	char text[MAX_PART_TEXT];
	snprintf(text, sizeof text, "segmented %s", choice);
	return open_rules(&(struct rules){
	    .choice = { text }, .decode = leaf, .overlap = *overlap ? overlap : NULL });
}

static void close_with(attune_context *ctx)
{
	attune_close(ctx);
	device_close(&three);
}

static attune_context *open_with(const char *choice, const char *leaf)
{
	return open_beside(choice, leaf, "");
}

static int segments_of(const attune_op *op, const attune_plan *plan)
{
	char text[512];
	assert_int_equal(attune_plan_text(op, plan, text, sizeof text), ATTUNE_OK);
	const char *at = strstr(text, "SEGMENTS=");
	return at ? atoi(at + strlen("SEGMENTS=")) : 0;
}

/* One KV head a cell, three threads: one sequence is cut, a dozen are not. */
static void formulas_become_numbers_per_batch(void **state)
{
	static const int one[][2] = { { 1, 1000 } };
	static const int many[][2] = { { 1, 90 }, { 1, 80 }, { 1, 90 }, { 1, 70 },
				       { 1, 90 }, { 1, 60 }, { 1, 90 }, { 1, 50 } };
	attune_context *ctx =
	    open_with("TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=balance(1,32,0,0)", "0");
	if (!ctx)
		fail_msg("%s", attune_last_error());
	attune_op *op = prepare(ctx);
	struct step s;
	attune_plan plan = { .size = sizeof plan }, other = { .size = sizeof other };
	size_t most;
	(void)state;
	step_make(&s, 1, one);
	assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_OK);
	assert_int_equal(segments_of(op, &plan), 4);
	assert_int_equal(attune_max_workspace(op, 1, 1, &most), ATTUNE_OK);
	assert_true(plan.workspace > 0 && plan.workspace <= most);
	run(op, &s);
	assert_step_is_right(&s);
	other = plan;
	other.part[0].resolved = 0;
	assert_int_equal(attune_run(op, &other, &s.t, NULL, 0, NULL), ATTUNE_INVALID);
	step_free(&s);
	step_make(&s, COUNT(many), many);
	assert_int_equal(attune_plan_batch(op, &s.batch, &other), ATTUNE_OK);
	assert_int_equal(segments_of(op, &other), 1);
	assert_int_equal(segments_of(op, &plan), 4); /* the first plan stays the same */
	run(op, &s);
	assert_step_is_right(&s);
	step_free(&s);
	attune_release(op);
	close_with(ctx);
}

static void a_small_workspace_is_refused(void **state)
{
	static const int one[][2] = { { 1, 1000 } };
	attune_context *ctx = open_with("TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=4", "0");
	attune_op *op = prepare(ctx);
	struct step s;
	attune_plan plan = { .size = sizeof plan };
	size_t most;
	(void)state;
	step_make(&s, 1, one);
	assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_OK);
	assert_int_equal(attune_max_workspace(op, 1, 1, &most), ATTUNE_OK);
	assert_true(plan.workspace > 1 && most >= plan.workspace);
	char *workspace = malloc(plan.workspace);
	const float before = s.out[0];
	assert_int_equal(attune_run(op, &plan, &s.t, workspace, plan.workspace - 1, NULL),
			 ATTUNE_TOO_SMALL);
	assert_int_equal(attune_run(op, &plan, &s.t, NULL, plan.workspace, NULL), ATTUNE_TOO_SMALL);
	assert_true(s.out[0] == before);
	free(workspace);
	step_free(&s);
	attune_release(op);
	close_with(ctx);
}

/* Not carried for this shape, or -1: the defaults run. */
static void the_defaults_stand_in(void **state)
{
	static const char *const rows[][3] = {
		{ "TILE_SIZE=128 STREAMS=8 WHOLE_PAGES=0 SEGMENTS=2", "0",
		  "1 of 1 choices, the first is segmented TILE_SIZE=128 STREAMS=8 WHOLE_PAGES=0 "
		  "SEGMENTS=2: the library carries no code of it for this shape" },
		{ "TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=2", "-1", "" },
	};
	char text[512];
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		attune_context *ctx = open_with(rows[i][0], rows[i][1]);
		attune_op *op = prepare(ctx);
		attune_plan plan = { .size = sizeof plan };
		struct step s;
		step_make(&s, COUNT(decodes), decodes);
		assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_OK);
		assert_int_equal(segments_of(op, &plan), 1);
		assert_int_equal(attune_unused_choices(op, text, sizeof text), ATTUNE_OK);
		assert_string_equal(text, rows[i][2]); /* F16 of tests/FAULTS.md */
		assert_int_equal(attune_unused_choices(op, text, 1),
				 *rows[i][2] ? ATTUNE_TOO_SMALL : ATTUNE_OK);
		run(op, &s);
		assert_step_is_right(&s);
		step_free(&s);
		attune_release(op);
		close_with(ctx);
	}
}

/* The row's first member that the batch allows runs, and computes what is right. Short sequences
 * forbid 4 segments, this library carries no code of 8 streams. Behind the row stand the defaults, for
 * decodes segmented. */
static void members_of_a_row_stand_in(void **state)
{
#define CUT "segmented TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=4"
#define FOREIGN "segmented TILE_SIZE=128 STREAMS=8 WHOLE_PAGES=0 SEGMENTS=1"
#define WHOLE "qblock BLOCK_M=192 TILE_SIZE=256"
	static const int one[][2] = { { 1, 1000 } };
	static const struct {
		const char *choice[3], *lists;
		int is_long;
		const char *runs;
	} rows[] = {
		{ { CUT, WHOLE }, "LIST(c0, c1, none, none)", 0, "qblock " },
		{ { CUT, WHOLE }, "LIST(c0, c1, none, none)", 1, "SEGMENTS=4" },
		{ { FOREIGN, CUT, WHOLE }, "LIST(c0, c1, c2, none)", 0, "qblock " },
		{ { FOREIGN, CUT, WHOLE }, "LIST(c0, c1, c2, none)", 1, "SEGMENTS=4" },
		{ { FOREIGN, CUT }, "LIST(c0, c1, none, none)", 0, "segmented " },
		{ { CUT, WHOLE }, NULL, 0, "segmented " },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct rules rules = { .choice = { rows[i].choice[0], rows[i].choice[1],
							 rows[i].choice[2] },
					     .lists = rows[i].lists };
		attune_context *ctx = open_rules(&rules);
		if (!ctx)
			fail_msg("%s", attune_last_error());
		attune_op *op = prepare(ctx);
		attune_plan plan = { .size = sizeof plan };
		struct step s;
		char text[512];
		size_t most;
		if (rows[i].is_long)
			step_make(&s, 1, one);
		else
			step_make(&s, COUNT(decodes), decodes);
		assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_OK);
		assert_int_equal(attune_plan_text(op, &plan, text, sizeof text), ATTUNE_OK);
		assert_non_null(strstr(text, rows[i].runs));
		assert_int_equal(attune_max_workspace(op, s.batch.num_seqs, s.tokens, &most),
				 ATTUNE_OK);
		assert_true(plan.workspace <= most);
		run(op, &s);
		assert_step_is_right(&s);
		step_free(&s);
		attune_release(op);
		close_with(ctx);
	}
}

/* Parts run side by side where both are the choices of the trees, and such a choice is carried. */
static void parts_overlap_as_the_rules_say(void **state)
{
	static const char carried[] = "TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=1";
	static const char foreign[] = "TILE_SIZE=128 STREAMS=8 WHOLE_PAGES=0 SEGMENTS=1";
	static const struct {
		const char *choice, *decode, *overlap;
		enum attune_how how;
		int launches;
	} rows[] = {
		{ carried, "0", "", ATTUNE_SERIAL, 2 },
		{ carried, "0", "-1", ATTUNE_SERIAL, 2 },
		{ carried, "0", "streams", ATTUNE_STREAMS, 2 },
		{ carried, "0", "0", ATTUNE_STREAMS, 2 }, /* one launch needs a fused kernel */
		{ carried, "0", "one_launch", ATTUNE_SERIAL, 1 },
		{ carried, "-1", "streams", ATTUNE_SERIAL, 2 },
		{ carried, "-1", "0", ATTUNE_SERIAL, 2 },
		{ carried, "-1", "one_launch", ATTUNE_SERIAL, 2 },
		{ foreign, "0", "streams", ATTUNE_SERIAL, 2 },
		{ foreign, "0", "one_launch", ATTUNE_SERIAL, 2 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		attune_context *ctx = open_beside(rows[i].choice, rows[i].decode, rows[i].overlap);
		if (!ctx)
			fail_msg("%s", attune_last_error());
		attune_op *op = prepare(ctx);
		attune_plan plan = { .size = sizeof plan };
		struct step s;
		char text[512];
		step_make(&s, COUNT(mixed), mixed);
		assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_OK);
		assert_int_equal(plan.how, rows[i].how);
		assert_int_equal(plan.num_parts, rows[i].launches);
		assert_int_equal(attune_plan_text(op, &plan, text, sizeof text), ATTUNE_OK);
		assert_int_equal(strstr(text, " || ") != NULL, rows[i].how == ATTUNE_STREAMS);
		run(op, &s);
		assert_step_is_right(&s);
		step_free(&s);
		step_make(&s, COUNT(decodes), decodes); /* one part: nothing to overlap with */
		assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_OK);
		assert_int_equal(plan.how, ATTUNE_SERIAL);
		step_free(&s);
		attune_release(op);
		close_with(ctx);
	}
}

/* The last error is of the line that many behind the line of SHAPES. */
static int is_of_line(int behind)
{
	char line[16];
	int lines = 0;
	for (const char *at = rules_head("cpu"); (at = strchr(at, '\n')); at++)
		lines++;
	snprintf(line, sizeof line, ":%d: ", lines + behind);
	return strstr(attune_last_error(), line) != NULL;
}

static void a_broken_file_opens_nothing(void **state)
{
	(void)state;
	assert_null(open_with("TILE_SIZE=64", "0"));
	assert_true(is_of_line(2));
	assert_null(open_with("TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=2", "1"));
	assert_true(is_of_line(17));
	assert_null(open_beside("TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=2", "0", "whole"));
	assert_true(is_of_line(22));
	setenv("ATTUNE_HEURISTICS", "", 1); /* as if it were not set */
	attune_close(open_cpu());
	unsetenv("ATTUNE_HEURISTICS");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formulas_become_numbers_per_batch),
		cmocka_unit_test(a_small_workspace_is_refused),
		cmocka_unit_test(the_defaults_stand_in),
		cmocka_unit_test(members_of_a_row_stand_in),
		cmocka_unit_test(parts_overlap_as_the_rules_say),
		cmocka_unit_test(a_broken_file_opens_nothing),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("library_rules", tests, NULL, NULL);
}
