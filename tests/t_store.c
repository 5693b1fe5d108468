/* t_store.c - what the results database promises of its rows: they come back as they
 * went in, bad ones are refused, the newest is read, and versions are told apart. */
#include "store_fixture.h"

static void round_trip(void **state)
{
	(void)state;
	struct store *s = fresh("round.sqlite");
	const long long run = store_begin_run(s, &h200);
	struct scenario sc = scenario_of("q1s1k");
	struct cells got = { 0 };
	assert_true(run > 0);
	add(s, run, "q1s1k", "segmented", 0, measured(10));
	assert_int_equal(store_each(s, "h200", NULL, keep_cell, &got), 1);
	assert_int_equal(got.n, 1);
	const struct store_cell *c = &got.v[0];
	assert_memory_equal(&c->shape, &sc.shape, sizeof sc.shape);
	assert_true(c->seed == sc.seed && c->weight == 2.5 && c->page_size == 16);
	assert_true(c->median_us == 11 && c->min_us == 10 && isnan(c->ci_us));
	assert_true(c->gbps == 1200 && c->tflops == 3.5 && fabs(c->joules - 0.0044) < 1e-9);
	assert_true(c->pass == 'A' && !strcmp(got.stage[0], "race") && c->ratio == 1);
	assert_true(c->q25_us == 10.5 && c->q75_us == 11.5);
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
	static const char beside[] = "prefill: qblock A=1 || decode: segmented B=2";
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
	assert_int_equal(store_each(s, "h200", NULL, keep_cell, &got), 1);
	assert_string_equal(got.choice[0], plan);
	assert_int_equal(store_has_plan(s, "h200", &sc, beside), 0);
	assert_int_equal(store_plan_measurement(s, run, &sc, beside, &m), 1);
	assert_int_equal(store_has_plan(s, "h200", &sc, beside), 1);
	assert_string_equal(ask(s, "SELECT count(DISTINCT source) FROM build"), "1;");
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
	store_each(s, "h200", NULL, keep_cell, &got);
	assert_int_equal(got.n, 2);
	assert_string_equal(got.batch[0], "8q1s2k");
	assert_true(got.v[0].median_us == 10 && got.v[1].median_us == 31);
	assert_string_equal(ask(s, "SELECT count(*) FROM history"), "4;");
	got = (struct cells){ .stop_at = 1 };
	assert_int_equal(store_each(s, "h200", NULL, keep_cell, &got), 1);
	assert_int_equal(got.n, 1);

	/* another machine of the same short name is never mixed in */
	other.device.units = 114;
	add(s, store_begin_run(s, &other), "q1s1k", "segmented", 0, measured(50));
	got = (struct cells){ 0 };
	store_each(s, "h200", NULL, keep_cell, &got);
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
	assert_string_equal(ask(s, "PRAGMA user_version"), "5;");
	assert_true(store_query(s, "PRAGMA user_version = 6", NULL, NULL));
	store_close(s);
	for (int readonly = 0; readonly < 2; readonly++) {
		quiet();
		assert_null(store_open(path, readonly));
		assert_int_equal(loud(), 1);
		assert_non_null(strstr(said, "version 6"));
	}
}

static int keep_long(void *arg, int n, const char *const *names, const char *const *cells)
{
	(void)n, (void)names;
	snprintf(arg, 40000, "%s", cells[0]);
	return 1;
}

static void long_text(struct store *s, const char *sql, char text[40000])
{
	assert_true(store_query(s, sql, keep_long, text));
}

/* Rows, ids and meaning stay; what comes out has the very schema of a new database. */
static void version_1(void **state)
{
	(void)state;
	const char *path = in_folder("v1.sqlite");
	char schema[2][40000], command[200];
	snprintf(command, sizeof command, "sqlite3 %s <tests/store_v1.sql", path);
	assert_int_equal(system(command), 0);
	quiet();
	assert_null(store_open(path, 1));
	assert_int_equal(loud(), 1);
	assert_non_null(strstr(said, "attune merge "));
	struct store *s = store_open(path, 0);
	assert_non_null(s);
	assert_string_equal(
	    ask(s, "SELECT batch, split, weight, steps, plan, outcome, median_us, q25_us, ci_us, "
		   "round(joules, 6), samples, stage, pass FROM timings ORDER BY measurement_id"),
	    "q1s1k train 2.5 0.0 decode: segmented TILE_SIZE=16 ok 10.0 10.0 0.5 0.004 3 race A;"
	    "q1s1k train 2.5 0.0 decode: segmented TILE_SIZE=32 ok 20.0 - - - 1 race A;"
	    "q1s1k train 2.5 0.0 segmented TILE_SIZE=16 wrong - - - - - race A;");
	assert_string_equal(ask(s, "SELECT id FROM measurement ORDER BY id"), "5;6;9;");
	assert_string_equal(ask(s, "PRAGMA foreign_key_check"), "");
	assert_string_equal(ask(s, "PRAGMA integrity_check"), "ok;");
	static const char all[] = "SELECT group_concat(sql, '') FROM (SELECT sql FROM "
				  "sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name)";
	long_text(s, all, schema[0]);
	store_close(s);
	s = fresh("new.sqlite");
	long_text(s, all, schema[1]);
	assert_string_equal(schema[0], schema[1]);
	store_close(s);
}

