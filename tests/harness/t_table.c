/* SPDX-License-Identifier: Apache-2.0 */
/* t_table.c - tables in their five formats, byte for byte; complaints and progress lines. */
#include "harness/base/base.h"
#include "harness/base/json_out.h"
#include "kernels/spec/choice.h"
#include <stdio.h>
#include <math.h>
#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static const char *const columns[] = { "name", "median_us", "note" };

/* Three rows with everything that a form has to think about. */
static char *printed(enum format format)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	struct table *t = table_new(format, columns, 3);
	table_text(t, "qblock");
	table_number(t, 12.345, 2);
	table_text(t, "tab\there, \"quoted\" \\");
	table_end_row(t);
	table_text(t, "gr\xc3\xb6\xc3\x9f");
	table_number(t, NAN, 2);
	table_text(t, NULL);
	table_end_row(t);
	table_text(t, "short");
	table_number(t, -1234567, 0);
	table_end_row(t);
	table_print(t, f);
	assert_int_equal(fclose(f), 0);
	return text;
}

static void prints(enum format format, const char *want)
{
	char *text = printed(format);
	assert_string_equal(text, want);
	free(text);
}

static void aligned(void **arg)
{
	(void)arg;
	prints(FORMAT_TABLE, "name    median_us  note\n"
			     "qblock      12.35  tab\\there, \"quoted\" \\\n"
			     "gr\xc3\xb6\xc3\x9f               \n"
			     "short    -1234567  \n");
}

static void tsv(void **arg)
{
	(void)arg;
	prints(FORMAT_TSV, "name\tmedian_us\tnote\n"
			   "qblock\t12.35\ttab\\there, \"quoted\" \\\\\n"
			   "gr\xc3\xb6\xc3\x9f\t\t\n"
			   "short\t-1234567\t\n");
}

static void json(void **arg)
{
	(void)arg;
	prints(FORMAT_JSON,
	       "[\n"
	       " {\"name\": \"qblock\", \"median_us\": 12.35, \"note\": \"tab\\there, "
	       "\\\"quoted\\\" \\\\\"},\n"
	       " {\"name\": \"gr\xc3\xb6\xc3\x9f\", \"median_us\": null, \"note\": null},\n"
	       " {\"name\": \"short\", \"median_us\": -1234567, \"note\": null}\n"
	       "]\n");
}

static void csv(void **arg)
{
	(void)arg;
	prints(FORMAT_CSV, "name,median_us,note\n"
			   "qblock,12.35,\"tab\there, \"\"quoted\"\" \\\"\n"
			   "gr\xc3\xb6\xc3\x9f,,\n"
			   "short,-1234567,\n");
}

static void markdown(void **arg)
{
	(void)arg;
	prints(FORMAT_MARKDOWN, "| name   | median_us | note                    |\n"
				"| ------ | --------: | ----------------------- |\n"
				"| qblock |     12.35 | tab\\\\there, \"quoted\" \\\\ |\n"
				"| gr\xc3\xb6\xc3\x9f   |           |                         |\n"
				"| short  |  -1234567 |                         |\n");
}

