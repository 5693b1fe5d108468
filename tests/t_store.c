/* t_store.c - what the results database promises: rows come back as they went in, bad
 * ones are refused, committed ones survive a kill, and content has one hash. */
#include "../harness/harness.h"
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[] = "/tmp/t_store.XXXXXX";

static const char *in_folder(const char *name)
{
	static char path[4][128];
	static int turn;
	char *p = path[turn++ % 4];
	snprintf(p, sizeof path[0], "%s/%s", folder, name);
	return p;
}

static struct store *fresh(const char *name)
{
	const char *path = in_folder(name);
	char log[160];
	unlink(path);
	snprintf(log, sizeof log, "%s-wal", path);
	unlink(log);
	struct store *s = store_open(path, 0);
	assert_non_null(s);
	return s;
}

/* stderr of what lies between quiet() and loud(); its number of lines. */
static char said[2000];
static int kept_stderr;

static void quiet(void)
{
	const int fd = open(in_folder("stderr"), O_RDWR | O_CREAT | O_TRUNC, 0600);
	fflush(stderr);
	kept_stderr = dup(2);
	assert_true(fd >= 0 && kept_stderr >= 0 && dup2(fd, 2) == 2);
	close(fd);
}

static int loud(void)
{
	int lines = 0;
	fflush(stderr);
	const ssize_t n = pread(2, said, sizeof said - 1, 0);
	dup2(kept_stderr, 2);
	close(kept_stderr);
	said[n > 0 ? n : 0] = '\0';
	for (const char *c = said; *c; c++)
		lines += *c == '\n';
	return lines;
}

/* ---- things to store ---------------------------------------------------------- */

static struct scenario scenario_of(const char *batch)
{
	char error[200];
	struct scenario sc = { .model = "llama3.1-8b@1",
			       .set = "steps",
			       .split = "train",
			       .weight = 2.5,
			       .seed = 0xfedcba9876543210,
			       .layout = LAYOUT_HND,
			       .shape = { .num_query_heads = 32,
					  .num_kv_heads = 8,
					  .head_size = 128,
					  .page_size = 16,
					  .dtype = ATTUNE_BF16,
					  .kv_dtype = ATTUNE_F16,
					  .causal = 1,
					  .window = 4096,
					  .scale = 0.1f,
					  .softcap = 30,
					  .has_sinks = 1 } };
	sc.batch_text = strdup(batch);
	sc.batch = batch_parse(batch, error, sizeof error);
	assert_non_null(sc.batch);
	return sc;
}

static void scenario_done(struct scenario *sc)
{
	batch_free(sc->batch);
	free(sc->batch_text);
}

static struct measurement measured(double us)
{
	struct measurement m = { .outcome = OUTCOME_OK,
				 .samples = 3,
				 .calls = 10,
				 .us = { (float)us, (float)us + 1, (float)us + 2 },
				 .median_us = us + 1,
				 .min_us = us,
				 .q25_us = us + 0.5,
				 .q75_us = us + 1.5,
				 .ci_us = NAN,
				 .ratio = 1,
				 .gbps = 1200,
				 .tflops = 3.5,
				 .sm_mhz_before = 1980,
				 .sm_mhz_after = NAN,
				 .power_w = 400,
				 .joules = 0.25,
				 .rejected = 1,
				 .stopped = "interval" };
	return m;
}

static struct choice choice_at(const char *kernel, int point)
{
	struct choice c = { .kernel = kernel_find(BACKEND_GPU, kernel) };
	assert_non_null(c.kernel);
	config_default(&c.config, c.kernel->space);
	while (point-- > 0)
		assert_true(config_next(&c.config, c.kernel->space));
	return c;
}

