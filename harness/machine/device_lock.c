/* device_lock.c - locks a device by flock on a file: attune-cpu.lock, or attune-<UUID>.lock for a
 * GPU. The file lies in /tmp or $ATTUNE_LOCKS, names the holder of the lock, and can be opened by
 * all users. It is never removed: removing it while a process waits for it would let two processes
 * in.
 *
 * Workers inherit the lock, so it is held until the last process with the device open ends, even if
 * the command is killed. Compilers do not inherit it. */
#include "device_lock.h"
#include "harness/base/base.h"
#include "kernels/kernel.h"
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

enum { MAX_NOTE = 512 };
static const double ask_again_s = 0.1;

static void lock_path(char *path, size_t size, const struct device_info *d)
{
	static const unsigned char none[sizeof d->uuid];
	const char *folder = getenv("ATTUNE_LOCKS");
	char id[GPU_NAME + 1]; /* longer than a UUID in hex */
	if (d->backend == BACKEND_CPU || !memcmp(d->uuid, none, sizeof none))
		snprintf(id, sizeof id, "%s", d->gpu);
	else
		for (size_t i = 0; i < sizeof d->uuid; i++)
			snprintf(id + 2 * i, 3, "%02x", d->uuid[i]);
	snprintf(path, size, "%s/attune-%s.lock", folder && *folder ? folder : "/tmp", id);
}

/* In a folder like /tmp a file of another user cannot be opened with O_CREAT
 * (fs.protected_regular), so O_CREAT is not tried first. */
static int open_file(const char *path)
{
	const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
	int fd = open(path, flags);
	if (fd >= 0 || errno != ENOENT)
		return fd;
	fd = open(path, flags | O_CREAT | O_EXCL, 0666);
	if (fd < 0)
		return errno == EEXIST ? open(path, flags) : -1;
	if (fchmod(fd, 0666)) { /* the umask may forbid others to write */
		close(fd);
		return -1;
	}
	return fd;
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
	lock_path(path, sizeof path, d);
	l->fd = open_file(path);
	if (l->fd < 0) {
		complain(
		    "%s cannot be opened: %s; ATTUNE_LOCKS names a folder for locks of devices",
		    path, strerror(errno));
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
