/* SPDX-License-Identifier: Apache-2.0 */
/* t_builders.c - builders, which compile in the background (harness/compile/builders.c): what is
 * needed first is built first, a killed builder is replaced once, stopped ones end with their
 * parent, and ended ones leave nothing. The compiler is a script that logs its calls and waits
 * while the file `wait` exists. */
#include "harness/compile/compile.h"
#include "kernels/device/cpu/usable.h"
#include "kernels/spec/kernel.h"
#include "tests/support/folder.h"
#include <setjmp.h>
#include <stdio.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { SIZES = 6 };
static struct binaries all;
static int of_size[SIZES]; /* where `all` has the kernel's binary for head size 16, 32, ... */

static int make_folder(void **state)
{
	static const char script[] = "#!/bin/sh\n"
				     "case \"$*\" in *HEAD_SIZE*) ;; *) exec cc \"$@\" ;; esac\n"
				     "echo \"$*\" >>%s/asked\n"
				     "while [ -e %s/wait ]; do sleep 0.02; done\n"
				     "[ ! -e %s/fail ] || { echo 'too hot' >&2; exit 1; }\n"
				     "exec cc \"$@\"\n";
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	FILE *f = fopen(in_folder("cc"), "w");
	if (!f || fprintf(f, script, folder, folder, folder) < 0 || fclose(f))
		return -1;
	return chmod(in_folder("cc"), 0755) || setenv("ATTUNE_CACHE", in_folder("cache"), 1) ||
	       setenv("CC", in_folder("cc"), 1);
}

static void put(const char *name)
{
	FILE *f = fopen(in_folder(name), "w");
	assert_non_null(f);
	fclose(f);
}

/* Nothing is in the cache. */
static int begin(void **state)
{
	struct choice c = { .kernel = kernel_find(BACKEND_CPU, "reduce") };
	attune_shape s = { .size = sizeof(attune_shape),
			   .num_query_heads = 8,
			   .num_kv_heads = 8,
			   .page_size = 16,
			   .dtype = ATTUNE_F32,
			   .kv_dtype = ATTUNE_F32 };
	char command[100];
	(void)state;
	snprintf(command, sizeof command, "cd %s && rm -rf cache asked && mkdir cache", folder);
	if (system(command))
		return -1;
	config_default(&c.config, c.kernel->space);
	all = (struct binaries){ .arch = "scalar" };
	for (int i = 0; i < SIZES; i++) {
		s.head_size = 16 * (i + 1);
		of_size[i] = binaries_add(&all, &c, &s);
	}
	return of_size[SIZES - 1] < 0;
}

static int end(void **state)
{
	(void)state;
	unlink(in_folder("wait"));
	unlink(in_folder("fail"));
	binaries_free(&all);
	return 0;
}

/* The first process that this one has started, and its state by /proc; 0: none. */
static pid_t a_child(char *how)
{
	char path[64], name[64];
	int pid = 0;
	snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
	FILE *f = fopen(path, "r");
	if (!f || fscanf(f, "%d", &pid) != 1)
		pid = 0;
	if (f)
		fclose(f);
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	f = pid ? fopen(path, "r") : NULL;
	if (f) {
		assert_int_equal(fscanf(f, "%*d %63s %c", name, how), 2);
		fclose(f);
	}
	return pid;
}

/* Asks for all and waits until a compiler has begun. */
static void begin_all(void)
{
	put("wait");
	for (int i = 0; i < SIZES; i++)
		assert_true(binaries_ask(&all, of_size[i]));
	binaries_poll(&all);
	for (int i = 0; i < 6000 && access(in_folder("asked"), F_OK); i++)
		usleep(5000);
	assert_int_equal(access(in_folder("asked"), F_OK), 0);
}

static void needed_first(void **state)
{
	char first[4096];
	(void)state;
	for (int i = 0; i < SIZES; i++)
		assert_true(binaries_ask(&all, of_size[i]));
	assert_int_equal(binaries_waiting(&all), SIZES);
	assert_true(binaries_need(&all, &of_size[SIZES - 1], 1));
	assert_int_equal(all.v[of_size[SIZES - 1]].status, BUILT);
	/* Two may begin together, on two CPUs: the needed one is among them. */
	FILE *f = fopen(in_folder("asked"), "r");
	const int cpus = cpu_usable();
	int at = 0, found = 0;
	while (!found && at++ < cpus && fgets(first, sizeof first, f))
		found = strstr(first, "-DHEAD_SIZE=96 ") != NULL;
	fclose(f);
	assert_true(found);
	assert_true(binaries_need(&all, of_size, SIZES));
	assert_int_equal(all.compiled, SIZES);
	assert_int_equal(binaries_waiting(&all), 0);
}

