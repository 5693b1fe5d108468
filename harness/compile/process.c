/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - runs compilers as child processes: builds command lines, collects output and reads
 * the exit status. Also writes files. */
#include "compilers.h"
#include "harness/base/base.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

void word(struct words *w, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	if (w->n == MAX_WORDS || vasprintf(&w->v[w->n], format, ap) < 0)
		w->lost = 1;
	else
		w->v[++w->n] = NULL;
	va_end(ap);
}

void split(struct words *w, const char *text)
{
	for (size_t n; *(text += strspn(text, " ")); text += n) {
		n = strcspn(text, " ");
		word(w, "%.*s", (int)n, text);
	}
}

void words_free(struct words *w)
{
	for (int i = 0; i < w->n; i++)
		free(w->v[i]);
}

/* Waits until there is something to read. 0: not before the deadline. */
static int is_readable(int fd, double deadline)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	for (;;) {
		const double left = deadline - seconds_now();
		if (left <= 0)
			return 0;
		const int ready = poll(&p, 1, (int)ceil(1e3 * fmin(left, 1000)));
		if (ready > 0 || (ready < 0 && errno != EINTR))
			return 1; /* read says what failed */
	}
}

/* Reads to the end, or until the deadline: *late is 1 then. */
static char *read_until(int fd, double deadline, int *late)
{
	char *text = NULL;
	size_t n = 0, room = 0;
	while (!(*late = !is_readable(fd, deadline))) {
		if (room - n < 4096) {
			char *more = realloc(text, room = 2 * room + 8192);
			if (!more)
				break;
			text = more;
		}
		const ssize_t got = read(fd, text + n, room - n - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	if (text)
		text[n] = '\0';
	return text;
}

char *read_all(int fd)
{
	int late;
	return read_until(fd, INFINITY, &late);
}

/* The environment with LC_ALL=C, so that messages are the same everywhere. The caller frees the
 * array; NULL: no memory. */
static char **plain_environment(void)
{
	int n = 0, at = 0;
	while (environ[n])
		n++;
	char **plain = malloc(((size_t)n + 2) * sizeof *plain);
	for (int i = 0; plain && i < n; i++)
		if (strncmp(environ[i], "LC_ALL=", 7))
			plain[at++] = environ[i];
	if (plain) {
		plain[at++] = (char *)"LC_ALL=C";
		plain[at] = NULL;
	}
	return plain;
}

/* Stays in the caller's process group: a builder's group is stopped and killed as one. */
static int spawn(pid_t *pid, char *const *argv, int out)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, dfl;
	sigemptyset(&none);
	sigemptyset(&dfl);
	sigaddset(&dfl, SIGINT);
	sigaddset(&dfl, SIGTERM);
	if (posix_spawn_file_actions_init(&actions))
		return ENOMEM;
	if (posix_spawnattr_init(&attr)) {
		posix_spawn_file_actions_destroy(&actions);
		return ENOMEM;
	}
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigdefault(&attr, &dfl);
	posix_spawnattr_setsigmask(&attr, &none);
	int error = posix_spawn_file_actions_adddup2(&actions, out, 1);
	error = error ? error : posix_spawn_file_actions_adddup2(&actions, out, 2);
	char **plain = plain_environment();
	error = error ? error : plain ? 0 : ENOMEM;
	error = error ? error : posix_spawnp(pid, argv[0], &actions, &attr, argv, plain);
	free(plain);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

int run_words(const struct words *w, char **output)
{
	return run_words_within(w, INFINITY, output);
}

int run_words_within(const struct words *w, double seconds, char **output)
{
	int fd[2], status = -1, late = 0;
	pid_t pid;
	*output = NULL;
	if (pipe2(fd, O_CLOEXEC))
		return -1;
	const int error = spawn(&pid, w->v, fd[1]);
	close(fd[1]);
	if (!error) {
		*output = read_until(fd[0], seconds_now() + seconds, &late);
		if (late)
			kill(pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	close(fd[0]);
	errno = late ? ETIMEDOUT : error;
	return errno ? -1 : status;
}

/* What a compiler writes when it fails for a reason that is not in the source: its parts were
 * killed, or one of these system calls failed. */
static const char *const deaths[] = { "signal terminated program", "terminated with signal",
				      "due to signal", "unable to execute command" };
static const int lacks[] = { ENOSPC, EDQUOT, EFBIG, EROFS, EMFILE, ENFILE, EIO };

/* REFUSED, DIED or IMPOSSIBLE: the last with a complaint. */
static int why_it_failed(const struct job *j, const char *command)
{
	const char *log = j->log ? j->log : "";
	for (size_t i = 0; i < COUNT(lacks); i++) {
		if (!strstr(log, strerror(lacks[i])))
			continue;
		complain("%s: %s could not compile it: %s", j->source, command, strerror(lacks[i]));
		return IMPOSSIBLE;
	}
	for (size_t i = 0; i < COUNT(deaths); i++)
		if (strstr(log, deaths[i]))
			return DIED;
	return strstr(log, strerror(ENOMEM)) || strstr(log, "out of memory") ? DIED : REFUSED;
}

int run_compiler(const struct words *w, struct job *j, const char *command)
{
	const int status = w->lost ? -1 : run_words(w, &j->log);
	if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) != 127)
		return WEXITSTATUS(status) ? why_it_failed(j, command) : COMPILED;
	if (status != -1 && WIFSIGNALED(status)) {
		free(j->log);
		if (asprintf(&j->log, "%s was killed: %s", command, strsignal(WTERMSIG(status))) <
		    0)
			j->log = NULL;
		return DIED;
	}
	complain("%s: %s could not run: %s", j->source, command,
		 status == -1 ? strerror(errno) : "its parts are missing");
	return IMPOSSIBLE;
}

int write_file(const char *path, const void *bytes, size_t n)
{
	FILE *f = fopen(path, "wbe");
	const int ok = f && fwrite(bytes, 1, n, f) == n;
	if ((f && fclose(f)) || !ok) {
		complain("%s: cannot write: %s", path, strerror(errno));
		return 0;
	}
	return 1;
}
