/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - starts and stops the worker, the process that opens the device, and receives its
 * messages. The parent keeps the database and never opens the device, so a kernel that crashes,
 * hangs or leaves the device unusable costs only a worker: a race replaces one that is lost, and finds
 * the contender to blame. */
#include "records.h"
#include "worker.h"
#include "harness/base/base.h"
#include "harness/measure/measure.h"
#include "harness/search/search.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

struct worker {
	const struct worker_setup *setup;
	pid_t pid; /* 0: no process */
	int socket;
	struct hello hello;
	char text[200];
	char *has; /* [num_built]: binaries that the process was sent */
	int num_built;
};

enum received { RECEIVED_MESSAGE, RECEIVED_HANGUP, RECEIVED_TIMEOUT, RECEIVED_INTERRUPT };

static const double open_s = 120; /* for the device to open */

/* ---- the process ---------------------------------------------------------------- */

/* The worker dies with its parent, writes no core file, and takes the default action on deadly
 * signals even if the parent handles them. */
static void become_worker(const struct worker_setup *setup, int socket, pid_t parent)
{
	static const int deadly[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	const struct rlimit none = { 0, 0 };
	for (size_t i = 0; i < COUNT(deadly); i++)
		signal(deadly[i], SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	setrlimit(RLIMIT_CORE, &none);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	worker_main(setup, socket);
}

static int start(struct worker *w)
{
	int pair[2];
	const pid_t parent = getpid();
	memset(w->has, 0, (size_t)w->num_built);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
		snprintf(w->text, sizeof w->text, "no socket: %s", strerror(errno));
		return 0;
	}
	fflush(NULL);
	w->pid = fork();
	if (!w->pid) {
		close(pair[0]);
		become_worker(w->setup, pair[1], parent);
	}
	close(pair[1]);
	w->socket = pair[0];
	if (w->pid > 0)
		return 1;
	snprintf(w->text, sizeof w->text, "no process: %s", strerror(errno));
	close(w->socket);
	w->pid = 0;
	return 0;
}

/* Kills the process if it runs. Leaves in w->text how it ended. */
static void worker_stop(struct worker *w)
{
	int status = 0;
	if (!w->pid)
		return;
	const enum spent before = spent_on(SPENT_OPENING);
	/* a worker that already ended keeps its own status; a live one is killed */
	if (waitpid(w->pid, &status, WNOHANG) != w->pid) {
		kill(w->pid, SIGKILL);
		while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	if (WIFSIGNALED(status))
		snprintf(w->text, sizeof w->text, "killed by signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else
		snprintf(w->text, sizeof w->text, "exited with status %d", WEXITSTATUS(status));
	close(w->socket);
	w->pid = 0;
	spent_on(before);
}

static enum received worker_receive(struct worker *w, struct message *message, double deadline)
{
	struct pollfd p = { .fd = w->socket, .events = POLLIN };
	for (;;) {
		if (interrupted)
			return RECEIVED_INTERRUPT;
		double left = deadline - seconds_now();
		if (left <= 0)
			return RECEIVED_TIMEOUT;
		/* short waits: a signal between the test above and poll() is still noticed */
		int ready = poll(&p, 1, (int)fmin(1e3 * left + 1, 50));
		if (w->setup->idle)
			w->setup->idle(w->setup->idle_arg);
		if (ready > 0)
			break;
	}
	if (!pipe_receive(w->socket, message, sizeof *message) || message->bytes != sizeof *message)
		return RECEIVED_HANGUP;
	return RECEIVED_MESSAGE;
}

struct worker *worker_new(const struct worker_setup *setup)
{
	struct worker *w = calloc(1, sizeof *w);
	if (w) {
		w->setup = setup;
		w->num_built = worker_binaries(setup->problems);
		w->has = calloc((size_t)w->num_built, 1);
	}
	if (w && w->has)
		return w;
	complain("out of memory");
	free(w);
	return NULL;
}

void worker_free(struct worker *w)
{
	if (w) {
		worker_stop(w);
		free(w->has);
	}
	free(w);
}

const char *worker_text(const struct worker *w)
{
	return w->text;
}

int worker_hello(struct worker *w, struct hello *hello)
{
	struct message message;
	enum received received = RECEIVED_HANGUP;
	if (!w->pid) {
		const enum spent before = spent_on(SPENT_OPENING);
		w->hello = (struct hello){ .status = ATTUNE_DEVICE_ERROR };
		if (start(w))
			received = worker_receive(w, &message, seconds_now() + open_s);
		if (received == RECEIVED_MESSAGE) {
			w->hello = message.hello;
		} else {
			worker_stop(w);
			snprintf(w->hello.text, sizeof w->hello.text,
				 "the process that opens the device: %.150s",
				 received == RECEIVED_TIMEOUT ? "no answer" : w->text);
		}
		if (w->hello.status)
			worker_stop(w);
		spent_on(before);
	}
	*hello = w->hello;
	return received != RECEIVED_INTERRUPT || w->pid;
}

/* ---- races ------------------------------------------------------------------------- */
/* A contender that runs when the worker dies or stops answering need not be the cause: the system
 * kills processes when memory runs out, and users kill them. So a first loss is no result. The
 * contender runs alone in the next worker, for the fewest rounds possible. If that worker is lost
 * too, the contender is to blame; else all remaining contenders run again, including this one. */
struct race_attempts {
	struct worker *w;
	const struct order *order;
	const struct listener *listener;
	char *final; /* of each contender: has its result */
	char *lost;  /* of each contender: workers that were lost while it ran */
	int staged;  /* the contender under way; -1: none */
	int alone;   /* the contender that runs by itself; -1: all run */
	int losses;  /* workers lost since the last new result */
};

/* ---- sending ----------------------------------------------------------------------- */
static int runs(const struct race_attempts *s, int i)
{
	return !s->final[i] && (s->alone < 0 || s->alone == i);
}

static int attempts_remaining(const struct race_attempts *s)
{
	int n = 0;
	for (int i = 0; i < s->order->n; i++)
		n += runs(s, i);
	return n;
}

/* A binary that a contender needs. */
struct needed {
	int built;
	const struct blob *blob;
};
enum { NEEDED_BY_CONTENDER = 2 * (1 + NUM_HELPERS) };

static void need(struct worker *w, struct needed *v, int *n, int built, const struct blob *blob)
{
	if (built < 0 || !blob || w->has[built])
		return;
	w->has[built] = 1;
	v[(*n)++] = (struct needed){ built, blob };
}

/* Fills v with the binaries that the remaining contenders need and the process lacks. */
static int list_needed(const struct race_attempts *s, struct needed *v)
{
	const struct problems *problems = s->w->setup->problems;
	int n = 0;
	for (int i = 0; i < s->order->n; i++)
		for (int part = 0; runs(s, i) && part < contender_parts(&s->order->v[i]); part++) {
			const struct built_choice *e =
			    contender_built(problems, &s->order->v[i], part);
			need(s->w, v, &n, e->built, e->blob);
			for (enum helper h = 0; h < NUM_HELPERS; h++)
				need(s->w, v, &n, e->helper[h], e->helping[h]);
		}
	return n;
}

static size_t text_bytes(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static int send_code(struct worker *w, const struct needed *of)
{
	const struct blob *b = of->blob;
	const struct code_record r = { .built = of->built,
				       .size = b->data ? b->size : 0,
				       .path = text_bytes(b->path),
				       .entry = text_bytes(b->entry),
				       .cell = b->cell };
	return pipe_send(w->socket, &r, sizeof r) && pipe_send(w->socket, b->data, r.size) &&
	       pipe_send(w->socket, b->path, r.path) && pipe_send(w->socket, b->entry, r.entry);
}

static int send_all(const struct race_attempts *s, struct needed *needed)
{
	const int is_trial = s->alone >= 0;
	struct task task = { .bytes = sizeof task,
			     .codes = list_needed(s, needed),
			     .order = *s->order };
	task.order.n = attempts_remaining(s);
	if (is_trial)
		task.order.fixed_rounds = task.order.with_control = 0, task.order.seconds = 0;
	int ok = pipe_send(s->w->socket, &task, sizeof task);
	for (int i = 0; i < s->order->n && ok; i++) {
		struct contender contender = s->order->v[i];
		contender.index = i;
		if (runs(s, i))
			ok = pipe_send(s->w->socket, &contender, sizeof contender);
	}
	for (int i = 0; i < task.codes && ok; i++)
		ok = send_code(s->w, &needed[i]);
	return ok;
}

static int attempts_send(const struct race_attempts *s)
{
	struct needed *needed =
	    calloc((size_t)s->order->n * NEEDED_BY_CONTENDER + 1, sizeof *needed);
	const int ok = needed && send_all(s, needed);
	free(needed);
	return ok;
}

/* ---- attempts ---------------------------------------------------------------------- */

static const double idle_s = 120; /* between two messages, unless a stage allows more */

enum { LOSSES_TO_BLAME = 2, MOST_LOSSES = 4 };

/* 0: the listener stops the race. */
static int deliver(struct race_attempts *s, int i, const struct measurement *m, int failed_gate)
{
	if (i < 0 || s->final[i])
		return 1;
	s->final[i] = 1;
	s->losses = 0;
	if (s->alone == i)
		s->alone = -1;
	return s->listener->result(s->listener->arg, s->order, i, m, failed_gate);
}

/* The device or the worker was lost while contender i ran. Returns as deliver. */
static int deliver_loss(struct race_attempts *s, int i, const struct measurement *m)
{
	s->staged = -1;
	if (i < 0 || s->final[i])
		return 1;
	if (++s->lost[i] >= LOSSES_TO_BLAME)
		return deliver(s, i, m, 1);
	s->alone = i;
	return 1;
}

/* A time that contender i took alone is dropped: it is not comparable with the others. */
static int on_result(struct race_attempts *s, int i, const struct message *message)
{
	const struct measurement *m = &message->result.m;
	if (i >= 0 && m->outcome == OUTCOME_CRASH)
		return deliver_loss(s, i, m);
	if (s->alone >= 0 && (m->outcome == OUTCOME_OK || m->outcome == OUTCOME_NOISY))
		return 1;
	return deliver(s, i, m, message->result.failed_gate);
}

static int deliver_control(struct race_attempts *s, int i, const struct control *from)
{
	struct control control = *from;
	control.of = i;
	if (i < 0 || !s->listener->control)
		return 1;
	return s->listener->control(s->listener->arg, s->order, &control);
}

/* The worker died, or is silent and is killed. Returns as deliver. */
static int lose(struct race_attempts *s, enum received received)
{
	struct measurement m = { .outcome = received == RECEIVED_TIMEOUT ? OUTCOME_TIMEOUT
									 : OUTCOME_CRASH };
	worker_stop(s->w);
	s->losses++;
	if (received == RECEIVED_TIMEOUT)
		snprintf(m.detail, sizeof m.detail, "gave no sign of life and was killed");
	else
		snprintf(m.detail, sizeof m.detail, "%.150s", s->w->text);
	return deliver_loss(s, s->staged, &m);
}

/* Runs the task in one worker until it is done or the worker is lost. 1: go on with another
 * worker; 0: the race is over and *end says how. */
static int run_attempt(struct race_attempts *s, enum race_end *end)
{
	struct message message;
	double deadline = seconds_now() + idle_s;
	s->staged = -1;
	if (!attempts_send(s)) {
		*end = lose(s, RECEIVED_HANGUP) ? RACE_ENDED : RACE_STOPPED;
		return *end == RACE_ENDED;
	}
	for (;;) {
		enum received received = worker_receive(s->w, &message, deadline);
		int i = received == RECEIVED_MESSAGE ? message.index : -1, more = 1;
		if (received == RECEIVED_INTERRUPT) {
			*end = RACE_INTERRUPTED;
			return 0;
		}
		if (received != RECEIVED_MESSAGE) {
			*end = lose(s, received) ? RACE_ENDED : RACE_STOPPED;
			return *end == RACE_ENDED;
		}
		deadline = seconds_now() + idle_s;
		s->listener->beat(s->listener->arg);
		switch (message.kind) {
		case MESSAGE_STAGE:
			s->staged = i;
			deadline = seconds_now() + message.patience_s;
			break;
		case MESSAGE_PASSED:
			s->order->v[i].passed = 1;
			s->listener->passed(s->listener->arg, s->order, i);
			break;
		case MESSAGE_PLANNED:
			if (s->listener->planned)
				s->listener->planned(s->listener->arg, s->order, i, message.text);
			break;
		case MESSAGE_RESULT: more = on_result(s, i, &message); break;
		case MESSAGE_CONTROL: more = deliver_control(s, i, &message.control); break;
		case MESSAGE_IMPOSSIBLE:
			snprintf(s->w->text, sizeof s->w->text, "%.199s", message.text);
			*end = RACE_IMPOSSIBLE;
			return 0;
		case MESSAGE_DONE:
			spent_move(SPENT_RACING, SPENT_CHECKING, message.spent_s[SPENT_CHECKING]);
			spent_move(SPENT_RACING, SPENT_UPLOADING, message.spent_s[SPENT_UPLOADING]);
			*end = RACE_ENDED;
			return 0;
		case MESSAGE_HELLO: *end = RACE_ENDED; return 0;
		}
		if (!more) {
			*end = RACE_STOPPED;
			return 0;
		}
	}
}

static enum race_end run_attempts(struct race_attempts *s)
{
	enum race_end end = RACE_ENDED;
	struct hello hello;
	while (attempts_remaining(s)) {
		if (!worker_hello(s->w, &hello))
			return RACE_INTERRUPTED;
		if (hello.status) {
			snprintf(s->w->text, sizeof s->w->text, "%s", hello.text);
			return RACE_NO_DEVICE;
		}
		const int was_trial = s->alone >= 0, goes_on = run_attempt(s, &end);
		if (goes_on && s->losses >= MOST_LOSSES)
			return RACE_IMPOSSIBLE;
		if (!goes_on && (end != RACE_ENDED || !was_trial))
			break;
		if (!goes_on)
			s->alone = -1;
	}
	if (end == RACE_INTERRUPTED || end == RACE_STOPPED)
		worker_stop(s->w);
	return end;
}

enum race_end worker_race(struct worker *w, const struct order *order, const struct listener *l)
{
	struct race_attempts s = { .w = w,
				   .order = order,
				   .listener = l,
				   .alone = -1,
				   .lost = calloc((size_t)order->n + 1, 1),
				   .final = calloc((size_t)order->n + 1, 1) };
	enum race_end end = RACE_IMPOSSIBLE;
	if (s.final && s.lost)
		end = run_attempts(&s);
	else
		snprintf(w->text, sizeof w->text, "out of memory");
	free(s.final);
	free(s.lost);
	return end;
}
