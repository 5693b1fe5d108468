/* SPDX-License-Identifier: Apache-2.0 */
/* t_sized.c - programs that were compiled with another version of attune.h: where members lie, the
 * sizes of structs, the list of features. */
#include "kernels/attune_features.h"
#include "kernels/attune_plugin.h"
#include "kernels/spec/sized.h"
#include "tests/library/cpu_step.h"

enum { NEWER = 16, CANARY = 0x5a };

static attune_context *ctx;
static attune_op *op;
static struct step s;
static char workspace[1 << 20] __attribute__((aligned(64)));

static int begin(void **state)
{
	(void)state;
	ctx = open_cpu();
	op = prepare(ctx);
	step_make(&s, COUNT(mixed), mixed);
	return 0;
}

static int end(void **state)
{
	(void)state;
	step_free(&s);
	attune_release(op);
	attune_close(ctx);
	return 0;
}

/* ---- members ----------------------------------------------------------------------------- */

/* With 64-bit pointers. A new version may add rows, and changes none. */
static void members_stay_where_they_were(void **state)
{
#define AT(type, member, was)                                  \
	{                                                      \
#type "." #member, offsetof(type, member), was \
	}
	const struct {
		const char *name;
		size_t at, was;
	} rows[] = {
		AT(attune_shape, scale, 36),
		AT(attune_shape, has_lse, 60),
		AT(attune_batch, num_seqs, 4),
		AT(attune_batch, seq_lens, 16),
		AT(attune_tensors, out, 8),
		AT(attune_tensors, block_table_stride, 160),
		AT(attune_tensors, lse_head_stride, 288),
		AT(attune_plan, workspace, 16),
		AT(attune_plan, op, 24),
		AT(attune_plan, unused, 228),
		AT(attune_plan, longest, 272),
		AT(attune_plugin_device, threads, 32),
		AT(attune_plugin_part, decodes, 64),
		AT(attune_plugin_batch, stream, 16),
		AT(attune_plugin, store, 112),
		{ "the first size of a shape", shape_sized.first, 64 },
		{ "the first size of a batch", batch_sized.first, 24 },
		{ "the first size of tensors", tensors_sized.first, 296 },
		{ "the first size of a plan", plan_sized.first, 336 },
		{ "the size of a span", sizeof(attune_span), 24 },
		{ "the size of a part", sizeof(attune_part), 96 },
		{ "a late feature", ATTUNE_FEATURE_prefill_share, 26 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows) && sizeof(void *) == 8; i++)
		if (rows[i].at != rows[i].was)
			fail_msg("%s: %zu, and it was %zu", rows[i].name, rows[i].at, rows[i].was);
}

/* ---- older programs ---------------------------------------------------------------------- */

/* A struct that a version has given one member more. */
struct grown {
	uint32_t size;
	int first, added;
};
static const struct sized grown = { "grown", 8, sizeof(struct grown) };

static void an_older_struct_is_read_to_its_end(void **state)
{
	const struct grown older = { 8, 1, CANARY };
	struct grown own;
	(void)state;
	memset(&own, CANARY, sizeof own);
	const struct grown *read = sized_read(&grown, &older, &own, "call");
	assert_ptr_equal(read, &own);
	assert_int_equal(read->size, sizeof own);
	assert_int_equal(read->first, 1);
	assert_int_equal(read->added, 0);
}

static void an_older_struct_is_written_to_its_end(void **state)
{
	const struct grown made = { sizeof made, 2, 3 };
	struct grown older = { 8, 1, CANARY }, own, today = { sizeof today, 1, 1 };
	(void)state;
	assert_ptr_equal(sized_make(&grown, &today, &own, "call"), &today);
	assert_ptr_equal(sized_make(&grown, &older, &own, "call"), &own);
	sized_give(&grown, &older, &made);
	assert_int_equal(older.size, 8);
	assert_int_equal(older.first, 2);
	assert_int_equal(older.added, CANARY);
}

/* ---- sizes ------------------------------------------------------------------------------- */