/* What version 5 changed, taken back, and more. */
#define BEFORE_5                                                                             \
	"UPDATE sqlite_schema SET sql = replace(replace(replace(sql, ', ''early'')', ')'), " \
	"'CASE m.stage WHEN ''b'' THEN ''B'' WHEN ''early'' THEN ''E'' ELSE ''A'' END', "    \
	"'iif(m.stage = ''b'', ''B'', ''A'')'), 'm.stage = ''b'', m.stage = ''early''', "    \
	"'m.stage = ''b'''); "

static void make_older(const char *path, const char *schema, const char *rest)
{
	char command[1400];
	snprintf(command, sizeof command,
		 "sqlite3 %s \"PRAGMA writable_schema = ON; " BEFORE_5
		 "%s PRAGMA writable_schema = RESET; %s\"",
		 path, schema, rest);
	assert_int_equal(system(command), 0);
	quiet();
	assert_null(store_open(path, 1)); /* nothing is read by rules that it was not made by */
	assert_int_equal(loud(), 1);
	assert_non_null(strstr(said, "bring it up to date with: attune merge"));
}

/* As version 2 left one: written to, it is today's, rows and all. */
static void version_2(void **state)
{
	static const char all[] = "SELECT group_concat(sql, '') FROM (SELECT sql FROM "
				  "sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name)";
	static const char rows[] = "SELECT count(*) FROM timings";
	(void)state;
	char schema[2][40000];
	struct store *s = fresh("v2.sqlite");
	struct scenario sc = scenario_of("q1s1k");
	const char *path = in_folder("v2.sqlite");
	const long long run = store_begin_run(s, &h200);
	add(s, run, "q1s1k", "segmented", 0, measured(10));
	long_text(s, all, schema[0]);
	store_close(s);
	make_older(path, "UPDATE sqlite_schema SET sql = replace(sql, ', ''CLASSIC''', '');",
		   "DROP TABLE ceiling; PRAGMA user_version = 2");

	sc.layout = LAYOUT_CLASSIC;
	s = store_open(path, 0);
	assert_non_null(s);
	assert_string_equal(ask(s, "PRAGMA user_version"), "5;");
	assert_string_equal(ask(s, rows), "1;");
	assert_int_equal(store_scenario(s, &sc), 1);
	assert_string_equal(ask(s, "SELECT count(*) FROM scenario WHERE layout = 'CLASSIC'"), "1;");
	assert_string_equal(ask(s, "PRAGMA integrity_check"), "ok;");
	long_text(s, all, schema[1]);
	assert_string_equal(schema[0], schema[1]);
	scenario_done(&sc);
	store_close(s);
}

/* Of a cell both passes are read, each its newest row. */
static void passes(void **state)
{
	(void)state;
	struct store *s = fresh("passes.sqlite");
	const struct choice c = choice_at("segmented", 0);
	struct scenario sc = scenario_of("q1s1k");
	struct cells got = { 0 };
	char text[400];
	choice_text(text, sizeof text, &c);
	long long run = store_begin_run(s, &h200);
	add(s, run, "q1s1k", "segmented", 0, measured(10));
	store_stage(s, "b");
	assert_int_equal(store_has(s, "h200", &sc, PHASE_DECODE, text), 0);
	run = store_begin_run(s, &h200);
	add(s, run, "q1s1k", "segmented", 0, measured(20));
	add(s, run, "q1s1k", "segmented", 0, measured(30));
	store_stage(s, "complete");
	add(s, run, "q1s1k", "segmented", 0, measured(12));
	assert_int_equal(store_each(s, "h200", NULL, keep_cell, &got), 1);
	assert_int_equal(got.n, 2);
	assert_true(got.v[0].pass == 'A' && got.v[0].median_us == 13);
	assert_true(got.v[1].pass == 'B' && got.v[1].median_us == 31);
	assert_string_equal(got.stage[0], "complete");
	assert_string_equal(got.stage[1], "b");
	assert_string_equal(ask(s, "SELECT median_us FROM timings"), "13.0;");
	assert_string_equal(ask(s, "SELECT median_us FROM confirmed"), "31.0;");
	assert_string_equal(ask(s, "SELECT median_us FROM best"), "13.0;");
	quiet();
	store_stage(s, "guess");
	assert_int_equal(put(s, run, "q1s1k", "segmented", 0, measured(1)), 0);
	assert_int_equal(loud(), 1);
	scenario_done(&sc);
	store_close(s);
}

