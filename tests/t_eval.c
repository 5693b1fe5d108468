/* t_eval.c - how picks are judged, by hand-computed cases; and the tuner's
 * subcommands on a database, by what they print and return. */
#include "synthetic.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <jansson.h>
#include <unistd.h>
#include <cmocka.h>
#include "heard.h"

static char folder[] = "/tmp/t_eval.XXXXXX";

static const char *in_folder(const char *name)
{
	static char path[8][128];
	static int turn;
	char *p = path[turn++ % 8];
	snprintf(p, sizeof path[0], "%s/%s", folder, name);
	return p;
}

/* ---- by hand --------------------------------------------------------------------------- */
static void add(struct data *d, const char *batch, const char *phase, const char *kernel,
		const char *set, double us)
{
	struct store_cell c = cell_like(batch, phase, kernel, with(kernel, set), us);
	char both[2 * MAX_CHOICE_TEXT + 64];
	if (!strcmp(phase, "plan")) { /* both parts by the same kernel */
		snprintf(both, sizeof both, "prefill: %s %s | decode: %s %s", kernel, c.choice,
			 kernel, c.choice);
		c.kernel = "plan";
		c.choice = both;
	}
	if (us <= 0) {
		c.outcome = "resources";
		c.median_us = NAN;
	}
	assert_true(data_add(d, &c));
}

/* Choices: 0 is BLOCK_M=16, 1 is BLOCK_M=32. */
static struct data *by_hand(void)
{
	struct data *d = data_new("h200", &h200_run);
	add(d, "1q1s1k", "decode", "qblock", "BLOCK_M=16", 10);
	add(d, "1q1s1k", "decode", "qblock", "BLOCK_M=32", 12);
	add(d, "2q1s1k", "all", "qblock", "BLOCK_M=16", 21);
	add(d, "2q1s1k", "decode", "qblock", "BLOCK_M=32", 20);
	add(d, "q512_2q1s1k", "prefill", "qblock", "BLOCK_M=16", 60);
	add(d, "q512_2q1s1k", "prefill", "qblock", "BLOCK_M=32", 50);
	add(d, "q512_2q1s1k", "decode", "qblock", "BLOCK_M=16", 30);
	add(d, "q512_2q1s1k", "decode", "qblock", "BLOCK_M=32", 0);
	add(d, "q512_2q1s1k", "all", "qblock", "BLOCK_M=16", 100);
	add(d, "q512_2q1s1k", "plan", "qblock", "BLOCK_M=16", 85);
	assert_true(data_finish(d));
	assert_int_equal(d->n, 3);
	assert_int_equal(d->num_choices, 2);
	return d;
}

static int scenario_named(const struct data *d, const char *batch)
{
	for (int s = 0; s < d->n; s++)
		if (!strcmp(d->v[s].batch_text, batch))
			return s;
	fail_msg("no scenario %s", batch);
	return -1;
}

static double plan_us(const struct data *d, const char *batch, int prefill, int decode, int join)
{
	const struct pick p = { prefill, decode, join };
	return data_plan_time(d, scenario_named(d, batch), &p);
}

static void test_plan_times(void **state)
{
	struct data *d = by_hand();
	(void)state;
	assert_true(plan_us(d, "1q1s1k", -1, 1, 1) == 12);
	assert_true(plan_us(d, "2q1s1k", -1, 0, 1) == 21); /* measured as the whole */
	assert_true(plan_us(d, "q512_2q1s1k", 0, -1, 0) == 100);
	assert_true(isinf(plan_us(d, "q512_2q1s1k", 1, -1, 0))); /* not measured */
	assert_true(plan_us(d, "q512_2q1s1k", 0, 0, 1) == 85);   /* as a plan, not 90 */
	assert_true(plan_us(d, "q512_2q1s1k", 1, 0, 1) == 80);   /* 50 + 30 */
	assert_true(isinf(plan_us(d, "q512_2q1s1k", 1, 1, 1)));  /* resources */
	assert_true(data_oracle(d, scenario_named(d, "1q1s1k")) == 10);
	assert_true(data_oracle(d, scenario_named(d, "2q1s1k")) == 20);
	assert_true(data_oracle(d, scenario_named(d, "q512_2q1s1k")) == 80);
	data_free(d);
}

