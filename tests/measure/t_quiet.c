/* SPDX-License-Identifier: Apache-2.0 */
/* t_quiet.c - the check that a machine is idle: whose CPU time counts, which processes are in
 * the way, how long a command waits; and the lock of a device. */
#include "harness/base/base.h"
#include "harness/machine/sensors.h"
#include "harness/machine/machine.h"
#include <stdio.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#undef fail
#include "tests/support/heard.h"

static char folder[] = "/tmp/t_quiet.XXXXXX";

/* ---- a folder like /proc ------------------------------------------------------------------ */

static void put(const char *root, const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", root, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* One line of /proc/<pid>/stat; ticks of user time. */
static void put_process(const char *root, int pid, int parent, const char *command, long ticks)
{
	const long hz = sysconf(_SC_CLK_TCK);
	char path[256], name[32], line[300];
	snprintf(path, sizeof path, "%s/%d", root, pid);
	assert_int_equal(mkdir(path, 0777), 0);
	snprintf(name, sizeof name, "%d/stat", pid);
	snprintf(line, sizeof line, "%d (%s) R %d 1 1 0 -1 0 0 0 0 0 %ld 0 0 0 20 0 1 0 77 0 0 0\n",
		 pid, command, parent, ticks * hz / 100);
	put(root, name, line);
}

static const char *make_proc(const char *name, const char *uptime, long busy_ticks)
{
	static char path[2][128];
	static int turn;
	const long hz = sysconf(_SC_CLK_TCK);
	char *root = path[turn++ % 2], text[4096] = "cpu 0 0 0 0 0 0 0 0\n";
	snprintf(root, sizeof path[0], "%s/%s", folder, name);
	assert_int_equal(mkdir(root, 0777), 0);
	put(root, "uptime", uptime);
	/* all on one CPU that we may run on: the first */
	for (int i = 0; i < CPU_SETSIZE && strlen(text) < sizeof text - 64; i++)
		sprintf(text + strlen(text), "cpu%d %ld 0 0 0 0 0 0 0\n", i,
			i ? 0 : busy_ticks * hz / 100);
	put(root, "stat", text);
	return root;
}

static struct cpu_use use_of(const char *before, const char *after, int self)
{
	struct cpu_times *a = cpu_times_read(before), *b = cpu_times_read(after);
	struct cpu_use u;
	assert_non_null(a);
	assert_non_null(b);
	cpu_use_between(&u, a, b, self);
	cpu_times_free(a);
	cpu_times_free(b);
	return u;
}

/* In one second: 10 is ours, 11 its child, 12 that one's; 20 has computed long ago, 21 computes
 * now, 22 began in between. */
static void only_others_count(void **state)
{
	(void)state;
	const char *before = make_proc("a", "100.00 1\n", 0);
	put_process(before, 10, 1, "attune", 500);
	put_process(before, 11, 10, "attune", 0);
	put_process(before, 20, 1, "old ) 1 (job", 90000);
	put_process(before, 21, 1, "make", 10);
	const char *after = make_proc("b", "101.00 1\n", 0);
	put_process(after, 10, 1, "attune", 600);
	put_process(after, 11, 10, "attune", 100);
	put_process(after, 12, 11, "cc1", 80);
	put_process(after, 20, 1, "old ) 1 (job", 90000);
	put_process(after, 21, 1, "make", 70);
	put_process(after, 22, 1, "cc1plus", 20);
	const struct cpu_use u = use_of(before, after, 10);
	assert_float_equal(u.seen, 0.8, 1e-6);
	assert_float_equal(u.others, 0.8, 1e-6);
	assert_int_equal(u.busiest.pid, 21);
	assert_string_equal(u.busiest.command, "make");
	assert_float_equal(u.busiest.cpus, 0.6, 1e-6);
	assert_true(u.cpus >= 1);
}

/* A CPU is busy for 0.9 s, of which we ran 0.5 s. */
static void what_is_not_listed_counts(void **state)
{
	(void)state;
	const char *before = make_proc("c", "5.00 1\n", 1000);
	put_process(before, 10, 1, "attune", 0);
	const char *after = make_proc("d", "6.00 1\n", 1090);
	put_process(after, 10, 1, "attune", 50);
	const struct cpu_use u = use_of(before, after, 10);
	assert_float_equal(u.seen, 0, 1e-6);
	/* the first CPU may be one that we may not run on */
	assert_true(u.others < 1e-6 || (u.others > 0.399 && u.others < 0.401));
	assert_int_equal(u.busiest.pid, 0);
	assert_null(cpu_times_read("/nonexistent"));
}

/* ---- what is in the way --------------------------------------------------------------------- */

static const struct device_info cpu = { .gpu = "cpu", .backend = BACKEND_CPU, .units = 8 };
static const struct device_info small_cpu = { .gpu = "cpu", .backend = BACKEND_CPU, .units = 4 };
static const struct device_info gpu = { .gpu = "h200", .backend = BACKEND_GPU, .units = 132 };

static void obstacles(void **state)
{
	static const struct {
		const struct device_info *device;
		double others;
		struct device_use use;
		const char *words; /* NULL: nothing is in the way */
	} rows[] = {
		{ &cpu, 0, { .busy = 0 }, NULL },
		{ &cpu, 0.2, { .busy = 0 }, NULL },
		{ &cpu, 0.3, { .busy = 0 }, "other processes use 0.3 of 8 CPUs, cc1 (pid 7)" },
		{ &small_cpu, 4.2, { .busy = 0 }, NULL }, /* four CPUs are enough for it */
		{ &small_cpu, 4.3, { .busy = 0 }, "4.3 of 8 CPUs" },
		{ &gpu, 7.2, { .busy = 0 }, NULL }, /* one CPU launches */
		{ &gpu, 7.3, { .busy = 0 }, "7.3 of 8 CPUs" },
		{ &gpu, 0, { .busy = 0.04 }, NULL },
		{ &gpu, 0, { .busy = 0.5 }, "h200 is in use 50 % of the time, by another process" },
		{ &gpu, 0, { .pids = { 1 }, .num_pids = 1 }, NULL }, /* has it open, and is idle */
		{ &gpu, 0, { .busy = 1, .pids = { 1 }, .num_pids = 2 }, "(pid 1) and others" },
		{ &gpu, 0, { .slowed = 1 }, "h200 has slowed itself down" },
	};
	char text[256];
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct cpu_use u = { .cpus = 8,
					   .others = rows[i].others,
					   .seen = rows[i].others,
					   .busiest = { 7, "cc1", rows[i].others } };
		const int found =
		    quiet_obstacle(text, sizeof text, rows[i].device, &u, &rows[i].use);
		assert_int_equal(found, rows[i].words != NULL);
		if (found)
			assert_non_null(strstr(text, rows[i].words));
	}
	const struct cpu_use unseen = { .cpus = 2, .others = 1 };
	assert_true(quiet_obstacle(text, sizeof text, &cpu, &unseen, NULL));
	assert_string_equal(text, "processes that are not listed here use 1.0 of 2 CPUs");
}

