/* SPDX-License-Identifier: Apache-2.0 */
/* t_texts.c - hostile texts in every TEXT column of a database: what is not of the column's kind is refused
 * in one line that names it, and what is printed, drawn or generated from the rest is only text. */
#include "texts.h"
#include "harness/base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

// clang-format off
/* No column takes these. basis.rules may have line feeds, so the last has another control character, too. */
static const char *const never[] = {
	"x\x1b]0;pwned\x07\xff",
	"\xc2\x9b" "31mpwned",
	"pwned \u202e",
	"x\n!touch pwned\n\x7f",
};
// clang-format on
/* Columns with a narrower rule refuse these. The others take them, and they come out as text alone. */
static const char *const some[] = {
	"*/ int pwned; /*",
	"\" int pwned; \"'; !touch pwned",
	"`touch pwned` $(touch pwned) @pwned",
	"pwned \?\?/ \\",
	"pwned",
};

static void test_never(void **state)
{
	char why[TEXTS_WHY];
	(void)state;
	for (int c = 0; c < texts_columns(); c++)
		for (size_t i = 0; i < sizeof never / sizeof *never; i++)
			if (texts_try(c, never[i], strlen(never[i]), why) != TEXTS_REFUSED)
				fail_msg("%s takes case %zu: %s", texts_column(c), i, why);
}

static void test_some(void **state)
{
	char why[TEXTS_WHY];
	int taken = 0;
	(void)state;
	for (int c = 0; c < texts_columns(); c++)
		for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
			const enum texts_found found = texts_try(c, some[i], strlen(some[i]), why);
			if (found == TEXTS_FAULT)
				fail_msg("%s, case %zu: %s", texts_column(c), i, why);
			taken += found == TEXTS_TAKEN;
		}
	printf("# %d columns, %d cases were taken, %d headers, %d programs of pictures\n",
	       texts_columns(), taken, texts_headers, texts_programs);
	assert_true(taken > 20 && texts_headers > taken / 2 && texts_programs > taken / 8);
}

static int begin(void **state)
{
	(void)state;
	return texts_begin() ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	texts_end();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_never),
					    cmocka_unit_test(test_some) };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("texts of databases", tests, begin, end);
}
