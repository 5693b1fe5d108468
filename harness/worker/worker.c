/* worker.c - starts and stops the worker, the process that opens the device, and receives its
 * messages. The parent keeps the database and never opens the device, so a kernel that crashes,
 * hangs or leaves the device unusable costs only a worker, which is replaced. */
#include "parent.h"
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

void worker_stop(struct worker *w)
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

enum received worker_receive(struct worker *w, struct message *message, double deadline)
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
