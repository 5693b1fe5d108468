/* t_parse.c - generated headers whose prices were tampered with are refused by line. */
#include "synthetic.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "heard.h"
#include "small_forest.h"

// clang-format off
static const struct {
	const char *name, *from, *to, *wanted;
} wrong_prices[] = {
	{ "another decision",  "PRICE(decode,", "PRICE(all,",   "prefill or decode" },
	{ "no decision",       "PRICE(decode,", "PRICE(,",      "a name" },
	{ "an unlisted id",    "h200_qblock_32x64, 128,", "2, 128,", "an id that CHOICES has" },
	{ "a negative id",     "h200_qblock_32x64, 128,", "-1, 128,", "an id that CHOICES has" },
	{ "no head size",      "_32x64, 128,", "_32x64, 0,",  "another number" },
	{ "no rows",           "128, 32,", "128, 0,",  "another number" },
	{ "no slots",          " 8, 2,", " 8, 0,",              "another number" },
	{ "negative heads",    " 8, 2,", " -8, 2,",             "another number" },
	{ "too many slots",    " 8, 2,", " 8, 1025,",           "another number" },
	{ "a negative price",  " 96, 0, 7", " 96, 0, -7",     "another number" },
	{ "a huge price",      " 96, 0, 7", " 96, 99999999999999, 7", "another number" },
	{ "no number",         " 96, 0, 7", " 96, none, 7",   "a number" },
	{ "too few numbers",   " 96, 0, 7", " 96, 7",         "','" },
	{ "too many numbers",  " 96, 0, 7", " 96, 0, 0, 7",   "')'" },
	{ "another row",       "\tPRICE(", "\tPRCE(",           "'#define'" },
};
// clang-format on

static void test_wrong_prices(void **state)
{
	struct data *d = small_data();
	struct forest f, parsed;
	(void)state;
	small_forest(&f, d);
	char *text = forest_emit(&f, d), *wrong = malloc(strlen(text) + 100), where[20];
	assert_true(forest_parse(&parsed, text, "text"));
	assert_int_equal(parsed.num_prices, 1);
	same_price(parsed.price, f.price);
	forest_free(&parsed);
	for (size_t i = 0; i < COUNT(wrong_prices); i++) {
		const char *at = strstr(text, wrong_prices[i].from);
		int line = 1;
		assert_non_null(at);
		sprintf(wrong, "%.*s%s%s", (int)(at - text), text, wrong_prices[i].to,
			at + strlen(wrong_prices[i].from));
		for (const char *c = text; c < strstr(text, "PRICE(decode"); c++)
			line += *c == '\n';
		snprintf(where, sizeof where, "text:%d: ", line);
		listen_begin();
		const int read = forest_parse(&parsed, wrong, "text");
		const char *said = heard();
		if (read || !strstr(said, where) || !strstr(said, wrong_prices[i].wanted))
			fail_msg("%s: %s", wrong_prices[i].name, said);
	}
	free(wrong);
	free(text);
	forest_free(&f);
	data_free(d);
}

/* Headers of older tools had one decision more, which all committed ones had at two launches. */
static void test_old_joins(void **state)
{
	static const struct {
		const char *says;
		int is_read;
	} rows[] = { { "\t(void)f;\n\treturn 1;", 1 }, { "\t(void)f;\n\treturn 0;", 0 } };
	static const char overlap[] = "ATTUNE_SELECT int attune_h200_overlap(";
	struct data *d = small_data();
	struct forest f, back;
	(void)state;
	small_forest(&f, d);
	char *text = forest_emit(&f, d), *old = malloc(strlen(text) + 300);
	const char *at = strstr(text, overlap);
	assert_non_null(at);
	for (size_t i = 0; i < COUNT(rows); i++) {
		sprintf(old,
			"%.*sATTUNE_SELECT int attune_h200_join(const struct attune_features "
			"*f)\n{\n%s\n}\n\n%s",
			(int)(at - text), text, rows[i].says, at);
		listen_begin();
		const int is_read = forest_parse(&back, old, "text");
		const char *said = heard();
		assert_int_equal(is_read, rows[i].is_read);
		if (is_read)
			forest_free(&back);
		else
			assert_non_null(strstr(said, "a header without a join expected"));
	}
	free(old);
	free(text);
	forest_free(&f);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrong_prices),
		cmocka_unit_test(test_old_joins),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("parse", tests, NULL, NULL);
}