// clang-format off
static const struct row {
	const char *name;
	enum format format;
	const char *text, *want;
} escapes[] = {
	/* cell                 its text in this format */
	{ "json: control characters",          FORMAT_JSON,     "\x01\r\x1b",  "\\u0001\\r\\u001B" },
	{ "json: newline",                     FORMAT_JSON,     "a\nb",        "a\\nb" },
	{ "json: two, three, four bytes stay", FORMAT_JSON,     "\xc3\xa4\xe2\x82\xac\xf0\x9f\x8c\xb3",
	  "\xc3\xa4\xe2\x82\xac\xf0\x9f\x8c\xb3" },
	{ "json: a lone continuation byte",    FORMAT_JSON,     "a\x80z",      "a\xef\xbf\xbdz" },
	{ "json: cut short",                   FORMAT_JSON,     "\xe2\x82",    "\xef\xbf\xbd\xef\xbf\xbd" },
	{ "json: overlong",                    FORMAT_JSON,     "\xc0\xaf",    "\xef\xbf\xbd\xef\xbf\xbd" },
	{ "json: a surrogate",                 FORMAT_JSON,     "\xed\xa0\x80",
	  "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
	{ "json: above the last code point",   FORMAT_JSON,     "\xf4\x90\x80\x80",
	  "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
	{ "json: no such byte, others stay",   FORMAT_JSON,     "\xff\xc3\xa4", "\xef\xbf\xbd\xc3\xa4" },
	{ "table: control characters",         FORMAT_TABLE,    "\x1b[31m\r\n\x7f", "\\x1b[31m\\r\\n\\x7f" },
	{ "table: those above ASCII",          FORMAT_TABLE,    "\xc2\x9b" "31m", "\\u009b31m" },
	{ "table: UTF-8 stays",                FORMAT_TABLE,    "\xc2\xa0\xc3\xa4", "\xc2\xa0\xc3\xa4" },
	{ "table: marks of direction",         FORMAT_TABLE,    "a\u202eb\u061c\u2069\u202f", "a\\u202eb\\u061c\\u2069\u202f" },
	{ "table: not UTF-8",                  FORMAT_TABLE,    "\x9b" "31m",  "\xef\xbf\xbd" "31m" },
	{ "tsv: what would break a row",       FORMAT_TSV,      "a\tb\nc\rd\\", "a\\tb\\nc\\rd\\\\" },
	{ "csv: nothing to quote",             FORMAT_CSV,      "a b;c",       "a b;c" },
	{ "csv: a comma",                      FORMAT_CSV,      "a,b",         "\"a,b\"" },
	{ "csv: quotes",                       FORMAT_CSV,      "\"a\"",       "\"\"\"a\"\"\"" },
	{ "csv: line ends",                    FORMAT_CSV,      "a\nb",        "\"a\nb\"" },
	{ "csv: control characters",           FORMAT_CSV,      "\x1b[31m\r\xc2\x9b", "\\x1b[31m\\r\\u009b" },
	{ "tsv: control characters",           FORMAT_TSV,      "\x1b[31m\x7f\xc2\x9b", "\\x1b[31m\\x7f\\u009b" },
	{ "json: those above ASCII",           FORMAT_JSON,     "\x7f\xc2\x9b" "31m\xc2\xa0", "\\u007f\\u009b31m\xc2\xa0" },
	{ "csv: UTF-8 stays",                  FORMAT_CSV,      "\xc3\xa4,",   "\"\xc3\xa4,\"" },
	{ "markdown: a pipe",                  FORMAT_MARKDOWN, "x | y",       "x \\| y" },
	{ "markdown: emphasis, code and tags", FORMAT_MARKDOWN, "*`<b>",       "\\*\\`\\<b>" },
	{ "markdown: control characters",      FORMAT_MARKDOWN, "a\nb\x1b",    "a\\\\nb\\\\x1b" },
};
// clang-format on

static void escapes_text(void **arg)
{
	static const char *const frame[NUM_FORMATS][2] = {
		[FORMAT_TABLE] = { "c\n", "\n" },
		[FORMAT_TSV] = { "c\n", "\n" },
		[FORMAT_CSV] = { "c\n", "\n" },
		[FORMAT_MARKDOWN] = { NULL, " |\n" },
		[FORMAT_JSON] = { "[\n {\"c\": \"", "\"}\n]\n" },
	};
	static const char *const column[] = { "c" };
	const struct row *row = *arg;
	char *text = NULL, want[128], *from;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	struct table *t = table_new(row->format, column, 1);
	table_text(t, row->text);
	table_end_row(t);
	table_print(t, f);
	fclose(f);
	from = text;
	if (row->format == FORMAT_MARKDOWN) /* after the rule, as wide as the cell */
		from = strrchr(text, '-') + strlen("- |\n| ");
	const char *begin = frame[row->format][0];
	snprintf(want, sizeof want, "%s%s%s", begin ? begin : "", row->want, frame[row->format][1]);
	assert_string_equal(from, want);
	free(text);
}

static void empty_tables(void **arg)
{
	static const char *const want[NUM_FORMATS] = {
		[FORMAT_TABLE] = "name  median_us  note\n",
		[FORMAT_TSV] = "name\tmedian_us\tnote\n",
		[FORMAT_CSV] = "name,median_us,note\n",
		[FORMAT_MARKDOWN] = "| name | median_us | note |\n| ---- | --------- | ---- |\n",
		[FORMAT_JSON] = "[]\n",
	};
	(void)arg;
	for (int format = FORMAT_TABLE; format < NUM_FORMATS; format++) {
		char *text = NULL;
		size_t size = 0;
		FILE *f = open_memstream(&text, &size);
		table_print(table_new((enum format)format, columns, 3), f);
		fclose(f);
		assert_string_equal(text, want[format]);
		free(text);
	}
}

/* Numbers, lists and objects in the order of the calls, the outer levels a line each. */
static void documents(void **arg)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	struct json_out *o = out_new();
	(void)arg;
	out_object(o, NULL);
	out_number(o, "us", 12.3456, 3);
	out_number(o, "whole", 2.6, 0);
	out_number(o, "round", 4517, 1);
	out_number(o, "unknown", NAN, 3);
	out_number(o, "endless", INFINITY, 3);
	out_integer(o, "most", INT64_MAX);
	out_text(o, "none", NULL);
	out_list(o, "list");
	out_integer(o, NULL, 1);
	out_object(o, NULL);
	out_text(o, "a", "b");
	out_end(o);
	out_end(o);
	out_list(o, "empty");
	out_end(o);
	out_end(o);
	assert_true(out_print(o, 1, f));
	fclose(f);
	assert_string_equal(text, "{\n"
				  " \"us\": 12.346,\n"
				  " \"whole\": 3,\n"
				  " \"round\": 4517.0,\n"
				  " \"unknown\": null,\n"
				  " \"endless\": null,\n"
				  " \"most\": 9223372036854775807,\n"
				  " \"none\": null,\n"
				  " \"list\": [1, {\"a\": \"b\"}],\n"
				  " \"empty\": []\n"
				  "}\n");
	free(text);
	/* A list that was never ended is no document. */
	f = open_memstream(&text, &size);
	o = out_new();
	out_list(o, NULL);
	assert_false(out_print(o, 0, f));
	fclose(f);
	assert_string_equal(text, "");
	free(text);
}

static void parses_formats(void **arg)
{
	enum format format = FORMAT_TABLE;
	(void)arg;
	assert_true(format_parse("json", &format));
	assert_int_equal(format, FORMAT_JSON);
	assert_true(format_parse("tsv", &format));
	assert_int_equal(format, FORMAT_TSV);
	assert_true(format_parse("table", &format));
	assert_int_equal(format, FORMAT_TABLE);
	assert_true(format_parse("csv", &format));
	assert_int_equal(format, FORMAT_CSV);
	assert_true(format_parse("markdown", &format));
	assert_int_equal(format, FORMAT_MARKDOWN);
	assert_false(format_parse("JSON", &format));
	assert_false(format_parse("", &format));
}

/* Runs talk() with stderr going to `to` and returns all that can be read at `from`; a terminal
 * may split what was written. */
static void overheard(int to, int from, void (*talk)(void), char *text, size_t size)
{
	int kept = dup(STDERR_FILENO);
	size_t length = 0;
	ssize_t n;
	fflush(stderr);
	assert_true(dup2(to, STDERR_FILENO) >= 0);
	talk();
	fflush(stderr);
	assert_true(dup2(kept, STDERR_FILENO) >= 0);
	close(kept);
	close(to);
	while (length < size - 1 && (n = read(from, text + length, size - 1 - length)) > 0)
		length += (size_t)n;
	text[length] = '\0';
	close(from);
}

static int log_end;

static int log_has_text(void)
{
	struct pollfd p = { .fd = log_end, .events = POLLIN };
	return poll(&p, 1, 0) > 0;
}

static void talk_in_a_log(void)
{
	progress("sweep", 1, 4); /* a log gets a line only after 10 s */
	complain("%s:%d: no", "x.json", 3);
	complain("key \"%s\"", "\x1b[2J\n\xff");
	progress("sweep", 2, 4);
	progress_end();
}

static void talks_to_a_log(void **arg)
{
	int ends[2];
	char text[256];
	const int before = complaints();
	(void)arg;
	assert_int_equal(pipe(ends), 0);
	overheard(ends[1], ends[0], talk_in_a_log, text, sizeof text);
	assert_string_equal(text, "attune: x.json:3: no\n"
				  "attune: key \"\\x1b[2J\\n\xef\xbf\xbd\"\n");
	assert_int_equal(complaints() - before, 2);
}

static void busy_otherwise(void)
{
	const struct timespec nap = { .tv_nsec = 20000000 };
	progress_every(0.2);
	progress("sweep", 1, 4);
	for (int waited = 0; !log_has_text() && waited < 3000; waited++)
		nanosleep(&nap, NULL);
}

static void in_turns(void)
{
	const struct timespec nap = { .tv_nsec = 20000000 };
	for (int turn = 0; !log_has_text() && turn < 3000; turn++) {
		progress(turn % 2 ? "compiling" : "racing", 1, 4);
		nanosleep(&nap, NULL);
	}
}

static void without_progress(void)
{
	const struct timespec nap = { .tv_nsec = 20000000 };
	progress_end();
	progress_part("learning");
	for (int waited = 0; !log_has_text() && waited < 3000; waited++)
		nanosleep(&nap, NULL);
	progress_part(NULL);
	progress_every(10);
}

/* A line comes whatever the program does: nothing here, two things in turn, or a part of a tune that
 * knows of no progress. */
static void a_log_is_never_silent(void **arg)
{
	static const struct {
		void (*talk)(void);
		const char *line;
	} rows[] = { { busy_otherwise, "sweep 25%, " },
		     { in_turns, " 25%, " },
		     { without_progress, "learning: " } };
	(void)arg;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char text[4096];
		int ends[2];
		assert_int_equal(pipe(ends), 0);
		log_end = ends[0];
		overheard(ends[1], ends[0], rows[i].talk, text, sizeof text);
		assert_non_null(strstr(text, rows[i].line));
		assert_non_null(strstr(text, " spent, "));
	}
}

