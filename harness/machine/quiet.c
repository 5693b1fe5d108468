/* SPDX-License-Identifier: Apache-2.0 */
/* quiet.c - measures the load by other processes before a measurement, and waits until it ends.
 *
 *   CPUs  user and system time of all processes from /proc/<pid>/stat, and the busy time of the
 *         CPUs from /proc/stat, which includes other containers and other virtual machines
 *         (steal)
 *   GPUs  the utilization that the driver reports (device_ops.use)
 *
 * The limits are loads that a race tolerates:
 *
 *   spare_cpus  a sample is taken up to three times until no other process ran meanwhile, so
 *               processes that run a quarter of the time spoil 1 in 4^3 = 64 samples
 *   busy_gpu    a GPU has no such guard. Desktops use 1 to 3 % of one. 5 % of time-slicing makes
 *               two times of one choice differ by ten times the noise of a quiet GPU (0.6 %) */
#include "machine.h"
#include "sensors.h"
#include "harness/base/base.h"
#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct {
	double spare_cpus, busy_gpu;
} limits = { .spare_cpus = 0.25, .busy_gpu = 0.05 };
static const double look_s = 0.5;

/* ---- CPU times -------------------------------------------------------------------------- */

struct process {
	int pid, parent;
	char command[32];
	double seconds;
	unsigned long long started;
	char is_ours;
};

struct cpu_times {
	struct process *v;
	int n, room, cpus;
	double busy; /* seconds, of the CPUs that we may run on; NaN: not known */
	double at;   /* seconds; in a folder that is not /proc, its file `uptime` */
};

/* The command is in parentheses, and may contain parentheses itself. */
static int parse_process(struct process *p, const char *line, double tick)
{
	const char *open = strchr(line, '('), *close = strrchr(line, ')');
	unsigned long user, system;
	if (!open || !close || close < open)
		return 0;
	*p = (struct process){ .pid = atoi(line) };
	snprintf(p->command, sizeof p->command, "%.*s", (int)(close - open - 1), open + 1);
	if (sscanf(
		close + 1,
		" %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %llu",
		&p->parent, &user, &system, &p->started) != 4)
		return 0;
	p->seconds = (double)(user + system) * tick;
	return p->pid > 0;
}

static int read_process(struct process *p, const char *root, const char *pid, double tick)
{
	char path[320], line[512];
	snprintf(path, sizeof path, "%s/%s/stat", root, pid);
	FILE *f = fopen(path, "re");
	if (!f) /* it has ended */
		return 0;
	const int got = fgets(line, sizeof line, f) && parse_process(p, line, tick);
	fclose(f);
	return got;
}

static int add_process(struct cpu_times *t, const struct process *p)
{
	const int ok = array_grow(&t->v, t->n, &t->room, sizeof *t->v);
	if (ok)
		t->v[t->n++] = *p;
	return ok;
}

/* "cpu3 user nice system idle iowait irq softirq steal ..." of the CPUs that we may run on. */
static void read_cpus(struct cpu_times *t, const char *root, double tick)
{
	char path[256], line[256];
	cpu_set_t ours;
	snprintf(path, sizeof path, "%s/stat", root);
	FILE *f = fopen(path, "re");
	const int known = !sched_getaffinity(0, sizeof ours, &ours);
	t->cpus = known ? CPU_COUNT(&ours) : (int)sysconf(_SC_NPROCESSORS_ONLN);
	t->busy = NAN;
	while (f && fgets(line, sizeof line, f)) {
		unsigned long long v[8] = { 0 };
		unsigned cpu;
		if (sscanf(line, "cpu%u %llu %llu %llu %llu %llu %llu %llu %llu", &cpu, &v[0],
			   &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) < 5 ||
		    (known && (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &ours))))
			continue;
		t->busy = (isnan(t->busy) ? 0 : t->busy) +
			  (double)(v[0] + v[1] + v[2] + v[5] + v[6] + v[7]) * tick;
	}
	if (f)
		fclose(f);
}

static double read_uptime(const char *root)
{
	char path[256];
	double at = 0;
	snprintf(path, sizeof path, "%s/uptime", root);
	FILE *f = fopen(path, "re");
	if (f && fscanf(f, "%lf", &at) != 1)
		at = 0;
	if (f)
		fclose(f);
	return at;
}

struct cpu_times *cpu_times_read(const char *root)
{
	const double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
	struct cpu_times *t = calloc(1, sizeof *t);
	DIR *dir = opendir(root);
	int ok = t && dir;
	if (ok) {
		t->at = read_uptime(root);
		read_cpus(t, root, tick);
	}
	for (const struct dirent *e; ok && (e = readdir(dir));) {
		struct process p;
		if (isdigit((unsigned char)e->d_name[0]) && read_process(&p, root, e->d_name, tick))
			ok = add_process(t, &p);
	}
	if (dir)
		closedir(dir);
	if (!ok) {
		cpu_times_free(t);
		return NULL;
	}
	return t;
}

void cpu_times_free(struct cpu_times *t)
{
	if (t)
		free(t->v);
	free(t);
}

static struct process *find_process(const struct cpu_times *t, int pid)
{
	for (int i = 0; i < t->n; i++)
		if (t->v[i].pid == pid)
			return &t->v[i];
	return NULL;
}

