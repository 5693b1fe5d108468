/* t_provenance.c - the commit and state of the sources that a run is stored with: of the checkout that
 * the kernels' sources lie in, and of no other repository. Needs git. */
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

/* "COMMIT STATE" of a run that a process of its own stores in `folder`, with ATTUNE_SOURCE and GIT_DIR
 * where they are not NULL. */
static const char *stored(const char *in, const char *source, const char *git_dir)
{
	static char answer[200];
	char db[200];
	int status;
	snprintf(db, sizeof db, "%s", in_folder("runs.sqlite"));
	unlink(db);
	const pid_t pid = fork();
	if (!pid) {
		const struct protocol protocol = { .name = "rounds-rotating" };
		struct hello hello = { .info = { .name = "made up",
						 .gpu = "cpu",
						 .arch = "avx2",
						 .backend = BACKEND_CPU,
						 .units = 1,
						 .lanes = 8 } };
		source ? setenv("ATTUNE_SOURCE", source, 1) : 0;
		git_dir ? setenv("GIT_DIR", git_dir, 1) : 0;
		struct store *s = chdir(in) ? NULL : store_open(db, 0);
		const int ok = s && provenance_run(s, &hello, &protocol, "attune sweep") > 0;
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

static void test_of_this_tree(void **state)
{
	char here[300];
	(void)state;
	shell(
	    "git init -q %s/other && cd %s/other && echo 1 >a && git add a && git commit -qm other",
	    folder, folder);
	snprintf(here, sizeof here, "%s",
		 line_of("git describe --always --dirty --abbrev=12 2>/dev/null"));
	const char *const git_dirs[] = { NULL, in_folder("other/.git") };
	for (size_t i = 0; i < 2; i++) {
		const char *got = stored(in_folder("other"), NULL, git_dirs[i]);
		assert_memory_equal(got, here, strlen(here));
		assert_true(*here || !strcmp(got, " unknown;"));
	}
}

static void test_inside_another(void **state)
{
	(void)state;
	const char *source = in_folder("other/attune/kernels");
	shell("mkdir -p %s && : >%s/kernels.def", source, source);
	assert_string_equal(stored(in_folder("other"), source, NULL), " unknown;");
	shell("cd %s/other && git add . && git commit -qm vendored", folder);
	assert_string_equal(stored(in_folder("other"), source, NULL), " unknown;");
	/* at the root of a repository that does not track them */
	shell("cp -r %s/.git %s", in_folder("other"), in_folder("other/attune"));
	assert_string_equal(stored(in_folder("other"), source, NULL), " unknown;");
	shell("rm -r %s", in_folder("other/attune/.git"));
}

static void test_of_a_checkout(void **state)
{
	char commit[64], want[100];
	(void)state;
	shell("git init -q %s/own && cd %s/own && mkdir kernels && : >kernels/kernels.def && git "
	      "add . && "
	      "git commit -qm own",
	      folder, folder);
	const char *source = in_folder("own/kernels");
	snprintf(commit, sizeof commit, "cd %s && git rev-parse --short=12 HEAD", in_folder("own"));
	snprintf(want, sizeof want, "%s committed;", line_of(commit));
	assert_string_equal(stored(in_folder("other"), source, NULL), want);
	shell("echo changed >%s/kernels.def", source);
	snprintf(want, sizeof want, "%s-dirty modified;", line_of(commit));
	assert_string_equal(stored(in_folder("other"), source, NULL), want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_this_tree),
		cmocka_unit_test(test_inside_another),
		cmocka_unit_test(test_of_a_checkout),
	};
	if (system("git --version >/dev/null 2>&1")) {
		puts("1..0 # SKIP there is no git");
		return 0;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("provenance", tests, make_folder, remove_folder);
}
