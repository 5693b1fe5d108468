/* worker.c - the parent's side of the process that opens the device. The parent keeps
 * the database and never touches the device; a kernel that crashes, hangs or wrecks
 * the device takes only the worker down, which is replaced. */
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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double open_s = 120, idle_s = 120; /* a device opens; a task is begun */

struct worker {
	const struct worker_setup *setup;
	pid_t pid; /* 0: none */
	int socket;
	struct hello hello;
	char text[200];
	char *has; /* [num_built] binaries that the process was sent */
	int num_built;
};

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the process ---------------------------------------------------------------- */

/* It outlives neither its parent nor, by leaving no core, its usefulness; and it dies of
 * what kills others, whatever the parent does about that. */
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
	work(setup, socket);
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

/* Leaves in w->text how it ended when it ended by itself. */
static void stop(struct worker *w)
{
	int status = 0;
	if (!w->pid)
		return;
	/* a dead one still has its status to give; a live one has none */
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
}

enum hearing { HEARING_WORD, HEARING_DEATH, HEARING_SILENCE, HEARING_INTERRUPT };

static enum hearing hear(struct worker *w, struct said *said, double deadline)
{
	struct pollfd p = { .fd = w->socket, .events = POLLIN };
	for (;;) {
		if (interrupted)
			return HEARING_INTERRUPT;
		double left = deadline - now();
		if (left <= 0)
			return HEARING_SILENCE;
		/* short waits: a signal between the test above and poll() is not lost */
		int ready = poll(&p, 1, (int)fmin(1e3 * left + 1, 50));
		if (w->setup->idle)
			w->setup->idle(w->setup->idle_arg);
		if (ready > 0)
			break;
	}
	if (!work_receive(w->socket, said, sizeof *said) || said->bytes != sizeof *said)
		return HEARING_DEATH;
	return HEARING_WORD;
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
		stop(w);
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
	struct said said;
	enum hearing heard = HEARING_DEATH;
	if (!w->pid) {
		w->hello = (struct hello){ .status = ATTUNE_DEVICE_ERROR };
		if (start(w))
			heard = hear(w, &said, now() + open_s);
		if (heard == HEARING_WORD) {
			w->hello = said.hello;
		} else {
			stop(w);
			snprintf(w->hello.text, sizeof w->hello.text,
				 "the process that opens the device: %.150s",
				 heard == HEARING_SILENCE ? "no answer" : w->text);
		}
		if (w->hello.status)
			stop(w);
	}
	*hello = w->hello;
	return heard != HEARING_INTERRUPT || w->pid;
}

/* ---- a race --------------------------------------------------------------------- */

/* A contender that is under way when the worker dies or falls silent need not be the reason: the
 * system kills processes when memory runs out, and users kill them. So a first loss is no
 * result. The contender runs alone in the next worker, for as few rounds as there can be. If that
 * one is lost as well, the contender is to blame; else all remaining contenders run again, it among them. */
struct session {
	struct worker *w;
	const struct order *order;
	const struct listener *listener;
	char *final, *gated; /* of each contender */
	char *lost;          /* of each contender: workers that were lost while it ran */
	int staged;          /* contender; -1: none */
	int alone;           /* the contender that runs by itself; -1: all run */
	int losses;          /* of the worker, without a new result in between */
};

enum { LOSSES_TO_BLAME = 2, MOST_LOSSES = 4 };

static int runs(const struct session *s, int i)
{
	return !s->final[i] && (s->alone < 0 || s->alone == i);
}

static int remaining(const struct session *s)
{
	int n = 0;
	for (int i = 0; i < s->order->n; i++)
		n += runs(s, i);
	return n;
}

/* ---- code --------------------------------------------------------------------- */

/* A binary that contenders of a task need. */
struct needed {
	int built;
	const struct blob *blob;
};
enum { NEEDED_BY_LANE = 2 * (1 + NUM_HELPERS) };