static int is_ours(const struct cpu_times *t, const struct process *p, pid_t self)
{
	for (int depth = 0; p && depth < t->n; depth++) {
		if (p->pid == self)
			return 1;
		p = find_process(t, p->parent);
	}
	return 0;
}

static double spent_since(const struct cpu_times *before, const struct process *p)
{
	const struct process *was = find_process(before, p->pid);
	return was && was->started == p->started ? fmax(0, p->seconds - was->seconds) : p->seconds;
}

void cpu_use_between(struct cpu_use *u, const struct cpu_times *before,
		     const struct cpu_times *after, pid_t self)
{
	const double seconds = after->at - before->at;
	double own = 0;
	*u = (struct cpu_use){ .cpus = after->cpus };
	if (!(seconds > 0))
		return;
	for (int i = 0; i < after->n; i++) {
		const struct process *p = &after->v[i];
		const double cpus = spent_since(before, p) / seconds;
		if (is_ours(after, p, self)) {
			own += cpus;
			continue;
		}
		u->seen += cpus;
		if (cpus > u->busiest.cpus) {
			u->busiest = (struct busiest){ .pid = p->pid, .cpus = cpus };
			memcpy(u->busiest.command, p->command, sizeof u->busiest.command);
		}
	}
	u->others = u->seen;
	if (!isnan(before->busy) && !isnan(after->busy))
		u->others = fmax(u->seen, (after->busy - before->busy) / seconds - own);
}

int quiet_look_cpu(struct cpu_use *u)
{
	const char *asked = getenv("ATTUNE_PROC"), *root = asked && *asked ? asked : "/proc";
	const struct timespec nap = { .tv_nsec = (long)(1e9 * look_s) };
	struct cpu_times *before = cpu_times_read(root), *after = NULL;
	if (before) {
		nanosleep(&nap, NULL);
		after = cpu_times_read(root);
	}
	if (after)
		cpu_use_between(u, before, after, getpid());
	cpu_times_free(before);
	cpu_times_free(after);
	return after != NULL;
}

/* ---- obstacles --------------------------------------------------------------------------- */

static void name_process(char *text, size_t size, int pid)
{
	char path[64], command[64] = "";
	snprintf(path, sizeof path, "/proc/%d/comm", pid);
	FILE *f = fopen(path, "re");
	if (f && fgets(command, sizeof command, f))
		command[strcspn(command, "\n")] = '\0';
	if (f)
		fclose(f);
	snprintf(text, size, "%s (pid %d)",
		 *command ? command : "a process that is not listed here", pid);
}

static int gpu_obstacle(char *text, size_t size, const struct device_info *d,
			const struct device_use *use)
{
	char who[128] = "another process";
	if (use->slowed) {
		snprintf(text, size, "%s has slowed itself down: heat, or power", d->gpu);
		return 1;
	}
	if (!(use->busy > limits.busy_gpu))
		return 0;
	if (use->num_pids)
		name_process(who, sizeof who, use->pids[0]);
	snprintf(text, size, "%s is in use %.0f %% of the time, by %s%s", d->gpu, 100 * use->busy,
		 who, use->num_pids > 1 ? " and others" : "");
	return 1;
}

/* A GPU needs one CPU, for the launches. */
static int cpu_obstacle(char *text, size_t size, const struct device_info *d,
			const struct cpu_use *u)
{
	const int needs = d->backend == BACKEND_CPU ? d->units : 1;
	const double free_cpus = u->cpus - u->others;
	if (u->cpus < 1 || free_cpus >= (needs < u->cpus ? needs : u->cpus) - limits.spare_cpus)
		return 0;
	if (u->busiest.pid && 2 * u->seen >= u->others)
		snprintf(text, size,
			 "other processes use %.1f of %d CPUs, %s (pid %d) most of all: %.1f",
			 u->others, u->cpus, u->busiest.command, u->busiest.pid, u->busiest.cpus);
	else
		snprintf(text, size, "processes that are not listed here use %.1f of %d CPUs",
			 u->others, u->cpus);
	return 1;
}

int quiet_obstacle(char *text, size_t size, const struct device_info *d, const struct cpu_use *u,
		   const struct device_use *use)
{
	return (use && gpu_obstacle(text, size, d, use)) || cpu_obstacle(text, size, d, u);
}

/* ---- waiting ----------------------------------------------------------------------------- */

int quiet_wait(const struct quiet *q)
{
	const double begin = seconds_now();
	char text[256];
	for (int looks = 0;; looks++) {
		struct cpu_use cpu = { 0 };
		struct device_use use = { 0 };
		const int sees = q->look(q->arg, &cpu, &use);
		const double waited = seconds_now() - begin;
		if (interrupted)
			return EXIT_INTERRUPTED;
		if (!sees || !quiet_obstacle(text, sizeof text, q->device, &cpu, &use))
			break;
		if (q->anyway) {
			complain("measuring anyway: %s", text);
			return EXIT_DONE;
		}
		if (waited >= q->patience_s) {
			progress_end();
			complain("refused: %s; --anyway (make: ANYWAY=1) measures nevertheless", text);
			return EXIT_BUSY;
		}
		if (!looks)
			complain("%s; waiting up to %.0f s", text, ceil(q->patience_s - waited));
		progress("waiting for a quiet machine", waited, q->patience_s);
	}
	progress_end();
	return EXIT_DONE;
}
