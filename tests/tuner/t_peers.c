/* t_peers.c - times of others' kernels: the table, and the picture of mixed batches that shows
 * them. */
#include "tests/support/synthetic.h"
#include "tuner/plot/plot.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/support/heard.h"

#define HEADING "model\tbatch\tpage_size\tpeer\tus\tprotocol\tsource\n"

/* 1: read. text: the contents of the file. */
static int load(struct peers *p, const char *text)
{
	char path[] = "/tmp/t_peers.XXXXXX";
	const int fd = mkstemp(path);
	const size_t n = strlen(text);
	assert_true(fd >= 0 && write(fd, text, n) == (ssize_t)n && !close(fd));
	const int done = peers_load(p, "h200", path);
	assert_int_equal(unlink(path), 0);
	return done;
}

static const struct measured *scenario(struct data *d, const char *batch)
{
	const struct store_cell c = cell_like(batch, "all", "qblock", with("qblock", ""), 100);
	assert_true(data_add(d, &c));
	return &d->v[d->n - 1];
}

static void a_table_is_read(void **state)
{
	struct data *d = data_new("h200", &h200_run);
	struct peers *p = malloc(sizeof *p);
	(void)state;
	assert_true(load(p, "# said first\n" HEADING "\n"
			    "llama3.1-8b@1\tq512s4k_32q1s4k\t16\tA\t200.5\tsustained\tx\n"
			    "llama3.1-8b@1\tq512s4k_32q1s4k\t16\tA\t150.5\tburst\tx\n"
			    "llama3.1-8b@1\tq512s4k_32q1s4k\t128\tB\t90\tsustained\tx\n"
			    "llama3.1-8b@4\tq512s4k_32q1s4k\t16\tA\t90\tsustained\tx\n"));
	const struct measured *m = scenario(d, "q512s4k_32q1s4k");
	assert_int_equal(p->n, 4);
	assert_int_equal(p->num_names, 2);
	assert_string_equal(p->name[0], "A");
	assert_string_equal(p->name[1], "B");
	assert_true(fabs(peers_fastest(p, m, 0)->us - 150.5) < 1e-9); /* of two protocols */
	assert_string_equal(peers_fastest(p, m, 0)->protocol, "burst");
	assert_null(peers_fastest(p, m, 1)); /* of other pages */
	assert_ptr_equal(peers_fastest(p, m, -1), peers_fastest(p, m, 0));
	assert_null(peers_fastest(p, scenario(d, "q512s4k_33q1s4k"), -1));
	free(p);
	data_free(d);
}

static void a_wrong_line_is_named(void **state)
{
	static const struct {
		const char *text, *said;
	} rows[] = {
		{ "model\tbatch\n", ":1: should be the heading" },
		{ HEADING "m\tb\t16\tA\t200\tsustained\n", ":2: should have seven columns" },
		{ HEADING "m\tb\t16\tA\t200\ts\tx\tmore\n", ":2: should have seven columns" },
		{ HEADING "# fine\nm\tb\t16\tA\tfast\ts\tx\n", ":3: should have a page_size" },
		{ HEADING "m\tb\t0\tA\t200\ts\tx\n", ":2: should have a page_size" },
		{ HEADING "m\tb\t16\tA\t-1\ts\tx\n", "us above 0" },
		{ HEADING "\tb\t16\tA\t1\ts\tx\n", "should have a model" },
		{ HEADING "m\tb\t16\tA'\t1\ts\tx\n", "or none that fits" },
		{ HEADING "m\tb\t16\tA\t1\ts\tx\nm\tb\t16\tA\t1\t\tx\n", ":3: should have a prot" },
		{ HEADING "m\tb\t1\tA\t1\ts\tx\nm\tb\t1\tB\t1\ts\tx\nm\tb\t1\tC\t1\ts\tx\n"
			  "m\tb\t1\tD\t1\ts\tx\nm\tb\t1\tE\t1\ts\tx\nm\tb\t1\tF\t1\ts\tx\n"
			  "m\tb\t1\tG\t1\ts\tx\nm\tb\t1\tH\t1\ts\tx\nm\tb\t1\tI\t1\ts\tx\n"
			  "m\tb\t1\tJ\t1\ts\tx\n",
		  ":11: names a tenth peer" },
	};
	struct peers *p = malloc(sizeof *p);
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		listen_begin();
		const int done = load(p, rows[i].text);
		const char *said = heard();
		assert_false(done);
		if (!strstr(said, rows[i].said))
			fail_msg("\"%s\" does not say \"%s\"", said, rows[i].said);
		assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
	}
	free(p);
}