/* A program's structs, with room for members of a newer version. */
#define ROOM(type)                                         \
	union {                                            \
		type as;                                   \
		unsigned char bytes[sizeof(type) + NEWER]; \
	}
static struct {
	ROOM(attune_shape) shape;
	ROOM(attune_batch) batch;
	ROOM(attune_tensors) tensors;
	ROOM(attune_plan) plan;
} given;

static const struct named {
	const struct sized *type;
	void *given;
} structs[] = {
	{ &shape_sized, &given.shape },
	{ &batch_sized, &given.batch },
	{ &tensors_sized, &given.tensors },
	{ &plan_sized, &given.plan },
};

static void set_size(void *of, uint32_t size)
{
	memcpy(of, &size, sizeof size);
}

static void give(void)
{
	memset(&given, 0, sizeof given);
	given.shape.as = shape;
	given.batch.as = s.batch;
	given.tensors.as = s.t;
	given.plan.as.size = sizeof(attune_plan);
	assert_int_equal(attune_plan_batch(op, &s.batch, &given.plan.as), ATTUNE_OK);
}

/* What each call says that takes this struct; the other structs are as they should be. */
static enum attune_status call(int which, const void *of)
{
	attune_op *other = NULL;
	attune_plan own = given.plan.as, *plan = &given.plan.as;
	struct attune_features f;
	char text[512];
	size_t n;
	const int is_plan = of == plan;
	enum attune_status status = ATTUNE_OK;
	switch (which) {
	case 0:
		status = attune_prepare(ctx, &given.shape.as, &other);
		attune_release(other);
		return status;
	case 1: return attune_plan_batch(op, &given.batch.as, is_plan ? plan : &own);
	case 2: return attune_run(op, plan, &given.tensors.as, workspace, sizeof workspace, NULL);
	case 3: return attune_schedule(op, plan, &given.batch.as, NULL, 0, &n);
	case 4: return attune_plan_text(op, plan, text, sizeof text);
	case 5: return attune_batch_features(op, &given.batch.as, ATTUNE_PHASE_ALL, &f, sizeof f);
	case 6: return attune_choice_runs(op, &given.batch.as, ATTUNE_PHASE_ALL, 0);
	case 7: return attune_write_kv(op, 0, 0, &given.tensors.as, NULL, NULL);
	default: return attune_plan_bounds(op, 4, 4, 1, 99, is_plan ? plan : &own);
	}
}
static const char *const calls[] = {
	"attune_prepare",   "attune_plan_batch",     "attune_run",         "attune_schedule",
	"attune_plan_text", "attune_batch_features", "attune_choice_runs", "attune_write_kv",
	"attune_plan_bounds",
};
/* Which structs each call takes, of `structs`. */
static const unsigned takes[] = { 1, 2 | 8, 4 | 8, 2 | 8, 8, 2, 2, 4, 8 };

/* Whether the calls that take the struct, and no others, refuse it in such words. */
static void assert_refused(int of, const char *words)
{
	const struct named *n = &structs[of];
	for (int i = 0; i < (int)COUNT(calls); i++) {
		char line[200];
		const enum attune_status status = call(i, n->given);
		snprintf(line, sizeof line, "%s: %s.size is ", calls[i], n->type->name);
		const int is_told = status == ATTUNE_INVALID &&
				    strstr(attune_last_error(), line) == attune_last_error() &&
				    strstr(attune_last_error(), words);
		if (is_told != (int)(takes[i] >> of & 1))
			fail_msg("%s, size of %s: %s", calls[i], n->type->name,
				 status ? attune_last_error() : "taken");
	}
}

static void sizes_that_no_version_has(void **state)
{
	(void)state;
	for (int of = 0; of < (int)COUNT(structs); of++) {
		const struct named *n = &structs[of];
		const uint32_t sizes[] = { 0, n->type->first - 1, 5000, UINT32_MAX };
		for (size_t i = 0; i < COUNT(sizes); i++) {
			char words[80];
			give();
			set_size(n->given, sizes[i]);
			snprintf(words, sizeof words, "%u: set it to sizeof(%s)", sizes[i],
				 n->type->name);
			assert_refused(of, words);
		}
	}
	give();
	set_size(&given.plan, 0);
	attune_plan plan = { .size = sizeof plan };
	assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_OK);
	assert_int_equal(attune_plan_serves(&plan, &given.plan.as), 0);
	assert_int_equal(attune_plan_serves(&given.plan.as, &plan), 0);
}