static const struct run_info h200 = {
	.device = { .name = "NVIDIA H200",
		    .gpu = "h200",
		    .arch = "sm_90",
		    .driver = "580.1 / 13.0",
		    .backend = BACKEND_GPU,
		    .units = 132,
		    .lanes = 32,
		    .smem_per_block = 232448,
		    .smem_per_unit = 233472,
		    .l2_bytes = 62914560,
		    .memory_bytes = 150000000000,
		    .clock_mhz = 1980,
		    .memory_clock_mhz = 3201,
		    .power_limit_w = 700 },
	.commit = "0123abcd",
	.toolkit = "nvrtc 13.0",
	.protocol = "graph-rotating",
	.command = "attune sweep",
	.dram_gbps = 4000,
	.fma_tflops = 60,
};

static int put(struct store *s, long long run, const char *batch, const char *kernel, int point,
	       struct measurement m)
{
	struct scenario sc = scenario_of(batch);
	const struct choice c = choice_at(kernel, point);
	const int stored =
	    store_measurement(s, run, &sc, PHASE_DECODE, &c, "-DHEAD_SIZE=128", &m, 128, 16);
	scenario_done(&sc);
	return stored;
}

static void add(struct store *s, long long run, const char *batch, const char *kernel, int point,
		struct measurement m)
{
	assert_int_equal(put(s, run, batch, kernel, point, m), 1);
}

/* ---- things to read -------------------------------------------------------------- */

static int keep_text(void *arg, int n, const char *const *names, const char *const *cells)
{
	(void)names;
	char *all = arg;
	for (int i = 0; i < n; i++)
		strcat(strcat(all, cells[i] ? cells[i] : "-"), i < n - 1 ? " " : ";");
	return 1;
}

/* All cells of a query, blanks between columns, a semicolon after each row. */
static const char *ask(struct store *s, const char *sql)
{
	static char all[4000];
	all[0] = '\0';
	assert_true(store_query(s, sql, keep_text, all));
	return all;
}

struct cells {
	struct store_cell v[8];
	char choice[8][300], batch[8][64];
	int n, stop_at;
};

static int keep_cell(void *arg, const struct store_cell *cell)
{
	struct cells *c = arg;
	assert_true(c->n < 8);
	snprintf(c->choice[c->n], sizeof c->choice[0], "%s", cell->plan);
	snprintf(c->batch[c->n], sizeof c->batch[0], "%s", cell->batch);
	assert_string_equal(cell->gpu, "h200");
	c->v[c->n++] = *cell;
	return c->n != c->stop_at;
}

/* ---- tests ------------------------------------------------------------------------- */

static void round_trip(void **state)
{
	(void)state;
	struct store *s = fresh("round.sqlite");
	const long long run = store_begin_run(s, &h200);
	struct scenario sc = scenario_of("q1s1k");
	struct cells got = { 0 };
	assert_true(run > 0);
	add(s, run, "q1s1k", "segmented", 0, measured(10));
	assert_int_equal(store_each(s, "h200", keep_cell, &got), 1);
	assert_int_equal(got.n, 1);
	const struct store_cell *c = &got.v[0];
	assert_memory_equal(&c->shape, &sc.shape, sizeof sc.shape);
	assert_true(c->seed == sc.seed && c->weight == 2.5 && c->page_size == 16);
	assert_true(c->median_us == 11 && c->min_us == 10 && isnan(c->ci_us));
	assert_true(c->gbps == 1200 && c->tflops == 3.5 && c->joules == 0.25);
	assert_int_equal(c->samples, 3);
	assert_true(c->us[0] == 10 && c->us[1] == 11 && c->us[2] == 12);
	assert_true(c->run == run);
	assert_non_null(strstr(got.choice[0], "decode: segmented "));
	assert_string_equal(got.batch[0], "q1s1k");
	assert_string_equal(ask(s, "SELECT set_name, split, kv_dtype, layout, samples, stopped, "
				   "power_w, sm_mhz_after FROM timings"),
			    "steps train F16 HND 3 interval 400.0 -;");
	scenario_done(&sc);
	store_close(s);
	struct run_info back;
	s = store_open(in_folder("round.sqlite"), 1);
	assert_non_null(s);
	assert_int_equal(store_device(s, "h200", &back), 1);
	assert_memory_equal(&back, &h200, sizeof back);
	store_close(s);
}

