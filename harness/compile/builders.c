/* SPDX-License-Identifier: Apache-2.0 */
/* builders.c - the list of all binaries of a sweep, each once, and the builders that compile them in
 * the background: starts and stops builders, and assigns them work. A builder has its own process
 * group, which its compilers join, so one signal stops, resumes or kills them together. It dies
 * with its parent. */
#include "compile.h"
#include "harness/base/base.h"
#include "kernels/device/cpu/usable.h"
#include "kernels/device/hip/hip.h"
#include "kernels/spec/kernel.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the list --------------------------------------------------------------------- */

int binaries_add(struct binaries *b, const struct choice *c, const attune_shape *shape)
{
	char flags[MAX_FLAGS];
	binary_flags(flags, sizeof flags, c->kernel, &c->config, shape);
	return binaries_add_source(b, c->kernel, NULL, flags);
}

int binaries_add_source(struct binaries *b, const struct kernel *kernel, const char *root,
			const char *flags)
{
	for (int k = 0; k < b->n; k++) { /* choices of one binary follow one another */
		const int i = (b->found + k) % b->n;
		if (b->v[i].kernel == kernel && b->v[i].root == root &&
		    !strcmp(b->v[i].flags, flags))
			return b->found = i;
	}
	if (!array_grow(&b->v, b->n, &b->room, sizeof *b->v)) {
		complain("out of memory");
		return -1;
	}
	b->v[b->n] = (struct built){ .kernel = kernel, .root = root, .status = NOT_BUILT };
	snprintf(b->v[b->n].flags, sizeof b->v->flags, "%s", flags);
	return b->n++;
}

int binaries_add_helpers(struct binaries *b, const struct choice *of, const attune_shape *shape,
			 int helper[NUM_HELPERS])
{
	for (enum helper i = 0; i < NUM_HELPERS; i++) {
		struct choice c = { .kernel = kernel_helper(of->kernel->backend, i) };
		helper[i] = -1;
		if (!c.kernel || !kernel_takes(of->kernel, &of->config, i))
			continue;
		config_default(&c.config, c.kernel->space);
		helper[i] = binaries_add(b, &c, shape);
		if (helper[i] < 0)
			return 0;
	}
	return 1;
}

/* ---- the builders ----------------------------------------------------------------- */

/* LIMIT_S: a longer compilation counts as refused. MAX_TRIES: if the builder dies. */
enum { MAX_BUILDERS = 64, LIMIT_S = 120, MAX_TRIES = 2 };

/* Both ends are one program after fork(), so pointers to its constants are valid in both. */
struct request {
	const struct kernel *kernel;
	char flags[MAX_FLAGS], root[PATH_MAX], arch[CODE_ARCH]; /* root "": source_root() */
};
struct reply {
	int status, cached; /* as jit_compile returns it */
};

struct builder {
	pid_t pid; /* 0: none */
	int socket;
	int life; /* a pipe's end that only the parent has: it closes when the parent ends */
	int at;   /* index of its binary; -1: idle */
	double since;
};
struct builders {
	struct builder v[MAX_BUILDERS];
	int n, hopeless, held;
	int *queue, next, last, room; /* indices in order of binaries_ask */
};

/* ---- in the builder --------------------------------------------------------------- */

static void kill_group(int signal_number)
{
	(void)signal_number;
	kill(0, SIGKILL);
}

/* A builder keeps two files open: its socket, and the pipe that closes when the parent ends. */
enum { SOCKET = STDERR_FILENO + 1, LIFE, NUM_KEPT };

/* Closes all other files: a device lock is held while any process has its file open. Drops stderr:
 * the parent reports errors. */
static void keep_only(int socket, int life)
{
	const int silent = open("/dev/null", O_WRONLY | O_CLOEXEC);
	const int from[] = { fcntl(socket, F_DUPFD_CLOEXEC, NUM_KEPT),
			     fcntl(life, F_DUPFD_CLOEXEC, NUM_KEPT) };
	if (dup2(silent, STDERR_FILENO) < 0 || dup3(from[0], SOCKET, O_CLOEXEC) < 0 ||
	    dup3(from[1], LIFE, O_CLOEXEC) < 0)
		_exit(1);
	close_range(NUM_KEPT, ~0u, 0);
}