/* ---- newer programs ---------------------------------------------------------------------- */

static void newer_members_that_are_0(void **state)
{
	attune_op *made = NULL;
	attune_plan today = { .size = sizeof today };
	(void)state;
	give();
	for (size_t i = 0; i < COUNT(structs); i++)
		set_size(structs[i].given, structs[i].type->now + NEWER);
	memset(given.plan.bytes + 4, CANARY, sizeof given.plan - 4);
	assert_int_equal(attune_prepare(ctx, &given.shape.as, &made), ATTUNE_OK);
	assert_int_equal(attune_plan_batch(made, &given.batch.as, &given.plan.as), ATTUNE_OK);
	assert_int_equal(given.plan.as.size, sizeof given.plan);
	for (size_t i = sizeof(attune_plan); i < sizeof given.plan; i++)
		assert_int_equal(given.plan.bytes[i], 0);
	assert_int_equal(
	    attune_run(made, &given.plan.as, &given.tensors.as, workspace, sizeof workspace, NULL),
	    ATTUNE_OK);
	assert_step_is_right(&s);
	assert_int_equal(attune_plan_batch(made, &given.batch.as, &today), ATTUNE_OK);
	assert_int_equal(attune_plan_serves(&given.plan.as, &today), ATTUNE_SERVES_ALIKE);
	attune_release(made);
}

static void newer_members_that_ask_for_something(void **state)
{
	(void)state;
	for (int of = 0; of < (int)COUNT(structs); of++) {
		const struct named *n = &structs[of];
		if (n->type == &plan_sized)
			continue; /* attune_plan_batch fills it */
		give();
		set_size(n->given, n->type->now + NEWER);
		((unsigned char *)n->given)[n->type->now + NEWER - 1] = 1;
		assert_refused(of, "a member behind the ");
	}
	give();
	given.plan.as.size = sizeof given.plan;
	given.plan.bytes[sizeof(attune_plan)] = 1;
	assert_int_equal(attune_run(op, &given.plan.as, &s.t, workspace, sizeof workspace, NULL),
			 ATTUNE_INVALID);
	assert_non_null(strstr(attune_last_error(), "a member behind the "));
}

/* ---- features ---------------------------------------------------------------------------- */

static void features_are_written_to_the_programs_end(void **state)
{
	struct {
		struct attune_features f;
		long long behind;
	} room = { .behind = CANARY };
	static const size_t wrong[] = { 0, sizeof(long long), sizeof room.f - 1, sizeof room };
	(void)state;
	assert_int_equal(
	    attune_batch_features(op, &s.batch, ATTUNE_PHASE_ALL, &room.f, sizeof room.f),
	    ATTUNE_OK);
	assert_int_equal(room.f.query_tokens, s.tokens);
	assert_int_equal(room.behind, CANARY);
	for (size_t i = 0; i < COUNT(wrong); i++) {
		char line[80];
		snprintf(line, sizeof line, "attune_batch_features: size is %zu: ", wrong[i]);
		assert_int_equal(
		    attune_batch_features(op, &s.batch, ATTUNE_PHASE_ALL, &room.f, wrong[i]),
		    ATTUNE_INVALID);
		assert_ptr_equal(strstr(attune_last_error(), line), attune_last_error());
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_stay_where_they_were),
		cmocka_unit_test(an_older_struct_is_read_to_its_end),
		cmocka_unit_test(an_older_struct_is_written_to_its_end),
		cmocka_unit_test(sizes_that_no_version_has),
		cmocka_unit_test(newer_members_that_are_0),
		cmocka_unit_test(newer_members_that_ask_for_something),
		cmocka_unit_test(features_are_written_to_the_programs_end),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("sized", tests, begin, end);
}
