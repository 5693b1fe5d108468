/* SPDX-License-Identifier: Apache-2.0 */
/* t_merge_settled.c - files of what the library settled, merged into a database: a file twice is a file
 * once; what is malformed or foreign takes nothing; induce learns the order of rivals from it; what is to
 * be measured next is never held out. */
#include "harness/settled/settled.h"
#include "tests/support/synthetic.h"
#include "harness/measure/measure.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "tests/support/commands.h"

int cmd_merge(int, char **);
int cmd_merge_settled(int, char **);
int cmd_induce(int, char **);
int cmd_settled_next(int, char **);

/* ---- a database of prefills ------------------------------------------------------------------ */
#define QBLOCK(m) "BLOCK_M=" #m " TILE_SIZE=64"
enum { FIRST, LEARNED, WINNER, NUM_CHOICES };
static const char *const choices[NUM_CHOICES] = { QBLOCK(16), QBLOCK(32), QBLOCK(64) };

/* FIRST is the fastest of most, LEARNED of some by 10 %, WINNER of as many by 8 %. */
static void make_rows(const char *path)
{
	struct store *st = store_open(path, 0);
	assert_non_null(st);
	const long long run = store_begin_run(st, &h200_run);
	for (int i = 0; i < 40; i++) {
		struct synthetic v = { .phase = "prefill", .split = "train" };
		snprintf(v.batch, sizeof v.batch, "q%d", 512 + 64 * i);
		if (i % 5 == 4)
			v.split = i % 2 ? "gate" : "heldout";
		for (int c = 0; c < NUM_CHOICES; c++) {
			const int gains = i % 3 == 1 ? LEARNED : i % 3 == 2 ? WINNER : FIRST;
			v.us = c == FIRST ? 100 : c != gains ? 120 : c == LEARNED ? 90 : 92;
			put_choice(st, run, &v, "qblock", with("qblock", choices[c]));
		}
	}
	store_close(st);
}

/* ---- files ----------------------------------------------------------------------------------- */
#define DEVICE                                                                           \
	"device name=\"NVIDIA H200\" gpu=h200 arch=sm_90 units=132 version=0.2.0 rules=" \
	"0123456789abcdef\n"
#define OP(number, heads)                                                                    \
	"op " number " heads=" heads " head_size=128 page_size=16 dtype=bf16 kv_dtype=bf16 " \
	"layout=strided causal=1 window=0 scale=0 softcap=0 sinks=0 alibi=0 new_kv=0 lse=0\n"
/* The first is 10 % slower than the winner. */
#define CELL(batch, winner) AGREED(batch, winner, "1")
#define AGREED(batch, winner, settles)                                                         \
	"cell op=0 kind=prefill batch=" batch " first=0 members=0,1,2 us=11.000,10.500,10.000" \
	" again=11.100 winner=" #winner " rounds=10 settles=" settles "\n"

static const char *file_of(const char *cells)
{
	static char text[6000];
	const unsigned long long code = kernel_hash(kernel_find(BACKEND_GPU, "qblock"));
	int n =
	    snprintf(text, sizeof text,
		     "attune settled 1\n" DEVICE "conditions driver=\"580.1\" sm_clock_mhz=1980\n");
	for (int c = 0; c < NUM_CHOICES; c++)
		n += snprintf(text + n, sizeof text - (size_t)n, "choice %d qblock %016llx %s\n", c,
			      code, with("qblock", choices[c]));
	int num_cells = 0;
	for (const char *at = cells; (at = strstr(at, "cell op")); at++)
		num_cells++;
	snprintf(text + n, sizeof text - (size_t)n, OP("0", "32/8") OP("1", "8/2") "%send %d\n",
		 cells, num_cells);
	return text;
}

static const char *write_file(const char *name, const char *text, size_t n)
{
	const char *path = in_folder(name);
	FILE *f = fopen(path, "wb");
	assert_true(f && fwrite(text, 1, n, f) == n && !fclose(f));
	return path;
}

