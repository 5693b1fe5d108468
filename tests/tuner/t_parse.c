/* SPDX-License-Identifier: Apache-2.0 */
/* t_parse.c - the tuner's parser of generated headers refuses what it cannot mean, with the line, and
 * headers of older forms. t_override.c has the mistakes that the reader of texts finds. */
#include "tuner/emit/emit.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include "tests/support/synthetic.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "tests/support/heard.h"
#include "small_forest.h"

// clang-format off
static const struct {
	const char *name, *from, *to, *wanted; /* NULL: it is read */
} changed_costs[] = {
	{ "no choice",           "SEGMENTS(h200_segmented_16x64", "SEGMENTS(",  "a name is expected" },
	{ "an unknown name",     "(h200_segmented_16x64", "(h200_segmented_8",  "the name of a choice" },
	{ "the choice's number", "(h200_segmented_16x64", "(0",                 NULL },
	{ "no head size",        " 128, 5,",  " 0, 5,",             "a head size of 1 to 65536" },
	{ "a huge head size",    " 128, 5,",  " 65537, 5,",         "a head size of 1 to 65536" },
	{ "the most of each",    " 5, 96, 7000, 14, 21, 28)",
	  " 1024, 65536, 4294967295, 1099511627775, 1099511627775, 4294967295)", NULL },
	{ "the least of each",   " 128, 5, 96, 7000, 14, 21, 28)", " 1, 1, 0, 0, 0, 0, 0)", NULL },
	{ "another row",         "\tSEGMENTS(", "\tSEGMENT(",       "attune_h200_prefill(" },
};
// clang-format on

/* The text with the first `from` in it replaced; to be freed. */
static char *replaced(const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);
	char *out = malloc(strlen(text) + strlen(to) + 1);
	assert_true(out && at);
	sprintf(out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
	return out;
}

/* Without the blanks that align columns. */
static char *unpadded(char *text)
{
	char *to = text;
	for (const char *from = text; *from; from++)
		if (*from != ' ' || to == text || to[-1] != ' ')
			*to++ = *from;
	*to = '\0';
	return text;
}

static void test_changed_costs(void **state)
{
	struct data *d = small_data();
	struct forest f, parsed;
	int line = 1;
	char where[20];
	(void)state;
	small_forest(&f, d);
	char *text = unpadded(forest_emit(&f, d));
	assert_true(forest_parse(&parsed, text, "text"));
	assert_int_equal(parsed.num_costs, 1);
	same_costs(parsed.costs, f.costs);
	assert_memory_equal(parsed.choice, f.choice, sizeof *f.choice * 2);
	forest_free(&parsed);
	for (const char *c = text; c < strstr(text, "SEGMENTS(h200"); c++)
		line += *c == '\n';
	snprintf(where, sizeof where, "text:%d: ", line);
	for (size_t i = 0; i < COUNT(changed_costs); i++) {
		const char *wanted = changed_costs[i].wanted;
		char *changed = replaced(text, changed_costs[i].from, changed_costs[i].to);
		listen_begin();
		const int read = forest_parse(&parsed, changed, "text");
		const char *said = heard();
		if (read != !wanted || (wanted && (!strstr(said, where) || !strstr(said, wanted))))
			fail_msg("%s: %s", changed_costs[i].name, said);
		if (read)
			forest_free(&parsed);
		free(changed);
	}
	free(text);
	forest_free(&f);
	data_free(d);
}

/* CHOICES counts its ids from 0. */
static void test_choices_are_counted(void **state)
{
	static const char *const ids[] = { "CHOICE( 0,", "CHOICE( 2,", "CHOICE( 99,",
					   "CHOICE( -1," };
	struct data *d = small_data();
	struct forest f, parsed;
	(void)state;
	small_forest(&f, d);
	char *text = forest_emit(&f, d);
	for (size_t i = 0; i < COUNT(ids); i++) {
		char *changed = replaced(text, "CHOICE( 1,", ids[i]);
		listen_begin();
		const int read = forest_parse(&parsed, changed, "text");
		const char *said = heard();
		if (read || !strstr(said, "the next id"))
			fail_msg("%s: %s", ids[i], said);
		free(changed);
	}
	free(text);
	forest_free(&f);
	data_free(d);
}

