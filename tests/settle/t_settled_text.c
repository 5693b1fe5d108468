/* SPDX-License-Identifier: Apache-2.0 */
/* t_settled_text.c - the text of what was settled: the same memory in any context has the same bytes
 * and digest; a text that is malformed, older, cut or of another device is refused by its line, and
 * nothing of it is taken; cells of choices that are gone are dropped and counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "settle_world.h"

static char *text_of(const attune_context *ctx, size_t *size)
{
	if (attune_settled_text(ctx, NULL, 0, size))
		fail_msg("%s", attune_last_error());
	char *text = malloc(*size + 1);
	assert_non_null(text);
	assert_int_equal(attune_settled_text(ctx, text, *size, size), ATTUNE_OK);
	text[*size] = '\0';
	return text;
}

static char *text_in(const attune_context *ctx)
{
	size_t size;
	return text_of(ctx, &size);
}

/* Decodes, prefills, mixed batches, two shapes, cells that the first wins. */
static void settle_some(struct world *w, int backwards)
{
	static const char *const parts[] = { "32q1s4k", "2q2k", "4q4s1k", "3q1s1k_q1s7k", "q8k" };
	static const char mixed[] = "q2k_24q1s1k";
	attune_shape other = llama;
	attune_op *op;
	other.scale = 0.1f;
	other.softcap = 50;
	other.window = 1000;
	if (attune_prepare(w->ctx, &other, &op))
		fail_msg("%s", attune_last_error());
	for (size_t i = 0; i < COUNT(parts); i++) {
		const size_t at = backwards ? COUNT(parts) - 1 - i : i;
		const int id =
		    other_member(w->op, parts[at], plan_of(w->op, parts[at]).part[0].choice);
		settle_part(w->op, parts[at], id, at == 3 ? 1100 : 900 + (int)at);
		settle_part(op, parts[at], plan_of(op, parts[at]).part[0].choice, 1000);
	}
	settle_to(w->op, mixed, (struct settled_plan){ WAY_AS_RULES, { -1, -1 }, { 0, 0 }, 20.125 },
		  (struct settled_plan){ WAY_SERIES, { -1, -1 }, { 0, 0 }, 18 });
	attune_release(op);
}

static void one_memory_has_one_text(void **state)
{
	static const char *const gpus[] = { "h200", "mi300", "cpu" };
	(void)state;
	for (size_t i = 0; i < COUNT(gpus); i++) {
		struct world a, b, c;
		size_t size;
		int taken = -1, dropped = -1;
		world_open(&a, gpus[i]);
		world_open(&b, gpus[i]);
		world_open(&c, gpus[i]);
		settle_some(&a, 0);
		commit(a.ctx);
		char *text = text_of(a.ctx, &size);
		if (attune_settled_read(b.ctx, text, size, &taken, &dropped))
			fail_msg("%s", attune_last_error());
		assert_int_equal(taken, 11);
		assert_int_equal(dropped, 0);
		assert_true(attune_settled_digest(b.ctx) == 0); /* before the commit */
		commit(b.ctx);
		settle_some(&c, 1);
		commit(c.ctx);
		char *of_b = text_in(b.ctx), *of_c = text_in(c.ctx);
		assert_string_equal(of_b, text);
		assert_string_equal(of_c, text);
		assert_true(attune_settled_digest(a.ctx) != 0);
		assert_true(attune_settled_digest(a.ctx) == attune_settled_digest(b.ctx));
		assert_true(attune_settled_digest(a.ctx) == attune_settled_digest(c.ctx));
		for (int again = 0; again < 2; again++) { /* once more changes nothing */
			assert_int_equal(attune_settled_read(a.ctx, text, size, NULL, NULL),
					 ATTUNE_OK);
			commit(a.ctx);
		}
		char *once_more = text_in(a.ctx);
		assert_string_equal(once_more, text);
		free(text);
		free(of_b);
		free(of_c);
		free(once_more);
		world_close(&a);
		world_close(&b);
		world_close(&c);
	}
}

/* Where the rules' choices cannot run a default does, which the rules may name elsewhere. A text names
 * it once. */
