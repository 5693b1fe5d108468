/* SPDX-License-Identifier: Apache-2.0 */
/* t_cpu_threads.c - the CPU device's threads: how many CPUs a process may use, by affinity and by the
 * quotas of control groups, and the pool that runs grids. */
#include "kernels/device/cpu/pool.h"
#include "kernels/device/cpu/usable.h"
#include "kernels/spec/choice.h"
#include "tests/support/folder.h"
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- affinity ---------------------------------------------------------------------------- */

enum { MACHINE_CPUS = 3000 };

/* As the kernel of a machine with many CPUs does: a small set is EINVAL. */
static int large_machine(pid_t pid, size_t size, cpu_set_t *set)
{
	(void)pid;
	if (size * 8 < MACHINE_CPUS) {
		errno = EINVAL;
		return -1;
	}
	CPU_ZERO_S(size, set);
	for (int cpu = 0; cpu < MACHINE_CPUS; cpu += 2)
		CPU_SET_S(cpu, size, set);
	return 0;
}

static int forbidden(pid_t pid, size_t size, cpu_set_t *set)
{
	(void)pid, (void)size, (void)set;
	errno = EPERM;
	return -1;
}

static int endless(pid_t pid, size_t size, cpu_set_t *set)
{
	(void)pid, (void)size, (void)set;
	errno = EINVAL;
	return -1;
}

static void affinity_of_any_machine(void **state)
{
	(void)state;
	assert_int_equal(affinity_cpus(large_machine), MACHINE_CPUS / 2);
	assert_int_equal(affinity_cpus(forbidden), 0);
	assert_int_equal(affinity_cpus(endless), 0);
	assert_in_range(affinity_cpus(sched_getaffinity), 1, 1 << 20);
	assert_in_range(cpu_usable(), 1, affinity_cpus(sched_getaffinity));
}

/* ---- quotas ------------------------------------------------------------------------------ */

/* self: /proc/self/cgroup; file, text: of the folder like /sys/fs/cgroup. */
// clang-format off
static const struct quota_row {
	const char *name, *self;
	struct {
		const char *file, *text;
	} files[4];
	int cpus;
} quota_rows[] = {
	{ "no control group", "", { { NULL, NULL } }, 0 },
	{ "no quota", "0::/a\n", { { "a/cpu.max", "max 100000\n" } }, 0 },
	{ "two CPUs", "0::/a\n", { { "a/cpu.max", "200000 100000\n" } }, 2 },
	{ "two and a half: two whole ones", "0::/a\n", { { "a/cpu.max", "250000 100000\n" } }, 2 },
	{ "more than any machine has: 2^20",
	  "0::/a\n",
	  { { "a/cpu.max", "17592186044415 1000\n" } },
	  1 << 20 },
	{ "half of one: one", "0::/a\n", { { "a/cpu.max", "50000 100000\n" } }, 1 },
	{ "an ancestor's",
	  "0::/a/b/c\n",
	  { { "a/cpu.max", "300000 100000\n" }, { "a/b/c/cpu.max", "max 100000\n" } },
	  3 },
	{ "the smallest of all",
	  "0::/a/b\n",
	  { { "cpu.max", "800000 100000\n" },
	    { "a/cpu.max", "20000 10000\n" },
	    { "a/b/cpu.max", "700000 100000\n" } },
	  2 },
	{ "another group's", "0::/a\n", { { "b/cpu.max", "100000 100000\n" } }, 0 },
	{ "a container: the root is its own", "0::/\n", { { "cpu.max", "400000 100000\n" } }, 4 },
	{ "a container with the path of the host",
	  "0::/docker/0123\n",
	  { { "cpu.max", "400000 100000\n" } },
	  4 },
	{ "a path out of the container", "0::/../b\n", { { "cpu.max", "400000 100000\n" } }, 4 },
	{ "version 1",
	  "12:memory:/a\n4:cpu,cpuacct:/a/b\n1:name=systemd:/a\n",
	  { { "cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n" },
	    { "cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n" },
	    { "cpu,cpuacct/a/cpu.cfs_quota_us", "600000\n" },
	    { "cpu,cpuacct/a/cpu.cfs_period_us", "100000\n" } },
	  6 },
	{ "version 1, a container with the path of the host",
	  "4:cpuacct,cpu:/docker/0123\n",
	  { { "cpu/cpu.cfs_quota_us", "150000\n" }, { "cpu/cpu.cfs_period_us", "50000\n" } },
	  3 },
	{ "version 1 has no such controller",
	  "4:cpuset:/\n",
	  { { "cpuset/cpu.cfs_quota_us", "100000\n" },
	    { "cpuset/cpu.cfs_period_us", "100000\n" } },
	  0 },
	{ "both versions",
	  "1:cpu:/\n0::/a\n",
	  { { "cpu/cpu.cfs_quota_us", "500000\n" },
	    { "cpu/cpu.cfs_period_us", "100000\n" },
	    { "unified/a/cpu.max", "200000 100000\n" } },
	  2 },
	{ "what makes no sense",
	  "0::/a\nnonsense\n:\n",
	  { { "a/cpu.max", "many\n" }, { "cpu.max", "0 0\n" } },
	  0 },
};
// clang-format on