static void need(struct worker *w, struct needed *v, int *n, int built, const struct blob *blob)
{
	if (built < 0 || !blob || w->has[built])
		return;
	w->has[built] = 1;
	v[(*n)++] = (struct needed){ built, blob };
}

/* Fills v with the binaries of the contenders that are left and that the process does not have. */
static int list_needed(const struct session *s, struct needed *v)
{
	const struct problems *problems = s->w->setup->problems;
	int n = 0;
	for (int i = 0; i < s->order->n; i++)
		for (int part = 0; part < 2 && runs(s, i); part++) {
			const struct contender *contender = &s->order->contender[i];
			if (contender->problem[part] < 0)
				continue;
			const struct problem *problem = &problems->v[contender->problem[part]];
			const struct built_choice *e =
			    &problems->built_choice[problem->built_choice[contender->place[part]]];
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
	return work_send(w->socket, &r, sizeof r) && work_send(w->socket, b->data, r.size) &&
	       work_send(w->socket, b->path, r.path) && work_send(w->socket, b->entry, r.entry);
}

/* ---- the task ------------------------------------------------------------------ */

static int send_all(const struct session *s, struct needed *needed)
{
	const int is_trial = s->alone >= 0;
	const struct task task = { .bytes = sizeof task,
				   .n = remaining(s),
				   .codes = list_needed(s, needed),
				   .fixed_rounds = is_trial ? 0 : s->order->fixed_rounds,
				   .with_control = !is_trial && s->order->with_control,
				   .seconds = is_trial ? 0 : s->order->seconds,
				   .seed = s->order->seed };
	int ok = work_send(s->w->socket, &task, sizeof task);
	for (int i = 0; i < s->order->n && ok; i++) {
		struct entry entry = { .index = i, .contender = s->order->contender[i] };
		entry.contender.gated = s->gated[i];
		if (runs(s, i))
			ok = work_send(s->w->socket, &entry, sizeof entry);
	}
	for (int i = 0; i < task.codes && ok; i++)
		ok = send_code(s->w, &needed[i]);
	return ok;
}

static int send_task(const struct session *s)
{
	struct needed *needed = calloc((size_t)s->order->n * NEEDED_BY_LANE + 1, sizeof *needed);
	const int ok = needed && send_all(s, needed);
	free(needed);
	return ok;
}

/* 0: the listener has heard enough. */
static int deliver(struct session *s, int i, const struct measurement *m, int failed_gate)
{
	if (i < 0 || s->final[i])
		return 1;
	s->final[i] = 1;
	s->losses = 0;
	if (s->alone == i)
		s->alone = -1;
	return s->listener->result(s->listener->arg, s->order, i, m, failed_gate);
}

/* The device or the worker was lost while contender i ran. As deliver. */
static int deliver_loss(struct session *s, int i, const struct measurement *m)
{
	s->staged = -1;
	if (i < 0 || s->final[i])
		return 1;
	if (++s->lost[i] >= LOSSES_TO_BLAME)
		return deliver(s, i, m, 1);
	s->alone = i;
	return 1;
}

/* What the worker says of contender i. A time that it took alone is not comparable with others. */
static int on_word(struct session *s, int i, const struct said *said)
{
	const struct measurement *m = &said->result.m;
	if (i >= 0 && m->outcome == OUTCOME_CRASH)
		return deliver_loss(s, i, m);
	if (s->alone >= 0 && (m->outcome == OUTCOME_OK || m->outcome == OUTCOME_NOISY))
		return 1;
	return deliver(s, i, m, said->result.failed_gate);
}

static int deliver_control(struct session *s, int i, const struct control *told)
{
	struct control control = *told;
	control.of = i;
	if (i < 0 || !s->listener->control)
		return 1;
	return s->listener->control(s->listener->arg, s->order, &control);
}

/* The worker is gone, or has to go. */
static int lose(struct session *s, enum hearing heard)
{
	struct measurement m = { .outcome =
				     heard == HEARING_SILENCE ? OUTCOME_TIMEOUT : OUTCOME_CRASH };
	stop(s->w);
	s->losses++;
	if (heard == HEARING_SILENCE)
		snprintf(m.detail, sizeof m.detail, "gave no sign of life and was killed");
	else
		snprintf(m.detail, sizeof m.detail, "%.150s", s->w->text);
	return deliver_loss(s, s->staged, &m);
}

/* One life of the worker, or as much of it as the task takes. 1: go on with another
 * life; 0: *end holds. */
static int listen_to(struct session *s, enum heard *end)
{
	struct said said;
	double deadline = now() + idle_s;
	s->staged = -1;
	if (!send_task(s)) {
		*end = lose(s, HEARING_DEATH) ? HEARD_ALL : HEARD_STOP;
		return *end == HEARD_ALL;
	}
	for (;;) {
		enum hearing heard = hear(s->w, &said, deadline);
		int i = heard == HEARING_WORD ? said.index : -1, more = 1;
		if (heard == HEARING_INTERRUPT) {
			*end = HEARD_INTERRUPT;
			return 0;
		}
		if (heard != HEARING_WORD) {
			*end = lose(s, heard) ? HEARD_ALL : HEARD_STOP;
			return *end == HEARD_ALL;
		}
		deadline = now() + idle_s;
		s->listener->beat(s->listener->arg);
		switch (said.word) {
		case SAYS_STAGE:
			s->staged = i;
			deadline = now() + said.patience_s;
			break;
		case SAYS_PASSED:
			s->gated[i] = 1;
			s->listener->passed(s->listener->arg, s->order, i);
			break;
		case SAYS_RESULT: more = on_word(s, i, &said); break;
		case SAYS_CONTROL: more = deliver_control(s, i, &said.control); break;
		case SAYS_CANNOT:
			snprintf(s->w->text, sizeof s->w->text, "%s", said.text);
			*end = HEARD_NOTHING;
			return 0;
		case SAYS_DONE:
			if (s->listener->spent)
				s->listener->spent(s->listener->arg, said.spent_s);
			*end = HEARD_ALL;
			return 0;
		case SAYS_HELLO: *end = HEARD_ALL; return 0;
		}
		if (!more) {
			*end = HEARD_STOP;
			return 0;
		}
	}
}

static enum heard run_session(struct session *s)
{
	enum heard end = HEARD_ALL;
	struct hello hello;
	while (remaining(s)) {
		if (!worker_hello(s->w, &hello))
			return HEARD_INTERRUPT;
		if (hello.status) {
			snprintf(s->w->text, sizeof s->w->text, "%s", hello.text);
			return HEARD_NO_DEVICE;
		}
		const int was_trial = s->alone >= 0, goes_on = listen_to(s, &end);
		if (goes_on && s->losses >= MOST_LOSSES)
			return HEARD_NOTHING;
		if (!goes_on && (end != HEARD_ALL || !was_trial))
			break;
		if (!goes_on)
			s->alone = -1;
	}
	if (end == HEARD_INTERRUPT || end == HEARD_STOP)
		stop(s->w);
	return end;
}

enum heard worker_race(struct worker *w, const struct order *order, const struct listener *l)
{
	struct session s = { .w = w,
			     .order = order,
			     .listener = l,
			     .alone = -1,
			     .lost = calloc((size_t)order->n + 1, 1),
			     .final = calloc((size_t)order->n + 1, 1),
			     .gated = calloc((size_t)order->n + 1, 1) };
	enum heard heard = HEARD_NOTHING;
	for (int i = 0; s.gated && i < order->n; i++)
		s.gated[i] = order->contender[i].gated;
	if (s.final && s.gated && s.lost)
		heard = run_session(&s);
	else
		snprintf(w->text, sizeof w->text, "out of memory");
	free(s.final);
	free(s.gated);
	free(s.lost);
	return heard;
}
