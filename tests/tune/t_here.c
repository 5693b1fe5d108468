/* SPDX-License-Identifier: Apache-2.0 */
/* t_here.c - which rules a tune puts in force, and which an undo restores
 * (tuner/tune/tune_here.c). */
#include "tuner/base/base.h"
#include "tuner/tune/tune.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "tests/support/folder.h"

/* in force, before; NULL: no such file */
static void is_there(const struct here *h, const char *header, const char *before)
{
	const char *const wanted[] = { header, before }, *const path[] = { h->header, h->before };
	for (int i = 0; i < 2; i++) {
		char *text = access(path[i], F_OK) ? NULL : file_text(path[i]);
		assert_int_equal(!text, !wanted[i]);
		if (text)
			assert_string_equal(text, wanted[i]);
		free(text);
	}
}

static struct here of_folder(const char *name)
{
	struct here h = { .gpu = "cpu" };
	snprintf(h.header, sizeof h.header, "%s", in_folder(name));
	snprintf(h.before, sizeof h.before, "%.1000s.before", h.header);
	return h;
}

/* A tune installs several times: as it learns more, and since the header has the hash of the
 * database. */
static void before_is_of_before_the_tune(void **state)
{
	struct here h = of_folder("one.h");
	(void)state;
	assert_true(file_put(h.header, "old\n"));
	assert_true(here_install(&h, "new 1\n") && here_install(&h, "new 2\n"));
	is_there(&h, "new 2\n", "old\n");
	assert_true(here_undo(&h));
	is_there(&h, "old\n", "new 2\n");
}

static void without_rules_before(void **state)
{
	struct here h = of_folder("two.h");
	(void)state;
	assert_true(file_put(h.before, "of an undo\n"));
	assert_true(here_install(&h, "new 1\n") && here_install(&h, "new 2\n"));
	is_there(&h, "new 2\n", NULL);
	assert_true(here_undo(&h));
	is_there(&h, NULL, "new 2\n");
}

static void the_same_again(void **state)
{
	struct here h = of_folder("three.h");
	(void)state;
	assert_true(file_put(h.header, "now\n") && file_put(h.before, "old\n"));
	assert_true(here_install(&h, "now\n"));
	is_there(&h, "now\n", "old\n");
	assert_true(here_install(&h, "new\n"));
	is_there(&h, "new\n", "now\n");
}

static int make(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(before_is_of_before_the_tune),
		cmocka_unit_test(without_rules_before),
		cmocka_unit_test(the_same_again),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make, remove_folder);
}
