/* SPDX-License-Identifier: Apache-2.0 */
/* t_peers.c - times of others' kernels: from the database of a race with plug-ins, and in the
 * pictures that show them. */
#include "tests/support/synthetic.h"
#include "tests/store/store_fixture.h"
#include "tests/plugin/sound_plugin.h"
#include "tests/support/heard.h"
#include "tuner/plot/plot.h"
#include "harness/scratch/scratch.h"
#include "tuner/forest/forest.h"

/* A row of the database. Its median is 1 us above `us`. */
struct raced {
	const char *batch, *phase, *choice, *flags;
	double us;
};

static void store_raced(struct store *s, long long run, const struct raced *r)
{
	const struct measurement m = measured(r->us);
	struct scenario sc = scenario_of(r->batch);
	struct choice c;
	char error[200];
	if (!strcmp(r->phase, "plan")) {
		assert_int_equal(store_plan_measurement(s, run, &sc, r->choice, &m), 1);
	} else {
		int phase = 0;
		while (strcmp(phase_name(phase), r->phase))
			phase++;
		if (!choice_parse(&c, BACKEND_GPU, r->choice, error, sizeof error))
			fail_msg("%s", error);
		assert_int_equal(
		    store_measurement(s, run, &sc, (enum phase)phase, &c, r->flags, &m, -1, -1), 1);
	}
	batch_free(sc.batch);
}

/* The last row of an answer. */
struct answer {
	int n;
	char name[32], version[52];
	double number;
};

static int take(void *arg, int statement, const struct scratch_value *v, int columns)
{
	struct answer *a = arg;
	(void)statement;
	a->n++;
	a->number = v[0].real;
	if (columns == 3) {
		snprintf(a->name, sizeof a->name, "%s", v[1].text);
		snprintf(a->version, sizeof a->version, "%s", v[2].text);
	}
	return 1;
}

static struct answer answer_of(struct scratch *t, const char *sql)
{
	struct answer a = { .n = 0 };
	assert_true(scratch_ask(t, "t_peers", sql, take, &a));
	return a;
}

/* The fastest time of a kernel ("%": of all) on a batch; 0: there is none. */
static double time_of(struct scratch *t, const char *batch, const char *peer)
{
	char sql[4000];
	snprintf(sql, sizeof sql,
		 "SELECT ifnull(min(us), 0) FROM peer_best WHERE batch = '%s' AND peer LIKE '%s'",
		 batch, peer);
	return answer_of(t, sql).number;
}

static struct scratch *peers_of(const char *db)
{
	struct scratch *t = scratch_new("");
	assert_true(t && peers_tables(t) && peers_read(t, "h200", db));
	return t;
}

/* Plug-ins "mine" and "yours"; our own kernels and times of one phase of a mixed batch do not count. */
static void a_race_is_read(void **state)
{
	static const char mine[] = "-DPLUGIN=617264c1_2026 -DHEADS=32";
	static const char yours[] = "-DPLUGIN=2 -DHEADS=32 -DE4M3_MATH=1 -DSPLITS=0";
	const struct raced rows[] = {
		{ "q1s1k", "decode", "mine SPLITS=0 DEPTH=-1", mine, 20 },
		{ "q1s1k", "decode", "mine SPLITS=16 DEPTH=-1", mine, 18 },
		{ "q1s1k", "decode", "yours SPLITS=0 DEPTH=-1", yours, 30 },
		{ "q64_q1s1k", "prefill", "mine SPLITS=0 DEPTH=-1", mine, 7 },
		{ "q64_q1s1k", "decode", "mine SPLITS=0 DEPTH=-1", mine, 18 },
		{ "q64_q1s1k", "all", "mine SPLITS=0 DEPTH=-1", mine, 40 },
		{ "q64_q1s1k", "decode", "yours SPLITS=0 DEPTH=-1", yours, 5 },
		{ "q64_q1s1k", "plan",
		  "prefill: mine SPLITS=0 DEPTH=-1 || decode: mine SPLITS=0 DEPTH=-1", NULL, 23 },
	};
	attune_plugin other = sound, gpu = sound;
	(void)state;
	gpu.backend = other.backend = "cuda";
	other.name = "yours";
	assert_int_equal(plugin_register(&gpu), ATTUNE_OK);
	assert_int_equal(plugin_register(&other), ATTUNE_OK);
	struct store *s = fresh("peers.sqlite");
	const long long run = store_begin_run(s, &h200);
	add(s, run, "q1s1k", "qblock", 0, measured(10));
	for (size_t i = 0; i < COUNT(rows); i++)
		store_raced(s, run, &rows[i]);
	store_close(s);
	struct scratch *t = peers_of(in_folder("peers.sqlite"));
	struct answer first =
	    answer_of(t, "SELECT is_e4m3, name, version FROM peer ORDER BY id DESC");
	assert_int_equal(first.n, 2);
	assert_string_equal(first.name, "mine");
	assert_string_equal(first.version, "617264c1_2026");
	assert_true(first.number == 0);
	assert_true(answer_of(t, "SELECT is_e4m3 FROM peer WHERE name = 'yours'").number == 1);
	assert_true(fabs(time_of(t, "q1s1k", "mine") - 19) < 1e-6); /* its fastest setting */
	assert_true(fabs(time_of(t, "q1s1k", "yours") - 31) < 1e-6);
	assert_true(fabs(time_of(t, "q1s1k", "%") - 19) < 1e-6);
	assert_true(fabs(time_of(t, "q64_q1s1k", "mine") - 24) < 1e-6); /* both at a time */
	assert_true(time_of(t, "q64_q1s1k", "yours") == 0); /* it ran the decodes alone */
	assert_true(time_of(t, "q1s2k", "%") == 0);
	scratch_free(t);
}