static const char *put_file(const char *name, const char *cells)
{
	const char *text = file_of(cells);
	return write_file(name, text, strlen(text));
}

static const char *merged(const char *file, const char *db, int code)
{
	listen_begin();
	const int got = run_command(cmd_merge_settled, words("%s --into %s", file, db));
	const char *said = heard();
	if (got != code)
		fail_msg("exit status %d: %s", got, said);
	return said;
}

static int count_row(void *arg, const struct store_settled *row)
{
	assert_true(row->n > 0 && row->winner < row->n);
	++*(int *)arg;
	return 1;
}

static int rows_of(const char *db)
{
	struct store *s = store_open(db, 1);
	int n = 0;
	assert_true(s && store_check(s) && store_each_settled(s, "h200", count_row, &n));
	store_close(s);
	return n;
}

static void hash_of(const char *db, char hex[33])
{
	struct store *s = store_open(db, 1);
	assert_true(s && store_hash(s, "h200", hex));
	store_close(s);
}

/* ---- merging --------------------------------------------------------------------------------- */
static void twice_is_once(void **state)
{
	const char *db = in_folder("twice.sqlite"), *other = in_folder("other.sqlite");
	char none[33], once[33], twice[33];
	(void)state;
	make_rows(db);
	make_rows(other);
	hash_of(db, none);
	const char *file = put_file("a.settled", CELL("1q700s700", 2) AGREED("2q700s900", 1, "0"));
	assert_non_null(strstr(merged(file, db, EXIT_DONE), "2 settled batches, 2 of them new"));
	hash_of(db, once);
	assert_string_not_equal(none, once);
	assert_non_null(strstr(merged(file, db, EXIT_DONE), "2 settled batches, 0 of them new"));
	hash_of(db, twice);
	assert_string_equal(once, twice);
	assert_int_equal(rows_of(db), 2);

	/* other times of the same batch are another row, also by a merge of databases */
	file = put_file("b.settled", CELL("1q700s700", 0) CELL("1q700s700", 2));
	merged(file, other, EXIT_DONE);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(run_command(cmd_merge, words("%s %s", db, other)), EXIT_DONE);
		assert_int_equal(rows_of(db), 3);
	}

	struct compacted gone;
	struct store *s = store_open(db, 0);
	assert_true(s && store_set_commit(s, "", "", "0123456789") && store_compact(s, 0, &gone));
	store_close(s);
	assert_int_equal(rows_of(db), 3);
}

static void damaged_rows_are_noticed(void **state)
{
	static const char *const sql[] = {
		"UPDATE settled SET winner = 9",
		"DELETE FROM settled_member WHERE nr = 1",
		"DELETE FROM settled_member",
		"UPDATE settled_name SET text = char(27)",
		"PRAGMA foreign_keys = 0; DELETE FROM settled_name",
		"UPDATE settled SET batch = 'x'",
	};
	char db[128];
	(void)state;
	for (size_t i = 0; i < COUNT(sql); i++) {
		snprintf(db, sizeof db, "%s", in_folder(words("damaged%zu.sqlite", i)));
		make_rows(db);
		merged(put_file("damaged.settled", CELL("1q700s700", 2)), db, EXIT_DONE);
		struct store *s = store_open(db, 0);
		assert_true(s && store_check(s) && store_query(s, sql[i], NULL, NULL));
		store_close(s);
		listen_begin();
		s = store_open(db, 1);
		const int sound = s && store_check(s);
		store_close(s);
		const char *said = heard();
		if (sound || !strstr(said, "damaged"))
			fail_msg("%s: %s", sql[i], said);
	}
}