static void columns(void **state)
{
	(void)state;
	struct store *s = fresh("columns.sqlite");
	const long long run = store_begin_run(s, &h200);
	add(s, run, "q1s1k", "segmented", 0, measured(10));
	add(s, run, "q1s1k", "segmented", 1, measured(19));
	struct measurement bad = { .outcome = OUTCOME_WRONG, .detail = "out[3] = 1, want 2" };
	add(s, run, "q1s1k", "segmented", 2, bad);
	assert_string_equal(ask(s, "SELECT gpu, model, batch, kernel, outcome, median_us, min_us, "
				   "ci_us, gbps, tflops, phase, page_size, dtype, split, protocol "
				   "FROM timings WHERE outcome = 'ok' ORDER BY median_us LIMIT 1"),
			    "h200 llama3.1-8b@1 q1s1k segmented ok 11.0 10.0 - 1200.0 3.5 decode "
			    "16 BF16 train graph-rotating;");
	assert_string_equal(ask(s, "SELECT count(*) FROM timings WHERE plan = "
				   "'decode: ' || kernel || ' ' || variant"),
			    "3;");
	assert_string_equal(ask(s, "SELECT DISTINCT share_of_dram FROM timings WHERE gbps > 0"),
			    "0.3;");
	assert_string_equal(ask(s, "SELECT gpu, batch, median_us FROM best"), "h200 q1s1k 11.0;");
	assert_string_equal(ask(s, "SELECT median_us, best_us, place FROM regret ORDER BY place"),
			    "11.0 11.0 1;20.0 11.0 2;");
	assert_string_equal(ask(s, "SELECT outcome, detail FROM failures"),
			    "wrong out[3] = 1, want 2;");
	store_close(s);
}

static struct bad {
	const char *name;
	double median_us, min_us, q75_us, gbps;
	float sample;
} bad_rows[] = {
	{ "refused: NaN median", NAN, 10, 20, 1, 10 },
	{ "refused: infinite median", INFINITY, 10, 20, 1, 10 },
	{ "refused: negative median", -11, 10, 20, 1, 10 },
	{ "refused: zero median", 0, 10, 20, 1, 10 },
	{ "refused: NaN minimum", 11, NAN, 20, 1, 10 },
	{ "refused: minimum above the median", 11, 12, 20, 1, 10 },
	{ "refused: infinite quantile", 11, 10, INFINITY, 1, 10 },
	{ "refused: negative bandwidth", 11, 10, 20, -1, 10 },
	{ "refused: infinite bandwidth", 11, 10, 20, INFINITY, 10 },
	{ "refused: NaN sample", 11, 10, 20, 1, NAN },
	{ "refused: zero sample", 11, 10, 20, 1, 0 },
};

static void refused(void **state)
{
	const struct bad *b = *state;
	struct store *s = fresh("bad.sqlite");
	const long long run = store_begin_run(s, &h200);
	struct scenario sc = scenario_of("q1s1k");
	const struct choice c = choice_at("segmented", 0);
	struct measurement m = measured(10);
	assert_int_equal(store_measurement(s, run, &sc, PHASE_ALL, &c, "", &m, -1, -1), 1);
	m.median_us = b->median_us;
	m.min_us = b->min_us;
	m.q75_us = b->q75_us;
	m.gbps = b->gbps;
	m.us[1] = b->sample;
	quiet();
	const int stored = store_measurement(s, run, &sc, PHASE_DECODE, &c, "", &m, -1, -1);
	assert_int_equal(loud(), 1);
	assert_int_equal(stored, 0);
	assert_non_null(strstr(said, "bad.sqlite: row refused: "));
	assert_string_equal(ask(s, "SELECT count(*) FROM measurement"), "1;");
	scenario_done(&sc);
	store_close(s);
}

