/* SPDX-License-Identifier: Apache-2.0 */
/* t_store_shared.c - the results database under concurrency: committed rows survive a kill,
 * several processes may write, shards merge, and equal content has equal hashes. */
#include <stdio.h>
#include "harness/commands/commands.h"
#include "store_fixture.h"

static void one_file_when_closed(void **state)
{
	(void)state;
	struct store *s = fresh("one.sqlite");
	add(s, store_begin_run(s, &h200), "q1s1k", "segmented", 0, measured(10));
	assert_int_equal(access(in_folder("one.sqlite-wal"), F_OK), 0);
	store_close(s);
	assert_int_equal(access(in_folder("one.sqlite-wal"), F_OK), -1);
	assert_int_equal(access(in_folder("one.sqlite-shm"), F_OK), -1);
	unsigned char head[20];
	FILE *f = fopen(in_folder("one.sqlite"), "r");
	assert_int_equal(fread(head, 1, sizeof head, f), sizeof head);
	fclose(f);
	assert_int_equal(head[18], 1); /* 2 would be WAL */
}

/* A writer that reports its commits over a pipe until it is killed. */
static void write_for_ever(const char *path, int pipe_end)
{
	struct store *s = store_open(path, 0);
	const long long run = s ? store_begin_run(s, &h200) : 0;
	for (int i = 0; run; i++) {
		char batch[32];
		snprintf(batch, sizeof batch, "q1s%d", 1 + i);
		if (!put(s, run, batch, "segmented", i % 2, measured(1 + i)) ||
		    write(pipe_end, &i, sizeof i) != (ssize_t)sizeof i)
			break;
	}
	_exit(1);
}

static void killed(void **state)
{
	(void)state;
	for (int round = 0; round < 3; round++) {
		int fd[2], last = -1, i;
		char sql[100];
		const char *path = in_folder("killed.sqlite");
		store_close(fresh("killed.sqlite"));
		assert_int_equal(pipe(fd), 0);
		const pid_t pid = fork();
		if (!pid)
			write_for_ever(path, fd[1]);
		close(fd[1]);
		while (last < 40 + 13 * round && read(fd[0], &i, sizeof i) == (ssize_t)sizeof i)
			last = i;
		kill(pid, SIGKILL);
		while (read(fd[0], &i, sizeof i) == (ssize_t)sizeof i)
			last = i;
		waitpid(pid, NULL, 0);
		close(fd[0]);
		assert_true(last >= 40);
		struct store *s = store_open(path, 0);
		assert_non_null(s);
		snprintf(sql, sizeof sql, "SELECT count(*) > %d, max(median_us) > %d FROM history",
			 last, last + 1);
		assert_string_equal(ask(s, sql), "1 1;");
		assert_string_equal(ask(s, "PRAGMA integrity_check"), "ok;");
		assert_string_equal(ask(s, "PRAGMA foreign_key_check"), "");
		store_close(s);
	}
}

