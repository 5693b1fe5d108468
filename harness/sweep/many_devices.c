/* SPDX-License-Identifier: Apache-2.0 */
/* many_devices.c - runs one measuring command on several GPUs of a machine: one process for each
 * GPU, with its share of the scenarios, writing to the same database. */
#include "sweep.h"
#include "harness/base/base.h"
#include "harness/worker/worker.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int devices_find(const char *gpu, char device[MOST_DEVICES][DEVICE_NAME])
{
	const char *vendor = device_for(gpu);
	int n = 0;
	if (!vendor || !strcmp(vendor, "cpu"))
		return 0;
	for (; n < MOST_DEVICES && !interrupted; n++) {
		snprintf(device[n], DEVICE_NAME, "%s:%d", vendor, n);
		struct hello hello;
		if (!device_ask(device[n], 0, &hello) || strcmp(hello.info.gpu, gpu))
			break;
	}
	return n;
}

static int count_names(const char *list)
{
	int n = list ? 1 : 0;
	for (const char *c = list; c && *c; c++)
		n += *c == ',';
	return n;
}

static void name_at(const char *list, int index, char name[DEVICE_NAME])
{
	while (index--)
		list += strcspn(list, ",") + 1;
	snprintf(name, DEVICE_NAME, "%.*s", (int)strcspn(list, ","), list);
}

struct job {
	const struct sweep_options *o;
	const struct hello *first;
	int (*run)(const struct sweep_options *, const struct hello *, void *arg);
	void *arg;
};

/* This device's share, in a process of its own. */
static int run_part(const struct job *j, int index, int n, struct sweep_sum *sum)
{
	struct sweep_options o = *j->o;
	struct hello hello;
	char name[DEVICE_NAME];
	name_at(j->o->device, index, name);
	o.device = name;
	o.shard = j->o->shard * n + index;
	o.shards = j->o->shards * n;
	o.sum = j->o->sum ? sum : NULL;
	progress_off(index > 0);
	const int code = sweep_device(&o, &hello);
	if (code)
		return code;
	if (strcmp(hello.info.name, j->first->info.name) ||
	    hello.info.units != j->first->info.units) {
		complain("%s is %s with %d units, but the first device is %s with %d: only GPUs of "
			 "one model are measured together",
			 name, hello.info.name, hello.info.units, j->first->info.name,
			 j->first->info.units);
		return EXIT_USAGE;
	}
	return j->run(&o, &hello, j->arg);
}

static pid_t start(const struct job *j, int index, int n, struct sweep_sum *sum)
{
	const pid_t parent = getpid();
	fflush(NULL);
	const pid_t pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(EXIT_INTERRUPTED);
	spent_begin(SPENT_PREPARING);
	const int code = run_part(j, index, n, sum);
	spent_read(sum->spent_s);
	fflush(NULL);
	_exit(code);
}

/* The first exit code that is not 0. */
static int wait_for(pid_t *pid, int n)
{
	int code = EXIT_DONE, sent = 0;
	for (int left = n; left;) {
		int status;
		const pid_t ended = waitpid(-1, &status, 0);
		if (interrupted && !sent++)
			for (int i = 0; i < n; i++)
				if (pid[i] > 0)
					kill(pid[i], SIGTERM);
		for (int i = 0; i < n && ended > 0; i++)
			if (pid[i] == ended) {
				const int its =
				    WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_CHECK;
				pid[i] = 0;
				code = code ? code : its;
				left--;
			}
		if (ended < 0 && errno == ECHILD)
			break;
	}
	return code;
}

/* This process waited for n others: its time counts as theirs did on average. */
static void spent_as(const struct sweep_sum *sum, int n)
{
	for (int i = 0; i < n; i++)
		for (int k = 0; k < NUM_SPENT; k++)
			spent_move(SPENT_RACING, (enum spent)k, sum[i].spent_s[k] / n);
}

static void add_sum(struct sweep_sum *to, const struct sweep_sum *of)
{
	to->device_s += of->device_s;
	to->ran_out |= of->ran_out;
	for (int i = 0; i < NUM_OUTCOMES; i++)
		to->failed[i] += of->failed[i];
	to->measured += of->measured;
	to->races += of->races;
}

int on_each_device(const struct sweep_options *o, const struct hello *first,
		   int (*run)(const struct sweep_options *, const struct hello *, void *),
		   void *arg)
{
	const struct job j = { .o = o, .first = first, .run = run, .arg = arg };
	const int n = count_names(o->device);
	pid_t pid[MOST_DEVICES] = { 0 };
	if (n < 2)
		return run(o, first, arg);
	if (n > MOST_DEVICES) {
		complain("--device names %d devices; at most %d are measured together", n,
			 MOST_DEVICES);
		return EXIT_USAGE;
	}
	struct sweep_sum *sum = mmap(NULL, (size_t)n * sizeof *sum, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sum == MAP_FAILED) {
		complain("out of memory");
		return EXIT_CHECK;
	}
	int started = 0;
	const enum spent before = spent_on(SPENT_RACING);
	progress_off(1); /* the first child shows it */
	while (started < n && (pid[started] = start(&j, started, n, &sum[started])) > 0)
		started++;
	if (started < n)
		complain("no process for device %d: %s", started, strerror(errno));
	const int code = wait_for(pid, started);
	progress_off(0);
	spent_as(sum, started);
	spent_on(before);
	for (int i = 0; i < n && o->sum; i++)
		add_sum(o->sum, &sum[i]);
	munmap(sum, (size_t)n * sizeof *sum);
	return code ? code : started < n ? EXIT_CHECK : EXIT_DONE;
}