/* ---- what is refused -------------------------------------------------------------------------- */
static const struct {
	const char *find, *put; /* in a sound file */
	const char *says;       /* behind its name */
} hostile[] = {
	{ "attune settled 1", "attune settled 2", ":1: " },
	{ "attune settled 1\n", "", ":1: " },
	{ "NVIDIA H200", "NVIDIA H100", ":2: settled on \"NVIDIA H100\"" },
	{ "units=132", "units=114", ":2: settled on \"NVIDIA H200\" (sm_90, 114 units)" },
	{ "gpu=h200", "gpu=h100", "holds no measurement of h100" },
	{ "gpu=h200", "gpu=h200;x", ":2: " },
	{ "\"NVIDIA", "NVIDIA", ":2: " },
	{ "rules=0123", "rules=012x", ":2: " },
	{ "driver=", "drivers=", ":3: " },
	{ "choice 1", "choice 2", ":5: " },
	{ "choice 0 qblock", "choice 0 q-block", ":4: " },
	{ "head_size=128", "head_size=0", ":7: " },
	{ "scale=0", "scale=nan", ":7: " },
	{ "kv_dtype=bf16", "kv_dtype=bf17", ":7: " },
	{ "op=0 ", "op=2 ", ":9: " },
	{ "kind=prefill", "kind=decode", ":9: batch: it is not of kind decode" },
	{ "kind=prefill", "kind=all", ":9: " },
	{ "1q700s700", "1q700s", ":9: " },
	{ "1q700s700", "99999999q700s700", ":9: " },
	{ "1q700s700", "1q700s700,", ":9: " },
	{ "members=0,1,2", "members=0,1,3", ":9: " },
	{ "members=0,1,2", "members=0,1", ":9: " },
	{ "us=11.000", "us=-11.000", ":9: " },
	{ "us=11.000", "us=0.000", ":9: " },
	{ "us=11.000", "us=1e3", ":9: " },
	{ "winner=2", "winner=7", ":9: " },
	{ "members=0,1,2", "members=0+1,1-1,2+2", ":9: " },
	{ "rounds=10", "rounds=0", ":9: " },
	{ "settles=1\n", "settles=1 more\n", ":9: " },
	{ "settles=1\n", "settles=1", ":9: " },
	{ "end 1\n", "end 1", ":10: the text ends within this line" },
	{ "end 1\n", "", ":10: the text ends before its last line" },
	{ "end 1\n", "end 2\n", ":10: " },
	{ "end 1\n", "end 1\nend 1\n", ":11: " },
	{ "settles=1\n", "settles=1\nsell 1\n", ":10: " },
	{ "settles=1\n", "settles=1\n\x1b[2Jcell\n", ":10: " },
	{ "settles=1\n", "settles=1\r\n", ":9: " },
};

static void hostile_files_take_nothing(void **state)
{
	char db[128];
	(void)state;
	snprintf(db, sizeof db, "%s", in_folder("hostile.sqlite"));
	make_rows(db);
	for (size_t i = 0; i < COUNT(hostile); i++) {
		const char *text = file_of(CELL("1q700s700", 2)),
			   *at = strstr(text, hostile[i].find);
		char changed[6000], sound[128], both[300];
		assert_non_null(at);
		const int n = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text,
				       hostile[i].put, at + strlen(hostile[i].find));
		snprintf(sound, sizeof sound, "%s",
			 put_file("sound.settled", CELL("1q800s800", 1)));
		/* a sound file beside it is not taken either */
		snprintf(both, sizeof both, "%s %s", sound,
			 write_file("hostile.settled", changed, (size_t)n));
		const char *said = merged(both, db, EXIT_USAGE);
		const char *line = strchr(said, '\n');
		if (!strstr(said, "hostile.settled:") || !strstr(said, hostile[i].says) || !line ||
		    line[1])
			fail_msg("case %zu: %s", i, said);
		assert_int_equal(rows_of(db), 0);
	}
}

/* ---- what is learned --------------------------------------------------------------------------- */
static char *induced(const char *db, const char *name)
{
	const char *path = in_folder(name);
	size_t size;
	listen_begin();
	const int code =
	    run_command(cmd_induce, words("--gpu h200 --db %s --out %s --max-leaves 1", db, path));
	const char *said = heard();
	if (code)
		fail_msg("%s", said);
	char *text = file_bytes(path, &size);
	assert_non_null(text);
	return text;
}