static void a_choice_that_stands_twice_is_one(void **state)
{
	static const char batch[] = "q17s3209_q9s369";
	attune_shape odd = llama;
	struct world a, b;
	attune_op *op;
	size_t size;
	int taken, same = 0;
	(void)state;
	setenv("ATTUNE_THREADS", "1", 1);
	world_open(&a, "cpu");
	world_open(&b, "cpu");
	unsetenv("ATTUNE_THREADS");
	odd.num_query_heads = 6;
	odd.num_kv_heads = 1;
	odd.head_size = 96;
	odd.page_size = 61;
	assert_int_equal(attune_prepare(a.ctx, &odd, &op), ATTUNE_OK);
	const int id = plan_of(op, batch).part[0].choice;
	for (int i = 0; i < id; i++)
		same += op->ready[i].name == op->ready[id].name;
	assert_int_equal(same, 1);
	settle_part(op, batch, other_member(op, batch, id), 1100);
	commit(a.ctx);
	assert_true(attune_settled_digest(a.ctx) == 0);
	char *text = text_of(a.ctx, &size);
	assert_int_equal(attune_settled_read(b.ctx, text, size, &taken, NULL), ATTUNE_OK);
	assert_int_equal(taken, 1);
	commit(b.ctx);
	assert_true(attune_settled_digest(b.ctx) == 0);
	free(text);
	attune_release(op);
	world_close(&a);
	world_close(&b);
}

/* ---- texts that are refused -------------------------------------------------------------------- */

/* Of a decode, a prefill and a mixed batch. */
static char *small_text(struct world *w)
{
	world_open(w, "h200");
	settle_part(w->op, "32q1s4k",
		    other_member(w->op, "32q1s4k", plan_of(w->op, "32q1s4k").part[0].choice), 900);
	settle_part(w->op, "2q2k",
		    other_member(w->op, "2q2k", plan_of(w->op, "2q2k").part[0].choice), 900);
	settle_to(w->op, "q2k_24q1s1k",
		  (struct settled_plan){ WAY_AS_RULES, { -1, -1 }, { 0, 0 }, 20 },
		  (struct settled_plan){ WAY_SERIES, { -1, -1 }, { 0, 0 }, 18 });
	commit(w->ctx);
	return text_in(w->ctx);
}

/* The text with the first `from` in it replaced. */
static char *replaced(const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);
	if (!at)
		fail_msg("no \"%s\" in %s", from, text);
	char *changed = malloc(strlen(text) + strlen(to) + 1);
	assert_non_null(changed);
	sprintf(changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
	return changed;
}

static int line_of(const char *text, const char *at)
{
	int line = 1;
	for (; text < at; text++)
		line += *text == '\n';
	return line;
}

static void refuse(const char *text, size_t size, int line, const char *why)
{
	struct world w;
	char begin[32];
	int taken = -1, dropped = -1;
	world_open(&w, "h200");
	snprintf(begin, sizeof begin, "line %d: ", line);
	if (attune_settled_read(w.ctx, text, size, &taken, &dropped) != ATTUNE_INVALID ||
	    strncmp(attune_last_error(), begin, strlen(begin)) || !strstr(attune_last_error(), why))
		fail_msg("%s, %s: %s", begin, why, attune_last_error());
	assert_int_equal(taken, -1);
	commit(w.ctx);
	assert_true(attune_settled_digest(w.ctx) == 0);
	world_close(&w);
}

static void names_the_line_of_a_fault(void **state)
{
	static const struct {
		const char *from, *to, *why;
	} rows[] = {
		{ "attune settled 1", "attune settled 0", "\"attune settled 1\"" },
		{ "attune settled 1", "attune settled 12", "end of the line" },
		{ "attune settled 1\n", "", "\"attune settled 1\"" },
		{ "gpu=h200", "gpu=h100", "this device is" },
		{ "units=132", "units=114", "this device is" },
		{ "units=132", "units=0132", "units" },
		{ "name=\"", "name=\"x", "this device is" },
		{ "conditions driver=\"", "conditions driver=", "quotation" },
		{ "choice 0 ", "choice 1 ", "number" },
		{ "op 0 heads=32/8", "op 0 heads=32/7", "multiple" },
		{ "dtype=bf16", "dtype=bf17", "type" },
		{ "scale=0", "scale=0x7fc00000", "scale" },
		{ "causal=1", "causal=2", "0 to 1" },
		{ "lse=0", "lse=0 more=1", "end of the line" },
		{ "kind=prefill", "kind=decode", "kind decode" },
		{ "kind=prefill", "kind=prefil", "kind" },
		{ "batch=2q2048s2048", "batch=2q2048", "\"s\"" },
		{ "batch=2q2048s2048", "batch=8193q1s1", "sequences" },
		{ "batch=2q2048s2048", "batch=4q536870912s1", "2^31" },
		{ "batch=2q2048s2048", "batch=0q1s1", "sequences" },
		{ "batch=2q2048s2048", "batch=2q0s5", "kind prefill" },
		{ "us=20.000,", "us=-20.000,", "microseconds" },
		{ "us=20.000,", "us=nan,", "microseconds" },
		{ "us=20.000,", "us=0.000,", "above 0" },
		{ "us=20.000,", "us=20.,", "decimals" },
		{ "us=20.000,", "us=", "\",\"" },
		{ "rounds=10", "rounds=0", "rounds" },
		{ "settles=1", "settles=18446744073709551617", "settles" },
		{ "op=0 kind", "op=1 kind", "op above" },
		{ ",series us", ",sideways us", "a way" },
		{ ",series us", ",series/0 us", "\"/\"" },
		{ "winner=series", "winner=streams", "one of these plans" },
		{ "cell op", "sell op", "choice, op, cell or end" },
		{ "cell op", "cell\top", "ASCII" },
		{ "cell op", "\ncell op", "choice, op, cell or end" },
		{ "cell op", "\r\ncell op", "ASCII" },
		{ "end 3", "end 2", "number of cells" },
		{ "end 3", "end", "choice, op, cell or end" },
		{ "end 3\n", "", "the text ends before its last line" },
	};
	struct world w;
	char *text = small_text(&w);
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		char *changed = replaced(text, rows[i].from, rows[i].to);
		refuse(changed, strlen(changed), line_of(text, strstr(text, rows[i].from)),
		       rows[i].why);
		free(changed);
	}
	free(text);
	world_close(&w);
}