static void write_file(const char *path, const char *text)
{
	char command[400];
	snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s')\"", path);
	assert_int_equal(system(command), 0);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void quotas_are_read(void **state)
{
	const struct quota_row *r = *state;
	char root[64], self[80], path[160];
	snprintf(root, sizeof root, "%s/%d", folder, (int)(r - quota_rows));
	snprintf(self, sizeof self, "%s.self", root);
	write_file(self, r->self);
	for (size_t i = 0; i < COUNT(r->files) && r->files[i].file; i++) {
		snprintf(path, sizeof path, "%s/%s", root, r->files[i].file);
		write_file(path, r->files[i].text);
	}
	assert_int_equal(quota_cpus(root, self), r->cpus);
	assert_int_equal(quota_cpus(root, "/nonexistent/self"), 0);
}

/* ---- the pool ---------------------------------------------------------------------------- */

enum { THREADS = 6, CPUS = 2, CELLS = 400, GRIDS = 300, PAGE_BYTES = 1 << 16 };

static struct {
	atomic_int runs[CELLS], inside, most, met;
} seen;

static void enter_and_wait(void *arg, size_t i)
{
	const int inside = atomic_fetch_add(&seen.inside, 1) + 1;
	int most = atomic_load(&seen.most);
	(void)arg;
	atomic_fetch_add(&seen.runs[i], 1);
	while (inside > most && !atomic_compare_exchange_weak(&seen.most, &most, inside))
		;
	sched_yield(); /* another one would come in */
	atomic_fetch_sub(&seen.inside, 1);
}

static void no_more_threads_compute_than_cpus(void **state)
{
	struct pool *pool;
	(void)state;
	memset(&seen, 0, sizeof seen);
	assert_int_equal(pool_open(&pool, THREADS, CPUS), 0);
	assert_int_equal(pool_helpers(pool), CPUS - 1);
	for (int i = 0; i < GRIDS; i++)
		pool_run(pool, enter_and_wait, NULL, CELLS);
	for (int i = 0; i < CELLS; i++)
		assert_int_equal(atomic_load(&seen.runs[i]), GRIDS);
	assert_in_range(atomic_load(&seen.most), 1, CPUS);
	pool_close(pool);
}

static void wait_for_the_others(void *arg, size_t i)
{
	const int *n = arg;
	(void)i;
	atomic_fetch_add(&seen.met, 1);
	while (atomic_load(&seen.met) % *n)
		sched_yield();
}

/* Each cell waits for all others, so all of them must run at the same time, however few CPUs there are. */
static void cells_that_wait_for_each_other(void **state)
{
	struct pool *pool;
	(void)state;
	assert_int_equal(pool_open(&pool, THREADS, 1), 0);
	for (int n = 1; n <= THREADS; n++)
		for (int i = 0; i < GRIDS / 10; i++) {
			atomic_store(&seen.met, 0);
			pool_run_together(pool, wait_for_the_others, &n, (size_t)n);
			assert_int_equal(atomic_load(&seen.met), n);
		}
	pool_close(pool);
}

static void round_up_from_here(void *arg, size_t i)
{
	fesetround(FE_UPWARD);
	wait_for_the_others(arg, i);
}

static void count_nearest(void *arg, size_t i)
{
	const volatile float one = 1, little = 0x1p-30f; /* as kernels add: x86 has two modes */
	atomic_fetch_add(&seen.inside, one + little == 1);
	wait_for_the_others(arg, i);
}

/* A cell that changes the rounding mode of its thread does not change that of later grids. */
static void cells_that_leave_a_float_mode(void **state)
{
	int n = THREADS;
	struct pool *pool;
	(void)state;
	memset(&seen, 0, sizeof seen);
	assert_int_equal(pool_open(&pool, THREADS, CPUS), 0);
	pool_run_together(pool, round_up_from_here, &n, THREADS);
	pool_run_together(pool, count_nearest, &n, THREADS);
	assert_int_equal(atomic_load(&seen.inside), THREADS);
	fesetround(FE_TONEAREST);
	pool_close(pool);
}

static char *page; /* that may not be touched yet */
static pthread_t caller_thread;

static void open_page(int signal)
{
	(void)signal;
	mprotect(page, PAGE_BYTES, PROT_READ | PROT_WRITE);
}

static void touch_page(void *arg, size_t i)
{
	wait_for_the_others(arg, i); /* so that the helper has one of both cells */
	if (!pthread_equal(pthread_self(), caller_thread))
		*(volatile char *)page = 1;
}

/* The program's handler of SIGSEGV also serves faults on the pool's threads. */
static void faults_of_helpers_are_handled(void **state)
{
	struct sigaction action = { .sa_handler = open_page };
	struct pool *pool;
	int n = 2, status;
	(void)state;
	memset(&seen, 0, sizeof seen);
	page = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	const pid_t child = fork();
	assert_true(child >= 0);
	if (!child) {
		caller_thread = pthread_self();
		if (sigaction(SIGSEGV, &action, NULL) || pool_open(&pool, 2, 2))
			_exit(1);
		pool_run_together(pool, touch_page, &n, 2);
		_exit(*page != 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	munmap(page, PAGE_BYTES);
}

/* Between grids the threads fall asleep: they use no CPU time. A slow machine gets a minute for it. */
static void threads_that_have_nothing_to_do_sleep(void **state)
{
	struct timespec a, b;
	struct pool *pool;
	clockid_t clock;
	int tries = 0;
	(void)state;
	assert_int_equal(pool_open(&pool, 2, 2), 0);
	assert_int_equal(pool_clock(pool, 0, &clock), 0);
	pool_hold(pool); /* returns when it is awake */
	pool_let_go(pool);
	do {
		assert_true(tries++ < 1500);
		usleep(20000);
		clock_gettime(clock, &a);
		usleep(20000);
		clock_gettime(clock, &b);
	} while (a.tv_nsec != b.tv_nsec || a.tv_sec != b.tv_sec);
	pool_run(pool, enter_and_wait, NULL, CELLS);
	pool_close(pool);
}

struct caller {
	struct pool *pool;
	atomic_long sum;
};

static void add_up(void *arg, size_t i)
{
	struct caller *c = arg;
	atomic_fetch_add(&c->sum, (long)i);
}

static void *call_often(void *arg)
{
	struct caller *c = arg;
	for (int i = 0; i < GRIDS; i++)
		pool_run(c->pool, add_up, c, CELLS);
	return NULL;
}

static void several_callers_take_turns(void **state)
{
	struct caller c[3] = { { NULL } };
	pthread_t thread[3];
	struct pool *pool;
	(void)state;
	assert_int_equal(pool_open(&pool, 3, 3), 0);
	for (int i = 0; i < 3; i++) {
		c[i].pool = pool;
		assert_int_equal(pthread_create(&thread[i], NULL, call_often, &c[i]), 0);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(atomic_load(&c[i].sum), (long)GRIDS * CELLS * (CELLS - 1) / 2);
	pool_close(pool);
}

/* ---- all ---------------------------------------------------------------------------------- */

static int make_folder(void **state)
{
	(void)state;
	return !mkdtemp(folder);
}

int main(void)
{
	enum { QUOTAS = COUNT(quota_rows) };
	struct CMUnitTest tests[QUOTAS + 7] = {
		cmocka_unit_test(affinity_of_any_machine),
		cmocka_unit_test(no_more_threads_compute_than_cpus),
		cmocka_unit_test(cells_that_wait_for_each_other),
		cmocka_unit_test(cells_that_leave_a_float_mode),
		cmocka_unit_test(faults_of_helpers_are_handled),
		cmocka_unit_test(threads_that_have_nothing_to_do_sleep),
		cmocka_unit_test(several_callers_take_turns),
	};
	for (int i = 0; i < QUOTAS; i++)
		tests[7 + i] = (struct CMUnitTest){ quota_rows[i].name, quotas_are_read, NULL, NULL,
						    (void *)(uintptr_t)&quota_rows[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cpu_threads", tests, make_folder, remove_folder);
}
