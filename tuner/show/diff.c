/* SPDX-License-Identifier: Apache-2.0 */
/* diff.c - `attune show --diff A B`: compares two headers (where their choices differ) or two databases (the
 * cells whose times differ), with the size of each change and whether it exceeds noise. */
#include "show.h"
#include "harness/base/base.h"
#include "harness/scratch/scratch.h"
#include "kernels/device/shared/gpu_names.h"
#include "tuner/commands.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include <argp.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

EMBED(diff_query, "tuner/show/diff.sql")

struct options {
	const char *gpu, *db, *path[2];
	int paths;
	enum format format;
};

// clang-format off
static const struct argp_option rows[] = {
	{ "gpu", 'g', "NAME", 0, "Two databases: the device (from the first file's name)", 0 },
	{ "db", 'd', "FILE", 0, "Two headers: compare their times on the scenarios of this database", 0 },
	{ "format", 'f', "FORMAT", 0, FORMAT_WORDS, 0 },
	{ 0 }
};
// clang-format on

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	switch (key) {
	case 'g': gpu_option(&o->gpu, arg, state); return 0;
	case 'd': o->db = arg; return 0;
	case 'f': format_option(&o->format, arg, state); return 0;
	case ARGP_KEY_ARG:
		if (o->paths == 2)
			argp_error(state, "only two files can be compared; '%s' is a third", arg);
		o->path[o->paths++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (o->paths < 2)
			argp_error(state, "two headers or two databases are needed");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const char about[] =
    "Prints what changed from A to B, two generated headers or two databases."
    "\vHeaders: each region of features where their choices differ, with the slowdown at "
    "either leaf. With --db also the scenarios in the region, the geometric mean of their time "
    "ratios, and whether it exceeds noise (the floor of the A/A controls and the intervals of "
    "the times).\n\n"
    "Databases: the cells whose times differ beyond noise or whose outcome changed. Times of "
    "older kernel sources count, too.\n\n"
    "Examples:\n  attune show --diff old/attune_h200.h generated/attune_h200.h\n"
    "  attune show --diff old/attune_h200.h generated/attune_h200.h --db results/h200.sqlite\n"
    "  attune show --diff --gpu h200 old.sqlite results/h200.sqlite";
static const struct argp help = {
	.options = rows, .parser = parse_option, .args_doc = "A B", .doc = about
};

/* ---- two databases: cells whose time or outcome changed --------------------------------- */
static int take_numbers(void *arg, int statement, const struct scratch_value *v, int columns)
{
	double *number = arg;
	(void)statement;
	for (int i = 0; i < columns; i++)
		number[i] = v[i].real;
	return 1;
}

#define HAS_CELLS(db)                                                                          \
	"EXISTS (SELECT 1 FROM " db                                                            \
	".newest WHERE pass <> 'E' AND outcome <> 'noisy' AND device_id ="                     \
	" (SELECT id FROM " db ".device JOIN attached USING (gpu, name, arch, units, machine)" \
	" WHERE db = '" db "')) AS " db

/* 0 + complain: one of them has no cell. */
static int both_have_cells(struct scratch *t, const struct options *o, const char *gpu)
{
	double has[2] = { 0, 0 };
	int done = scratch_ask(t, "diff.c", "SELECT " HAS_CELLS("a") ", " HAS_CELLS("b"),
			       take_numbers, has);
	for (int i = 0; done && i < 2; i++)
		if (!(has[i] > 0)) {
			complain("%s: all times of %s are too noisy, so nothing was compared",
				 o->path[i], gpu);
			done = 0;
		}
	return done;
}

/* A name of E4M3 caches stands for all rows of the GPU. */
static int diff_databases(const struct options *o, const char *gpu)
{
	static const char *const columns[] = { "model", "page_size", "batch",  "phase", "choice",
					       "was",   "is",        "was_us", "is_us", "ratio" };
	struct scratch *t = scratch_new("");
	int code = EXIT_USAGE;
	if (t && data_attach(t, o->path[0], "a", gpu) && data_attach(t, o->path[1], "b", gpu) &&
	    both_have_cells(t, o, gpu))
		code = show_answer(t, "diff.sql", diff_query,
				   table_new(o->format, columns, COUNT(columns)), o->format,
				   INT_MAX) < 0
			   ? EXIT_CHECK
			   : EXIT_DONE;
	scratch_free(t);
	return code;
}

/* ---- the command --------------------------------------------------------------- */

static int is_database(const char *path)
{
	static const char magic[] = "SQLite format 3";
	char head[sizeof magic] = "";
	struct stat st;
	FILE *in = !stat(path, &st) && S_ISREG(st.st_mode) ? fopen(path, "rb") : NULL;
	if (!in)
		return 0;
	const size_t n = fread(head, 1, sizeof head, in);
	fclose(in);
	return n == sizeof head && !memcmp(head, magic, sizeof magic);
}

/* "results/h200.sqlite" -> "h200"; 0 + complain: not a valid GPU name. */
static int gpu_of_path(const char *path, char gpu[GPU_NAME])
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const size_t n = strcspn(name, ".");
	snprintf(gpu, GPU_NAME, "%.*s", (int)n, name);
	if (n < GPU_NAME && gpu_name_is_valid(gpu))
		return 1;
	complain("%s: the file is not named after a GPU; name one with --gpu", path);
	return 0;
}

static int diff_headers(const struct options *o)
{
	struct forest f[2] = { 0 };
	struct data *d = NULL;
	int code = EXIT_USAGE;
	const int loaded = forest_load(&f[0], o->path[0]) && forest_load(&f[1], o->path[1]);
	if (loaded && o->db)
		d = data_load(o->db, o->gpu ? o->gpu : f[1].gpu);
	if (loaded && (!o->db || (d && data_has_times(d, o->db))))
		code = diff_leaves(&f[0], &f[1], d, o->format) ? EXIT_DONE : EXIT_CHECK;
	data_free(d);
	forest_free(&f[0]);
	forest_free(&f[1]);
	return code;
}

int cmd_diff(int argc, char **argv)
{
	struct options o = { .format = FORMAT_TABLE };
	char gpu[GPU_NAME];
	options_parse(&help, argc, argv, &o);
	const int databases = is_database(o.path[0]) + is_database(o.path[1]);
	if (databases == 1) {
		complain("%s and %s: two headers or two databases are needed", o.path[0],
			 o.path[1]);
		return EXIT_USAGE;
	}
	if (!databases)
		return diff_headers(&o);
	if (!o.gpu && !gpu_of_path(o.path[0], gpu))
		return EXIT_USAGE;
	return diff_databases(&o, o.gpu ? o.gpu : gpu);
}
