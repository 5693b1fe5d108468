/* SPDX-License-Identifier: Apache-2.0 */
/* gnuplot.c - draws a picture with gnuplot. Variables, style.gp and NAME.gp form one program that writes
 * both formats. The program, its rows and the drawn pictures are files in memory, which gnuplot opens
 * as /proc/self/fd/N. So a killed plot leaves no temporary file, and a picture on disk is replaced only
 * by a whole one. */
#include "plot.h"
#include "harness/base/base.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_PATH = 512, MEMORY_PATH = 40, LAST_BYTES = 16 };
enum { NOT_FOUND = 127 /* as a shell says it */ };
/* The files of one picture; the last two are what gnuplot draws. */
enum { ROWS, PROGRAM, DRAWN_SVG, DRAWN_PNG, NUM_SHEETS };
static const struct sheet {
	const char *name; /* of what is drawn, the suffix */
	const char *ends; /* in the last bytes of a whole picture */
} sheets[NUM_SHEETS] = {
	{ "rows", NULL }, { "program", NULL }, { "svg", "</svg>" }, { "png", "IEND" }
};

static FILE *memory_file(const char *name)
{
	const int fd = memfd_create(name, 0); /* without MFD_CLOEXEC: gnuplot inherits it */
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f)
		complain("no file in memory for a picture: %s", strerror(errno));
	if (!f && fd >= 0)
		close(fd);
	return f;
}

static void memory_path(char path[MEMORY_PATH], FILE *f)
{
	snprintf(path, MEMORY_PATH, "/proc/self/fd/%d", fileno(f));
}

static int written(FILE *f)
{
	if (!fflush(f) && !ferror(f))
		return 1;
	complain("a file in memory for a picture cannot be written: %s", strerror(errno));
	return 0;
}

static void outputs(FILE *const file[NUM_SHEETS], const struct picture *p, const char *style)
{
	FILE *f = file[PROGRAM];
	char path[MEMORY_PATH];
	fprintf(f, "width = %d\nheight = %d\n", p->width, p->height);
	for (int i = DRAWN_SVG; i <= DRAWN_PNG; i++) {
		memory_path(path, file[i]);
		fprintf(f, "png = %d\n", i == DRAWN_PNG);
		setting_text(f, "path", path);
		fprintf(f, "%s%sunset output\nreset\n", style, p->script);
	}
}

/* gnuplot does not look whether its writes failed. */
static int is_whole(const char *bytes, size_t n, const char *ends)
{
	const size_t tail = n < LAST_BYTES ? n : LAST_BYTES;
	return memmem(bytes + n - tail, tail, ends, strlen(ends)) != NULL;
}

/* Puts what gnuplot drew where it belongs. */
static int keep(FILE *f, const struct picture *p, const struct canvas *c, const struct sheet *drawn)
{
	char path[MAX_PATH];
	struct stat st;
	snprintf(path, sizeof path, "%s/%s_%s.%s", c->folder, c->gpu, p->name, drawn->name);
	const size_t n = fstat(fileno(f), &st) ? 0 : (size_t)st.st_size;
	const char *bytes = n ? mmap(NULL, n, PROT_READ, MAP_SHARED, fileno(f), 0) : MAP_FAILED;
	const int whole = bytes != MAP_FAILED && is_whole(bytes, n, drawn->ends);
	if (!whole)
		complain("%s: gnuplot drew only a part of it: no memory, or a limit of file sizes",
			 path);
	const int done = whole && file_put_bytes(path, bytes, n);
	if (bytes != MAP_FAILED)
		munmap((void *)bytes, n);
	return done;
}

/* It is killed when this process is. GNUTERM may name a terminal that is not installed. Only in a
 * locale of UTF-8 does gnuplot read all characters of the scripts. */
static _Noreturn void become_gnuplot(const char *program, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	unsetenv("GNUTERM");
	setenv("LC_ALL", "C.UTF-8", 1);
	if (getppid() == parent)
		execlp("gnuplot", "gnuplot", "-d", program, (char *)NULL);
	_exit(errno == ENOENT ? NOT_FOUND : EXIT_FAILURE);
}

static int run_gnuplot(const char *program)
{
	const pid_t parent = getpid(), pid = fork();
	int status;
	if (!pid)
		become_gnuplot(program, parent);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		complain("gnuplot: %s", strerror(errno));
	else if (WIFSIGNALED(status))
		complain("gnuplot was killed: %s", strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) == NOT_FOUND)
		complain("gnuplot is not on PATH; `make deps` installs it");
	else if (WEXITSTATUS(status))
		complain("gnuplot failed; it must be version 5.2 or later, with pngcairo");
	else
		return 1;
	return 0;
}

/* 1: drawn, or nothing to draw. */
static int draw_on(FILE *const file[NUM_SHEETS], const struct picture *picture,
		   const struct canvas *c)
{
	char path[MEMORY_PATH];
	memory_path(path, file[ROWS]);
	setting_text(file[PROGRAM], "rows", path);
	if (!style_ask(c->says, c->facts, file[PROGRAM]))
		return 0;
	const int points = picture_ask(picture, c->facts, file[ROWS], file[PROGRAM]);
	outputs(file, picture, c->style);
	if (points < 0 || !written(file[ROWS]) || !written(file[PROGRAM]))
		return 0;
	if (!points) {
		complain("%s_%s: not drawn: the database has no %s", c->gpu, picture->name,
			 picture->needs);
		return 1;
	}
	memory_path(path, file[PROGRAM]);
	int ok = run_gnuplot(path);
	for (int i = DRAWN_SVG; ok && i <= DRAWN_PNG; i++)
		ok = keep(file[i], picture, c, &sheets[i]);
	return ok;
}

int picture_draw(const struct picture *picture, const struct canvas *c)
{
	FILE *file[NUM_SHEETS];
	int opened = 0, ok;
	while (opened < NUM_SHEETS && (file[opened] = memory_file(sheets[opened].name)))
		opened++;
	ok = opened == NUM_SHEETS && draw_on(file, picture, c);
	while (opened)
		fclose(file[--opened]);
	return ok;
}