static void talk_on_a_terminal(void)
{
	progress("sweep", 1, 4);
	complain("no");
	progress_end();
}

/* The bar is redrawn in place and gone before a complaint. */
static void talks_to_a_terminal(void **arg)
{
	int near, far;
	char text[256], *bar, *gone;
	(void)arg;
	assert_int_equal(openpty(&near, &far, NULL, NULL, NULL), 0);
	overheard(far, near, talk_on_a_terminal, text, sizeof text);
	bar = strstr(text, "\r\033[Ksweep 25%, ");
	assert_non_null(bar);
	gone = strstr(bar + 1, "\r\033[Kattune: no\r\n");
	assert_non_null(gone);
}

static void hears_signals(void **arg)
{
	(void)arg;
	catch_signals();
	assert_false(interrupted);
	raise(SIGTERM);
	assert_true(interrupted);
	signal(SIGINT, SIG_DFL);
}

int main(void)
{
	struct CMUnitTest tests[COUNT(escapes) + 12];
	size_t n = 0;
	for (size_t i = 0; i < COUNT(escapes); i++)
		tests[n++] = (struct CMUnitTest){ escapes[i].name, escapes_text, NULL, NULL,
						  (void *)&escapes[i] };
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(aligned);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(tsv);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(csv);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(markdown);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(documents);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(json);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(empty_tables);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(parses_formats);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(talks_to_a_log);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(talks_to_a_terminal);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_log_is_never_silent);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(hears_signals);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("table", tests, n, NULL, NULL);
}
