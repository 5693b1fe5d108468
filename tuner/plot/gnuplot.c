/* gnuplot.c - draws a picture with gnuplot. Variables, style.gp and NAME.gp form one program that writes
 * both formats. The program, its rows and the drawn pictures are files in memory, which gnuplot opens
 * as /proc/self/fd/N. So a killed plot leaves no temporary file, and a picture on disk is replaced only
 * by a whole one. */
#include "plot.h"
#include "harness/base/base.h"
#include "tuner/base/base.h"
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
enum { DRAWN_SVG, DRAWN_PNG, NUM_FORMATS_DRAWN };
static const struct drawn {
	const char *suffix, *ends; /* ends: in the last bytes of a whole picture */
} formats[NUM_FORMATS_DRAWN] = { { "svg", "</svg>" }, { "png", "IEND" } };

/* Of one picture. */
struct sheet {
	FILE *rows, *program;
	int drawn[NUM_FORMATS_DRAWN];
};

static int memory_file(const char *name)
{
	const int fd = memfd_create(name, 0); /* without MFD_CLOEXEC: gnuplot inherits it */
	if (fd < 0)
		complain("no file in memory for a picture: %s", strerror(errno));
	return fd;
}

static FILE *memory_stream(const char *name)
{
	const int fd = memory_file(name);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	if (fd >= 0 && !f) {
		complain("no file in memory for a picture: %s", strerror(errno));
		close(fd);
	}
	return f;
}

static void memory_path(char path[MEMORY_PATH], int fd)
{
	snprintf(path, MEMORY_PATH, "/proc/self/fd/%d", fd);
}

static void sheet_free(struct sheet *s)
{
	if (s->rows)
		fclose(s->rows);
	if (s->program)
		fclose(s->program);
	for (int i = 0; i < NUM_FORMATS_DRAWN; i++)
		if (s->drawn[i] >= 0)
			close(s->drawn[i]);
}

/* 0 + complain; freed by sheet_free in any case. */
static int sheet_new(struct sheet *s)
{
	int ok = 1;
	s->rows = memory_stream("rows");
	s->program = memory_stream("program");
	for (int i = 0; i < NUM_FORMATS_DRAWN; i++) {
		s->drawn[i] = memory_file(formats[i].suffix);
		ok = ok && s->drawn[i] >= 0;
	}
	return ok && s->rows && s->program;
}

static int written(FILE *f)
{
	if (!fflush(f) && !ferror(f))
		return 1;
	complain("a file in memory for a picture cannot be written: %s", strerror(errno));
	return 0;
}

static void outputs(const struct sheet *s, const struct picture *p, const char *style)
{
	FILE *f = s->program;
	char path[MEMORY_PATH];
	fprintf(f, "width = %d\nheight = %d\n", p->width, p->height);
	for (int i = 0; i < NUM_FORMATS_DRAWN; i++) {
		memory_path(path, s->drawn[i]);
		fprintf(f, "png = %d\n", i == DRAWN_PNG);
		setting_text(f, "path", path);
		fputs(style, f);
		fputs(p->script, f);
		fputs("unset output\nreset\n", f);
	}
}

/* gnuplot does not look whether its writes failed. */
static int is_whole(const char *bytes, size_t n, const struct drawn *format)
{
	const size_t tail = n < LAST_BYTES ? n : LAST_BYTES;
	return memmem(bytes + n - tail, tail, format->ends, strlen(format->ends)) != NULL;
}

/* Puts what gnuplot drew where it belongs. */
static int keep(int drawn, const struct picture *p, const struct canvas *c,
		const struct drawn *format)
{
	char path[MAX_PATH];
	struct stat st;
	snprintf(path, sizeof path, "%s/%s_%s.%s", c->folder, c->gpu, p->name, format->suffix);
	const size_t n = fstat(drawn, &st) ? 0 : (size_t)st.st_size;
	const char *bytes = n ? mmap(NULL, n, PROT_READ, MAP_SHARED, drawn, 0) : MAP_FAILED;
	const int whole = bytes != MAP_FAILED && is_whole(bytes, n, format);
	if (!whole)
		complain("%s: gnuplot drew only a part of it: no memory, or a limit of file sizes",
			 path);
	const int done = whole && file_put_bytes(path, bytes, n);
	if (bytes != MAP_FAILED)
		munmap((void *)bytes, n);
	return done;
}

/* It is killed when this process is. */
static _Noreturn void become_gnuplot(const char *program, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
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
static int draw_on(const struct sheet *s, const struct picture *picture, const struct canvas *c)
{
	char path[MEMORY_PATH];
	memory_path(path, fileno(s->rows));
	setting_text(s->program, "rows", path);
	fputs(c->settings, s->program);
	const int points = picture_ask(picture, c->facts, s->rows, s->program);
	outputs(s, picture, c->style);
	if (points < 0 || !written(s->rows) || !written(s->program))
		return 0;
	if (!points) {
		complain("%s_%s: not drawn: the database has no %s", c->gpu, picture->name,
			 picture->needs);
		return 1;
	}
	memory_path(path, fileno(s->program));
	int ok = run_gnuplot(path);
	for (int i = 0; ok && i < NUM_FORMATS_DRAWN; i++)
		ok = keep(s->drawn[i], picture, c, &formats[i]);
	return ok;
}

int picture_draw(const struct picture *picture, const struct canvas *c)
{
	struct sheet s;
	const int ok = sheet_new(&s) && draw_on(&s, picture, c);
	sheet_free(&s);
	return ok;
}