/* What no code of ours would write, a hand might. */
static void refused_by_hand(void **state)
{
	(void)state;
	static const char *const sql[] = {
		"UPDATE measurement SET outcome = 'fast'",
		"UPDATE measurement SET phase = 'warmup'",
		"UPDATE measurement SET median_us = NULL",
		"UPDATE measurement SET outcome = 'wrong'",
		"UPDATE measurement SET median_us = 9e999",
		"UPDATE measurement SET median_us = 'fast'",
		"UPDATE measurement SET samples = x'0102'",
		"UPDATE measurement SET run = 77",
		"DELETE FROM scenario",
		"DELETE FROM variant",
		"UPDATE scenario SET page_size = 0",
		"INSERT INTO variant (kernel, choice) SELECT kernel, choice FROM variant",
	};
	struct store *s = fresh("hand.sqlite");
	add(s, store_begin_run(s, &h200), "q1s1k", "segmented", 0, measured(10));
	for (size_t i = 0; i < COUNT(sql); i++) {
		quiet();
		const int done = store_query(s, sql[i], NULL, NULL);
		loud();
		if (done)
			fail_msg("accepted: %s", sql[i]);
	}
	store_close(s);
}

static void resume(void **state)
{
	(void)state;
	struct store *s = fresh("resume.sqlite");
	struct run_info other = h200;
	const struct choice c = choice_at("segmented", 0), d = choice_at("segmented", 1);
	struct scenario sc = scenario_of("q1s1k"), more = scenario_of("2q1s1k");
	struct measurement m = { .outcome = OUTCOME_COMPILE, .detail = "error: no" };
	char text[400] = "segmented ";
	config_text(text + 10, sizeof text - 10, &c.config, c.kernel->space);
	assert_int_equal(store_has(s, "h200", &sc, PHASE_DECODE, text), 0);
	const long long run = store_begin_run(s, &h200);
	assert_int_equal(store_has(s, "h200", &sc, PHASE_DECODE, text), 0);
	assert_int_equal(store_measurement(s, run, &sc, PHASE_DECODE, &c, "", &m, -1, -1), 1);
	assert_int_equal(store_has(s, "h200", &sc, PHASE_DECODE, text), 1);
	assert_int_equal(store_has(s, "h200", &sc, PHASE_ALL, text), 0);
	assert_int_equal(store_has(s, "h200", &more, PHASE_DECODE, text), 0);
	assert_int_equal(store_has(s, "h100", &sc, PHASE_DECODE, text), 0);
	more.batch_text[0] = '3'; /* only the number of sequences differs */
	assert_int_equal(store_has(s, "h200", &more, PHASE_DECODE, text), 0);
	config_text(text + 10, sizeof text - 10, &d.config, d.kernel->space);
	assert_int_equal(store_has(s, "h200", &sc, PHASE_DECODE, text), 0);
	config_text(text + 10, sizeof text - 10, &c.config, c.kernel->space);
	store_close(s);

	s = store_open(in_folder("resume.sqlite"), 0);
	assert_int_equal(store_has(s, "h200", &sc, PHASE_DECODE, text), 1);
	strcpy(other.protocol, "stream-warm");
	assert_true(store_begin_run(s, &other) > run);
	assert_int_equal(store_has(s, "h200", &sc, PHASE_DECODE, text), 0);
	assert_true(store_begin_run(s, &h200) > run);
	assert_int_equal(store_has(s, "h200", &sc, PHASE_DECODE, text), 1);
	assert_true(store_query(s, "UPDATE build SET source = 'edited'", NULL, NULL));
	assert_int_equal(store_has(s, "h200", &sc, PHASE_DECODE, text), 0);
	scenario_done(&sc);
	scenario_done(&more);
	store_close(s);
}