static void once_more(void **state)
{
	char how;
	(void)state;
	begin_all();
	const pid_t builder = a_child(&how);
	assert_true(builder > 0 && !kill(builder, SIGKILL));
	unlink(in_folder("wait"));
	assert_true(binaries_need(&all, of_size, SIZES));
	int tries = 0;
	for (int i = 0; i < SIZES; i++) {
		assert_int_equal(all.v[of_size[i]].status, BUILT);
		tries += all.v[of_size[i]].tries;
	}
	assert_int_equal(tries, 1);
}

static void held(void **state)
{
	char how = '?';
	(void)state;
	begin_all();
	binaries_hold(&all, 1);
	unlink(in_folder("wait"));
	usleep(200000);
	assert_true(a_child(&how) > 0);
	/* D: in a disk wait, or its own child was stopped between vfork and exec. */
	assert_true(how == 'T' || how == 'D');
	binaries_poll(&all);
	for (int i = 0; i < SIZES; i++)
		assert_int_equal(all.v[of_size[i]].status, NOT_BUILT);
	binaries_hold(&all, 0);
	assert_true(binaries_need(&all, of_size, SIZES));
	assert_int_equal(all.compiled, SIZES);
}

/* Whether a process is there, and is no more than an entry of a table. */
static int is_alive(pid_t pid)
{
	char path[64], name[64], how = 'Z';
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	FILE *f = fopen(path, "r");
	if (!f)
		return 0;
	if (fscanf(f, "%*d %63s %c", name, &how) != 2)
		how = 'Z';
	fclose(f);
	return how != 'Z' && how != 'X';
}

static void parent_killed(void **state)
{
	pid_t builder = 0;
	int end[2], status;
	char how;
	(void)state;
	assert_int_equal(pipe(end), 0);
	const pid_t parent = fork();
	if (!parent) {
		begin_all();
		binaries_hold(&all, 1);
		builder = a_child(&how);
		if (write(end[1], &builder, sizeof builder) != (ssize_t)sizeof builder)
			_exit(1);
		pause();
	}
	close(end[1]);
	assert_int_equal(read(end[0], &builder, sizeof builder), sizeof builder);
	assert_true(builder > 0 && is_alive(builder));
	assert_int_equal(kill(parent, SIGKILL), 0);
	assert_int_equal(waitpid(parent, &status, 0), parent);
	for (int i = 0; i < 1000 && is_alive(builder); i++)
		usleep(10000);
	assert_false(is_alive(builder));
	close(end[0]);
}

static void ended(void **state)
{
	char how;
	(void)state;
	begin_all();
	binaries_end(&all);
	assert_int_equal(a_child(&how), 0);
	for (int i = 0; i < SIZES; i++)
		assert_int_equal(all.v[of_size[i]].status, NOT_BUILT);
	unlink(in_folder("wait"));
	assert_true(binaries_need(&all, of_size, SIZES)); /* builders start again */
}

static void too_late(void **state)
{
	(void)state;
	begin_all();
	all.until = 1e-9;
	assert_false(binaries_need(&all, of_size, SIZES));
	assert_int_equal(all.v[of_size[0]].status, NOT_BUILT);
}

static void refused(void **state)
{
	(void)state;
	put("fail");
	assert_true(binaries_need(&all, of_size, 1));
	assert_int_equal(all.v[of_size[0]].status, REFUSED_BY_COMPILER);
	assert_non_null(strstr(all.v[of_size[0]].binary.log, "too hot"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(needed_first, begin, end),
		cmocka_unit_test_setup_teardown(once_more, begin, end),
		cmocka_unit_test_setup_teardown(held, begin, end),
		cmocka_unit_test_setup_teardown(parent_killed, begin, end),
		cmocka_unit_test_setup_teardown(ended, begin, end),
		cmocka_unit_test_setup_teardown(too_late, begin, end),
		cmocka_unit_test_setup_teardown(refused, begin, end),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("builders", tests, make_folder, remove_folder);
}
