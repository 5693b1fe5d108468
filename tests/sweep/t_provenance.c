/* SPDX-License-Identifier: Apache-2.0 */
/* t_provenance.c - the hashes of sources that a run is stored with, and the commit that is found by
 * them: of the checkout that the kernels' sources lie in, and of no other repository. Needs git. */
#include "harness/base/sources_hash.h"
#include "harness/measure/measure.h"
#include "harness/sweep/sweep.h"
#include "harness/worker/worker.h"
#include "tests/store/store_fixture.h"

static const char ident[] =
    "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; ";

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *format, ...)
{
	char text[1200], command[1500];
	va_list ap;
	va_start(ap, format);
	vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	snprintf(command, sizeof command, "%s%s", ident, text);
	if (system(command))
		fail_msg("%s", text);
}

/* The first line of a command's output. */
static const char *line_of(const char *command)
{
	static char line[200];
	FILE *f = popen(command, "r");
	assert_non_null(f);
	if (!fgets(line, sizeof line, f))
		line[0] = '\0';
	pclose(f);
	line[strcspn(line, "\n")] = '\0';
	return line;
}

static void hash_of(const char *top, const char *const part[], int parts, char hex[SOURCES_HASH])
{
	assert_int_equal(sources_hash(top, part, parts, hex), 1);
}

/* A database with a run of these hashes; its path. */
static const char *run_of(const char *built, const char *compiled)
{
	static char db[200];
	struct run_info run = h200;
	snprintf(db, sizeof db, "%s", in_folder("runs.sqlite"));
	struct store *s = fresh("runs.sqlite");
	snprintf(run.built, sizeof run.built, "%s", built);
	snprintf(run.compiled, sizeof run.compiled, "%s", compiled);
	run.commit[0] = run.sources[0] = '\0';
	assert_true(store_begin_run(s, &run) > 0);
	store_close(s);
	return db;
}

/* "COMMIT STATE" of the run after provenance_find in a process of its own, in `in`, with
 * ATTUNE_SOURCE and GIT_DIR. */
static const char *found(const char *in, const char *db, const char *source, const char *git_dir)
{
	static char answer[200];
	int status;
	const pid_t pid = fork();
	if (!pid) {
		setenv("ATTUNE_SOURCE", source, 1);
		git_dir ? setenv("GIT_DIR", git_dir, 1) : 0;
		struct store *s = chdir(in) ? NULL : store_open(db, 0);
		const int ok = s && provenance_find(s);
		store_close(s);
		_exit(!ok);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	struct store *s = store_open(db, 1);
	assert_non_null(s);
	snprintf(answer, sizeof answer, "%s",
		 ask(s, "SELECT commit_id || ' ' || sources FROM run"));
	store_close(s);
	return answer;
}

/* A run stores what the tool was built from, and what it compiles: both are of this tree. */
static void test_of_this_tree(void **state)
{
	const struct protocol protocol = { .name = "rounds-rotating" };
	struct hello hello = { .info = h200.device };
	char built[SOURCES_HASH], compiled[SOURCES_HASH], want[120];
	(void)state;
	hash_of(".", built_parts, NUM_BUILT_PARTS, built);
	hash_of(".", compiled_parts, NUM_COMPILED_PARTS, compiled);
	assert_string_equal(built_from(), built);
	struct store *s = fresh("tree.sqlite");
	assert_true(provenance_run(s, &hello, &protocol, "attune sweep") > 0);
	snprintf(want, sizeof want, "%s %s  unknown;", built, compiled);
	assert_string_equal(
	    ask(s,
		"SELECT built || ' ' || compiled || ' ' || commit_id || ' ' || sources FROM run"),
	    want);
	store_close(s);
}

/* Two commits of a tree: the older one's hashes find it; those of an edited tree find none. */
static void test_of_a_checkout(void **state)
{
	char commit[64], want[100], built[2][SOURCES_HASH], compiled[2][SOURCES_HASH];
	(void)state;
	shell(
	    "git init -q %s/other && cd %s/other && echo 1 >a && git add a && git commit -qm other",
	    folder, folder);
	shell("git init -q %s/own && cd %s/own && mkdir -p kernels/gpu harness tuner && "
	      ": >kernels/kernels.def && echo 1 >kernels/gpu/a-b.cu && echo 1 >kernels/gpu.h && "
	      "echo 'all:' >Makefile && echo page >kernels/README.md && git add . && "
	      "git commit -qm own",
	      folder, folder);
	snprintf(commit, sizeof commit, "cd %s && git rev-parse --short=12 HEAD", in_folder("own"));
	snprintf(want, sizeof want, "%s committed;", line_of(commit));
	hash_of(in_folder("own"), built_parts, NUM_BUILT_PARTS, built[0]);
	hash_of(in_folder("own"), compiled_parts, NUM_COMPILED_PARTS, compiled[0]);
	shell("cd %s/own && echo 2 >kernels/gpu/a-b.cu && git commit -qam edited && "
	      "echo other >kernels/README.md && echo 3 >tuner/new.c",
	      folder);
	hash_of(in_folder("own"), built_parts, NUM_BUILT_PARTS, built[1]);
	hash_of(in_folder("own"), compiled_parts, NUM_COMPILED_PARTS, compiled[1]);
	const char *source = in_folder("own/kernels");
	char own[200];
	snprintf(own, sizeof own, "%s", source);
	const char *db = run_of(built[0], compiled[0]);
	const char *const git_dirs[] = { NULL, in_folder("other/.git") };
	for (int i = 0; i < 2; i++)
		assert_string_equal(found(in_folder("other"), db, own, git_dirs[i]), want);
	/* built from one commit, but compiled the other's kernels */
	db = run_of(built[0], compiled[1]);
	assert_string_equal(found(in_folder("other"), db, own, NULL), " modified;");
	/* a new file that is not committed; then it is */
	db = run_of(built[1], compiled[1]);
	assert_string_equal(found(in_folder("other"), db, own, NULL), " modified;");
	/* The message has lines like those of git's list of files. */
	shell("cd %s/own && git add . && git commit -qm new -m deleteall -m 'original-oid 0'",
	      folder);
	snprintf(want, sizeof want, "%s committed;", line_of(commit));
	assert_string_equal(found(in_folder("other"), db, own, NULL), want);
}

/* No repository but the sources' own is asked. */
static void test_inside_another(void **state)
{
	char source[200];
	(void)state;
	snprintf(source, sizeof source, "%s", in_folder("other/attune/kernels"));
	shell("mkdir -p %s && : >%s/kernels.def", source, source);
	const char *db = run_of("b", "c");
	assert_string_equal(found(in_folder("other"), db, source, NULL), " unknown;");
	shell("cd %s/other && git add . && git commit -qm vendored", folder);
	assert_string_equal(found(in_folder("other"), db, source, NULL), " unknown;");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_a_checkout), cmocka_unit_test(test_inside_another),
		cmocka_unit_test(test_of_this_tree), /* last: a process knows one tree of sources */
	};
	if (system("git --version >/dev/null 2>&1")) {
		puts("1..0 # SKIP there is no git");
		return 0;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("provenance", tests, make_folder, remove_folder);
}