/* The row of the first, "qblock_16x64, qblock_32x64, qblock_64x64": whether LEARNED is before WINNER. */
static int learned_is_first(const char *header)
{
	const char *row = strstr(header, "LIST(qblock_16");
	assert_non_null(row);
	const char *end = strchr(row, ')');
	const char *learned = strstr(row, "qblock_32"), *winner = strstr(row, "qblock_64");
	assert_true(learned && winner && learned < end && winner < end);
	return learned < winner;
}

/* The header without the lines that a database's hash is in. */
static void strip_hash(char *header)
{
	char *at = strstr(header, " *   database");
	assert_non_null(at);
	memset(at, ' ', strcspn(at, "\n"));
}

static void settled_batches_order_rivals(void **state)
{
	static const struct {
		const char *name, *cells;
		int learned_is_first;
	} rows[] = {
		{ "without", NULL, 1 },
		{ "more wins", CELL("1q700s700", 2) CELL("1q900s900", 2) CELL("2q700s700", 1), 0 },
		{ "as many wins", CELL("1q700s700", 2) CELL("2q700s700", 1), 1 },
		{ "the first wins", CELL("1q700s700", 0), 1 },
		/* one batch, settled often, is one batch */
		{ "the same batch",
		  CELL("1q700s700", 2) "cell op=0 kind=prefill batch=1q700s700 first=0 "
				       "members=0,2 us=12.000,10.000 again=0.000 winner=2 rounds=3 "
				       "settles=9\n" CELL("2q700s700", 1),
		  1 },
		/* 768 tokens are held out, 1088 are of the gate */
		{ "held out", CELL("1q768s768", 2), 1 },
		{ "gate", CELL("1q1088s1088", 2), 1 },
	};
	(void)state;
	char *without = NULL;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const char *db = in_folder(words("order%zu.sqlite", i));
		char at[128];
		snprintf(at, sizeof at, "%s", db);
		make_rows(at);
		if (rows[i].cells)
			merged(put_file("order.settled", rows[i].cells), at, EXIT_DONE);
		char *header = induced(at, "attune_h200.h"), *again = induced(at, "again.h");
		assert_string_equal(header, again);
		if (learned_is_first(header) != rows[i].learned_is_first)
			fail_msg("%s: %s", rows[i].name, strstr(header, "LIST("));
		assert_int_equal(strstr(header, " *   settled   3 batches") == NULL,
				 rows[i].learned_is_first);
		strip_hash(header);
		if (!i)
			without = strdup(header);
		else if (rows[i].learned_is_first)
			assert_string_equal(header, without);
		free(again);
		free(header);
	}
	free(without);
}

/* The same header, hash included, in whatever order and from whatever databases the files came. */
static void order_of_files_does_not_matter(void **state)
{
	static const char *const cells[] = { CELL("1q700s700", 2) CELL("2q700s700", 1),
					     CELL("1q700s700", 2) CELL("1q900s900", 2) };
	char file[2][128], both[300], db[2][128], *header[2];
	(void)state;
	for (int i = 0; i < 2; i++) {
		snprintf(file[i], sizeof file[i], "%s",
			 put_file(i ? "2.settled" : "1.settled", cells[i]));
		snprintf(db[i], sizeof db[i], "%s", in_folder(i ? "2.sqlite" : "1.sqlite"));
		make_rows(db[i]);
	}
	snprintf(both, sizeof both, "%s %s", file[0], file[1]);
	merged(both, db[0], EXIT_DONE);
	merged(file[1], db[1], EXIT_DONE);
	merged(file[0], db[1], EXIT_DONE);
	assert_int_equal(rows_of(db[0]), 3);
	for (int i = 0; i < 2; i++)
		header[i] = induced(db[i], "attune_h200.h");
	assert_string_equal(header[0], header[1]);
	free(header[0]);
	free(header[1]);
}

/* ---- what is measured next ---------------------------------------------------------------------- */
#define LOST(op, batch, us, winner)                                                        \
	"cell op=" op " kind=prefill batch=" batch " first=0 members=0,2 us=" us ",10.000" \
	" again=0.000 winner=" #winner " rounds=10 settles=1\n"

