/* SPDX-License-Identifier: Apache-2.0 */
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
#define WHOLE "it must be a whole number from 0 to 999999999"
#define SECONDS "it must be a number of seconds, 0 or more, below 1e11"
#define MARK "\xef\xbb\xbf"
#define K16(c) c c c c c c c c c c c c c c c c
#define LONG_TEXT K16(K16("word, ")) /* 1536 bytes */

/* B14, B15, F5, F13, F14: rows of the public lists of faults, see tests/FAULTS.md. */
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
	{ "csv: a word", HEAD "0,1,2\n0,many,2\n", "3:3: prompt_tokens is \"many\"; " WHOLE },
	{ "csv: cut short", HEAD "0,1\n", "2:1: 2 fields; there must be 3, as in the first line" },
	{ "csv: a decimal comma", HEAD "0,5,10,2\n",
	  "2:1: 4 fields; there must be 3, as in the first line" },
	{ "csv: an empty field", HEAD "0,,2\n", "2:3: prompt_tokens is \"\"; " WHOLE },
	{ "csv: negative", HEAD "0,1,-2\n", "2:5: output_tokens is \"-2\"; " WHOLE },
	{ "csv: not a number", HEAD "nan,1,2\n", "2:1: arrival_s is \"nan\"; " SECONDS },
	{ "csv: a date", HEAD "2026-11-25 10:00:00,1,2\n",
	  "2:1: arrival_s is \"2026-11-25 10:00:00\"; " SECONDS },
	{ "csv: F13, Unix times in milliseconds", HEAD "1764064800123,1,2\n",
	  "2:1: arrival_s is \"1764064800123\"; " SECONDS },
	{ "csv: back in time", HEAD "2,1,2\n1,1,2\n",
	  "3:1: arrival_s goes back; rows must be in order of arrival" },
	{ "csv: F14, a part of a token", HEAD "0,100.7,2\n", "2:3: prompt_tokens is \"100.7\"; " WHOLE },
	{ "csv: F14, hexadecimal", HEAD "0,0x20,2\n", "2:3: prompt_tokens is \"0x20\"; " WHOLE },
	{ "csv: F14, more than an int", HEAD "0,1,99999999999\n", "2:5: output_tokens is \"99999999999\"; " WHOLE },
	{ "csv: F14, a column twice", "arrival_s,prompt_tokens,output_tokens,prompt_tokens\n0,1,2,3\n",
	  "1:39: a second column \"prompt_tokens\"; there must be one" },
	{ "csv: B15, CR alone", "arrival_s,prompt_tokens,output_tokens\r0,1,2\r",
	  "1:1: lines end in CR alone; they must end in LF or CR LF" },
	{ "csv: B15, UTF-16", "\xff\xfe" "a\0r",
	  "1:1: no text, or text in UTF-16; it must be in UTF-8" },
	{ "csv: B15, an escape character", "\033[2J,prompt_tokens,output_tokens\n1,1,1\n",
	  "1:1: no column \"arrival_s\"; the first line must name arrival_s, prompt_tokens and "
	  "output_tokens" },
	{ "csv: B15, an escape character in a field", HEAD "0,\033[2J,2\n",
	  "2:3: prompt_tokens is \"\\x1b[2J\"; " WHOLE },
	{ "csv: a quote that stays open", HEAD "0,\"1,2\n0,1,2\n",
	  "2:1: a quote opens in this line and is not closed" },
	{ "csv: text behind a quote", HEAD "0,\"1\"2,2\n",
	  "2:1: text follows a field in quotes; a separator must" },
};

/* Each has the requests 0 s, 10 and 3 tokens; 1.5 s, 20 and 1. */
static const struct { const char *name, *text; } good_files[] = {
	{ "csv: plain", HEAD "0,10,3\n1.5,20,1\n" },
	{ "csv: F13, B14, a byte order mark", MARK HEAD "0,10,3\n1.5,20,1\n" },
	{ "csv: F13, B14, blanks", "arrival_s, prompt_tokens ,\toutput_tokens\n 0 , 10,3 \n1.5,\t20,1\n" },
	{ "csv: F13, B14, blank lines", "\n" HEAD "\n0,10,3\n  \n1.5,20,1\n\n\r\n" },
	{ "csv: CR LF, no last line end", "arrival_s,prompt_tokens,output_tokens\r\n0,10,3\r\n1.5,20,1" },
	{ "csv: F13, B14, Unix times", HEAD "1764064800.25,10,3\n1764064801.75,20,1\n" },
	{ "csv: F13, B14, quotes", "\"arrival_s\",\"prompt_tokens\",\"output_tokens\"\n\"0\",\"10\",\"3\"\n\"1.5\" ,\"20\",1\n" },
	{ "csv: F13, text with commas and quotes", "arrival_s,text,prompt_tokens,output_tokens\n"
	  "0,\"one, \"\"two\"\"\",10,3\n1.5,\"\",20,1\n" },
	{ "csv: text with line ends", "arrival_s,text,prompt_tokens,output_tokens\n"
	  "0,\"one\n\ntwo,\r\n\",10,3\n1.5,x,20,1\n" },
	{ "csv: F13, tabs", "arrival_s\tprompt_tokens\toutput_tokens\n0\t10\t3\n1.5\t20\t1\n" },
	{ "csv: F13, semicolons", "arrival_s;prompt_tokens;output_tokens;a,b\n0;10;3;\n1.5;20;1;x\n" },
	{ "csv: F5, B14, a text of 1.5 kB", "arrival_s,text,prompt_tokens,output_tokens\n"
	  "0,\"" LONG_TEXT "\",10,3\n1.5,x,20,1\n" },
	{ "csv: F5, B14, a heading of 1.5 kB", "\"" LONG_TEXT "\",arrival_s,prompt_tokens,output_tokens\n"
	  "x,0,10,3\nx,1.5,20,1\n" },
	{ "csv: whole numbers as reals", HEAD "0.0,10.0,3e0\n1.5,20.0,1\n" },
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

static void takes_file(void **arg)
{
	struct trace t;
	write_file(*arg);
	assert_true(trace_load(&t, path, 100, 64));
	assert_int_equal(t.n, 2);
	assert_true(t.v[0].arrival_ms == 0 && t.v[0].prompt == 10 && t.v[0].output == 3);
	assert_true(t.v[1].arrival_ms == 1500 && t.v[1].prompt == 20 && t.v[1].output == 1);
	trace_free(&t);
}

static void refuses_a_folder(void **arg)
{
	struct trace t;
	(void)arg;
	listen_begin();
	assert_false(trace_load(&t, "/", 100, 64));
	assert_string_equal(heard(), "attune: /: Is a directory\n");
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
	assert_true(t.v[0].arrival_ms == 0 && t.v[0].prompt == 10 && t.v[0].output == 3);
	assert_true(t.v[1].arrival_ms == 750 && t.v[1].prompt == 20 && t.v[1].output == 1);
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
	assert_true(traffic_print(&job, 1, NULL, FORMAT_TSV, f));
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
	static struct CMUnitTest tests[COUNT(bad_files) + COUNT(good_files) + 5];
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
	for (size_t i = 0; i < COUNT(good_files); i++)
		tests[n++] = (struct CMUnitTest){ good_files[i].name, takes_file, NULL, NULL,
						  (void *)(uintptr_t)good_files[i].text };
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(refuses_a_folder);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(reads_file);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(makes_a_set);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(holds_out_the_end);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(tells_traffic);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("traces", tests, n, NULL, finish);
}
