/* SPDX-License-Identifier: Apache-2.0 */
/* device_lock.c - locks a device by flock on a file: attune-cpu.lock, or attune-<UUID>.lock for a
 * GPU. The file lies in /tmp or $ATTUNE_LOCKS, names the holder of the lock, and can be opened by
 * all users. It is never removed: removing it while a process waits for it would let two processes
 * in.
 *
 * Any user can create something else of that name first, such as a link or a file that others
 * cannot open. Then all users take the same next name, attune-cpu.2.lock, so they still exclude
 * each other.
 *
 * Workers inherit the lock, so it is held until the last process with the device open ends, even if
 * the command is killed. Compilers do not inherit it. */
#include "machine.h"
#include "harness/base/base.h"
#include "kernels/spec/device_info.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_NOTE = 512, MAX_NAMES = 9 };
static const double ask_again_s = 0.1;

/* nth: of the names that are tried, from 1 */
static void lock_path(char *path, size_t size, const struct device_info *d, int nth)
{
	static const unsigned char none[sizeof d->uuid];
	const char *folder = getenv("ATTUNE_LOCKS");
	char id[GPU_NAME + 1], number[16] = ""; /* longer than a UUID in hex */
	if (d->backend == BACKEND_CPU || !memcmp(d->uuid, none, sizeof none))
		snprintf(id, sizeof id, "%s", d->gpu);
	else
		for (size_t i = 0; i < sizeof d->uuid; i++)
			snprintf(id + 2 * i, 3, "%02x", d->uuid[i]);
	if (nth > 1)
		snprintf(number, sizeof number, ".%d", nth);
	snprintf(path, size, "%s/attune-%s%s.lock", folder && *folder ? folder : "/tmp", id,
		 number);
}

/* Whether all users can lock this file, and it has no other name. The answer must be the same for
 * all users. A file of the caller's own gets its permissions here, since a command may have been
 * killed before it set them. */
static int is_for_all(int fd)
{
	struct stat s;
	if (fstat(fd, &s) || !S_ISREG(s.st_mode) || s.st_nlink != 1)
		return 0;
	return (s.st_mode & 0666) == 0666 || (s.st_uid == geteuid() && !fchmod(fd, 0666));
}

/* -1: errno says why; EPERM also if not all users can lock it. In a folder like /tmp a file of
 * another user cannot be opened with O_CREAT (fs.protected_regular), so O_CREAT is not tried first.
 * O_NONBLOCK: open() does not wait for the other end of a pipe. */
static int open_file(const char *path)
{
	const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	int fd = open(path, flags);
	if (fd < 0 && errno == ENOENT) {
		fd = open(path, flags | O_CREAT | O_EXCL, 0666);
		if (fd < 0 && errno == EEXIST)
			fd = open(path, flags);
	}
	if (fd < 0 || is_for_all(fd))
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}

/* Opens the file of the first name that can be a lock, and sets path. -1: none can; path and errno
 * are those of the first name. */
static int open_first(char *path, size_t size, const struct device_info *d)
{
	int error = 0;
	for (int nth = 1; nth <= MAX_NAMES; nth++) {
		lock_path(path, size, d, nth);
		const int fd = open_file(path);
		if (fd >= 0)
			return fd;
		error = error ? error : errno;
	}
	lock_path(path, size, d, 1);
	errno = error;
	return -1;
}

/* "pid 7 since 10:05:00 (attune sweep)" */
static void read_note(int fd, char note[MAX_NOTE])
{
	const ssize_t n = pread(fd, note, MAX_NOTE - 1, 0);
	note[n > 0 ? n : 0] = '\0';
	note[strcspn(note, "\n")] = '\0';
	if (!*note)
		snprintf(note, MAX_NOTE, "a process that has not written its name");
}

static int write_note(int fd, const char *command)
{
	char note[MAX_NOTE], since[32];
	const time_t t = time(NULL);
	struct tm parts;
	strftime(since, sizeof since, "%F %T", localtime_r(&t, &parts));
	const int n = snprintf(note, sizeof note - 1, "pid %d since %s (%.400s)", (int)getpid(),
			       since, command);
	note[n] = '\n';
	return !ftruncate(fd, 0) && pwrite(fd, note, (size_t)n + 1, 0) == n + 1;
}

static int wait_for(int fd, const struct device_info *d, double patience_s)
{
	const struct timespec nap = { .tv_nsec = (long)(1e9 * ask_again_s) };
	const double begin = seconds_now();
	char note[MAX_NOTE] = "", last[MAX_NOTE] = "";
	while (flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK && errno != EINTR) {
			complain("the lock of %s: %s", d->gpu, strerror(errno));
			return EXIT_BUSY;
		}
		const double waited = seconds_now() - begin;
		read_note(fd, note);
		if (interrupted)
			return EXIT_INTERRUPTED;
		if (waited >= patience_s) {
			progress_end();
			complain("refused: another attune measures on %s: %s", d->gpu, note);
			return EXIT_BUSY;
		}
		if (strcmp(note, last))
			complain("another attune measures on %s: %s; waiting up to %.0f s", d->gpu,
				 note, ceil(patience_s - waited));
		memcpy(last, note, sizeof last);
		progress("waiting for the device", waited, patience_s);
		nanosleep(&nap, NULL);
	}
	progress_end();
	return EXIT_DONE;
}

int lock_take(struct device_lock *l, const struct device_info *d, const char *command,
	      double patience_s)
{
	char path[256];
	struct stat s;
	l->fd = open_first(path, sizeof path, d);
	if (l->fd < 0) {
		const char *why = strerror(errno);
		const int is_there = !lstat(path, &s);
		complain("%s cannot be locked by all users: %s%s; remove it, or name another "
			 "folder for locks of devices in ATTUNE_LOCKS",
			 path, why, is_there && s.st_uid != geteuid() ? " (another user's)" : "");
		return EXIT_USAGE;
	}
	const int code = wait_for(l->fd, d, patience_s);
	if (code)
		lock_free(l);
	else if (!write_note(l->fd, command))
		complain("%s cannot be written: %s", path, strerror(errno));
	return code;
}

void lock_free(struct device_lock *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}
