/* SPDX-License-Identifier: Apache-2.0 */
/* heard.h - captures stderr of a call, for tests of messages:
 *
 *   listen_begin(); call(); assert_string_equal(heard(), "attune: ...\n");
 *
 * Include after cmocka.h. */
#include <stdio.h>
#include <unistd.h>

static FILE *ear;
static int ear_kept;

static inline void listen_begin(void)
{
	ear = tmpfile();
	assert_non_null(ear);
	fflush(stderr);
	ear_kept = dup(STDERR_FILENO);
	assert_true(dup2(fileno(ear), STDERR_FILENO) >= 0);
}

/* Valid until the next call. */
static inline const char *heard(void)
{
	static char text[1024];
	size_t n;
	fflush(stderr);
	assert_true(dup2(ear_kept, STDERR_FILENO) >= 0);
	close(ear_kept);
	rewind(ear);
	n = fread(text, 1, sizeof text - 1, ear);
	fclose(ear);
	text[n] = '\0';
	return text;
}