/* Cut anywhere, also at the end of a line; or with more behind its last line. */
static void refuses_what_is_cut(void **state)
{
	struct world w;
	char *text = small_text(&w);
	const size_t size = strlen(text);
	(void)state;
	for (size_t n = 0; n < size; n += n < 300 ? 1 : 7)
		refuse(text, n, line_of(text, text + n), "");
	for (size_t n = 1; n < size; n++)
		if (text[n - 1] == '\n')
			refuse(text, n, line_of(text, text + n), "ends before its last line");
	char *more = replaced(text, "end 3\n", "end 3\nend 3\n");
	refuse(more, strlen(more), line_of(text, text + size), "end of the text");
	free(more);
	free(text);
	world_close(&w);
}

static void refuses_what_is_too_long(void **state)
{
	const size_t size = (1 << 20) + 1;
	char *text = malloc(size);
	(void)state;
	assert_non_null(text);
	memset(text, '\n', size);
	refuse(text, size, 1, "1048576");
	free(text);
}

/* A text of two cells, one of which has a choice that is not there any more. */
static void drops_choices_that_are_gone(void **state)
{
	struct world w, other;
	int taken = -1, dropped = -1;
	char *text = small_text(&w);
	const char *member = strstr(text, "kind=decode");
	char choice[32], line[512];
	(void)state;
	assert_non_null(member);
	member = strstr(member, "winner=") + 7;
	snprintf(choice, sizeof choice, "\nchoice %.*s ", (int)strcspn(member, " "), member);
	const char *from = strstr(text, choice);
	assert_non_null(from);
	snprintf(line, sizeof line, "%.*s", (int)strcspn(from + 1, "\n") + 1, from);
	const char *const how[][2] = { { " ", " not_" }, { "=", "=9" } };
	for (size_t i = 0; i <= COUNT(how); i++) {
		char *other_line;
		if (i < COUNT(how)) { /* a kernel, or a value, that is not there */
			const char *at = strstr(line + strlen(choice) - 1, how[i][0]);
			char tail[512];
			snprintf(tail, sizeof tail, "%s%s", how[i][1], at + strlen(how[i][0]));
			other_line = malloc(1100);
			sprintf(other_line, "%.*s%s", (int)(at - line), line, tail);
		} else { /* another identity */
			other_line = strdup(line);
			char *hash = strchr(other_line + strlen(choice), ' ') + 1;
			*hash = *hash == '0' ? '1' : '0';
		}
		char *changed = replaced(text, line, other_line);
		world_open(&other, "h200");
		if (attune_settled_read(other.ctx, changed, strlen(changed), &taken, &dropped))
			fail_msg("%s: %s", other_line, attune_last_error());
		assert_int_equal(taken, 2);
		assert_int_equal(dropped, 1);
		commit(other.ctx);
		assert_true(attune_settled_digest(other.ctx) != 0);
		assert_true(attune_settled_digest(other.ctx) != attune_settled_digest(w.ctx));
		world_close(&other);
		free(other_line);
		free(changed);
	}
	free(text);
	world_close(&w);
}