static void a_database_without_plug_ins_has_none(void **state)
{
	(void)state;
	struct store *s = fresh("own.sqlite");
	add(s, store_begin_run(s, &h200), "q1s1k", "qblock", 0, measured(10));
	store_close(s);
	struct scratch *t = peers_of(in_folder("own.sqlite"));
	assert_int_equal(
	    answer_of(t, "SELECT id FROM peer").n + answer_of(t, "SELECT us FROM peer_best").n, 0);
	listen_begin();
	const int done = peers_read(t, "h200", "/nowhere/peers.sqlite");
	assert_non_null(strstr(heard(), "/nowhere/peers.sqlite"));
	assert_false(done);
	scratch_free(t);
}

/* The committed race has all batches of the published set, and nothing of ours alone. */
static void the_committed_race_goes_with_its_set(void **state)
{
	struct scenario_list list = { 0 };
	struct models *models = models_load("scenarios/models.json");
	int found = 0;
	(void)state;
	struct scratch *t = peers_of("results/h200_peers.sqlite");
	assert_true(models && scenarios_load(&list, "scenarios/peers_h200.json", models));
	for (int k = 0; k < list.n; k++)
		found += time_of(t, list.v[k].batch_text, "%") > 0;
	assert_int_equal(found, list.n);
	scenarios_free(&list);
	models_free(models);
	scratch_free(t);
}

/* Rows as peers_read would add them; name: of one letter. */
struct given {
	const char *batch, *name;
	double us;
};

static void give(struct scratch *facts, const struct given *g)
{
	for (; g->batch; g++)
		assert_true(scratch_add(facts, "peer_row", "isssisissdd", (int)strlen(g->batch),
					"all", g->name, "", 0, "llama3.1-8b@1", 16, "BF16",
					g->batch, g->us, g->us / 100));
}

static void add_row(struct data *d, const char *batch, const char *phase, const char *kernel,
		    const char *choice, int pass, double us)
{
	struct store_cell c = cell_like(batch, phase, kernel, choice, us);
	c.split = "peers";
	c.pass = (char)pass;
	assert_true(data_add(d, &c));
}

/* 100 us in a row in pass A and 110 in pass B; two streams, 95, and pod, 80, in pass A alone. */
static void add_batch(struct data *d, const char *batch)
{
	char serial[400], streams[400];
	const char *qblock = with("qblock", ""), *segmented = with("segmented", "SEGMENTS=4");
	snprintf(serial, sizeof serial, "prefill: qblock %s | decode: segmented %s", qblock,
		 segmented);
	snprintf(streams, sizeof streams, "prefill: qblock %s || decode: segmented %s", qblock,
		 segmented);
	add_row(d, batch, "prefill", "qblock", qblock, 'A', 30);
	add_row(d, batch, "decode", "segmented", segmented, 'A', 90);
	add_row(d, batch, "all", "pod", with("pod", ""), 'A', 80);
	add_row(d, batch, "plan", "plan", serial, 'A', 100);
	add_row(d, batch, "plan", "plan", streams, 'A', 95);
	add_row(d, batch, "prefill", "qblock", qblock, 'B', 33);
	add_row(d, batch, "decode", "segmented", segmented, 'B', 99);
	add_row(d, batch, "plan", "plan", serial, 'B', 110);
}

/* What the picture's query answers. Nothing is tuned. Returns the number of rows. */
static int asked(struct plotted *p, const struct given *given, const char *name, char *rows,
		 char *settings, size_t size)
{
	FILE *r = fmemopen(rows, size, "w"), *s = fmemopen(settings, size, "w");
	struct forest defaults;
	struct picture picture;
	assert_true(r && s && forest_defaults(&defaults, "h200"));
	p->forest = &defaults;
	struct scratch *facts = facts_make(p);
	assert_non_null(facts);
	give(facts, given);
	assert_true(picture_load(&picture, "tuner/plot/pictures", name));
	const int n = picture_ask(&picture, facts, r, s);
	assert_false(fclose(r) || fclose(s));
	picture_free(&picture);
	scratch_free(facts);
	forest_free(&defaults);
	return n;
}

