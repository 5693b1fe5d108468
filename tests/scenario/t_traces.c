/* t_traces.c - trace files, the sets made from them, and their statistics. */
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "tests/support/traces.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/heard.h"

static char path[] = "/tmp/t_traces_XXXXXX/small.trace.csv",
	    set_path[] = "/tmp/t_traces_XXXXXX/s.json";

static void write_file(const char *text)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

struct file_case {
	const char *name, *text, *error;
};

// clang-format off
#define HEAD "arrival_s,prompt_tokens,output_tokens\n"
static const struct file_case bad_files[] = {
	{ "csv: empty", "",
	  "1:1: no column \"arrival_s\"; the first line must name arrival_s, prompt_tokens and "
	  "output_tokens" },
	{ "csv: a column is missing", "arrival_s,output_tokens\n1,2\n",
	  "1:1: no column \"prompt_tokens\"; the first line must name arrival_s, prompt_tokens "
	  "and output_tokens" },
	{ "csv: no rows", HEAD, " no request to replay; it must have rows of at most 64 tokens" },
	{ "csv: all too long", HEAD "0,60,5\n0,0,3\n",
	  " no request to replay; it must have rows of at most 64 tokens" },
	{ "csv: a word", HEAD "0,1,2\n0,many,2\n",
	  "3:3: prompt_tokens is no number; it must be 0 or more, below 1e9" },
	{ "csv: cut short", HEAD "0,1\n",
	  "2:4: output_tokens is no number; it must be 0 or more, below 1e9" },
	{ "csv: negative", HEAD "0,1,-2\n",
	  "2:5: output_tokens is no number; it must be 0 or more, below 1e9" },
	{ "csv: not a number", HEAD "nan,1,2\n",
	  "2:1: arrival_s is no number; it must be 0 or more, below 1e9" },
	{ "csv: back in time", HEAD "2,1,2\n1,1,2\n",
	  "3:1: arrival_s goes back; rows must be in order of arrival" },
};
// clang-format on

static void refuses_file(void **arg)
{
	const struct file_case *c = *arg;
	char want[512];
	struct trace t;
	int ok;
	write_file(c->text);
	snprintf(want, sizeof want, "attune: %s:%s\n", path, c->error);
	listen_begin();
	ok = trace_load(&t, path, 100, 64);
	assert_string_equal(heard(), want);
	assert_false(ok);
	assert_null(t.v);
}

static void reads_file(void **arg)
{
	struct trace t;
	(void)arg;
	write_file("prompt_tokens,cached,arrival_s,output_tokens\r\n10,9,0.5,3\r\n"
		   "60,0,1,5\r\n20,0,1.25,1");
	assert_true(trace_load(&t, path, 100, 64));
	assert_int_equal(t.n, 2);
	assert_int_equal(t.dropped, 1);
	assert_true(t.v[0].arrival_ms == 500 && t.v[0].prompt == 10 && t.v[0].output == 3);
	assert_true(t.v[1].arrival_ms == 1250 && t.v[1].prompt == 20 && t.v[1].output == 1);
	trace_free(&t);
	assert_true(trace_load(&t, path, 1, 64)); /* only the first */
	assert_int_equal(t.n, 1);
	trace_free(&t);
}

/* The output is a set that the loader accepts, with mean weight 1. */
static void makes_a_set(void **arg)
{
	struct models *models = models_load("scenarios/models.json");
	struct job jobs[2] = { { .path = path,
				 .split = "train",
				 .models = "llama3.1-8b@1",
				 .load = 0.9,
				 .max_gflop = INFINITY,
				 .engine = { ENGINE(256, 16, 1 << 14) },
				 .pick = 6,
				 .requests = 200,
				 .max_request = 2048,
				 .seed = 1 } };
	struct scenario_list list = { 0 };
	double weight = 0;
	FILE *f = fopen(path, "w");
	(void)arg;
	assert_non_null(models);
	assert_non_null(f);
	state = 5;
	fprintf(f, "arrival_s,prompt_tokens,output_tokens\n");
	for (int i = 0; i < 200; i++)
		fprintf(f, "%d,%d,%d\n", i, between(1, 1000), between(1, 60));
	assert_int_equal(fclose(f), 0);
	f = fopen(set_path, "w");
	jobs[1] = jobs[0];
	jobs[1].split = "heldout";
	jobs[1].load = 0.2;
	listen_begin(); /* how many requests, steps ... */
	assert_true(set_make(&(struct recipe){ .jobs = jobs, .num_jobs = 2 }, models, f));
	heard();
	assert_int_equal(fclose(f), 0);
	assert_true(scenarios_load(&list, set_path, models));
	assert_in_range(list.n, 7, 12);
	for (int i = 0; i < 6; i++) {
		weight += list.v[i].weight;
		assert_string_equal(list.v[i].split, "train");
	}
	assert_true(fabs(weight - 6) < 0.01);
	assert_string_equal(list.v[list.n - 1].split, "heldout");
	assert_string_equal(list.v[0].model, "llama3.1-8b@1");
	scenarios_free(&list);
	models_free(models);
}