/* A suspended builder (binaries_hold) does not receive the signal of its parent's death. So a
 * process outside its group waits for the parent's end and kills the group. If fork() fails, a
 * suspended builder may survive its parent. */
static void start_watchdog(pid_t builder)
{
	struct pollfd life = { .fd = LIFE };
	if (fork())
		return;
	setpgid(0, 0);
	close(SOCKET);
	while (poll(&life, 1, -1) < 0 && errno == EINTR)
		;
	kill(-builder, SIGKILL);
	_exit(0);
}

static _Noreturn void build(int from_parent, int life, pid_t parent)
{
	struct request r;
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, kill_group);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	keep_only(from_parent, life);
	start_watchdog(getpid());
	while (recv(SOCKET, &r, sizeof r, 0) == (ssize_t)sizeof r) {
		struct binary b;
		struct reply reply;
		reply.status = *r.root ? jit_compile_below(&b, r.root, r.kernel, r.flags, r.arch)
				       : jit_compile(&b, r.kernel, r.flags, r.arch);
		reply.cached = reply.status != NO_COMPILER && b.cached;
		jit_free(&b);
		if (send(SOCKET, &reply, sizeof reply, MSG_NOSIGNAL) != (ssize_t)sizeof reply)
			break;
	}
	_exit(0);
}

/* ---- starting and stopping ----------------------------------------------------------- */

static int start(struct builder *b)
{
	int pair[2], life[2];
	const pid_t parent = getpid();
	*b = (struct builder){ .at = -1 };
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return 0;
	if (pipe2(life, O_CLOEXEC)) {
		close(pair[0]);
		close(pair[1]);
		return 0;
	}
	fflush(NULL);
	b->pid = fork();
	if (!b->pid) {
		setpgid(0, 0);
		close(pair[0]);
		build(pair[1], life[0], parent);
	}
	close(pair[1]);
	close(life[0]);
	b->socket = pair[0];
	b->life = life[1];
	if (b->pid > 0) {
		setpgid(b->pid, b->pid);
		return 1;
	}
	close(b->socket);
	close(b->life);
	b->pid = 0;
	return 0;
}

