/* SPDX-License-Identifier: Apache-2.0 */
/* t_store.c - rows of the results database: they come back as they went in, bad ones are refused,
 * and readers get the newest. */
#include "same_schema.h"
#include "kernels/select/selector.h"

static void round_trip(void **state)
{
	(void)state;
	struct store *s = fresh("round.sqlite");
	const long long run = store_begin_run(s, &h200);
	struct scenario sc = scenario_of("q1s1k");
	struct kept_cells got = { 0 };
	assert_true(run > 0);
	add(s, run, "q1s1k", "segmented", 0, measured(10));
	assert_int_equal(store_each(s, "h200", keep_cell, &got), 1);
	assert_int_equal(got.n, 1);
	const struct store_cell *c = &got.v[0];
	assert_memory_equal(&c->shape, &sc.shape, sizeof sc.shape);
	assert_true(c->seed == sc.seed && c->weight == 2.5 && c->page_size == 16);
	assert_true(c->median_us == 11 && fabs(c->min_us - 10) < 0.006 && isnan(c->ci_us));
	/* 1024 keys of 8 heads, K and V, two bytes; 32 query heads, two products */
	assert_true(fabs(c->gbps - 2 * 1024 * 8 * 128 * 2 / 11e3) < 1e-6);
	assert_true(fabs(c->tflops - 4.0 * 1024 * 32 * 128 / 11e6) < 1e-9);
	assert_true(fabs(c->joules - 0.0044) < 1e-9);
	assert_true(c->pass == 'A' && !strcmp(got.stage[0], "race") && c->ratio == 1);
	assert_int_equal(c->samples, 3);
	/* 10, 11 and 12 as float32, little-endian */
	assert_string_equal(ask(s, "SELECT hex(us) FROM sample"), "000020410000304100004041;");
	assert_true(c->run == run);
	assert_non_null(strstr(got.choice[0], "segmented BLOCK_M="));
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
	struct run_info want = h200; /* a card is of a run, a device has had several */
	memset(want.card, 0, sizeof want.card);
	assert_memory_equal(&back, &want, sizeof back);
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
	assert_string_equal(
	    ask(s,
		"SELECT gpu, model, batch, kernel, outcome, median_us, round(min_us, 2), "
		"ci_us, round(gbps, 1), round(tflops, 3), phase, page_size, dtype, split, protocol "
		"FROM timings WHERE outcome = 'ok' ORDER BY median_us LIMIT 1"),
	    "h200 llama3.1-8b@1 q1s1k segmented ok 11.0 10.0 - 381.3 1.525 decode "
	    "16 BF16 train graph-rotating;");
	assert_string_equal(ask(s, "SELECT count(*) FROM timings WHERE plan = "
				   "'decode: ' || kernel || ' ' || variant"),
			    "3;");
	assert_string_equal(ask(s, "SELECT round(share_of_dram, 4) FROM best"), "0.0953;");
	assert_string_equal(ask(s, "SELECT gpu, batch, median_us FROM best"), "h200 q1s1k 11.0;");
	assert_string_equal(ask(s, "SELECT median_us, best_us FROM regret ORDER BY 1"),
			    "11.0 11.0;20.0 11.0;");
	assert_string_equal(ask(s, "SELECT outcome, detail FROM failures"),
			    "wrong out[3] = 1, want 2;");
	store_close(s);
}