static int close_to(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

static void test_scores(void **state)
{
	struct data *d = by_hand();
	struct pick picks[3];
	struct score s;
	(void)state;
	picks[scenario_named(d, "1q1s1k")] = (struct pick){ -1, 1, 1 };     /* 1.2 */
	picks[scenario_named(d, "2q1s1k")] = (struct pick){ -1, 0, 1 };     /* 1.05 */
	picks[scenario_named(d, "q512_2q1s1k")] = (struct pick){ 1, 0, 1 }; /* 1 */
	assert_true(score_picks(d, picks, NULL, &s));
	assert_int_equal(s.n, 3);
	assert_int_equal(s.invalid, 0);
	assert_true(close_to(s.geomean, cbrt(1.2 * 1.05)));
	assert_true(close_to(s.worst, 1.2) && close_to(s.p95, 1.2));
	assert_true(close_to(s.within2, 1. / 3) && close_to(s.within5, 2. / 3));

	picks[scenario_named(d, "q512_2q1s1k")].decode = 1;
	assert_true(score_picks(d, picks, "train", &s));
	assert_int_equal(s.invalid, 1);
	assert_true(isinf(s.geomean) && isinf(s.worst));
	assert_true(score_picks(d, picks, "heldout", &s));
	assert_int_equal(s.n, 0);
	data_free(d);
}

static void test_vllm_rule(void **state)
{
	static const struct {
		const char *batch, *kernel;
		int segments;
	} rows[] = { { "16q1s4k", "segmented", 16 }, /* 128 / 8 KV heads */
		     { "17q1s4k", "qblock", 1 },
		     { "4q2s4k", "qblock", 1 } };
	struct data *d = data_new("h200", &h200_run);
	struct pick picks[3];
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		add(d, rows[i].batch, "decode", "qblock", "TILE_SIZE=32 NUM_WARPS=2", 10);
		add(d, rows[i].batch, "decode", "qblock", "TILE_SIZE=128", 1);
		add(d, rows[i].batch, "decode", "segmented", "SEGMENTS=16", 10);
		add(d, rows[i].batch, "decode", "segmented", "SEGMENTS=4", 1);
	}
	assert_true(data_finish(d));
	assert_true(policy_picks(d, POLICY_VLLM_RULE, NULL, picks));
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct choice *c = &d->choice[picks[scenario_named(d, rows[i].batch)].decode];
		assert_string_equal(c->kernel->name, rows[i].kernel);
		assert_int_equal(config_value(&c->config, c->kernel->space, "SEGMENTS", 1),
				 rows[i].segments);
		assert_int_not_equal(config_value(&c->config, c->kernel->space, "TILE_SIZE", 0),
				     128);
	}
	data_free(d);
}

/* ---- the subcommands ---------------------------------------------------------------------- */
static char printed[1 << 18];

