/* SPDX-License-Identifier: Apache-2.0 */
/* t_cache_folder.c - where compiled kernels are kept: in a folder of the user, that nobody else may
 * write in. Each row chooses in a process of its own. */
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "tests/support/folder.h"
#include "tests/support/heard.h"

enum { NOBODY = 65534 };
static struct chosen {
	char path[400], said[1024];
} * chosen;

struct row {
	const char *cache, *xdg, *home; /* below the folder; NULL: unset */
	uid_t user;                     /* 0: the one that tests */
};

static void set(const char *name, const char *value)
{
	char path[300];
	snprintf(path, sizeof path, "%s", value ? in_folder(value) : "");
	assert_int_equal(value ? setenv(name, path, 1) : unsetenv(name), 0);
}

/* Fills *chosen. */
static void choose(const struct row *r)
{
	fflush(NULL);
	const pid_t pid = fork();
	if (!pid) {
		set("ATTUNE_CACHE", r->cache);
		set("XDG_CACHE_HOME", r->xdg);
		set("HOME", r->home);
		set("TMPDIR", "temporary");
		if (r->user && seteuid(r->user))
			_exit(1);
		listen_begin();
		const char *root = cache_root();
		snprintf(chosen->path, sizeof chosen->path, "%s", root ? root : "");
		snprintf(chosen->said, sizeof chosen->said, "%s", heard());
		if (seteuid(getuid())) /* else LeakSanitizer may not look at the process */
			_exit(1);
		exit(0); /* which removes a temporary folder */
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static mode_t mode_of(const char *path)
{
	struct stat s;
	assert_int_equal(stat(path, &s), 0);
	return s.st_mode & 07777;
}

static void folder_with(const char *name, mode_t mode, uid_t owner)
{
	assert_int_equal(mkdir(in_folder(name), 0700), 0);
	assert_int_equal(chmod(in_folder(name), mode), 0);
	if (owner != geteuid())
		assert_int_equal(chown(in_folder(name), owner, (gid_t)-1), 0);
}

static void the_users_own(void **state)
{
	(void)state;
	static const struct {
		struct row row;
		const char *path;
	} rows[] = {
		{ { .cache = "named/below", .xdg = "xdg", .home = "home" }, "named/below" },
		{ { .xdg = "xdg", .home = "home" }, "xdg/attune" },
		{ { .home = "home" }, "home/.cache/attune" },
		{ { .home = "readable" }, "readable/.cache/attune" },
	};
	folder_with("home", 0755, geteuid());
	folder_with("readable", 0775, geteuid()); /* some systems give each user a group */
	umask(0);
	for (size_t i = 0; i < COUNT(rows); i++) {
		choose(&rows[i].row);
		assert_string_equal(chosen->path, in_folder(rows[i].path));
		assert_string_equal(chosen->said, "");
		assert_int_equal(mode_of(chosen->path), 0700);
	}
	umask(022);
}

/* What was named is refused; what was not named is passed over. */
static void what_others_write_in(void **state)
{
	(void)state;
	folder_with("shared", 0777, geteuid());
	folder_with("group", 0770, geteuid());
	folder_with("open_home", 0777, geteuid());
	static const char *const named[] = { "shared", "group", "link" };
	assert_int_equal(symlink("shared", in_folder("link")), 0);
	for (size_t i = 0; i < COUNT(named); i++) {
		choose(&(struct row){ .cache = named[i], .home = "home" });
		assert_string_equal(chosen->path, "");
		assert_non_null(strstr(chosen->said, "other users may write there (chmod go-w)"));
		assert_non_null(strstr(chosen->said, "ATTUNE_CACHE"));
	}
	choose(&(struct row){ .xdg = "open_home", .home = "home" });
	assert_string_equal(chosen->path, in_folder("home/.cache/attune"));
}

/* root with the HOME of another user, as sudo may leave it. */
static void what_others_own(void **state)
{
	(void)state;
	if (geteuid()) /* only root can make such a folder */
		return;
	folder_with("others", 0755, NOBODY);
	choose(&(struct row){ .cache = "others" });
	assert_string_equal(chosen->path, "");
	assert_non_null(strstr(chosen->said, "belongs to user 65534, not to user 0"));
	choose(&(struct row){ .xdg = "others", .home = "home" });
	assert_string_equal(chosen->path, in_folder("home/.cache/attune"));
	assert_int_not_equal(access(in_folder("others/attune"), F_OK), 0);
}

/* A user without a home has a folder for as long as the command runs. */
static void without_a_home(void **state)
{
	(void)state;
	if (geteuid())
		return;
	assert_int_equal(chmod(folder, 0755), 0);
	folder_with("temporary", 01777, 0);
	choose(
	    &(struct row){ .home = "absent", .user = 54321 }); /* the system knows no such user */
	assert_int_equal(strncmp(chosen->path, in_folder("temporary/attune-cache."), 30), 0);
	assert_non_null(strstr(chosen->said, "kept only until the end of this command"));
	assert_int_not_equal(access(chosen->path, F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest t[] = {
		cmocka_unit_test(the_users_own),
		cmocka_unit_test(what_others_write_in),
		cmocka_unit_test(what_others_own),
		cmocka_unit_test(without_a_home),
	};
	chosen =
	    mmap(NULL, sizeof *chosen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (chosen == MAP_FAILED || !mkdtemp(folder))
		return 1;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cache_folder", t, NULL, remove_folder);
}
