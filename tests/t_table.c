/* t_table.c - tables in their three forms, byte for byte; complaints and progress. */
#include "../harness/harness.h"
#include <math.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
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
			     "qblock      12.35  tab here, \"quoted\" \\\n"
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

// clang-format off
static const struct row {
	const char *name, *text, *want;
} escapes[] = {
	/*                                     cell                 JSON                     */
	{ "json: control characters",          "\x01\r\x7f",        "\\u0001\\u000d\\u007f" },
	{ "json: newline",                     "a\nb",              "a\\nb" },
	{ "json: two, three, four bytes stay", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x8c\xb3",
	                                       "\xc3\xa4\xe2\x82\xac\xf0\x9f\x8c\xb3" },
	{ "json: a lone continuation byte",    "a\x80z",            "a\\ufffdz" },
	{ "json: cut short",                   "\xe2\x82",          "\\ufffd\\ufffd" },
	{ "json: overlong",                    "\xc0\xaf",          "\\ufffd\\ufffd" },
	{ "json: overlong, three bytes",       "\xe0\x80\xaf",      "\\ufffd\\ufffd\\ufffd" },
	{ "json: a surrogate",                 "\xed\xa0\x80",      "\\ufffd\\ufffd\\ufffd" },
	{ "json: above the last code point",   "\xf4\x90\x80\x80",
	  "\\ufffd\\ufffd\\ufffd\\ufffd" },
	{ "json: no such byte",                "\xff",              "\\ufffd" },
};
// clang-format on

static void escapes_json(void **arg)
{
	static const char *const column[] = { "c" };
	const struct row *row = *arg;
	char *text = NULL, want[128];
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	struct table *t = table_new(FORMAT_JSON, column, 1);
	table_text(t, row->text);
	table_end_row(t);
	table_print(t, f);
	fclose(f);
	snprintf(want, sizeof want, "[\n {\"c\": \"%s\"}\n]\n", row->want);
	assert_string_equal(text, want);
	free(text);
}

static void empty_tables(void **arg)
{
	static const char *const want[] = { "name  median_us  note\n", "name\tmedian_us\tnote\n",
					    "[\n]\n" };
	(void)arg;
	for (int format = FORMAT_TABLE; format <= FORMAT_JSON; format++) {
		char *text = NULL;
		size_t size = 0;
		FILE *f = open_memstream(&text, &size);
		table_print(table_new((enum format)format, columns, 3), f);
		fclose(f);
		assert_string_equal(text, want[format]);
		free(text);
	}
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
	assert_false(format_parse("JSON", &format));
	assert_false(format_parse("", &format));
}

/* Runs talk() with stderr going to `to` and gives back all that can be read at `from`:
 * a terminal hands over what was written in as many pieces as it likes. */
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

static void talk_in_a_log(void)
{
	progress("sweep", 1, 4); /* a log gets a line only after 30 s */
	complain("%s:%d: no", "x.json", 3);
	progress("sweep", 2, 4);
	progress_end();
}

static void talks_to_a_log(void **arg)
{
	int ends[2];
	char text[256];
	(void)arg;
	assert_int_equal(pipe(ends), 0);
	overheard(ends[1], ends[0], talk_in_a_log, text, sizeof text);
	assert_string_equal(text, "attune: x.json:3: no\n");
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
	struct CMUnitTest tests[COUNT(escapes) + 8];
	size_t n = 0;
	for (size_t i = 0; i < COUNT(escapes); i++)
		tests[n++] = (struct CMUnitTest){ escapes[i].name, escapes_json, NULL, NULL,
						  (void *)&escapes[i] };
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(aligned);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(tsv);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(json);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(empty_tables);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(parses_formats);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(talks_to_a_log);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(talks_to_a_terminal);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(hears_signals);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("table", tests, n, NULL, NULL);
}