/* A leaf without a scenario has a remark in place of figures. */
static void test_leaf_without_scenarios(void **state)
{
	struct data *d = small_data();
	struct forest f, parsed;
	struct attune_features x = { .num_seqs = 9, .max_seq = 5000, .kv_tokens = 70000 };
	(void)state;
	small_forest(&f, d);
	char *text = forest_emit(&f, d);
	assert_true(forest_parse(&parsed, text, "text"));
	const struct tree *t = &parsed.tree[DECIDE_DECODE];
	assert_int_equal(t->v[tree_leaf(t, &x)].action, 1);
	assert_int_equal(t->v[tree_leaf(t, &x)].support, 0);
	x.kv_tokens = 65536;
	assert_int_equal(t->v[tree_leaf(t, &x)].action, 0);
	assert_int_equal(t->v[tree_leaf(t, &x)].support, 2);
	char *again = forest_emit(&parsed, d);
	assert_non_null(strstr(again, "return h200_qblock_32x64; /* no scenario: by estimate */"));
	free(again);
	free(text);
	forest_free(&parsed);
	forest_free(&f);
	data_free(d);
}

/* Removes what stands from the first `from` up to the next `to`. */
static void cut(char *text, const char *from, const char *to)
{
	char *at = strstr(text, from), *end = at ? strstr(at, to) : NULL;
	assert_true(at && end);
	memmove(at, end, strlen(end) + 1);
}

/* A row and what it settled come back; a header of before has none, and each choice is alone. */
static void test_rows(void **state)
{
	struct data *d = small_data();
	struct forest f, parsed;
	(void)state;
	small_forest(&f, d);
	f.by_estimate[0] = 1 << 1;
	char *text = forest_emit(&f, d);
	assert_non_null(
	    strstr(text, "qblock_32x64, none, none) /* by estimate: qblock_32x64 */\n"));
	assert_true(forest_parse(&parsed, text, "text"));
	assert_memory_equal(parsed.list, f.list, sizeof f.list);
	assert_memory_equal(parsed.by_estimate, f.by_estimate, sizeof f.by_estimate);
	const struct tree *t = &parsed.tree[DECIDE_DECODE];
	assert_int_equal(t->v[t->v[0].below].row_cost, 0);
	assert_int_equal(t->v[t->v[0].above].row_cost, -1);
	forest_free(&parsed);
	cut(text, "#include \"attune_list.h\"", "#define");
	cut(text, ", h200_none = -1", "\n};");
	cut(text, "/* Of a row", "/*       choice, head size");
	assert_null(strstr(text, "LIST("));
	assert_true(forest_parse(&parsed, text, "text"));
	for (int id = 0; id < parsed.num_choices; id++)
		assert_int_equal(parsed.list[id].n, 0);
	free(text);
	forest_free(&parsed);
	forest_free(&f);
	data_free(d);
}

/* Headers of older tools had prices in place of costs, leaves that meant the cheapest by these,
 * and mixed batches in one launch by the prefill choice. The parser refuses all of them. */
static void test_older_forms(void **state)
{
	static const struct {
		const char *from, *to, *wanted;
	} rows[] = {
		{ "_SHAPES(SHAPES)", "_BINARIES(BINARY)", "have the form of an older attune" },
		{ "return h200_qblock_32x64;", "return h200_cheapest;", "a name of CHOICES" },
		{ "return h200_qblock_32x64;", "return -2;", "a name of CHOICES" },
		{ "return h200_serial;", "return h200_whole;", "a name of CHOICES" },
		{ "return h200_serial;", "return -11;", "a name of CHOICES" },
	};
	struct data *d = small_data();
	struct forest f, parsed;
	(void)state;
	small_forest(&f, d);
	char *text = forest_emit(&f, d);
	for (size_t i = 0; i < COUNT(rows); i++) {
		char *old = replaced(text, rows[i].from, rows[i].to);
		listen_begin();
		const int read = forest_parse(&parsed, old, "text");
		const char *said = heard();
		const char *end = strchr(said, '\n');
		if (read || !strstr(said, rows[i].wanted) || (end && end[1]))
			fail_msg("%s: %s", rows[i].to, said);
		free(old);
	}
	free(text);
	forest_free(&f);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changed_costs),
		cmocka_unit_test(test_choices_are_counted),
		cmocka_unit_test(test_leaf_without_scenarios),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_older_forms),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("parse", tests, NULL, NULL);
}