static void says_how_much_room_it_needs(void **state)
{
	struct world w;
	size_t need = 0, same = 0;
	char *text = small_text(&w), small[8] = "1234567";
	(void)state;
	assert_int_equal(attune_settled_text(w.ctx, NULL, 0, &need), ATTUNE_OK);
	assert_int_equal(need, strlen(text));
	assert_int_equal(attune_settled_text(w.ctx, small, 0, &same), ATTUNE_TOO_SMALL);
	assert_int_equal(same, need);
	assert_string_equal(small, "1234567");
	free(text);
	world_close(&w);
}

/* More cells than the memory or its text holds: what is there stays, and the text can be read. */
static void a_full_memory_keeps_what_it_has(void **state)
{
	struct world a, b;
	uint64_t before = 0;
	size_t size;
	int taken = 0;
	(void)state;
	world_open(&a, "cpu");
	world_open(&b, "cpu");
	for (int query = 1; query <= 8; query++)
		for (int seqs = 1; seqs <= 512; seqs += seqs / 4 + 1)
			for (int keys = 16; keys <= 100000; keys += keys / 4 + 1) {
				char text[64];
				snprintf(text, sizeof text, "%dq%ds%d", seqs, query, keys);
				const int id =
				    other_member(a.op, text, plan_of(a.op, text).part[0].choice);
				if (id >= 0)
					settle_part(a.op, text, id, 900);
			}
	for (int window = 1000; window < 1400; window++) { /* a line of its own for each shape */
		attune_shape windowed = llama;
		attune_op *op;
		windowed.window = window;
		assert_int_equal(attune_prepare(a.ctx, &windowed, &op), ATTUNE_OK);
		for (int seqs = 1; seqs <= 16; seqs *= 2) {
			char text[64];
			snprintf(text, sizeof text, "%dq1s4k", seqs);
			settle_part(op, text, plan_of(op, text).part[0].choice, 1000);
		}
		attune_release(op);
	}
	commit(a.ctx);
	before = attune_settled_digest(a.ctx);
	char *text = text_of(a.ctx, &size);
	assert_true(size <= 1 << 20);
	assert_int_equal(attune_settled_read(b.ctx, text, size, &taken, NULL), ATTUNE_OK);
	assert_true(taken > 2000);
	commit(b.ctx);
	char *same = text_in(b.ctx);
	assert_string_equal(same, text);
	assert_true(attune_settled_digest(b.ctx) == before);
	free(text);
	free(same);
	world_close(&a);
	world_close(&b);
}

/* Batches whose lines are long: the text is full before the table is. */
static void a_full_text_can_be_read(void **state)
{
	enum { SEQS = 1030 };
	static int32_t start[SEQS + 1], lens[SEQS];
	struct world a, b;
	size_t size;
	int taken = 0;
	(void)state;
	world_open(&a, "h200");
	world_open(&b, "h200");
	for (int seqs = 400; seqs <= SEQS; seqs += 210)
		for (int query = 1; query <= 4; query++)
			for (int keys = 64; keys < 50000; keys += keys / 3) {
				const attune_batch batch = { sizeof batch, seqs, start, lens };
				const struct settled_entry e = {
					.batch = &batch,
					.num = 1,
					.plan = { { WAY_AS_RULES, { -1, -1 }, { 0, 0 }, 20 } },
					.rounds = 3
				};
				for (int i = 0; i < seqs; i++) {
					start[i + 1] = start[i] + query;
					lens[i] = keys + i % 50;
				}
				assert_int_equal(settled_add(a.op, &e), ATTUNE_OK);
			}
	commit(a.ctx);
	char *text = text_of(a.ctx, &size);
	assert_true(size <= 1 << 20 && size > 1000000);
	assert_int_equal(attune_settled_read(b.ctx, text, size, &taken, NULL), ATTUNE_OK);
	commit(b.ctx);
	char *same = text_in(b.ctx);
	assert_string_equal(same, text);
	free(text);
	free(same);
	world_close(&a);
	world_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_memory_has_one_text),
		cmocka_unit_test(a_choice_that_stands_twice_is_one),
		cmocka_unit_test(names_the_line_of_a_fault),
		cmocka_unit_test(refuses_what_is_cut),
		cmocka_unit_test(refuses_what_is_too_long),
		cmocka_unit_test(drops_choices_that_are_gone),
		cmocka_unit_test(says_how_much_room_it_needs),
		cmocka_unit_test(a_full_memory_keeps_what_it_has),
		cmocka_unit_test(a_full_text_can_be_read),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("settled text", tests, NULL, NULL);
}