static void plans(void **state)
{
	(void)state;
	static const char plan[] = "prefill: qblock A=1 | decode: segmented B=2";
	struct store *s = fresh("plan.sqlite");
	struct scenario sc = scenario_of("q100_q1s1k");
	const struct measurement m = measured(50);
	struct cells got = { 0 };
	const long long run = store_begin_run(s, &h200);
	assert_int_equal(store_has_plan(s, "h200", &sc, plan), 0);
	assert_int_equal(store_plan_measurement(s, run, &sc, plan, &m), 1);
	assert_int_equal(store_has_plan(s, "h200", &sc, plan), 1);
	assert_int_equal(store_has_plan(s, "h200", &sc, "prefill: qblock A=1"), 0);
	assert_string_equal(ask(s, "SELECT phase, kernel, plan = variant FROM timings"),
			    "plan plan 1;");
	assert_true(strlen(ask(s, "SELECT source FROM build")) == 33);
	assert_int_equal(store_each(s, "h200", keep_cell, &got), 1);
	assert_string_equal(got.choice[0], plan);
	scenario_done(&sc);
	store_close(s);
}

static void newest_wins(void **state)
{
	(void)state;
	struct store *s = fresh("newest.sqlite");
	struct run_info other = h200;
	struct cells got = { 0 };
	long long run = store_begin_run(s, &h200);
	add(s, run, "q1s1k", "segmented", 0, measured(10));
	add(s, run, "q1s1k", "segmented", 0, measured(12));
	add(s, run, "8q1s2k", "segmented", 0, measured(9));
	run = store_begin_run(s, &h200);
	add(s, run, "q1s1k", "segmented", 0, measured(30));
	store_each(s, "h200", keep_cell, &got);
	assert_int_equal(got.n, 2);
	assert_string_equal(got.batch[0], "8q1s2k");
	assert_true(got.v[0].median_us == 10 && got.v[1].median_us == 31);
	assert_string_equal(ask(s, "SELECT count(*) FROM history"), "4;");
	got = (struct cells){ .stop_at = 1 };
	assert_int_equal(store_each(s, "h200", keep_cell, &got), 1);
	assert_int_equal(got.n, 1);

	/* another machine of the same short name is never mixed in */
	other.device.units = 114;
	add(s, store_begin_run(s, &other), "q1s1k", "segmented", 0, measured(50));
	got = (struct cells){ 0 };
	store_each(s, "h200", keep_cell, &got);
	assert_int_equal(got.n, 1);
	assert_true(got.v[0].median_us == 51);
	assert_string_equal(ask(s, "SELECT count(*) FROM best WHERE batch = 'q1s1k'"), "2;");
	store_close(s);
}

static void labels(void **state)
{
	(void)state;
	struct store *s = fresh("labels.sqlite");
	struct scenario sc = scenario_of("q1s1k");
	add(s, store_begin_run(s, &h200), "q1s1k", "segmented", 0, measured(10));
	strcpy(sc.split, "heldout");
	assert_int_equal(store_scenario(s, &sc), 1);
	assert_string_equal(ask(s, "SELECT split FROM timings"), "heldout;");
	sc.shape.window = 0;
	assert_int_equal(store_scenario(s, &sc), 1);
	assert_string_equal(ask(s, "SELECT count(*), count(DISTINCT \"window\") FROM scenario"),
			    "2 2;");
	scenario_done(&sc);
	store_close(s);
}

static void versions(void **state)
{
	(void)state;
	const char *path = in_folder("version.sqlite");
	fclose(fopen(path, "w")); /* version 0: an empty file */
	quiet();
	assert_null(store_open(path, 1));
	assert_int_equal(loud(), 1);
	struct store *s = store_open(path, 0);
	assert_non_null(s);
	assert_string_equal(ask(s, "PRAGMA user_version"), "1;");
	assert_true(store_query(s, "PRAGMA user_version = 2", NULL, NULL));
	store_close(s);
	for (int readonly = 0; readonly < 2; readonly++) {
		quiet();
		assert_null(store_open(path, readonly));
		assert_int_equal(loud(), 1);
		assert_non_null(strstr(said, "version 2"));
	}
}

