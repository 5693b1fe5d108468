/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - reads and writes whole files. */
#include "base.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int same_file(const char *a, const char *b)
{
	struct stat x, y;
	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

char *file_text(const char *path)
{
	FILE *in = fopen(path, "r");
	char *text = NULL;
	size_t size = 0;
	if (!in)
		return NULL;
	if (getdelim(&text, &size, '\0', in) < 0 || ferror(in)) {
		free(text);
		text = NULL;
	}
	fclose(in);
	return text;
}

static int write_all(int fd, const char *bytes, size_t n)
{
	while (n) {
		const ssize_t written = write(fd, bytes, n);
		if (written < 0 && errno != EINTR)
			return 0;
		bytes += written > 0 ? written : 0;
		n -= written > 0 ? (size_t)written : 0;
	}
	return 1;
}

/* 0: errno says why. */
static int write_and_close(int fd, const char *bytes, size_t n)
{
	const int done = write_all(fd, bytes, n), error = errno;
	const int closed = !close(fd);
	errno = done ? errno : error;
	return done && closed;
}

/* Opens the temporary file and locks it against other processes that write the same file. After the
 * wait for a lock the file may have been renamed; then it is opened again. A filesystem without
 * locks is used without. In a folder where all may write, such as /tmp, another user may have put a
 * link or a file there: neither is written to. -1: errno says why. */
static int open_locked(const char *temporary)
{
	for (;;) {
		struct stat opened, named;
		const int fd =
		    open(temporary, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
		if (fd < 0)
			return -1;
		if (!fstat(fd, &opened) && (!S_ISREG(opened.st_mode) || opened.st_nlink > 1 ||
					    opened.st_uid != geteuid())) {
			close(fd);
			errno = EPERM;
			return -1;
		}
		while (flock(fd, LOCK_EX) && errno == EINTR)
			;
		if (!fstat(fd, &opened) && !stat(temporary, &named) &&
		    opened.st_dev == named.st_dev && opened.st_ino == named.st_ino)
			return fd;
		close(fd);
	}
}

/* The lock ends with the descriptor, which is closed after the rename. */
static int replace(const char *path, const char *temporary, const char *bytes, size_t n)
{
	const int fd = open_locked(temporary);
	if (fd < 0)
		return 0;
	const int done =
	    !ftruncate(fd, 0) && write_all(fd, bytes, n) && !fsync(fd) && !rename(temporary, path);
	const int error = errno;
	if (!done)
		unlink(temporary);
	close(fd);
	errno = error;
	return done;
}

int file_put_bytes(const char *path, const void *bytes, size_t n)
{
	char *temporary = NULL;
	struct stat st;
	int done;
	if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
		const int fd = open(path, O_WRONLY | O_CLOEXEC);
		done = fd >= 0 && write_and_close(fd, bytes, n);
	} else {
		done =
		    asprintf(&temporary, "%s.new", path) >= 0 && replace(path, temporary, bytes, n);
	}
	if (!done)
		complain("%s: %s", temporary && errno == EPERM ? temporary : path, strerror(errno));
	free(temporary);
	return done;
}

int file_put(const char *path, const char *text)
{
	return file_put_bytes(path, text, strlen(text));
}