static void two_writers(void **state)
{
	(void)state;
	enum { WRITERS = 3, ROWS = 60 };
	const char *path = in_folder("two.sqlite");
	unlink(path); /* made by the first process to come */
	for (int w = 0; w < WRITERS; w++)
		if (!fork()) {
			struct store *s = store_open(path, 0);
			const long long run = s ? store_begin_run(s, &h200) : 0;
			int ok = run > 0;
			for (int i = 0; ok && i < ROWS; i++)
				ok = put(s, run, i % 2 ? "q1s1k" : "q8", "segmented", i / 2,
					 measured(1 + i));
			store_close(s);
			_exit(!ok);
		}
	for (int w = 0, status; w < WRITERS; w++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	struct store *s = store_open(path, 1);
	assert_non_null(s);
	assert_string_equal(ask(s, "SELECT count(*), count(DISTINCT run_id), "
				   "count(DISTINCT scenario_id) FROM history"),
			    "180 3 2;");
	assert_string_equal(ask(s, "PRAGMA integrity_check"), "ok;");
	store_close(s);
}

/* The same rows in another order, in other runs, on a database with a past. */
static void one_hash(void **state)
{
	(void)state;
	char a[33], b[33], c[33], before[33];
	struct store *s = fresh("hash_a.sqlite");
	long long run = store_begin_run(s, &h200);
	assert_int_equal(store_hash(s, "h200", before), 1);
	add(s, run, "q1s1k", "segmented", 0, measured(10));
	add(s, run, "8q1s2k", "segmented", 1, measured(20));
	add(s, run, "q512", "qblock", 0, measured(30));
	assert_int_equal(store_hash(s, "h200", a), 1);
	store_close(s);

	s = fresh("hash_b.sqlite");
	run = store_begin_run(s, &h200);
	add(s, run, "q512", "qblock", 0, measured(99));
	add(s, run, "q512", "qblock", 0, measured(30));
	run = store_begin_run(s, &h200);
	add(s, run, "8q1s2k", "segmented", 1, measured(20));
	add(s, run, "q1s1k", "segmented", 0, measured(10));
	assert_int_equal(store_hash(s, "h200", b), 1);
	assert_string_equal(a, b);
	assert_string_not_equal(a, before);
	assert_int_equal(strlen(a), 32);
	add(s, run, "q1s1k", "segmented", 0, measured(10.5));
	assert_int_equal(store_hash(s, "h200", c), 1);
	assert_string_not_equal(a, c);
	store_close(s);
}

static void control(struct store *s, long long run, const char *batch)
{
	struct scenario sc = scenario_of(batch);
	assert_int_equal(store_control(s, run, &sc, "decode", "segmented X=1", 10, 1.01), 1);
	scenario_done(&sc);
}

static void merging(void **state)
{
	(void)state;
	char whole[33], joined[33], again[33];
	long long added;
	struct store *s = fresh("whole.sqlite"), *t;
	long long run = store_begin_run(s, &h200);
	for (int i = 0; i < 4; i++)
		add(s, run, i % 2 ? "q1s1k" : "q8", "segmented", i / 2, measured(10 + i));
	control(s, run, "q8");
	control(s, run, "q1s1k");
	assert_int_equal(store_hash(s, "h200", whole), 1);
	store_close(s);
	for (int shard = 0; shard < 2; shard++) {
		s = fresh(shard ? "shard1.sqlite" : "shard0.sqlite");
		run = store_begin_run(s, &h200);
		for (int i = shard; i < 4; i += 2)
			add(s, run, i % 2 ? "q1s1k" : "q8", "segmented", i / 2, measured(10 + i));
		control(s, run, shard ? "q1s1k" : "q8");
		store_close(s);
	}
	t = fresh("joined.sqlite");
	assert_int_equal(store_merge(t, in_folder("shard1.sqlite"), &added), 1);
	assert_int_equal(added, 2);
	assert_int_equal(store_merge(t, in_folder("shard0.sqlite"), &added), 1);
	assert_int_equal(added, 2);
	assert_int_equal(store_hash(t, "h200", joined), 1);
	assert_string_equal(whole, joined);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(store_merge(t, in_folder("shard0.sqlite"), &added), 1);
		assert_int_equal(added, 0);
	}
	assert_int_equal(store_hash(t, "h200", again), 1);
	assert_string_equal(whole, again);
	assert_string_equal(ask(t, "SELECT count(*), count(DISTINCT run_id) FROM history"), "4 2;");
	assert_string_equal(ask(t, "PRAGMA foreign_key_check"), "");
	assert_string_equal(ask(t, "SELECT count(*), count(DISTINCT race) FROM control"), "2 2;");
	quiet();
	assert_int_equal(store_merge(t, in_folder("absent.sqlite"), &added), 0);
	assert_int_equal(loud(), 1);
	store_close(t);
}

static int merge_command(const char *out, const char *in)
{
	char *argv[] = { "merge", (char *)out, (char *)in, NULL };
	quiet();
	const int status = cmd_merge(3, argv);
	assert_int_equal(loud(), 1);
	return status;
}

static void merging_by_command(void **state)
{
	(void)state;
	struct store *s = fresh("one_in.sqlite");
	add(s, store_begin_run(s, &h200), "q8", "segmented", 0, measured(10));
	store_close(s);
	const char *in = in_folder("one_in.sqlite"), *out = in_folder("one_out.sqlite");
	assert_int_equal(merge_command(out, in), EXIT_DONE);
	assert_non_null(strstr(said, "1 measurements added"));
	assert_int_equal(merge_command(out, out), EXIT_USAGE);
	assert_int_equal(merge_command(out, in_folder("absent.sqlite")), EXIT_USAGE);
	s = store_open(out, 1);
	assert_non_null(s);
	assert_string_equal(ask(s, "SELECT count(*) FROM timings"), "1;");
	store_close(s);
}

static void small(void **state)
{
	(void)state;
	enum { ROWS = 1000 };
	struct stat st;
	struct store *s = fresh("small.sqlite");
	const long long run = store_begin_run(s, &h200);
	for (int i = 0; i < ROWS; i++) {
		char batch[32];
		struct measurement m = measured(10 + i * 0.01);
		snprintf(batch, sizeof batch, "%dq1s%dk", 1 + i % 32, 1 + i / 32);
		for (m.samples = 0; m.samples < 30; m.samples++)
			m.us[m.samples] = 10.125f + (float)m.samples;
		add(s, run, batch, "segmented", i % 40, m);
	}
	store_close(s);
	assert_int_equal(stat(in_folder("small.sqlite"), &st), 0);
	if (st.st_size > ROWS * 550L + 150000)
		fail_msg("%d measurements take %ld bytes", ROWS, (long)st.st_size);
}

int main(void)
{
	const struct CMUnitTest t[] = {
		cmocka_unit_test(one_file_when_closed),
		cmocka_unit_test(killed),
		cmocka_unit_test(two_writers),
		cmocka_unit_test(one_hash),
		cmocka_unit_test(merging),
		cmocka_unit_test(merging_by_command),
		cmocka_unit_test(small),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("store, shared", t, COUNT(t), make_folder, remove_folder);
}
