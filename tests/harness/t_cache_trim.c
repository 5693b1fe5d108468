/* SPDX-License-Identifier: Apache-2.0 */
/* t_cache_trim.c - the bounds of the cache's folder: leftovers of dead processes go, then the keys
 * that were not used for longest. */
#include "small_sources.h"

/* ---- the folder's bounds ------------------------------------------------------------- */
/* Makes a file in "bounded" of this size, last used so many hours ago. A letter stands for 32 in
 * the name. */
static void left(const char *name, long long bytes, double hours)
{
	char path[256], key[33];
	memset(key, name[0], 32);
	key[32] = '\0';
	snprintf(path, sizeof path, "%s/%s%s", in_folder("bounded"),
		 strchr("0123456789abcdef", name[0]) ? key : name, name + 1);
	const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
	const time_t then = time(NULL) - (time_t)(3600 * hours);
	const struct timespec times[2] = { { .tv_sec = then }, { .tv_sec = then } };
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, bytes), 0);
	assert_int_equal(futimens(fd, times), 0);
	assert_int_equal(close(fd), 0);
}

static int is_left(const char *name)
{
	char path[256], key[33];
	memset(key, name[0], 32);
	key[32] = '\0';
	snprintf(path, sizeof path, "%s/%s%s", in_folder("bounded"),
		 strchr("0123456789abcdef", name[0]) ? key : name, name + 1);
	return access(path, F_OK) == 0;
}

static void trim(const char *most_mb)
{
	setenv("ATTUNE_CACHE_MB", most_mb, 1);
	cache_trim(in_folder("bounded"));
	unsetenv("ATTUNE_CACHE_MB");
}

/* A process that was here and is gone. */
static int dead_pid(void)
{
	const pid_t pid = fork();
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	return pid;
}

static void leftovers_are_removed(void **state)
{
	char gone[40], fresh[40], gone_text[48], mine[40];
	const int pid = dead_pid();
	(void)state;
	snprintf(gone, sizeof gone, "a.%d.7", pid);
	snprintf(gone_text, sizeof gone_text, "a.%d.7.txt", pid);
	snprintf(fresh, sizeof fresh, "b.%d.8", pid);
	snprintf(mine, sizeof mine, "c.%d.9", (int)getpid());
	assert_int_equal(mkdir(in_folder("bounded"), 0777), 0);
	left(gone, 10, 1);
	left(gone_text, 10, 1);
	left(fresh, 10, 0.1); /* of another machine, maybe, which compiles it */
	left(mine, 10, 1);
	left("d.so", 10, 1000);
	left("d.txt", 10, 1000);
	left("x.1.2", 10, 1000); /* no file of the cache */
	trim("2048");
	assert_false(is_left(gone));
	assert_false(is_left(gone_text));
	assert_true(is_left(fresh));
	assert_true(is_left(mine));
	assert_true(is_left("d.so") && is_left("d.txt") && is_left("x.1.2"));
}

/* Keys are removed whole, by their newest file, and none that was used within a day. */
static void what_was_not_used_for_longest_goes(void **state)
{
	(void)state;
	left("0.so", 3 << 20, 100);
	left("0.txt", 10, 50);
	left("1.cubin", 3 << 20, 80);
	left("1.txt", 10, 80);
	left("2.co", 3 << 20, 60);
	left("2.txt", 10, 60);
	left("3.txt", 10, 90); /* of a refusal */
	left("4.so", 3 << 20, 2);
	left("4.txt", 10, 2);
	trim("13");
	assert_true(is_left("0.so") && is_left("1.cubin") && is_left("2.co") && is_left("4.so"));
	trim("10"); /* the fewest that make room: 12 MB are there */
	assert_false(is_left("3.txt") || is_left("1.cubin") || is_left("1.txt"));
	assert_true(is_left("0.so") && is_left("0.txt") && is_left("2.co") && is_left("4.so"));
	trim("1");
	assert_false(is_left("0.so") || is_left("0.txt") || is_left("2.co") || is_left("2.txt"));
	assert_true(is_left("4.so") && is_left("4.txt"));
}

/* A cache hit counts as a use. */
static void a_hit_is_a_use(void **state)
{
	const struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	char path[400];
	int cached, texts = 0;
	(void)state;
	source("used.c", "int attune_kernel(void) { return 7; }\n");
	assert_int_equal(compile("used.c", "", "scalar", &cached), 0);
	for (int round = 0; round < 2; round++) {
		DIR *d = opendir(in_folder("cache"));
		assert_non_null(d);
		texts = 0;
		for (struct dirent *e; (e = readdir(d));) {
			struct stat s;
			snprintf(path, sizeof path, "%s/%s", in_folder("cache"), e->d_name);
			if (!strstr(e->d_name, ".txt") || stat(path, &s))
				continue;
			texts += s.st_mtime > 1000;
			if (!round)
				assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
		}
		closedir(d);
		assert_int_equal(compile("used.c", "", "scalar", &cached), 0);
		assert_true(cached);
	}
	assert_int_equal(texts, 1);
}

int main(void)
{
	const struct CMUnitTest t[] = {
		cmocka_unit_test(leftovers_are_removed),
		cmocka_unit_test(what_was_not_used_for_longest_goes),
		cmocka_unit_test(a_hit_is_a_use),
	};
	enum { NVRTC_ROWS = 4 };
	const int nvrtc = strcmp(jit_version(BACKEND_GPU, "sm_90"), "none") != 0;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("jit", t, COUNT(t) - (nvrtc ? 0 : NVRTC_ROWS), make_folder,
				       remove_folder);
}
