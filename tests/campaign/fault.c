/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c - a library for LD_PRELOAD that disturbs attune at a point given by a count of calls, not
 * by a time, so that a seed gives the same points on a slow machine. campaign.sh sets:
 *
 *   FAULT_KILL=calls:N      SIGKILL before the Nth call that this file wraps
 *   FAULT_KILL=writes:N     the same, of those calls that change a file
 *   FAULT_WHO=worker        counts the messages of the process that measures, and kills that; else
 *                           the command itself
 *   FAULT_ONCE=FILE         kills only if it can create FILE: no worker after the first
 *   FAULT_LOG=FILE          one line before a kill and at a normal end, see report()
 *   FAULT_CLOCK=SEED        each reading of the time of day is up to four years off
 *   FAULT_SLEEPLESS=1       usleep() and nanosleep() return at once
 *
 * Other programs that inherit LD_PRELOAD, such as compilers, are left alone. Calls inside libc, such
 * as the write() of fclose(), are not counted. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum who { OTHER_PROGRAM, COMMAND, WORKER, BUILDER };
enum kind { CALL, WRITE, MESSAGE };

static enum who who;
static atomic_long calls, writes, messages;
static atomic_long pending, committed; /* measurements, by INSERT and COMMIT */
static long kill_at_call, kill_at_write, kill_at_message;

#define NEXT(name) (__extension__(__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* ---- the point ---------------------------------------------------------------------------- */

static void in_child(void)
{
	if (who == COMMAND)
		who = WORKER; /* until it makes a process group of its own, as builders do */
	calls = writes = messages = pending = committed = 0;
}

__attribute__((constructor)) static void begin(void)
{
	const char *plan = getenv("FAULT_KILL"), *whom = getenv("FAULT_WHO");
	if (strcmp(program_invocation_short_name, "attune"))
		return;
	who = COMMAND;
	pthread_atfork(NULL, NULL, in_child);
	if (plan && whom && !strcmp(whom, "worker"))
		sscanf(plan, "calls:%ld", &kill_at_message);
	else if (plan && sscanf(plan, "calls:%ld", &kill_at_call) != 1)
		sscanf(plan, "writes:%ld", &kill_at_write);
}

/* "killed before pwrite64 of cpu.sqlite-wal calls=812 writes=97 committed=12" */
static void report(const char *what, const char *call, const char *path)
{
	const char *log = getenv("FAULT_LOG"), *slash = path ? strrchr(path, '/') : NULL;
	char line[600];
	const int n = snprintf(line, sizeof line, "%s%s of %s calls=%ld writes=%ld committed=%ld\n",
			       what, call,
			       slash && slash[1] ? slash + 1
			       : path            ? path
						 : "-",
			       (long)calls, (long)writes, (long)committed);
	const int fd = log ? NEXT(open)(log, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
	if (fd >= 0 && NEXT(write)(fd, line, (size_t)n) == n)
		close(fd);
}

__attribute__((destructor)) static void end(void)
{
	if (who == COMMAND)
		report("ended", "", NULL);
}

static void killed_here(const char *call, int fd, const char *path)
{
	char of[300] = "", link[40];
	const char *once = getenv("FAULT_ONCE");
	if (once && NEXT(open)(once, O_WRONLY | O_CREAT | O_EXCL, 0644) < 0)
		return;
	if (!path && fd >= 0) {
		snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		const ssize_t n = readlink(link, of, sizeof of - 1);
		of[n > 0 ? n : 0] = '\0';
		path = of;
	}
	report("killed before ", call, path);
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

static void point(enum kind kind, const char *call, int fd, const char *path)
{
	const int saved = errno;
	if (who == COMMAND) {
		const long c = ++calls, w = kind == WRITE ? ++writes : 0;
		if (c == kill_at_call || (w && w == kill_at_write))
			killed_here(call, fd, path);
	} else if (who == WORKER && kind == MESSAGE && ++messages == kill_at_message) {
		killed_here(call, fd, path);
	}
	errno = saved;
}

/* ---- the calls ------------------------------------------------------------------------------ */

static int is_written(FILE *f)
{
	return (fcntl(fileno(f), F_GETFL) & O_ACCMODE) != O_RDONLY;
}

#define WRAP(kind, result, name, parameters, arguments, fd, path) \
	result name parameters                                    \
	{                                                         \
		point(kind, #name, fd, path);                     \
		return NEXT(name) arguments;                      \
	}
// clang-format off
WRAP(WRITE, ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n), fd, NULL)
WRAP(WRITE, ssize_t, pwrite, (int fd, const void *b, size_t n, off_t at), (fd, b, n, at), fd, NULL)
WRAP(WRITE, ssize_t, pwrite64, (int fd, const void *b, size_t n, off64_t at), (fd, b, n, at), fd, NULL)
WRAP(WRITE, int, ftruncate, (int fd, off_t n), (fd, n), fd, NULL)
WRAP(WRITE, int, ftruncate64, (int fd, off64_t n), (fd, n), fd, NULL)
WRAP(WRITE, int, fsync, (int fd), (fd), fd, NULL)
WRAP(WRITE, int, fdatasync, (int fd), (fd), fd, NULL)
WRAP(WRITE, int, rename, (const char *from, const char *to), (from, to), -1, to)
WRAP(WRITE, int, unlink, (const char *path), (path), -1, path)
WRAP(WRITE, int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags), -1, path)
WRAP(WRITE, int, mkdir, (const char *path, mode_t mode), (path, mode), -1, path)
WRAP(WRITE, int, rmdir, (const char *path), (path), -1, path)
WRAP(is_written(f) ? WRITE : CALL, int, fclose, (FILE *f), (f), fileno(f), NULL)
WRAP(CALL, ssize_t, pread, (int fd, void *b, size_t n, off_t at), (fd, b, n, at), fd, NULL)
WRAP(CALL, ssize_t, pread64, (int fd, void *b, size_t n, off64_t at), (fd, b, n, at), fd, NULL)
WRAP(CALL, int, flock, (int fd, int how), (fd, how), fd, NULL)
WRAP(CALL, ssize_t, recv, (int fd, void *b, size_t n, int flags), (fd, b, n, flags), -1, "a process")
WRAP(CALL, int, poll, (struct pollfd *p, nfds_t n, int ms), (p, n, ms), -1, "a process")
WRAP(CALL, pid_t, fork, (void), (), -1, "a process")
WRAP(CALL, pid_t, waitpid, (pid_t pid, int *status, int flags), (pid, status, flags), -1, "a process")
WRAP(CALL, int, posix_spawnp, (pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
	const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]),
	(pid, file, actions, attributes, argv, envp), -1, file)