static void stop(struct builder *b)
{
	if (!b->pid)
		return;
	kill(-b->pid, SIGKILL);
	kill(b->pid, SIGKILL);
	while (waitpid(b->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(b->socket);
	close(b->life);
	b->pid = 0;
}

/* One CPU is left to the process that drives a GPU. A CPU is not timed while compilers run. */
static int most_builders(const struct binaries *b)
{
	const int cpus = cpu_usable();
	const int most = cpus - (b->spare_cpu && cpus > 1);
	return most < 1 ? 1 : most > MAX_BUILDERS ? MAX_BUILDERS : most;
}

static struct builders *builders_of(struct binaries *b)
{
	cache_root(); /* before the first fork, so that builders use the same folder */
	if (!b->builders)
		b->builders = calloc(1, sizeof *b->builders);
	if (!b->builders)
		complain("out of memory");
	return b->builders;
}

void binaries_end(struct binaries *b)
{
	for (int i = 0; b->builders && i < b->builders->n; i++)
		stop(&b->builders->v[i]);
	if (b->builders)
		free(b->builders->queue);
	free(b->builders);
	b->builders = NULL;
	for (int i = 0; i < b->n; i++)
		b->v[i].asked = 0;
}

void binaries_hold(struct binaries *b, int hold)
{
	struct builders *s = b->builders;
	if (!s || s->held == hold)
		return;
	s->held = hold;
	for (int i = 0; i < s->n; i++)
		if (s->v[i].pid)
			kill(-s->v[i].pid, hold ? SIGSTOP : SIGCONT);
	for (int i = 0; i < s->n && !hold; i++)
		s->v[i].since = seconds_now();
}

/* ---- replies ----------------------------------------------------------------------------- */

static int final_status(const struct built *v, const char *arch, int status)
{
	const int in_memory = status == BUILT && v->binary.spill_bytes > 0 && hip_chip(arch);
	return in_memory && v->kernel->selectable ? USES_SCRATCH : status;
}

/* Reads the binary from the cache; compiles it here if the builder could not write it there. */
static void take_back(struct binaries *b, int index, const struct reply *r)
{
	struct built *v = &b->v[index];
	if (b->builders->hopeless) /* the reason was printed */
		return;
	const int status =
	    v->root ? jit_compile_below(&v->binary, v->root, v->kernel, v->flags, b->arch)
		    : jit_compile(&v->binary, v->kernel, v->flags, b->arch);
	b->builders->hopeless |= status == NO_COMPILER;
	v->status = status == NO_COMPILER ? NOT_BUILT : final_status(v, b->arch, status);
	b->compiled += status == BUILT && !r->cached;
}

static void refuse(struct built *v, const char *why)
{
	v->binary = (struct binary){ .log = strdup(why), .registers = -1, .spill_bytes = -1 };
	v->status = REFUSED_BY_COMPILER;
}

/* The builder died: the compiler crashed, or the process was killed. */
static void handle_death(struct binaries *b, struct builder *of)
{
	const int index = of->at;
	stop(of);
	of->at = -1;
	if (index < 0)
		return;
	b->v[index].asked = 0;
	if (++b->v[index].tries < MAX_TRIES)
		binaries_ask(b, index);
	else
		refuse(&b->v[index], "the compiler died");
}

static void give_up(struct binaries *b, struct builder *of)
{
	char text[80];
	snprintf(text, sizeof text, "given up after %d s", LIMIT_S);
	refuse(&b->v[of->at], text);
	stop(of);
	of->at = -1;
}

static void receive(struct binaries *b, struct builder *of)
{
	struct reply r;
	const ssize_t n = recv(of->socket, &r, sizeof r, MSG_DONTWAIT);
	if (n == (ssize_t)sizeof r) {
		const int index = of->at;
		of->at = -1;
		take_back(b, index, &r);
	} else if (n >= 0 || (errno != EAGAIN && errno != EINTR)) {
		handle_death(b, of);
	} else if (!b->builders->held && seconds_now() - of->since > LIMIT_S) {
		give_up(b, of);
	}
}

/* ---- the queue -------------------------------------------------------------------------- */

int binaries_ask(struct binaries *b, int index)
{
	struct builders *s = builders_of(b);
	if (!s)
		return 0;
	if (b->v[index].status != NOT_BUILT || b->v[index].asked)
		return 1;
	if (!array_grow(&s->queue, s->last, &s->room, sizeof *s->queue)) {
		complain("out of memory");
		return 0;
	}
	b->v[index].asked = 1;
	s->queue[s->last++] = index;
	return 1;
}

int binaries_waiting(const struct binaries *b)
{
	int n = 0;
	for (int i = b->builders ? b->builders->next : 0; b->builders && i < b->builders->last; i++)
		n += b->v[b->builders->queue[i]].status == NOT_BUILT;
	return n;
}

static int is_being_built(const struct builders *s, int index)
{
	for (int i = 0; i < s->n; i++)
		if (s->v[i].pid && s->v[i].at == index)
			return 1;
	return 0;
}

/* The first of `need` that is not being built, else the head of the queue; -1: none. */
static int next_job(struct binaries *b, const int *need, int n)
{
	struct builders *s = b->builders;
	for (int i = 0; i < n; i++)
		if (b->v[need[i]].status == NOT_BUILT && !is_being_built(s, need[i]))
			return need[i];
	for (; s->next < s->last; s->next++) {
		const int index = s->queue[s->next];
		if (b->v[index].status == NOT_BUILT && !is_being_built(s, index))
			return index;
	}
	return -1;
}

/* 0: no builder can be started or reached. */
static int assign(struct binaries *b, struct builder *of, int index)
{
	const struct built *v = &b->v[index];
	struct request r = { .kernel = v->kernel };
	snprintf(r.flags, sizeof r.flags, "%s", v->flags);
	snprintf(r.root, sizeof r.root, "%s", v->root ? v->root : "");
	snprintf(r.arch, sizeof r.arch, "%s", b->arch);
	if ((!of->pid && !start(of)) ||
	    send(of->socket, &r, sizeof r, MSG_NOSIGNAL) != (ssize_t)sizeof r)
		return 0;
	of->at = index;
	of->since = seconds_now();
	return 1;
}

static void assign_jobs(struct binaries *b, const int *need, int n)
{
	struct builders *s = b->builders;
	const int most = most_builders(b);
	for (int i = 0; i < most && !s->hopeless && !s->held; i++) {
		if (i < s->n && s->v[i].pid && s->v[i].at >= 0)
			continue;
		const int index = next_job(b, need, n);
		if (index < 0)
			break;
		if (i == s->n)
			s->v[s->n++] = (struct builder){ .at = -1 };
		if (!assign(b, &s->v[i], index)) { /* compile in this process */
			const struct reply unknown = { 0 };
			take_back(b, index, &unknown);
			break;
		}
	}
}

static void poll_for(struct binaries *b, const int *need, int n)
{
	for (int i = 0; i < b->builders->n; i++)
		if (b->builders->v[i].pid && b->builders->v[i].at >= 0)
			receive(b, &b->builders->v[i]);
	assign_jobs(b, need, n);
}

void binaries_poll(struct binaries *b)
{
	if (b->builders)
		poll_for(b, NULL, 0);
}

int binaries_too_late(const struct binaries *b)
{
	return b->until > 0 && budget_now() >= b->until;
}

/* ---- waiting ------------------------------------------------------------------------------ */

static int count_made(const struct binaries *b, const int *index, int n)
{
	int made = 0;
	for (int i = 0; i < n; i++)
		made += b->v[index[i]].status != NOT_BUILT;
	return made;
}

static void wait_for_reply(const struct builders *s)
{
	struct pollfd p[MAX_BUILDERS];
	nfds_t n = 0;
	for (int i = 0; i < s->n; i++)
		if (s->v[i].pid && s->v[i].at >= 0)
			p[n++] = (struct pollfd){ .fd = s->v[i].socket, .events = POLLIN };
	poll(p, n, 50);
}

int binaries_need(struct binaries *b, const int *index, int n)
{
	struct builders *s = builders_of(b);
	const double began = seconds_now(), budget_began = budget_now();
	int made = s ? count_made(b, index, n) : 0;
	if (!s || made == n)
		return s != NULL;
	const enum spent before = spent_on(SPENT_COMPILING);
	binaries_hold(b, 0);
	while (made < n && !interrupted && !s->hopeless && !binaries_too_late(b)) {
		poll_for(b, index, n);
		made = count_made(b, index, n);
		if (made < n) {
			progress("compiling", made, n);
			wait_for_reply(s);
		}
	}
	b->seconds += seconds_now() - began;
	b->budget_s += budget_now() - budget_began;
	spent_on(before);
	return made == n;
}

int binaries_compile(struct binaries *b)
{
	int *all = malloc(((size_t)b->n + 1) * sizeof *all), ok;
	for (int i = 0; all && i < b->n; i++)
		all[i] = i;
	ok = all && binaries_need(b, all, b->n);
	binaries_end(b);
	free(all);
	return ok;
}

void binaries_free(struct binaries *b)
{
	binaries_end(b);
	for (int i = 0; i < b->n; i++)
		if (b->v[i].status != NOT_BUILT)
			jit_free(&b->v[i].binary);
	free(b->v);
	*b = (struct binaries){ .arch = b->arch };
}