static void next_set_holds_nothing_out(void **state)
{
	static const struct {
		const char *cell, *batch; /* of the file, and of a set */
		int is_in;
	} rows[] = {
		{ LOST("0", "1q700s700", "10.300", 2), "q700", 1 },
		{ LOST("0", "1q701s701", "10.600", 0), "q701", 1 }, /* within noise, yet 6 % */
		{ LOST("0", "1q702s702", "10.300", 0), "q702", 0 }, /* the first won */
		{ LOST("1", "1q768s768", "13.000", 2), "q768", 0 }, /* held out, of another shape */
		{ LOST("1", "1q1088s1088", "13.000", 2), "q1088", 0 }, /* gate */
		{ LOST("1", "1q704s704", "12.000", 2), "q704", 1 },
		{ "cell op=0 kind=prefill batch=1q705s705 first=0 members=0,0+1 us=10.300,10.000 "
		  "again=0.000 winner=0+1 rounds=10 settles=1\n",
		  "q705", 1 },                                         /* other segments won */
		{ LOST("0", "1q576s576", "13.000", 2), "q576", 0 },    /* measured already */
		{ LOST("0", "1q5000s5000", "13.000", 2), "q5000", 0 }, /* a held-out block */
		{ LOST("0", "2q500s900,1q400s500", "13.000", 2), "2q500s900_q400s500", 1 },
	};
	const char *db = in_folder("next.sqlite");
	char cells[4000] = "", header[128], quoted_batch[64];
	(void)state;
	make_rows(db);
	free(induced(db, "attune_h200.h"));
	snprintf(header, sizeof header, "%s", in_folder("attune_h200.h"));
	for (size_t i = 0; i < COUNT(rows); i++)
		strcat(cells, rows[i].cell);
	merged(put_file("next.settled", cells), db, EXIT_DONE);
	listen_begin();
	const int code =
	    run_command(cmd_settled_next, words("%s --gpu h200 --header %s", db, header));
	const char *said = heard();
	if (code)
		fail_msg("%s", said);
	for (size_t i = 0; i < COUNT(rows); i++) {
		snprintf(quoted_batch, sizeof quoted_batch, "\"batch\": \"%s\"", rows[i].batch);
		if (!strstr(printed, quoted_batch) != !rows[i].is_in)
			fail_msg("%s: %s", rows[i].batch, printed);
	}
	/* it is a set that a sweep takes */
	struct models *models = models_load("scenarios/models.json");
	struct scenario_list list = { 0 };
	assert_true(
	    scenarios_load(&list, write_file("next.json", printed, strlen(printed)), models));
	assert_int_equal(list.n, 5);
	assert_string_equal(list.v[0].batch_text, "2q500s900_q400s500"); /* it lost most */
	scenarios_free(&list);
	models_free(models);
}

/* A batch with its sequences in another order is the same one. */
static void order_of_sequences_does_not_matter(void **state)
{
	struct taken t = { 0 };
	struct scenario s = { .shape = llama, .split = "gate" };
	struct scenario_list list = { &s, 1 };
	(void)state;
	s.batch_text = (char[]){ "2q500s900_q400s500" };
	assert_true(taken_of_sets(&t, &list));
	assert_true(taken_is_held_out(&t, "q400s500_2q500s900"));
	assert_true(taken_is_held_out(&t, "q500s900_q400s500_q500s900"));
	assert_false(taken_is_held_out(&t, "q500s900_2q400s500"));
	assert_true(taken_shape_is_held_out(&t, &llama));
	taken_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(twice_is_once),
		cmocka_unit_test(damaged_rows_are_noticed),
		cmocka_unit_test(hostile_files_take_nothing),
		cmocka_unit_test(settled_batches_order_rivals),
		cmocka_unit_test(order_of_files_does_not_matter),
		cmocka_unit_test(next_set_holds_nothing_out),
		cmocka_unit_test(order_of_sequences_does_not_matter),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("merge --settled", tests, make_folder, remove_folder);
}
