/* plot.c - `attune plot`: draws a results database as SVG and PNG with gnuplot.
 *
 * Each picture's rows and settings go to a temporary folder. Settings, style and script form one
 * gnuplot program that writes both formats. The same database gives the same files. */
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
#include <ftw.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

enum { MAX_DIR = 400, MAX_PATH = 512 };

// clang-format off
static const struct picture {
	const char *name, *script;
	int (*series)(const struct plotted *, FILE *rows, FILE *settings);
	int width, height;
	const char *needs;
} pictures[] = {
	{ "decode",   plot_decode,   series_decode,   900,  560, "uniform decode batches of two lengths, each with two sizes or more" },
	{ "kernels",  plot_kernels,  series_kernels,  1200, 480, "batches of one model" },
	{ "roofline", plot_roofline, series_roofline, 1100, 480, "measured ceilings" },
	{ "regret",   plot_regret,   series_regret,   1100, 480, "measured plans" },
	{ "ladder",   plot_ladder,   series_ladder,   1200, 980, "batches of the ladder (attune ladder --measure)" },
	{ "prefill",  plot_prefill,  series_prefill,  1100, 480, "prompts with a tuned and an untuned time" },
	{ "hybrid",   plot_hybrid,   series_hybrid,   1100, 520, "overlapped plans for one prompt chunk with many decodes" },
	{ "mixed",    plot_mixed,    series_mixed,    1200, 560, "ceilings, or no batches in split peers with one prompt and decodes" },
	{ "peers",    plot_peers,    series_peers,    1100, 720, "batches that are in the table of other projects' times (--peers)" },
};

struct options {
	const char *gpu, *db, *header, *out, *model, *peers;
};