static void a_file_that_is_not_there(void **state)
{
	struct peers *p = malloc(sizeof *p);
	(void)state;
	assert_true(peers_load(p, "no-such-gpu", NULL));
	assert_int_equal(p->n + p->num_names, 0);
	listen_begin();
	const int done = peers_load(p, "h200", "/nowhere/peers.tsv");
	assert_non_null(strstr(heard(), "/nowhere/peers.tsv"));
	assert_false(done);
	free(p);
}

/* Each batch of the table is in the set of scenarios that it goes with, under that name. */
static void the_shipped_table_goes_with_its_set(void **state)
{
	struct peers *p = malloc(sizeof *p);
	struct scenario_list list = { 0 };
	struct models *models = models_load("scenarios/models.json");
	(void)state;
	assert_true(peers_load(p, "h200", "scenarios/peers_h200.tsv"));
	assert_true(p->n > 12 * 6); /* six on each mixed batch, others on the rest */
	assert_true(models && scenarios_load(&list, "scenarios/peers_h200.json", models));
	for (int i = 0; i < p->n; i++) {
		int found = 0;
		for (int k = 0; k < list.n; k++)
			found += !strcmp(list.v[k].batch_text, p->v[i].batch) &&
				 !strcmp(list.v[k].model, p->v[i].model) &&
				 list.v[k].shape.page_size == p->v[i].page_size;
		if (found != 1)
			fail_msg("%s: %d of that name", p->v[i].batch, found);
		for (int k = 0; k < i; k++)
			if (p->v[k].peer == p->v[i].peer && !strcmp(p->v[k].batch, p->v[i].batch) &&
			    !strcmp(p->v[k].protocol, p->v[i].protocol))
				fail_msg("%s: %s twice", p->v[i].batch, p->name[p->v[i].peer]);
	}
	scenarios_free(&list);
	models_free(models);
	free(p);
}

static void add(struct data *d, const char *batch, const char *phase, const char *kernel,
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
	add(d, batch, "prefill", "qblock", qblock, 'A', 30);
	add(d, batch, "decode", "segmented", segmented, 'A', 90);
	add(d, batch, "all", "pod", with("pod", ""), 'A', 80);
	add(d, batch, "plan", "plan", serial, 'A', 100);
	add(d, batch, "plan", "plan", streams, 'A', 95);
	add(d, batch, "prefill", "qblock", qblock, 'B', 33);
	add(d, batch, "decode", "segmented", segmented, 'B', 99);
	add(d, batch, "plan", "plan", serial, 'B', 110);
}

static void printed(const struct plotted *p, char *rows, char *settings, size_t size, int *n)
{
	FILE *r = fmemopen(rows, size, "w"), *s = fmemopen(settings, size, "w");
	assert_non_null(r);
	assert_non_null(s);
	*n = series_mixed(p, r, s);
	assert_false(fclose(r) || fclose(s));
}