/* The last part of the engine's time is held out, and picked from by itself. */
static void holds_out_the_end(void **arg)
{
	struct models *models = models_load("scenarios/models.json");
	struct job job = { .path = path,
			   .split = "train",
			   .models = "llama3.1-8b@1,llama3.1-70b@4",
			   .load = 0.9,
			   .hold_out = 0.4,
			   .max_gflop = INFINITY,
			   .engine = { ENGINE(256, 16, 1 << 14) },
			   .pick = 10,
			   .corners = 1,
			   .requests = 300,
			   .max_request = 2048,
			   .seed = 1 };
	struct scenario_list list = { 0 };
	int last = 0, first = 1 << 30, held = 0;
	FILE *f = fopen(path, "w");
	char *text;
	(void)arg;
	assert_non_null(models);
	assert_non_null(f);
	state = 9;
	fprintf(f, "arrival_s,prompt_tokens,output_tokens\n");
	for (int i = 0; i < 300; i++)
		fprintf(f, "%d,%d,%d\n", i, between(1, 1000), between(1, 60));
	assert_int_equal(fclose(f), 0);
	f = fopen(set_path, "w");
	listen_begin();
	assert_true(set_make(&(struct recipe){ .jobs = &job, .num_jobs = 1 }, models, f));
	heard();
	assert_int_equal(fclose(f), 0);
	assert_true(scenarios_load(&list, set_path, models));
	for (int i = 0; i < list.n; i++) {
		held += !strcmp(list.v[i].split, "heldout_traces");
		assert_string_equal(list.v[i].model, i % 2 ? "llama3.1-70b@4" : "llama3.1-8b@1");
		assert_true(list.v[i].steps >= 1);
	}
	assert_in_range(held, 4, 7); /* of ten picks four, and up to three corners */
	assert_in_range(list.n - held, 6, 9);
	text = source_text(set_path);
	assert_non_null(text);
	for (const char *at = text; (at = strstr(at, "\"split\": \"")); at++) {
		int step = atoi(strstr(at, ", step ") + 7);
		if (!strncmp(at + 10, "train", 5))
			last = step > last ? step : last;
		else
			first = step < first ? step : first;
	}
	assert_true(last > 0 && last < first);
	free(text);
	scenarios_free(&list);
	models_free(models);
}

/* Two requests, of which one enters while the other decodes. */
static void tells_traffic(void **arg)
{
	struct job job = { .path = path,
			   .load = 1,
			   .engine = { ENGINE(100, 8, 1 << 20) },
			   .requests = 40,
			   .max_request = 2048 };
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	(void)arg;
	write_file("arrival_s,prompt_tokens,output_tokens\n"
		   "0,10,2\n0,10,2\n0,10,2\n0,10,2\n0,10,2\n0,10,2\n0,10,2\n0,10,2\n0,10,2\n"
		   "0,10,2\n0,10,2\n0,10,2\n0,10,2\n0,10,2\n0,10,2\n0,10,2\n");
	listen_begin();
	assert_true(traffic_print(&job, 1, FORMAT_TSV, f));
	heard();
	assert_int_equal(fclose(f), 0);
	/* all at once, eight at a time: prefill, decode, prefill; then it runs dry */
	assert_string_equal(strchr(text, '\n') + 1,
			    "small\t1.00\t100\t8\t3\t0.333\t0.271\t8\t11\t10\t0.00\t8\t80\n");
	free(text);
}

static int finish(void **arg)
{
	(void)arg;
	remove(path);
	remove(set_path);
	*strrchr(path, '/') = '\0';
	return rmdir(path);
}

int main(void)
{
	static struct CMUnitTest tests[COUNT(bad_files) + 4];
	size_t n = 0, folder;
	char *slash = strrchr(path, '/');
	*slash = '\0';
	if (!mkdtemp(path))
		return 1;
	folder = strlen(path);
	memcpy(set_path, path, folder);
	*slash = '/';
	for (size_t i = 0; i < COUNT(bad_files); i++)
		tests[n++] = (struct CMUnitTest){ bad_files[i].name, refuses_file, NULL, NULL,
						  (void *)&bad_files[i] };
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(reads_file);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(makes_a_set);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(holds_out_the_end);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(tells_traffic);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("traces", tests, n, NULL, finish);
}
