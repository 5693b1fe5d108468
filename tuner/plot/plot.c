/* plot.c - `attune plot`: draws a results database as SVG and PNG with gnuplot.
 *
 * Settings, style and script of a picture form one gnuplot program that writes both formats. The
 * program, its rows and the drawn pictures are files in memory, which gnuplot opens as
 * /proc/self/fd/N. So a killed plot leaves no temporary file, and a picture on disk is replaced only
 * by a whole one. The same database gives the same files. */
#include "plot.h"
#include "harness/base/base.h"
#include "tuner/base/base.h"
#include "tuner/commands.h"
#include "tuner/compare/peers.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define EMBED(name, file)                                                                          \
	__asm__(".pushsection .rodata\n" #name ":\n.incbin \"" file "\"\n.byte 0\n.popsection\n"); \
	extern const char name[];
EMBED(plot_style, "tuner/plot/gnuplot/style.gp")
EMBED(plot_decode, "tuner/plot/gnuplot/decode.gp")
EMBED(plot_kernels, "tuner/plot/gnuplot/kernels.gp")
EMBED(plot_roofline, "tuner/plot/gnuplot/roofline.gp")
EMBED(plot_regret, "tuner/plot/gnuplot/regret.gp")
EMBED(plot_ladder, "tuner/plot/gnuplot/ladder.gp")
EMBED(plot_prefill, "tuner/plot/gnuplot/prefill.gp")
EMBED(plot_hybrid, "tuner/plot/gnuplot/hybrid.gp")
EMBED(plot_mixed, "tuner/plot/gnuplot/mixed.gp")
EMBED(plot_peers, "tuner/plot/gnuplot/peers.gp")

enum { MAX_PATH = 512, MEMORY_PATH = 40, LAST_BYTES = 16 };
enum { NOT_FOUND = 127 /* as a shell says it */ };
enum { DRAWN_SVG, DRAWN_PNG, NUM_FORMATS_DRAWN };
static const struct drawn {
	const char *suffix, *ends; /* ends: in the last bytes of a whole picture */
} formats[NUM_FORMATS_DRAWN] = { { "svg", "</svg>" }, { "png", "IEND" } };

// clang-format off
static const struct picture {
	const char *name, *script;
	int (*series)(const struct plotted *, FILE *rows, FILE *settings);
	int width, height;
	const char *needs;
	int of_peers; /* from the database of a race with plug-ins, if there is one */
} pictures[] = {
	{ "decode",   plot_decode,   series_decode,   900,  560, "uniform decode batches of two lengths, each with two sizes or more", 0 },
	{ "kernels",  plot_kernels,  series_kernels,  1200, 480, "batches of one model", 0 },
	{ "roofline", plot_roofline, series_roofline, 1100, 480, "measured ceilings", 0 },
	{ "regret",   plot_regret,   series_regret,   1100, 480, "measured plans", 0 },
	{ "ladder",   plot_ladder,   series_ladder,   1200, 980, "batches of the ladder (attune ladder --measure)", 0 },
	{ "prefill",  plot_prefill,  series_prefill,  1100, 480, "prompts with a tuned and an untuned time", 0 },
	{ "hybrid",   plot_hybrid,   series_hybrid,   1100, 520, "overlapped plans for one prompt chunk with many decodes", 0 },
	{ "mixed",    plot_mixed,    series_mixed,    1200, 560, "ceilings, or no batches in split peers with one prompt and decodes", 1 },
	{ "peers",    plot_peers,    series_peers,    1100, 720, "batches on which plug-ins raced (--peers)", 1 },
};

struct options {
	const char *gpu, *db, *header, *out, *model, *peers;
};

static const struct argp_option argp_options[] = {
	{ "gpu",    'g', "NAME",   0, "Device: h200, cpu, ... (this machine's)", 0 },
	{ "db",     'd', "FILE",   0, "Database (results/NAME.sqlite)", 0 },
	{ "header", 'H', "FILE",   0, "Rules learned from it (generated/attune_NAME.h)", 0 },
	{ "out",    'o', "DIR",    0, "Folder for NAME_decode.svg and the other pictures (results)", 0 },
	{ "peers",  'p', "FILE",   0, "Database in which other projects' kernels raced as plug-ins (results/NAME_peers.sqlite, if present)", 0 },
	{ "model",  'm', "NAME@N", 0, "Model for the latency curves (the one with the most batches)", 0 },
	{ 0 }
};
// clang-format on

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	switch (key) {
	case 'g': gpu_option(&o->gpu, arg, state); break;
	case 'd': o->db = arg; break;
	case 'H': o->header = arg; break;
	case 'o': o->out = arg; break;
	case 'm': o->model = arg; break;
	case 'p': o->peers = arg; break;
	case ARGP_KEY_ARG: argp_error(state, "\"%s\" is not an option; see --help", arg); break;
	default: return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* ---- data ------------------------------------------------------------------------- */
static int like(const struct measured *a, const struct measured *b)
{
	return !strcmp(a->model, b->model) && a->shape.page_size == b->shape.page_size &&
	       a->shape.dtype == b->shape.dtype && a->shape.kv_dtype == b->shape.kv_dtype &&
	       !strcmp(a->layout, b->layout);
}

/* The longest run of scenarios that differ only in the batch. */
static int choose_model(struct plotted *p, const char *model)
{
	const struct data *d = p->data;
	p->first = p->end = 0;
	for (int s = 0, end; s < d->n; s = end) {
		for (end = s + 1; end < d->n && like(&d->v[s], &d->v[end]); end++)
			;
		if (end - s > p->end - p->first && (!model || !strcmp(model, d->v[s].model)))
			p->first = s, p->end = end;
	}
	if (p->first == p->end)
		complain("--model \"%s\": the database has no scenario of this model", model);
	return p->first != p->end;
}

static int choose_picks(struct plotted *p, const struct forest *f)
{
	for (int i = 0; i < NUM_POLICIES; i++) {
		p->pick[i] = calloc((size_t)p->data->n + 1, sizeof *p->pick[i]);
		if (!p->pick[i]) {
			complain("out of memory");
			return 0;
		}
		if (i == POLICY_ORACLE || !policy_picks(p->data, (enum policy)i, f, p->pick[i])) {
			free(p->pick[i]);
			p->pick[i] = NULL;
		}
	}
	return 1;
}

/* ---- gnuplot ------------------------------------------------------------------------ */
static void quoted(FILE *f, const char *name, const char *text)
{
	fprintf(f, "%s = '", name);
	for (; *text; text++)
		fprintf(f, *text == '\'' ? "''" : "%c", *text);
	fputs("'\n", f);
}

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

static void settings_of_all(const struct plotted *p, FILE *f)
{
	const struct measured *m = &p->data->v[p->first];
	char text[160];
	const double noise = plotted_noise(p, text);
	quoted(f, "device", p->data->run.device.name);
	quoted(f, "model", m->model);
	quoted(f, "dtype", dtype_name(m->shape.dtype));
	quoted(f, "protocol", p->data->protocol);
	quoted(f, "noise_text", text);
	fprintf(f, "page_size = %d\nnum_scenarios = %d\nnoise = %g\n", m->shape.page_size,
		p->data->n, 100 * noise);
}

static void outputs(const struct sheet *s, const struct picture *p)
{
	FILE *f = s->program;
	char path[MEMORY_PATH];
	fprintf(f, "width = %d\nheight = %d\n", p->width, p->height);
	for (int i = 0; i < NUM_FORMATS_DRAWN; i++) {
		memory_path(path, s->drawn[i]);
		fprintf(f, "png = %d\n", i == DRAWN_PNG);
		quoted(f, "path", path);
		fputs(plot_style, f);
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
static int keep(int drawn, const struct picture *p, const struct options *o,
		const struct drawn *format)
{
	char path[MAX_PATH];
	struct stat st;
	snprintf(path, sizeof path, "%s/%s_%s.%s", o->out, o->gpu, p->name, format->suffix);
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
static int draw_on(const struct sheet *s, const struct plotted *p, const struct picture *picture,
		   const struct options *o)
{
	char path[MEMORY_PATH];
	memory_path(path, fileno(s->rows));
	quoted(s->program, "rows", path);
	settings_of_all(p, s->program);
	const int points = picture->series(p, s->rows, s->program);
	outputs(s, picture);
	if (!written(s->rows) || !written(s->program))
		return 0;
	if (!points) {
		complain("%s_%s: not drawn: the database has no %s", o->gpu, picture->name,
			 picture->needs);
		return 1;
	}
	memory_path(path, fileno(s->program));
	int ok = run_gnuplot(path);
	for (int i = 0; ok && i < NUM_FORMATS_DRAWN; i++)
		ok = keep(s->drawn[i], picture, o, &formats[i]);
	return ok;
}

static int draw(const struct plotted *p, const struct picture *picture, const struct options *o)
{
	struct sheet s;
	const int ok = sheet_new(&s) && draw_on(&s, p, picture, o);
	sheet_free(&s);
	return ok;
}

static int draw_all(const struct plotted *p, const struct plotted *of_peers,
		    const struct options *o)
{
	int ok = 1;
	for (size_t i = 0; ok && i < COUNT(pictures); i++)
		ok = draw(pictures[i].of_peers ? of_peers : p, &pictures[i], o);
	return ok;
}

/* Reads a database and makes each policy's picks. 0 + complain. */
static int plotted_load(struct plotted *p, struct data *d[2], const char *db,
			const struct options *o, const struct forest *forest)
{
	d[0] = d[1] = NULL;
	if (!data_load_both(db, o->gpu, &d[0], &d[1]))
		return 0;
	p->data = d[0];
	p->all = d[1];
	p->forest = forest;
	return choose_model(p, o->model) && choose_picks(p, forest);
}

static void plotted_unload(struct plotted *p, struct data *d[2])
{
	for (int i = 0; i < NUM_POLICIES; i++)
		free(p->pick[i]);
	data_free(d[0]);
	data_free(d[1]);
}

/* Draws the pictures of both databases; an exit code. */
static int plot(const struct options *o, const struct forest *forest, const char *db)
{
	char raced[PATH_TEXT];
	struct peers none = { .n = 0 }, others = none;
	struct plotted p = { .peers = &none }, q = { .peers = &others };
	struct data *d[2], *e[2] = { NULL, NULL };
	int code = EXIT_USAGE;
	peers_path(raced, o->peers, o->gpu);
	const int has_race = o->peers || !access(raced, F_OK);
	if (plotted_load(&p, d, db, o, forest) &&
	    (!has_race || (peers_load(&others, o->gpu, raced) &&
			   plotted_load(&q, e, raced, o, forest))))
		code = draw_all(&p, has_race ? &q : &p, o) ? EXIT_DONE : EXIT_CHECK;
	plotted_unload(&p, d);
	plotted_unload(&q, e);
	peers_free(&others);
	return code;
}

int cmd_plot(int argc, char **argv)
{
	static const char about[] =
	    "Draws a results database: decode latency by batch size, latency of every kernel by "
	    "tokens, shares of the device's ceilings, regret of every policy, the steps from the "
	    "first kernel to the tuned choice, the gain of tuning for prompts, the gain of "
	    "overlapping prefill and decode, the distance of mixed batches from the ideal, and "
	    "the times of other projects' kernels on the same batches."
	    "\vExamples:\n"
	    "  attune plot --gpu h200\n"
	    "  attune plot --gpu cpu --model llama3.1-8b@1 --out /tmp";
	const struct argp argp = { .options = argp_options, .parser = parse, .doc = about };
	struct options o = { .out = "results" };
	char gpu[GPU_NAME], db[PATH_MAX], header[PATH_MAX];
	struct forest forest = { 0 };
	int code = EXIT_USAGE;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &o);
	if (!gpu_or_own(o.gpu, gpu))
		return EXIT_NO_DEVICE;
	o.gpu = gpu;
	if (access(o.out, W_OK | X_OK)) {
		complain("--out: %s: %s", o.out, strerror(errno));
		return EXIT_USAGE;
	}
	db_path_to_read(db, o.db, gpu);
	rules_path(header, o.header, gpu);
	if (forest_load(&forest, header)) {
		code = plot(&o, &forest, db);
		forest_free(&forest);
	}
	return code;
}