static struct bad {
	const char *name;
	double median_us, min_us;
	int samples;
	float sample;
} bad_rows[] = {
	{ "refused: NaN median", NAN, 10, 3, 10 },
	{ "refused: infinite median", INFINITY, 10, 3, 10 },
	{ "refused: negative median", -11, 10, 3, 10 },
	{ "refused: zero median", 0, 10, 3, 10 },
	{ "refused: NaN minimum", 11, NAN, 3, 10 },
	{ "refused: minimum above the median", 11, 12, 3, 10 },
	{ "refused: no sample", 11, 10, 0, 10 },
	{ "refused: NaN sample", 11, 10, 3, NAN },
	{ "refused: zero sample", 11, 10, 3, 0 },
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
	m.samples = b->samples;
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

/* Values that only a hand-written edit could insert. */
static void refused_by_hand(void **state)
{
	(void)state;
	static const char *const sql[] = {
		"UPDATE ending SET outcome = 'fast'",
		"UPDATE race SET phase = 9",
		"UPDATE measurement SET median = NULL",
		"UPDATE measurement SET median = -1",
		"UPDATE measurement SET below = 1000",
		"UPDATE measurement SET ratio = 9999",
		"UPDATE measurement SET ratio = -10000",
		"UPDATE measurement SET median = 'fast'",
		"INSERT INTO superseded VALUES (77, 1)",
		"UPDATE sample SET us = x'0102'",
		"UPDATE race SET run = 77",
		"DELETE FROM scenario",
		"DELETE FROM variant",
		"UPDATE scenario SET page_size = 0",
		"INSERT INTO variant (choice, decode, how) SELECT choice, decode, how FROM variant",
		"INSERT INTO choice (family, segments) SELECT family, segments FROM choice",
		"INSERT INTO family (kernel, text, digest) SELECT kernel, text, digest FROM family",
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
	assert_true(store_query(s, "UPDATE code SET sources = 'segmented:edited'", NULL, NULL));
	store_close(s);
	s = store_open(in_folder("resume.sqlite"), 0);
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
	struct kept_cells got = { 0 };
	const long long run = store_begin_run(s, &h200);
	assert_int_equal(store_has_plan(s, "h200", &sc, plan), 0);
	assert_int_equal(store_plan_measurement(s, run, &sc, plan, &m), 1);
	assert_int_equal(store_has_plan(s, "h200", &sc, plan), 1);
	assert_int_equal(store_has_plan(s, "h200", &sc, "prefill: qblock A=1"), 0);
	assert_string_equal(ask(s, "SELECT phase, kernel, plan = variant FROM timings"),
			    "plan plan 1;");
	/* every binary of both parts, once */
	assert_string_equal(ask(s, "SELECT sources GLOB 'qblock:* reduce:* segmented:*' FROM code"),
			    "1;");
	assert_int_equal(store_each(s, "h200", keep_cell, &got), 1);
	assert_string_equal(got.choice[0] + 5, plan);
	assert_int_equal(store_has_plan(s, "h200", &sc, beside), 0);
	assert_int_equal(store_plan_measurement(s, run, &sc, beside, &m), 1);
	assert_int_equal(store_has_plan(s, "h200", &sc, beside), 1);
	assert_string_equal(ask(s, "SELECT count(*) FROM code"), "1;");
	scenario_done(&sc);
	store_close(s);
}

static void newest_wins(void **state)
{
	(void)state;
	struct store *s = fresh("newest.sqlite");
	struct run_info other = h200;
	struct kept_cells got = { 0 };
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
	/* of one race the last, of two runs both */
	assert_string_equal(ask(s, "SELECT median_us, newest FROM history ORDER BY 1"),
			    "10.0 1;13.0 0;31.0 1;");
	got = (struct kept_cells){ .stop_at = 1 };
	assert_int_equal(store_each(s, "h200", keep_cell, &got), 1);
	assert_int_equal(got.n, 1);

	/* another machine of the same short name is never mixed in */
	other.device.units = 114;
	add(s, store_begin_run(s, &other), "q1s1k", "segmented", 0, measured(50));
	got = (struct kept_cells){ 0 };
	store_each(s, "h200", keep_cell, &got);
	assert_int_equal(got.n, 1);
	assert_true(got.v[0].median_us == 51);
	assert_string_equal(ask(s, "SELECT count(*) FROM best WHERE batch = 'q1s1k'"), "2;");
	store_close(s);
}

/* The committed form has the rows that the rule of compact.sql keeps, and nothing else. */
static void compacting(void **state)
{
	(void)state;
	struct store *s = fresh("compact.sqlite");
	struct run_info edited = h200;
	struct compacted gone;
	struct measurement bad = { .outcome = OUTCOME_WRONG, .detail = "out[3] = 1, want 2" };
	struct measurement warm = measured(15);
	snprintf(edited.sources, sizeof edited.sources, "modified");
	warm.power_w = 500;
	add(s, store_begin_run(s, &h200), "q1s1k", "segmented", 0, measured(10));
	const long long second = store_begin_run(s, &h200);
	add(s, second, "q1s1k", "segmented", 0, measured(11));
	add(s, second, "q1s1k", "segmented", 1, warm);
	add(s, second, "q1s1k", "segmented", 2, bad);
	add(s, store_begin_run(s, &edited), "q1s1k", "segmented", 0, measured(5));
	assert_int_equal(store_compact(s, 0, &gone), 1);
	assert_true(gone.superseded == 2 && gone.modified == 1 && gone.samples == 4);
	assert_true(gone.readings == 2);
	assert_string_equal(ask(s,
				"SELECT outcome, median_us, power_w, newest, detail FROM history "
				"ORDER BY median_us"),
			    "wrong - 400.0 1 out[3] = 1, want 2;ok 12.0 400.0 1 -;"
			    "ok 16.0 400.0 1 -;");
	assert_string_equal(ask(s, "SELECT count(*) FROM run"), "1;");
	assert_string_equal(ask(s, "SELECT count(*) FROM sample"), "0;");
	same_schema(s);
	assert_int_equal(store_compact(s, 0, &gone), 1);
	assert_true(!gone.superseded && !gone.modified && !gone.samples && !gone.readings);
	store_close(s);
}

/* Rows of older sources go, but for what decides which scenarios induce leaves out: the fastest time
 * of a kernel in pass A. A kernel that this tool does not have may be another tool's. */
static void compacting_drops_older_sources(void **state)
{
	(void)state;
	struct store *s = fresh("older.sqlite");
	struct compacted gone;
	char hash[33], after[33];
	const struct measurement bad = { .outcome = OUTCOME_WRONG, .detail = "out[3] = 1, want 2" };
	const long long run = store_begin_run(s, &h200);
	for (int i = 0; i < 3; i++)
		add(s, run, "q1s1k", "segmented", i, measured(30 - i));
	add(s, run, "q1s1k", "segmented", 3, bad);
	add(s, run, "q1s1k", "qblock", 0, measured(40));
	add(s, run, "q1s1k", "naive", 0, measured(50));
	add(s, run, "q1s1k", "naive", 1, measured(60));
	store_stage(s, "b");
	add(s, run, "q1s1k", "segmented", 0, measured(10));
	ask(s, "UPDATE code SET sources = replace(sources, 'segmented:', 'segmented:0')");
	ask(s, "UPDATE code SET sources = 'mine:0' WHERE sources GLOB 'naive:*'");
	assert_int_equal(store_hash(s, "h200", hash), 1);
	assert_int_equal(store_compact(s, 0, &gone), 1);
	assert_true(gone.knows_sources && gone.stale == 4 && !gone.superseded);
	assert_string_equal(ask(s, "SELECT kernel, median_us FROM history ORDER BY 2"),
			    "segmented 29.0;qblock 41.0;naive 51.0;naive 61.0;");
	assert_string_equal(ask(s, "SELECT (SELECT count(*) FROM variant), (SELECT count(*) FROM "
				   "choice), (SELECT count(*) FROM race)"),
			    "4 4 1;");
	assert_int_equal(store_hash(s, "h200", after), 1);
	assert_string_equal(hash, after);
	same_schema(s);
	assert_int_equal(store_compact(s, 0, &gone), 1);
	assert_true(!gone.stale);
	assert_int_equal(store_check(s), 1);
	store_close(s);
}

/* Times go of families that came nowhere within 5 % of the fastest; not of one that did with another number
 * of segments, or that a second pass raced, nor a kernel's fastest. */
static void compacting_drops_far(void **state)
{
	static const double train[] = { 10, 15, 10.2, 15, 15 }, held_out[] = { 30, 30, 10, 30, 31 };
	(void)state;
	struct store *s = fresh("held_out.sqlite");
	struct compacted gone;
	const long long run = store_begin_run(s, &h200);
	for (int i = 0; i < 5; i++) {
		add(s, run, "q1s1k", "segmented", i, measured(train[i]));
		add(s, run, "q1s2k", "segmented", i, measured(held_out[i]));
	}
	add(s, run, "q1s2k", "qblock", 0, measured(99));
	store_stage(s, "b");
	add(s, run, "q1s1k", "segmented", 4, measured(20));
	ask(s, "UPDATE scenario SET split = 'heldout_random' WHERE batch = 'q1s2k'; "
	       "UPDATE measurement SET ratio = 20000");
	ask(s,
	    "INSERT INTO family (kernel, text, digest) SELECT 'segmented', 'A=' || id || ' "
	    "SEGMENTS=', id "
	    "FROM choice; UPDATE choice SET segments = id, family = (SELECT f.id FROM family AS f "
	    "WHERE f.text = 'A=' || iif(choice.id = 2, 1, choice.id) || ' SEGMENTS=') "
	    "WHERE family IN (SELECT id FROM family WHERE kernel = 'segmented')");
	assert_int_equal(store_compact(s, 0, &gone), 1);
	assert_int_equal(gone.outdone, 2);
	assert_string_equal(ask(s, "SELECT batch, count(*), sum(variant = 'A=4 SEGMENTS=4') FROM "
				   "timings GROUP BY batch ORDER BY batch"),
			    "q1s1k 4 0;q1s2k 5 0;");
	assert_int_equal(store_compact(s, 0, &gone), 1);
	assert_int_equal(gone.outdone, 0);
	assert_int_equal(store_check(s), 1);
	store_close(s);
}

/* All times stay of a kernel's default, of a choice that a header names, and of a race's reference. */
static void compacting_keeps_named(void **state)
{
	static const double us[] = { 10, 14, 16, 40, 40 };
	(void)state;
	struct store *s = fresh("named.sqlite");
	struct compacted gone;
	const struct selector_row *named = NULL;
	char sql[1500];
	const long long run = store_begin_run(s, &h200);
	for (int i = 0; i < attune_num_selectors; i++)
		if (!strcmp(attune_selectors[i].gpu, "h200"))
			named = attune_selectors[i].choices;
	assert_non_null(named);
	for (int i = 0; i < 5; i++) {
		add(s, run, "q1s1k", "segmented", i, measured(us[i]));
		add(s, run, "q1s2k", "segmented", i, measured(us[i]));
	}
	add(s, run, "q1s1k", "qblock", 0, measured(98));
	add(s, run, "q1s1k", "qblock", 1, measured(99));
	add(s, run, "q1s1k", "naive", 0, measured(60));
	add(s, run, "q1s1k", "naive", 1, measured(70));
	store_stage(s, "b");
	add(s, run, "q1s1k", "segmented", 0, measured(10));
	add(s, run, "q1s1k", "segmented", 4, measured(40));
	ask(s, "UPDATE measurement SET ratio = iif(median = 17000, 10000, 20000)");
	snprintf(
	    sql, sizeof sql,
	    "INSERT INTO family (kernel, text, digest) SELECT 'segmented', 'A=' || id || ' "
	    "SEGMENTS=', id FROM choice; "
	    "INSERT INTO family (kernel, text, digest) VALUES ('%s', replace('%s', 'fitted', ''), "
	    "900), ('%s', 'A=0 SEGMENTS=', 901), ('qblock', 'BLOCK_M=16 TILE_SIZE=64 "
	    "NUM_WARPS=4 NUM_STAGES=2', 902); "
	    "UPDATE choice SET segments = 1, family = (SELECT f.id FROM family AS f WHERE f.text "
	    "= 'A=' || choice.id || ' SEGMENTS=' AND f.kernel = 'segmented') WHERE family IN "
	    "(SELECT id FROM family WHERE kernel = 'segmented'); "
	    "UPDATE choice SET family = (SELECT id FROM family WHERE digest = 902) WHERE id = "
	    "(SELECT max(id) FROM choices WHERE kernel = 'qblock'); "
	    "UPDATE choice SET segments = 16, family = (SELECT id FROM family WHERE digest = "
	    "iif(choice.id = (SELECT max(id) FROM choices WHERE kernel = 'naive'), 900, 901)) "
	    "WHERE id IN (SELECT id FROM choices WHERE kernel = 'naive')",
	    named->kernel, named->text, named->kernel);
	ask(s, sql);
	assert_int_equal(store_compact(s, 1000, &gone), 1); /* a light database keeps them */
	assert_int_equal(gone.outdone, 0);
	assert_int_equal(store_compact(s, 0, &gone), 1);
	assert_int_equal(gone.outdone, 4);
	assert_string_equal(ask(s, "SELECT batch, pass, count(*), max(median_us) FROM newest "
				   "GROUP BY 1, 2 ORDER BY 1, 2"),
			    "q1s1k A 7 100.0;q1s1k B 2 41.0;q1s2k A 3 41.0;");
	assert_int_equal(store_compact(s, 0, &gone), 1);
	assert_int_equal(gone.outdone, 0);
	store_close(s);
}

/* Of a cell both passes are read, each its newest row. */
static void passes(void **state)
{
	(void)state;
	struct store *s = fresh("passes.sqlite");
	const struct choice c = choice_at("segmented", 0);
	struct scenario sc = scenario_of("q1s1k");
	struct kept_cells got = { 0 };
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
	assert_int_equal(store_each(s, "h200", keep_cell, &got), 1);
	assert_int_equal(got.n, 2);
	const int a = got.v[0].pass != 'A', b = !a; /* of one cell the older race comes first */
	assert_true(got.v[a].pass == 'A' && got.v[a].median_us == 13);
	assert_true(got.v[b].pass == 'B' && got.v[b].median_us == 31);
	assert_string_equal(got.stage[a], "complete");
	assert_string_equal(got.stage[b], "b");
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
	for (int i = 1; i <= 20; i++) { /* one pair a race */
		const long long next = store_begin_run(s, &h200);
		assert_int_equal(store_control(s, next, &sc, "decode", text, 10,
					       i % 2 ? 1 + i * 0.001 : 1 - i * 0.001),
				 1);
	}
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

int main(void)
{
	struct CMUnitTest t[40] = {
		cmocka_unit_test(round_trip),
		cmocka_unit_test(columns),
		cmocka_unit_test(refused_by_hand),
		cmocka_unit_test(resume),
		cmocka_unit_test(plans),
		cmocka_unit_test(newest_wins),
		cmocka_unit_test(compacting),
		cmocka_unit_test(passes),
		cmocka_unit_test(compacting_drops_older_sources),
		cmocka_unit_test(compacting_drops_far),
		cmocka_unit_test(compacting_keeps_named),
		cmocka_unit_test(noise),
	};
	size_t n = 0;
	while (t[n].name)
		n++;
	for (size_t i = 0; i < COUNT(bad_rows); i++)
		t[n++] = (struct CMUnitTest){ bad_rows[i].name, refused, 0, 0, &bad_rows[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("store", t, n, make_folder, remove_folder);
}