WRAP(MESSAGE, ssize_t, send, (int fd, const void *b, size_t n, int flags), (fd, b, n, flags), -1, "a process")
// clang-format on

#define WRAP_OPEN(name)                                                            \
	int name(const char *path, int flags, ...)                                 \
	{                                                                          \
		va_list ap;                                                        \
		va_start(ap, flags);                                               \
		const mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;      \
		va_end(ap);                                                        \
		point(flags &(O_CREAT | O_TRUNC) ? WRITE : CALL, #name, -1, path); \
		return NEXT(name)(path, flags, mode);                              \
	}
WRAP_OPEN(open)
WRAP_OPEN(open64)

#define WRAP_FOPEN(name)                                                 \
	FILE *name(const char *restrict path, const char *restrict mode) \
	{                                                                \
		point(*mode == 'r' ? CALL : WRITE, #name, -1, path);     \
		return NEXT(name)(path, mode);                           \
	}
WRAP_FOPEN(fopen)
WRAP_FOPEN(fopen64)

int setpgid(pid_t pid, pid_t group)
{
	if (who == WORKER)
		who = BUILDER;
	return NEXT(setpgid)(pid, group);
}

/* What SQLite has reported as committed must be in the file after any kill. */
int sqlite3_step(sqlite3_stmt *st)
{
	const char *sql = sqlite3_sql(st);
	const int rc = NEXT(sqlite3_step)(st);
	if (rc != SQLITE_DONE || !sql)
		return rc;
	if (strstr(sql, "INTO measurement"))
		pending++;
	else if (!strcmp(sql, "ROLLBACK"))
		pending = 0;
	else if (!strcmp(sql, "COMMIT"))
		committed += atomic_exchange(&pending, 0);
	return rc;
}

/* ---- time ----------------------------------------------------------------------------------- */

static long long jump(void)
{
	static atomic_ullong state;
	const char *seed = who ? getenv("FAULT_CLOCK") : NULL;
	if (!seed)
		return 0;
	const unsigned long long x =
	    (++state + strtoull(seed, NULL, 10)) * 6364136223846793005u + 1442695040888963407u;
	return (long long)(x >> 36) - (1 << 27); /* +- 2^27 s */
}

time_t time(time_t *to)
{
	const time_t t = NEXT(time)(NULL) + jump();
	if (to)
		*to = t;
	return t;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
	const int rc = NEXT(gettimeofday)(t, zone);
	t->tv_sec += jump();
	return rc;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	const int rc = NEXT(clock_gettime)(clock, t);
	if (clock == CLOCK_REALTIME)
		t->tv_sec += jump();
	return rc;
}

int usleep(useconds_t us)
{
	return getenv("FAULT_SLEEPLESS") ? 0 : NEXT(usleep)(us);
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
	return getenv("FAULT_SLEEPLESS") ? 0 : NEXT(nanosleep)(t, left);
}