/* Runs a subcommand with what it prints in `printed`; its exit code. */
static int run_command(int (*command)(int, char **), const char *line)
{
	char words[600], *argv[20] = { "attune" }, *save = NULL;
	int argc = 1;
	snprintf(words, sizeof words, "%s", line);
	for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	fflush(stdout);
	const int kept = dup(1), fd = open(in_folder("stdout"), O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(kept >= 0 && fd >= 0 && dup2(fd, 1) == 1);
	const int code = command(argc, argv);
	fflush(stdout);
	assert_true(dup2(kept, 1) == 1);
	const ssize_t n = pread(fd, printed, sizeof printed - 1, 0);
	printed[n > 0 ? n : 0] = '\0';
	close(fd);
	close(kept);
	return code;
}

static const char *words(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *words(const char *format, ...)
{
	static char text[600];
	va_list ap;
	va_start(ap, format);
	vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	return text;
}

static void put(struct store *st, long long run, const struct synthetic *v)
{
	const struct store_cell cell = synthetic_cell(v);
	struct choice c = { .kernel = kernel_find(BACKEND_GPU, cell.kernel) };
	struct measurement m = { .outcome = OUTCOME_OK,
				 .samples = 1,
				 .calls = 1,
				 .us = { (float)v->us },
				 .median_us = v->us,
				 .min_us = v->us,
				 .q25_us = v->us,
				 .q75_us = v->us,
				 .ci_us = 0.001,
				 .ratio = 1,
				 .gbps = 1,
				 .tflops = 1,
				 .sm_mhz_before = NAN,
				 .sm_mhz_after = NAN,
				 .power_w = NAN,
				 .joules = NAN };
	struct scenario sc = { .model = "llama3.1-8b@1",
			       .set = "synthetic",
			       .batch_text = (char *)v->batch,
			       .shape = llama,
			       .weight = 1 };
	char error[100];
	const char *where;
	snprintf(sc.split, sizeof sc.split, "%s", v->split);
	sc.batch = batch_parse(v->batch, error, sizeof error);
	assert_true(sc.batch && config_parse(&c.config, c.kernel->space, cell.choice, &where));
	const enum phase phase = !strcmp(v->phase, "all")      ? PHASE_ALL
				 : !strcmp(v->phase, "decode") ? PHASE_DECODE
							       : PHASE_PREFILL;
	assert_true(store_measurement(st, run, &sc, phase, &c, "-DX=1", &m, 32, 0));
	batch_free(sc.batch);
}

/* The synthetic cells of every `step`th scenario, times scaled where asked. */
static void make_database(const char *path, const char *split, double scale)
{
	enum { ROOM = 4000 };
	static struct synthetic v[ROOM];
	const int n = synthetic_cells(v, ROOM);
	struct store *st = store_open(path, 0);
	assert_non_null(st);
	const long long run = store_begin_run(st, &h200_run);
	assert_true(run > 0);
	for (int i = 0; i < n; i++) {
		if (!strstr(v[i].batch, "s4096") && !strstr(v[i].batch, "s1024"))
			continue;
		if (split)
			v[i].split = split;
		v[i].us *= v[i].choice ? 1 : scale;
		put(st, run, &v[i]);
	}
	store_close(st);
}

static json_t *member(json_t *object, const char *key)
{
	json_t *v = json_object_get(object, key);
	if (!v)
		fail_msg("no \"%s\"", key);
	return v;
}

static void test_induce_check_eval(void **state)
{
	const char *db = in_folder("h200.sqlite"), *header = in_folder("attune_h200.h");
	(void)state;
	make_database(db, NULL, 1);
	assert_int_equal(run_command(cmd_induce, words("--gpu h200 --db %s --out %s", db, header)),
			 EXIT_DONE);
	assert_non_null(strstr(printed, "heldout"));
	assert_int_equal(
	    run_command(cmd_induce, words("--gpu h200 --db %s --out %s --check", db, header)),
	    EXIT_DONE);
	assert_int_equal(run_command(cmd_eval, words("--gpu h200 --db %s --header %s --format json",
						     db, header)),
			 EXIT_DONE);
	json_t *o = json_loads(printed, 0, NULL);
	assert_non_null(o);
	assert_int_equal(json_object_size(o), 6);
	json_t *train = member(member(o, "splits"), "train");
	assert_int_equal(json_object_size(train), 11);
	assert_true(json_number_value(member(train, "geomean")) >= 1);
	assert_true(json_number_value(member(train, "geomean")) <=
		    json_number_value(member(train, "worst")));
	assert_int_equal(json_integer_value(member(train, "invalid")), 0);
	assert_true(json_integer_value(member(member(member(o, "splits"), "heldout"), "n")) > 0);
	json_t *baselines = member(o, "baselines");
	assert_int_equal(json_object_size(baselines), NUM_POLICIES - 2);
	json_t *fixed = member(member(baselines, "best_fixed"), "train");
	assert_true(json_number_value(member(fixed, "geomean")) >=
		    json_number_value(member(train, "geomean")));
	assert_true(json_integer_value(member(o, "leaves")) >= 3);
	assert_true(json_number_value(member(o, "select_ns")) > 0);
	json_decref(o);
	assert_int_equal(run_command(cmd_induce, words("--gpu h200 --db %s --emit json", db)),
			 EXIT_DONE);
	o = json_loads(printed, 0, NULL);
	assert_true(json_array_size(member(o, "choices")) > 0);
	assert_non_null(member(o, "prefill"));
	assert_non_null(member(o, "decode"));
	assert_non_null(member(o, "join"));
	json_decref(o);
}

static void test_check_fails_with_the_diff(void **state)
{
	const char *db = in_folder("h200.sqlite"), *header = in_folder("attune_h200.h");
	char *text = file_text(header), *leaf = text ? strstr(text, "return ") : NULL;
	(void)state;
	assert_non_null(leaf);
	leaf[7] = '5';
	FILE *out = fopen(header, "w");
	assert_non_null(out);
	assert_true(fputs(text, out) >= 0 && !fclose(out));
	free(text);
	assert_int_equal(
	    run_command(cmd_induce, words("--gpu h200 --db %s --out %s --check", db, header)),
	    EXIT_CHECK);
	assert_non_null(strstr(printed, "return 5;"));
	assert_non_null(strstr(printed, "\n+\t"));
}

static void test_nothing_to_judge_is_a_failure(void **state)
{
	const char *empty = in_folder("empty.sqlite"), *all = in_folder("all.sqlite");
	(void)state;
	store_close(store_open(empty, 0));
	listen_begin();
	assert_int_equal(run_command(cmd_eval, words("--gpu h200 --db %s --header induced", empty)),
			 EXIT_CHECK);
	assert_non_null(strstr(heard(), "h200"));
	listen_begin();
	assert_int_equal(
	    run_command(cmd_induce, words("--gpu h200 --db %s --out /dev/null", empty)),
	    EXIT_CHECK);
	assert_non_null(strstr(heard(), "h200"));
	make_database(all, "heldout", 1);
	listen_begin();
	assert_int_equal(run_command(cmd_induce, words("--gpu h200 --db %s --out /dev/null", all)),
			 EXIT_CHECK);
	assert_non_null(strstr(heard(), "has 0 scenarios to learn from"));
}

static void test_show_one_scenario(void **state)
{
	const char *db = in_folder("h200.sqlite");
	double last = 0;
	(void)state;
	assert_int_equal(run_command(cmd_show, words("--gpu h200 --db %s --model llama3.1-8b@1 "
						     "--batch 8q1s4k --format json",
						     db)),
			 EXIT_DONE);
	json_t *o = json_loads(printed, 0, NULL), *row;
	size_t i;
	assert_int_equal(json_array_size(o), COUNT(synthetic_choices));
	json_array_foreach(o, i, row)
	{
		assert_int_equal(json_object_size(row), 10);
		assert_true(json_number_value(member(row, "median_us")) >= last);
		last = json_number_value(member(row, "median_us"));
		assert_true(json_is_null(member(row, "joules")));
	}
	json_decref(o);
	listen_begin();
	assert_int_equal(run_command(cmd_show, words("--gpu h200 --db %s --model llama3.1-8b@1 "
						     "--batch 7q1s4k --format tsv",
						     db)),
			 EXIT_CHECK);
	const char *said = heard();
	assert_non_null(strstr(said, "nearest: "));
	assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
}

static void test_show_mixed_lists_plans(void **state)
{
	const char *db = in_folder("h200.sqlite");
	(void)state;
	assert_int_equal(run_command(cmd_show, words("--gpu h200 --db %s --model llama3.1-8b@1 "
						     "--batch q512_8q1s4k --format json",
						     db)),
			 EXIT_DONE);
	json_t *o = json_loads(printed, 0, NULL), *row;
	int whole = 0, summed = 0;
	size_t i;
	json_array_foreach(o, i, row)
	{
		const char *plan = json_string_value(member(row, "plan"));
		summed += !strcmp(plan, "prefill, then decode: summed");
		whole += !strcmp(plan, "one launch");
	}
	assert_true(whole > 0 && summed > 0);
	assert_int_equal(whole + summed, json_array_size(o));
	json_decref(o);
	assert_int_equal(run_command(cmd_show, "--kernels --format json"), EXIT_DONE);
	o = json_loads(printed, 0, NULL);
	assert_true(json_array_size(o) > 20);
	json_decref(o);
}

static void test_diff(void **state)
{
	const char *db = in_folder("h200.sqlite"), *slow = in_folder("slow.sqlite"),
		   *header = in_folder("a.h"), *other = in_folder("b.h");
	(void)state;
	make_database(slow, NULL, 1.5);
	assert_int_equal(run_command(cmd_diff, words("--gpu h200 %s %s --format json", db, db)),
			 EXIT_DONE);
	json_t *o = json_loads(printed, 0, NULL);
	assert_int_equal(json_array_size(o), 0);
	json_decref(o);
	assert_int_equal(run_command(cmd_diff, words("--gpu h200 %s %s --format json", db, slow)),
			 EXIT_DONE);
	o = json_loads(printed, 0, NULL);
	assert_true(json_array_size(o) > 0);
	assert_true(close_to(json_number_value(member(json_array_get(o, 0), "ratio")), 1.5));
	json_decref(o);
	assert_int_equal(run_command(cmd_induce, words("--gpu h200 --db %s --out %s", db, header)),
			 EXIT_DONE);
	/* one that leaves what the first choice was for to the defaults */
	assert_int_equal(system(words("sed 's/return 0;/return -1;/' %s >%s", header, other)), 0);
	assert_int_equal(run_command(cmd_diff, words("%s %s", header, header)), EXIT_DONE);
	assert_non_null(strstr(printed, " 0 of "));
	assert_int_equal(run_command(cmd_diff, words("%s %s", header, other)), EXIT_DONE);
	assert_null(strstr(printed, " 0 of "));
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char command[100];
	(void)state;
	snprintf(command, sizeof command, "rm -r %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plan_times),
		cmocka_unit_test(test_scores),
		cmocka_unit_test(test_vllm_rule),
		cmocka_unit_test(test_induce_check_eval),
		cmocka_unit_test(test_check_fails_with_the_diff),
		cmocka_unit_test(test_nothing_to_judge_is_a_failure),
		cmocka_unit_test(test_show_one_scenario),
		cmocka_unit_test(test_show_mixed_lists_plans),
		cmocka_unit_test(test_diff),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