/* The ideal of 32 x 8k and a chunk is the time to read 33 x 8k keys and values at 4000 GB/s. */
static void times_are_over_the_ideal(void **state)
{
	struct run_info run = h200_run;
	run.dram_gbps = 4000;
	run.fma_tflops = 600;
	struct data *d = data_new("h200", &run);
	struct plotted p = { .data = d };
	const struct given given[] = { { "q512s8k_32q1s8k", "A", 400 },
				       { "q1s8k", "B", 400 },
				       { NULL, NULL, 0 } };
	char rows[2000] = "", settings[2000] = "";
	double v[4], ci[4];
	(void)state;
	add_batch(d, "q512s8k_32q1s8k");
	add_batch(d, "q512s8k_32q1s8k_4q1s4k"); /* decodes of two lengths */
	add_batch(d, "2q512s8k_32q1s8k");       /* two chunks */
	assert_true(data_finish(d));
	assert_int_equal(asked(&p, given, "mixed", rows, settings, sizeof rows), 4);
	assert_int_equal(sscanf(rows, "0 %lf %lf 0 %lf %lf 0 %lf %lf 0 %lf %lf", &v[0], &ci[0],
				&v[1], &ci[1], &v[2], &ci[2], &v[3], &ci[3]),
			 8);
	const double ideal = 33 * 8192 * 4096. / 4000e3;
	assert_true(fabs(v[0] * ideal - 88) < 1e-2); /* the fused kernel's gain, from pass A */
	assert_true(fabs(v[1] * ideal - 110) < 1e-2);
	assert_true(fabs(v[2] * ideal - 110 * 0.95) < 1e-2);
	assert_true(fabs(v[3] * ideal - 400) < 1e-2);
	assert_true(fabs(ci[0] - 0.01 / 80) < 1e-8); /* a share of the time as it was measured */
	assert_true(fabs(ci[1] - 0.01 / 110) < 1e-8);
	assert_true(fabs(ci[2] - 0.01 / 95) < 1e-8);
	assert_true(fabs(ci[3] - 0.01) < 1e-8);
	assert_non_null(strstr(settings, "tics = '(\"512 of 8k\\n+ 32 x 8k\" 0)'"));
	assert_non_null(strstr(settings, "names = '\"one fused kernel\" \"one after the other\" "
					 "\"two streams\" \"fastest kernel of others\"'"));
	assert_non_null(strstr(settings, "seen = ' 2 3 4 6'\nnum_seen = 4\n"));
	assert_non_null(strstr(settings, "rivals = 'A'\n"));
	d->run.dram_gbps = 0; /* no ceiling, no ideal */
	assert_int_equal(asked(&p, given, "mixed", rows, settings, sizeof rows), 0);
	data_free(d);
}

/* A panel for prompts, for mixed batches and for decodes; in each the shortest call first. */
static void a_panel_for_each_kind_of_batch(void **state)
{
	struct data *d = data_new("h200", &h200_run);
	struct plotted p = { .data = d, .end = 3 };
	const struct given given[] = { { "q512", "A", 60 },
				       { "2q512", "B", 75 },
				       { "3q1s100_4q1s200_q1s300_q1s5000", "A", 5 },
				       { NULL, NULL, 0 } };
	const char *qblock = with("qblock", "");
	char rows[2000] = "", settings[2000] = "";
	(void)state;
	add_row(d, "2q512", "prefill", "qblock", qblock, 'A', 50);
	add_row(d, "q512", "prefill", "qblock", qblock, 'A', 30);
	add_row(d, "3q1s100_4q1s200_q1s300_q1s5000", "decode", "qblock", qblock, 'A', 10);
	assert_true(data_finish(d) && d->n == 3);
	assert_int_equal(asked(&p, given, "peers", rows, settings, sizeof rows), 6);
	assert_string_equal(rows, "0 2 0.01 0\n\n\nNaN\n\n\n0 0.5 0.01 0\n\n\n"
				  "1 1.5 0.01 0\n\n\nNaN\n\n\nNaN\n\n\n"
				  "0 1 0.000333333\n1 1 0.0002\n\n\nNaN\n\n\n0 1 0.001\n");
	assert_non_null(strstr(settings,
			       "tics1 = '(''q512'' 0, ''2q512'' 1)'\ntics2 = '()'\n"
			       "tics3 = '(''9 of 100 to 5000'' 0)'\nbatches = '2 0 1'\n"));
	assert_non_null(strstr(settings, "seen = '1 1'"));
	assert_non_null(strstr(settings, "filled = \"1 0 1 1 0 0 2 0 1\""));
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_race_is_read),
		cmocka_unit_test(a_database_without_plug_ins_has_none),
		cmocka_unit_test(the_committed_race_goes_with_its_set),
		cmocka_unit_test(times_are_over_the_ideal),
		cmocka_unit_test(a_panel_for_each_kind_of_batch),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("peers", tests, make_folder, remove_folder);
}