/* ---- waiting ---------------------------------------------------------------------------------- */

static int busy_looks, looks;

static int look(void *arg, struct cpu_use *u, struct device_use *use)
{
	(void)arg, (void)use;
	*u = (struct cpu_use){ .cpus = 2, .busiest = { 42, "cc1", 1 } };
	u->others = u->seen = looks++ < busy_looks;
	return 1;
}

static int wait_with(int busy, double patience_s, int anyway)
{
	const struct quiet q = {
		.device = &cpu, .patience_s = patience_s, .anyway = anyway, .look = look
	};
	busy_looks = busy;
	looks = 0;
	listen_begin();
	return quiet_wait(&q);
}

static void a_quiet_machine_is_measured_at_once(void **state)
{
	(void)state;
	assert_int_equal(wait_with(0, 60, 0), EXIT_DONE);
	assert_string_equal(heard(), "");
	assert_int_equal(looks, 1);
}

static void a_busy_one_is_waited_for(void **state)
{
	(void)state;
	assert_int_equal(wait_with(5, 60, 0), EXIT_DONE);
	assert_string_equal(heard(), "attune: other processes use 1.0 of 2 CPUs, cc1 (pid 42) most "
				     "of all: 1.0; waiting up to 60 s\n");
	assert_int_equal(looks, 6);
}

static void and_refused_in_the_end(void **state)
{
	(void)state;
	assert_int_equal(wait_with(1 << 30, 0, 0), EXIT_BUSY);
	assert_string_equal(heard(), "attune: refused: other processes use 1.0 of 2 CPUs, cc1 (pid "
				     "42) most of all: 1.0; --anyway (make: ANYWAY=1) measures "
				     "nevertheless\n");
}