static const struct argp_option argp_options[] = {
	{ "gpu",    'g', "NAME",   0, "Device: h200, cpu, ... (this machine's)", 0 },
	{ "db",     'd', "FILE",   0, "Database (results/NAME.sqlite)", 0 },
	{ "header", 'H', "FILE",   0, "Rules learned from it (generated/attune_NAME.h)", 0 },
	{ "out",    'o', "DIR",    0, "Folder for NAME_decode.svg and the other pictures (results)", 0 },
	{ "peers",  'p', "FILE",   0, "Times of other projects' kernels on the same batches (scenarios/peers_NAME.tsv, if present)", 0 },
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

static FILE *open_in(const char *dir, const char *name, const char *suffix)
{
	char path[MAX_PATH];
	FILE *f;
	snprintf(path, sizeof path, "%s/%s%s", dir, name, suffix);
	f = fopen(path, "w");
	if (!f)
		complain("%s: %s", path, strerror(errno));
	return f;
}

static int close_written(FILE *f)
{
	const int bad = ferror(f);
	if (!fclose(f) && !bad)
		return 1;
	complain("a file in the temporary folder cannot be written: %s", strerror(errno));
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

/* aside: where gnuplot writes it, beside the one before. */
static void picture_path(char path[MAX_PATH], const struct picture *p, const struct options *o,
			 int png, int aside)
{
	const size_t n = (size_t)snprintf(path, MAX_PATH, "%s/%s_%s.%s", o->out, o->gpu, p->name,
					  png ? "png" : "svg");
	if (aside && n < MAX_PATH)
		snprintf(path + n, MAX_PATH - n, ".%ld", (long)getpid());
}

/* Whether the file ends as a whole picture does: gnuplot ends well on a full disk, too. */
static int is_whole(const char *path, int png)
{
	static const char *const end[] = { "</svg>", "IEND\xae\x42\x60\x82" };
	enum { LAST = 12 };
	char last[LAST];
	FILE *f = fopen(path, "rbe");
	const int ok = f && !fseek(f, -LAST, SEEK_END) && fread(last, 1, LAST, f) == LAST;
	if (f)
		fclose(f);
	return ok && memmem(last, LAST, end[png], strlen(end[png]));
}

/* Puts the new pictures in the place of those before; both or none. */
static int take_pictures(const struct picture *p, const struct options *o)
{
	char path[2][MAX_PATH], aside[2][MAX_PATH];
	int ok = 1;
	for (int png = 0; png < 2; png++) {
		picture_path(path[png], p, o, png, 0);
		picture_path(aside[png], p, o, png, 1);
		if (ok && !is_whole(aside[png], png)) {
			complain("%s: gnuplot could not write the whole picture; is the disk full?",
				 path[png]);
			ok = 0;
		}
	}
	for (int png = 0; png < 2; png++)
		if (ok && rename(aside[png], path[png])) {
			complain("%s: %s", path[png], strerror(errno));
			ok = 0;
		} else if (!ok) {
			unlink(aside[png]);
		}
	return ok;
}

static void outputs(FILE *f, const struct picture *p, const struct options *o)
{
	fprintf(f, "width = %d\nheight = %d\n", p->width, p->height);
	for (int png = 0; png < 2; png++) {
		char path[MAX_PATH];
		picture_path(path, p, o, png, 1);
		fprintf(f, "png = %d\n", png);
		quoted(f, "path", path);
		fputs(plot_style, f);
		fputs(p->script, f);
		fputs("unset output\nreset\n", f);
	}
}

static int run_gnuplot(const char *program)
{
	extern char **environ;
	char *argv[] = { "gnuplot", "-d", (char *)program, NULL };
	pid_t pid;
	int status, error = posix_spawnp(&pid, "gnuplot", NULL, NULL, argv, environ);
	if (error == ENOENT) {
		complain("gnuplot is not on PATH; `make deps` installs it");
		return 0;
	}
	if (error || waitpid(pid, &status, 0) != pid) {
		complain("gnuplot: %s", strerror(error ? error : errno));
		return 0;
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		complain("gnuplot failed; it must be version 5.2 or later, with pngcairo");
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

/* 1: drawn, or nothing to draw. */
static int draw(const struct plotted *p, const struct picture *picture, const struct options *o,
		const char *dir)
{
	char program[MAX_PATH], rows_path[MAX_PATH];
	FILE *rows = open_in(dir, picture->name, ".rows");
	FILE *f = rows ? open_in(dir, picture->name, ".gp") : NULL;
	int points, ok;
	if (!f) {
		if (rows)
			fclose(rows);
		return 0;
	}
	snprintf(program, sizeof program, "%s/%s.gp", dir, picture->name);
	snprintf(rows_path, sizeof rows_path, "%s/%s.rows", dir, picture->name);
	quoted(f, "rows", rows_path);
	settings_of_all(p, f);
	points = picture->series(p, rows, f);
	outputs(f, picture, o);
	ok = close_written(rows);
	ok = close_written(f) && ok;
	if (ok && !points) {
		complain("%s_%s: not drawn: the database has no %s", o->gpu, picture->name,
			 picture->needs);
		return 1;
	}
	if (!ok)
		return 0;
	ok = run_gnuplot(program);
	return take_pictures(picture, o) && ok;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st, (void)kind, (void)where;
	return remove(path);
}

static int draw_all(const struct plotted *p, const struct options *o)
{
	const char *tmp = getenv("TMPDIR");
	char dir[MAX_DIR];
	int ok = 1;
	if (snprintf(dir, sizeof dir, "%s/attune-plot-XXXXXX", tmp && *tmp ? tmp : "/tmp") >=
	    MAX_DIR) {
		complain("TMPDIR is too long; at most 380 characters are taken");
		return 0;
	}
	if (!mkdtemp(dir)) {
		complain("%s: %s", dir, strerror(errno));
		return 0;
	}
	for (size_t i = 0; ok && i < COUNT(pictures); i++)
		ok = draw(p, &pictures[i], o, dir);
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return ok;
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
	char gpu[GPU_NAME], db[PATH_TEXT], header[PATH_TEXT];
	struct forest forest = { 0 };
	struct plotted p = { 0 };
	static struct peers peers;
	struct data *d = NULL, *all = NULL;
	int code = EXIT_USAGE;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &o);
	if (!gpu_or_own(o.gpu, gpu))
		return EXIT_NO_DEVICE;
	o.gpu = gpu;
	if (strlen(o.out) > MAX_DIR || access(o.out, W_OK | X_OK)) {
		complain("--out: %.100s: %s", o.out,
			 strlen(o.out) > MAX_DIR ? "at most 400 characters are taken"
						 : strerror(errno));
		return EXIT_USAGE;
	}
	if (!peers_load(&peers, gpu, o.peers))
		return EXIT_USAGE;
	db_path_to_read(db, o.db, gpu);
	rules_path(header, o.header, gpu);
	data_load_both(db, o.gpu, &d, &all);
	p.data = d;
	p.all = all;
	p.forest = &forest;
	p.peers = &peers;
	if (all && forest_load(&forest, header)) {
		if (choose_model(&p, o.model) && choose_picks(&p, &forest))
			code = draw_all(&p, &o) ? EXIT_DONE : EXIT_CHECK;
		for (int i = 0; i < NUM_POLICIES; i++)
			free(p.pick[i]);
		forest_free(&forest);
	}
	data_free(d);
	data_free(all);
	return code;
}
