/* SPDX-License-Identifier: Apache-2.0 */
/* t_files.c - files that the tool writes (tuner/base/files.c): a file is replaced as a whole, a pipe
 * is written to, and what cannot be written is said. */
#include "harness/base/base.h"
#include "tuner/base/base.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "tests/support/folder.h"
#include "tests/support/heard.h"

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static void a_file_is_replaced(void **state)
{
	char path[200], beside[210], text[20] = "";
	(void)state;
	snprintf(path, sizeof path, "%s", in_folder("a.h"));
	snprintf(beside, sizeof beside, "%s.new", path);
	assert_true(file_put_bytes(path, "first, longer", 13));
	assert_true(file_put_bytes(path, "second", 6));
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fread(text, 1, sizeof text, f), 6);
	fclose(f);
	assert_string_equal(text, "second");
	assert_int_equal(access(beside, F_OK), -1);
}

/* In a folder where all may write somebody may have put something else beside it. */
static void nothing_else_is_written_to(void **state)
{
	char path[200], beside[210], other[200], text[20] = "";
	(void)state;
	snprintf(path, sizeof path, "%s", in_folder("b.h"));
	snprintf(beside, sizeof beside, "%s.new", path);
	snprintf(other, sizeof other, "%s", in_folder("other"));
	for (int i = 0; i < 3; i++) {
		FILE *f = fopen(other, "w");
		assert_non_null(f);
		fputs("kept", f);
		fclose(f);
		if (i == 2 && geteuid()) /* only root can make a file of another user */
			break;
		assert_int_equal(i == 0   ? symlink(other, beside)
				 : i == 1 ? link(other, beside)
					  : rename(other, beside) || chown(beside, 65534, 65534),
				 0);
		listen_begin();
		const int done = file_put_bytes(path, "rules", 5);
		assert_non_null(strstr(heard(), path));
		assert_false(done);
		f = fopen(beside, "r");
		assert_non_null(f);
		assert_int_equal(fread(text, 1, sizeof text, f), 4);
		fclose(f);
		assert_int_equal(unlink(beside), 0);
	}
	assert_true(file_put_bytes(path, "rules", 5));
}

static void a_pipe_is_written_to(void **state)
{
	char path[60], text[20] = "";
	int fd[2];
	(void)state;
	assert_int_equal(pipe2(fd, O_NONBLOCK), 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd[1]);
	assert_true(file_put_bytes(path, "rules", 5));
	assert_int_equal(read(fd[0], text, sizeof text), 5);
	assert_string_equal(text, "rules");
	close(fd[0]);
	close(fd[1]);
}

static void what_cannot_be_written_is_said(void **state)
{
	static const char *const paths[] = { "/dev/full", "/nonexistent/a.h", "/proc/a.h" };
	(void)state;
	for (size_t i = 0; i < COUNT(paths); i++) {
		listen_begin();
		const int done = file_put_bytes(paths[i], "rules", 5);
		const char *said = heard();
		assert_false(done);
		assert_non_null(strstr(said, paths[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_replaced),
		cmocka_unit_test(nothing_else_is_written_to),
		cmocka_unit_test(a_pipe_is_written_to),
		cmocka_unit_test(what_cannot_be_written_is_said),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("files", tests, make_folder, remove_folder);
}