/* As version 4 left one, where times of sweep --early were of pass A, and in turn the newer ones. */
static void version_4(void **state)
{
	(void)state;
	struct store *s = fresh("v4.sqlite");
	const char *path = in_folder("v4.sqlite");
	struct run_info early = h200;
	add(s, store_begin_run(s, &h200), "q1s1k", "segmented", 0, measured(10));
	store_stage(s, "refine");
	add(s, store_begin_run(s, &h200), "q1s2k", "segmented", 0, measured(20));
	snprintf(early.command, sizeof early.command, "attune sweep --gpu h200 --early");
	add(s, store_begin_run(s, &early), "q1s1k", "segmented", 0, measured(12));
	store_close(s);
	make_older(path, "", "PRAGMA user_version = 4");
	s = store_open(path, 0);
	assert_non_null(s);
	assert_string_equal(ask(s, "SELECT batch, stage, pass, median_us FROM newest "
				   "ORDER BY measurement_id"),
			    "q1s1k race A 11.0;q1s2k refine A 21.0;q1s1k early E 13.0;");
	assert_string_equal(ask(s, "SELECT batch, median_us FROM timings ORDER BY measurement_id"),
			    "q1s1k 11.0;q1s2k 21.0;");
	store_close(s);
}

/* Shares off by 0.1 % .. 2 % at 10 us, one of 30 % at 100 us, none above. */
static void noise(void **state)
{
	(void)state;
	struct store *s = fresh("noise.sqlite");
	struct scenario sc = scenario_of("q1s1k");
	struct noise n;
	const long long run = store_begin_run(s, &h200);
	static const char text[] = "segmented TILE_SIZE=16";
	add(s, run, "q1s1k", "segmented", 0, measured(10));
	assert_int_equal(store_noise(s, "h200", &n), 1);
	assert_true(n.floor[0] == 0.005 && n.floor[2] == 0.005 && !n.pairs[0]);
	for (int i = 1; i <= 20; i++)
		assert_int_equal(store_control(s, run, &sc, "decode", text, 10,
					       i % 2 ? 1 + i * 0.001 : 1 - i * 0.001),
				 1);
	assert_int_equal(store_control(s, run, &sc, "plan", "prefill: x | decode: y", 100, 0.7), 1);
	assert_int_equal(store_noise(s, "h200", &n), 1);
	assert_true(n.pairs[0] == 20 && n.pairs[1] == 1 && n.pairs[2] == 0);
	assert_true(fabs(n.floor[0] - 0.019) < 1e-9 && fabs(n.floor[1] - 0.3) < 1e-9);
	assert_true(n.floor[2] == 0.005);
	assert_string_equal(ask(s, "SELECT band, pairs FROM noise"), "< 20 us 20;< 200 us 1;");
	quiet();
	assert_int_equal(store_control(s, run, &sc, "decode", text, 10, -1), 0);
	assert_int_equal(loud(), 1);
	scenario_done(&sc);
	store_close(s);
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

int main(void)
{
	struct CMUnitTest t[40] = {
		cmocka_unit_test(round_trip),      cmocka_unit_test(columns),
		cmocka_unit_test(refused_by_hand), cmocka_unit_test(resume),
		cmocka_unit_test(plans),           cmocka_unit_test(newest_wins),
		cmocka_unit_test(labels),          cmocka_unit_test(versions),
		cmocka_unit_test(not_ours),        cmocka_unit_test(version_1),
		cmocka_unit_test(version_2),       cmocka_unit_test(version_4),
		cmocka_unit_test(passes),          cmocka_unit_test(noise),
	};
	size_t n = 13;
	for (size_t i = 0; i < COUNT(bad_rows); i++)
		t[n++] = (struct CMUnitTest){ bad_rows[i].name, refused, 0, 0, &bad_rows[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("store", t, n, make_folder, remove_folder);
}