/* The ideal of 32 x 8k and a chunk is the time to read 33 x 8k keys and values at 4000 GB/s. */
static void times_are_over_the_ideal(void **state)
{
	struct run_info run = h200_run;
	run.dram_gbps = 4000;
	run.fma_tflops = 600;
	struct data *d = data_new("h200", &run);
	struct peers *peers = malloc(sizeof *peers);
	struct plotted p = { .data = d, .all = d, .peers = peers };
	char rows[2000] = "", settings[2000] = "";
	double v[8];
	int n, place;
	(void)state;
	add_batch(d, "q512s8k_32q1s8k");
	add_batch(d, "q512s8k_32q1s8k_4q1s4k"); /* decodes of two lengths */
	add_batch(d, "2q512s8k_32q1s8k");       /* two chunks */
	assert_true(data_finish(d));
	assert_true(load(peers, HEADING "llama3.1-8b@1\tq512s8k_32q1s8k\t16\tA\t400\tsustained\tx\n"
					"llama3.1-8b@1\tq1s8k\t16\tB\t400\tsustained\tx\n"));
	printed(&p, rows, settings, sizeof rows, &n);
	assert_int_equal(n, 1);
	assert_int_equal(sscanf(rows, "%d %lf %lf %lf %lf %lf %lf %lf %lf", &place, &v[0], &v[1],
				&v[2], &v[3], &v[4], &v[5], &v[6], &v[7]),
			 9);
	const double ideal = 33 * 8192 * 4096. / 4000e3;
	assert_true(isnan(v[0]) && isnan(v[4]) && isnan(v[7]));
	assert_true(fabs(v[2] * ideal - 110) < 1e-2);
	assert_true(fabs(v[3] * ideal - 110 * 0.95) < 1e-2);
	assert_true(fabs(v[1] * ideal - 88) < 1e-2 && fabs(v[5] * ideal - 88) < 1e-2);
	assert_true(fabs(v[6] * ideal - 400) < 1e-2);
	assert_non_null(strstr(settings, "tics = '(\"512 of 8k\\n+ 32 x 8k\" 0)'"));
	assert_non_null(strstr(settings, "\"one fused kernel\" \"A\"'"));
	assert_non_null(strstr(settings, "num_own = 4\nnum_seen = 5\n"));
	d->run.dram_gbps = 0; /* no ceiling, no ideal */
	printed(&p, rows, settings, sizeof rows, &n);
	assert_int_equal(n, 0);
	free(peers);
	data_free(d);
}

/* A panel for prompts, for mixed batches and for decodes; in each the shortest call first. */
static void other_rungs_differ_from_the_tuned_choice(void **state)
{
	struct data *d = data_new("h200", &h200_run);
	struct peers *peers = malloc(sizeof *peers);
	struct plotted p = { .data = d, .all = d, .peers = peers, .end = 3 };
	const char *qblock = with("qblock", "");
	char rows[2000] = "", settings[2000] = "";
	FILE *r = fmemopen(rows, sizeof rows, "w"), *s = fmemopen(settings, sizeof settings, "w");
	(void)state;
	add(d, "2q512", "prefill", "qblock", qblock, 'A', 50);
	add(d, "q512", "prefill", "qblock", qblock, 'A', 30);
	add(d, "3q1s100_4q1s200_q1s300_q1s5000", "decode", "qblock", qblock, 'A', 10);
	assert_true(data_finish(d) && d->n == 3);
	assert_true(load(peers, HEADING
			 "llama3.1-8b@1\tq512\t16\tA\t60\tburst\tx\n"
			 "llama3.1-8b@1\t2q512\t16\tB\t75\tburst\tx\n"
			 "llama3.1-8b@1\t3q1s100_4q1s200_q1s300_q1s5000\t16\tA\t5\tsustained\tx\n"
			 "llama3.1-8b@1\t3q1s100_4q1s200_q1s300_q1s5000\t16\tA\t20\tburst\tx\n"));
	p.pick[POLICY_TREE] = calloc(3, sizeof *p.pick[0]);
	for (int i = 0; i < 3; i++) {
		struct pick *pick = &p.pick[POLICY_TREE][i];
		*pick = (struct pick){ -1, -1, 0, 0 };
		data_best(d, i, PHASE_PREFILL, &pick->prefill);
		data_best(d, i, PHASE_DECODE, &pick->decode);
	}
	assert_int_equal(series_peers(&p, r, s), 3);
	assert_false(fclose(r) || fclose(s));
	assert_string_equal(rows, "0 2 nan\n1 nan 1.5\n\n\nnan\n\n\n0 0.5 nan\n\n\n");
	assert_non_null(
	    strstr(settings, "\"('q512' 0, '2q512' 1)\", \"()\", \"('9 of 100 to 5000' 0)\""));
	assert_non_null(strstr(settings, "seen = ' 1 1'"));
	free(p.pick[POLICY_TREE]);
	free(peers);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_table_is_read),
		cmocka_unit_test(a_wrong_line_is_named),
		cmocka_unit_test(a_file_that_is_not_there),
		cmocka_unit_test(the_shipped_table_goes_with_its_set),
		cmocka_unit_test(times_are_over_the_ideal),
		cmocka_unit_test(other_rungs_differ_from_the_tuned_choice),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