static void not_ours(void **state)
{
	(void)state;
	const char *path = in_folder("not_ours.sqlite");
	FILE *f = fopen(path, "w");
	for (int i = 0; i < 100; i++)
		fputs("this is no database at all\n", f);
	fclose(f);
	quiet();
	assert_null(store_open(path, 0));
	assert_int_equal(loud(), 1);
	assert_non_null(strstr(said, "not an SQLite database"));
	quiet();
	assert_null(store_open(in_folder("absent.sqlite"), 1));
	assert_int_equal(loud(), 1);
	assert_non_null(strstr(said, "No such file"));
	quiet();
	assert_null(store_open("/nowhere/at/all.sqlite", 0));
	assert_int_equal(loud(), 1);
}

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

/* A writer that says over a pipe what it has committed, until it is killed. */
static void write_for_ever(const char *path, int pipe_end)
{
	struct store *s = store_open(path, 0);
	const long long run = s ? store_begin_run(s, &h200) : 0;
	for (int i = 0; run; i++) {
		if (!put(s, run, "q1s1k", "segmented", i % 2, measured(1 + i)) ||
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
		snprintf(sql, sizeof sql, "SELECT count(*) > %d, max(min_us) >= %d FROM history",
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
	unlink(path); /* made by whoever comes first */
	for (int w = 0; w < WRITERS; w++)
		if (!fork()) {
			struct store *s = store_open(path, 0);
			const long long run = s ? store_begin_run(s, &h200) : 0;
			int ok = run > 0;
			for (int i = 0; ok && i < ROWS; i++)
				ok = put(s, run, i % 2 ? "q1s1k" : "q8", "segmented", w,
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

static void merging(void **state)
{
	(void)state;
	char whole[33], joined[33], again[33];
	long long added;
	struct store *s = fresh("whole.sqlite"), *t;
	long long run = store_begin_run(s, &h200);
	for (int i = 0; i < 4; i++)
		add(s, run, i % 2 ? "q1s1k" : "q8", "segmented", i / 2, measured(10 + i));
	assert_int_equal(store_hash(s, "h200", whole), 1);
	store_close(s);
	for (int shard = 0; shard < 2; shard++) {
		s = fresh(shard ? "shard1.sqlite" : "shard0.sqlite");
		run = store_begin_run(s, &h200);
		for (int i = shard; i < 4; i += 2)
			add(s, run, i % 2 ? "q1s1k" : "q8", "segmented", i / 2, measured(10 + i));
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
	quiet();
	assert_int_equal(store_merge(t, in_folder("absent.sqlite"), &added), 0);
	assert_int_equal(loud(), 1);
	store_close(t);
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
	if (st.st_size > ROWS * 400L + 150000)
		fail_msg("%d measurements take %ld bytes", ROWS, (long)st.st_size);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	char command[80];
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command);
}

int main(void)
{
	struct CMUnitTest t[40] = {
		cmocka_unit_test(round_trip),      cmocka_unit_test(columns),
		cmocka_unit_test(refused_by_hand), cmocka_unit_test(resume),
		cmocka_unit_test(plans),           cmocka_unit_test(newest_wins),
		cmocka_unit_test(labels),          cmocka_unit_test(versions),
		cmocka_unit_test(not_ours),        cmocka_unit_test(one_file_when_closed),
		cmocka_unit_test(killed),          cmocka_unit_test(two_writers),
		cmocka_unit_test(one_hash),        cmocka_unit_test(merging),
		cmocka_unit_test(small),
	};
	size_t n = 15;
	for (size_t i = 0; i < COUNT(bad_rows); i++)
		t[n++] = (struct CMUnitTest){ bad_rows[i].name, refused, 0, 0, &bad_rows[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("store", t, n, make_folder, remove_folder);
}
