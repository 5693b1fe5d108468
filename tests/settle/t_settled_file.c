/* SPDX-License-Identifier: Apache-2.0 */
/* t_settled_file.c - the tool's reader of settled texts: it reads what the library writes; cut anywhere, or
 * with any byte changed, a file is read whole or refused in one line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "settle_world.h"
#include "harness/base/base.h"
#include "harness/settled/settled.h"
#include "tests/support/folder.h"
#include "tests/support/heard.h"
#include <math.h>

static const char *write_file(const char *name, const char *text, size_t n)
{
	const char *path = in_folder(name);
	FILE *f = fopen(path, "wb");
	assert_true(f && fwrite(text, 1, n, f) == n && !fclose(f));
	return path;
}

enum { ROOM = 1 << 16 };
static const char *const parts[] = { "32q1s4k", "2q2k", "3q1s1k_q1s7k" };

/* Another member won the parts, the first way the mixed batch. */
static size_t library_text(const char *gpu, char text[ROOM])
{
	struct world w;
	size_t need;
	world_open(&w, gpu);
	for (size_t i = 0; i < COUNT(parts); i++)
		settle_part(w.op, parts[i],
			    other_member(w.op, parts[i], plan_of(w.op, parts[i]).part[0].choice),
			    900);
	settle_to(w.op, "q2k_24q1s1k",
		  (struct settled_plan){ WAY_AS_RULES, { -1, -1 }, { 0, 0 }, 20.125 },
		  (struct settled_plan){ WAY_SERIES, { -1, -1 }, { 0, 0 }, 18 });
	commit(w.ctx);
	assert_int_equal(attune_settled_text(w.ctx, text, ROOM, &need), ATTUNE_OK);
	world_close(&w);
	return need;
}

static const struct store_settled *row_of(const struct settled_file *f, const char *batch)
{
	for (int i = 0; i < f->n; i++)
		if (!strcmp(f->row[i].batch, batch))
			return &f->row[i];
	fail_msg("no row of %s", batch);
	return NULL;
}

static void reads_what_the_library_writes(void **state)
{
	static const char *const gpus[] = { "h200", "mi300", "cpu" };
	static char text[ROOM];
	(void)state;
	for (size_t g = 0; g < COUNT(gpus); g++) {
		struct settled_file f;
		attune_shape shape;
		const size_t n = library_text(gpus[g], text);
		if (!settled_file_read(&f, write_file("library", text, n)))
			fail_msg("%.*s", (int)n, text);
		assert_string_equal(f.gpu, gpus[g]);
		assert_int_equal(f.n, 4);
		assert_int_equal(f.outdated, 0);
		for (size_t i = 0; i < COUNT(parts); i++) {
			const struct store_settled *row = row_of(&f, parts[i]);
			assert_string_equal(row->kind, i == 1 ? "prefill" : "decode");
			assert_true(row->v[row->winner].us < row->v[0].us);
			assert_string_not_equal(row->v[row->winner].choice, row->v[0].choice);
			assert_true(settled_is_today(f.gpu, row, row->winner));
			assert_true(settled_op(&shape, row));
			assert_int_equal(shape.num_query_heads, llama.num_query_heads);
			assert_int_equal(shape.kv_dtype, llama.kv_dtype);
		}
		const struct store_settled *mixed = row_of(&f, "q2k_24q1s1k");
		assert_string_equal(mixed->kind, "mixed");
		assert_string_equal(mixed->v[mixed->winner].way, "series");
		assert_true(fabs(mixed->v[mixed->winner].us - 18) < 1e-9);
		settled_file_free(&f);
	}
}

/* A step wins for its choice, since the tool learns the order of choices. */
static void steps_win_for_their_choices(void **state)
{
	static char text[ROOM];
	struct settled_file f;
	struct world w;
	size_t n;
	(void)state;
	world_open(&w, "h200");
	const int own = plan_of(w.op, parts[0]).part[0].choice;
	const int id = other_member(w.op, parts[0], own);
	struct batch *b = batch_of(parts[0]);
	const struct settled_entry e = { .batch = &b->view,
					 .num = 4,
					 .plan = { { WAY_AS_RULES, { -1, -1 }, { 0, 0 }, 20 },
						   { WAY_AS_RULES, { -1, own }, { 0, 1 }, 19 },
						   { WAY_AS_RULES, { -1, id }, { 0, 0 }, 18 },
						   { WAY_AS_RULES, { -1, id }, { 0, -1 }, 17 } },
					 .winner = 3,
					 .rounds = 10 };
	assert_int_equal(settled_add(w.op, &e), ATTUNE_OK);
	commit(w.ctx);
	assert_int_equal(attune_settled_text(w.ctx, text, ROOM, &n), ATTUNE_OK);
	assert_true(settled_file_read(&f, write_file("steps", text, n)));
	assert_int_equal(f.row[0].n, 4);
	assert_int_equal(f.row[0].winner, 3);
	assert_string_equal(f.row[0].v[3].choice, f.row[0].v[2].choice);
	assert_string_equal(f.row[0].v[2].way, "");
	assert_string_equal(f.row[0].v[3].way, "-1");
	assert_string_equal(f.row[0].v[1].way, "+1");
	settled_file_free(&f);
	batch_free(b);
	world_close(&w);
}

/* A numerical recipe: the same numbers everywhere. */
static size_t below(size_t n)
{
	static unsigned long long state = 51;
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (size_t)(state >> 33) % n;
}

static void cut_and_changed_files(void **state)
{
	static char text[ROOM], changed[ROOM];
	const size_t n = library_text("h200", text);
	(void)state;
	for (int i = 0; i < 1000; i++) {
		struct settled_file f;
		size_t size = i % 4 ? n : below(n);
		memcpy(changed, text, n);
		if (i % 4)
			changed[below(n)] = (char)below(i % 8 ? 128 : 256);
		const char *path = write_file("changed", changed, size);
		listen_begin();
		const int taken = settled_file_read(&f, path);
		const char *said = heard();
		const char *line = strchr(said, '\n');
		if (taken ? *said : !line || line[1])
			fail_msg("case %d: %s", i, said);
		if (taken)
			settled_file_free(&f);
	}
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_the_library_writes),
		cmocka_unit_test(steps_win_for_their_choices),
		cmocka_unit_test(cut_and_changed_files),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("settled files", tests, make_folder, remove_folder);
}