static void anyway_says_so_and_goes_on(void **state)
{
	(void)state;
	assert_int_equal(wait_with(1 << 30, 60, 1), EXIT_DONE);
	assert_string_equal(heard(), "attune: measuring anyway: other processes use 1.0 of 2 CPUs, "
				     "cc1 (pid 42) most of all: 1.0\n");
	assert_int_equal(looks, 1);
}

static void an_interrupt_ends_the_wait(void **state)
{
	(void)state;
	interrupted = 1;
	assert_int_equal(wait_with(1 << 30, 60, 0), EXIT_INTERRUPTED);
	interrupted = 0;
	assert_string_equal(heard(), "");
}

/* ---- the lock of a device ----------------------------------------------------------------------- */

/* A process that holds the lock until it is killed. */
static pid_t holder_of(const struct device_info *d)
{
	int ready[2];
	char byte = 0;
	assert_int_equal(pipe(ready), 0);
	const pid_t pid = fork();
	if (!pid) {
		struct device_lock l;
		if (lock_take(&l, d, "attune sweep --gpu cpu", 0) || write(ready[1], "1", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void kill_hard(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void one_command_a_device(void **state)
{
	struct device_lock l = { -1 }, other = { -1 };
	char want[64];
	(void)state;
	const pid_t pid = holder_of(&cpu);
	listen_begin();
	assert_int_equal(lock_take(&l, &cpu, "attune sweep --confirm", 0), EXIT_BUSY);
	const char *said = heard();
	snprintf(want, sizeof want, "refused: another attune measures on cpu: pid %d since 2", pid);
	assert_non_null(strstr(said, want));
	assert_non_null(strstr(said, "(attune sweep --gpu cpu)\n"));
	assert_int_equal(l.fd, -1);
	/* another device is free */
	assert_int_equal(lock_take(&other, &gpu, "attune sweep", 0), EXIT_DONE);
	lock_free(&other);
	/* the system releases the lock of a killed command */
	kill_hard(pid);
	assert_int_equal(lock_take(&l, &cpu, "attune sweep --confirm", 0), EXIT_DONE);
	lock_free(&l);
}

static void a_lock_is_waited_for(void **state)
{
	struct device_lock l = { -1 };
	(void)state;
	const pid_t pid = holder_of(&cpu), killer = fork();
	if (!killer) {
		usleep(300000);
		kill(pid, SIGKILL);
		_exit(0);
	}
	listen_begin();
	assert_int_equal(lock_take(&l, &cpu, "attune sweep --confirm", 60), EXIT_DONE);
	assert_non_null(strstr(heard(), "waiting up to 60 s"));
	lock_free(&l);
	waitpid(pid, NULL, 0);
	waitpid(killer, NULL, 0);
}

/* By the card, not by its name: two alike may be measured at a time. All users may lock. */
static void names_and_modes(void **state)
{
	struct device_info one = gpu, two = gpu;
	struct device_lock a = { -1 }, b = { -1 };
	struct stat st;
	char path[256];
	(void)state;
	one.uuid[0] = 0xab;
	two.uuid[15] = 1;
	const mode_t kept = umask(077);
	assert_int_equal(lock_take(&a, &one, "attune sweep", 0), EXIT_DONE);
	umask(kept);
	assert_int_equal(lock_take(&b, &two, "attune sweep", 0), EXIT_DONE);
	snprintf(path, sizeof path, "%s/attune-ab000000000000000000000000000000.lock", folder);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0666);
	lock_free(&a);
	lock_free(&b);
	assert_int_equal(stat(path, &st), 0);
}

/* What somebody put under the lock's name: all users lock by the next one, and nothing is written
 * through a link. */
static void what_is_no_lock(void **state)
{
	static const char *const kinds[] = { "link", "hard", "folder", "pipe", "private" };
	struct device_info d = gpu;
	char path[256], next[300], target[256];
	struct stat st;
	(void)state;
	snprintf(target, sizeof target, "%s/precious", folder);
	put(folder, "precious", "kept");
	for (size_t i = 0; i < COUNT(kinds); i++) {
		struct device_lock l = { -1 }, other = { -1 };
		snprintf(d.gpu, sizeof d.gpu, "%s", kinds[i]);
		snprintf(path, sizeof path, "%s/attune-%s.lock", folder, kinds[i]);
		snprintf(next, sizeof next, "%s/attune-%s.2.lock", folder, kinds[i]);
		if (i == 4 && geteuid()) /* only root can make a file of another user */
			continue;
		const int made = i == 0   ? symlink(target, path)
				 : i == 1 ? link(target, path)
				 : i == 2 ? mkdir(path, 0777)
				 : i == 3
				     ? mkfifo(path, 0666)
				     : mknod(path, S_IFREG | 0600, 0) || chown(path, 65534, 65534);
		assert_int_equal(made, 0);
		assert_int_equal(lock_take(&l, &d, "attune sweep", 0), EXIT_DONE);
		assert_int_equal(stat(next, &st), 0);
		listen_begin();
		assert_int_equal(lock_take(&other, &d, "attune sweep --confirm", 0), EXIT_BUSY);
		assert_non_null(strstr(heard(), "another attune measures"));
		lock_free(&l);
	}
	assert_int_equal(stat(target, &st), 0);
	assert_int_equal(st.st_size, 4);
}

/* A command that was killed may leave a file that others cannot open: its user mends that. */
static void ones_own_is_opened(void **state)
{
	struct device_info d = gpu;
	struct device_lock l = { -1 };
	struct stat st;
	char path[256];
	(void)state;
	snprintf(d.gpu, sizeof d.gpu, "own");
	snprintf(path, sizeof path, "%s/attune-own.lock", folder);
	put(folder, "attune-own.lock", "");
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(lock_take(&l, &d, "attune sweep", 0), EXIT_DONE);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0666);
	lock_free(&l);
}

/* Two users of one device, in a folder like /tmp. Only root can be two users. */
static void of_all_users(void **state)
{
	struct device_info d = gpu;
	struct device_lock l = { -1 };
	(void)state;
	if (geteuid())
		return;
	assert_int_equal(chmod(folder, 01777), 0);
	snprintf(d.gpu, sizeof d.gpu, "shared");
	assert_int_equal(seteuid(65534), 0);
	const pid_t pid = holder_of(&d);
	assert_int_equal(seteuid(0), 0);
	listen_begin();
	assert_int_equal(lock_take(&l, &d, "attune sweep --confirm", 0), EXIT_BUSY);
	assert_non_null(strstr(heard(), "another attune measures"));
	kill_hard(pid);
	assert_int_equal(lock_take(&l, &d, "attune sweep --confirm", 0), EXIT_DONE);
	lock_free(&l);
	assert_int_equal(chmod(folder, 0700), 0);
}

static void no_folder_for_locks(void **state)
{
	struct device_lock l = { -1 };
	(void)state;
	assert_int_equal(setenv("ATTUNE_LOCKS", "/nowhere", 1), 0);
	listen_begin();
	assert_int_equal(lock_take(&l, &cpu, "attune sweep", 0), EXIT_USAGE);
	assert_string_equal(
	    heard(),
	    "attune: /nowhere/attune-cpu.lock cannot be locked by all users: No such file or "
	    "directory; remove it, or name another folder for locks of devices in "
	    "ATTUNE_LOCKS\n");
	assert_int_equal(setenv("ATTUNE_LOCKS", folder, 1), 0);
}

static int begin(void **state)
{
	(void)state;
	return !mkdtemp(folder) || setenv("ATTUNE_LOCKS", folder, 1);
}

static int end(void **state)
{
	char command[80];
	(void)state;
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_others_count),
		cmocka_unit_test(what_is_not_listed_counts),
		cmocka_unit_test(obstacles),
		cmocka_unit_test(a_quiet_machine_is_measured_at_once),
		cmocka_unit_test(a_busy_one_is_waited_for),
		cmocka_unit_test(and_refused_in_the_end),
		cmocka_unit_test(anyway_says_so_and_goes_on),
		cmocka_unit_test(an_interrupt_ends_the_wait),
		cmocka_unit_test(one_command_a_device),
		cmocka_unit_test(a_lock_is_waited_for),
		cmocka_unit_test(names_and_modes),
		cmocka_unit_test(what_is_no_lock),
		cmocka_unit_test(ones_own_is_opened),
		cmocka_unit_test(of_all_users),
		cmocka_unit_test(no_folder_for_locks),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("quiet", tests, begin, end);
}
