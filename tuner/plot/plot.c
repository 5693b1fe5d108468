/* SPDX-License-Identifier: Apache-2.0 */
/* plot.c - `attune plot`: chooses the data, and draws the pictures of a folder from a results
 * database. The same database gives the same files. */
#include "plot.h"
#include "harness/base/base.h"
#include "harness/scratch/scratch.h"
#include "tuner/base/base.h"
#include "tuner/commands.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPT_PICTURES = 256, OPT_PRINT, OPT_STALE };

struct options {
	const char *gpu, *db, *header, *out, *peers, *folder, *print;
	int stale;
};

// clang-format off
static const struct argp_option argp_options[] = {
	{ "gpu",    'g', "NAME",   0, "Device: h200, cpu, ... (this machine's)", 0 },
	{ "db",     'd', "FILE",   0, "Database (results/NAME.sqlite)", 0 },
	{ "header", 'H', "FILE",   0, "Rules learned from it (generated/attune_NAME.h)", 0 },
	{ "out",    'o', "DIR",    0, "Folder for NAME_decode.svg and the other pictures (results)", 0 },
	{ "peers",  'p', "FILE",   0, "Database in which other projects' kernels raced as plug-ins (results/NAME_peers.sqlite, if present)", 0 },
	{ "pictures", OPT_PICTURES, "DIR", 0, "Folder of the pictures' NAME.sql and NAME.gp, which gnuplot runs (attune's own)", 0 },
	{ "print",  OPT_PRINT, "NAME", 0, "Draw nothing; print what NAME.sql answers", 0 },
	{ "stale",  OPT_STALE, NULL, 0, "Times of older sources, too; the pictures say so", 0 },
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
	case 'p': o->peers = arg; break;
	case OPT_PICTURES: o->folder = arg; break;
	case OPT_PRINT: o->print = arg; break;
	case OPT_STALE: o->stale = 1; break;
	case ARGP_KEY_ARG: no_option(arg, state); break;
	default: return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* ---- both databases --------------------------------------------------------------- */
/* What the pictures of a database ask. NULL + complain. */
static struct scratch *facts_load(const char *db, int has_peers, const struct options *o,
				  const struct forest *forest)
{
	struct data *d = data_load_as(db, o->gpu, (struct which_rows){ .stale = o->stale });
	struct scratch *t = NULL;
	if (d && data_has_times(d, db)) {
		struct plotted p = plotted_make(d, forest);
		p.with_stale = o->stale;
		t = facts_make(&p);
	}
	data_free(d);
	if (!t || !has_peers || peers_read(t, o->gpu, db))
		return t;
	scratch_free(t);
	return NULL;
}

/* Draws one picture, or prints its rows. facts: of the GPU's database, and of the race with plug-ins or NULL. */
static int draw_named(struct canvas *c, struct scratch *facts[2], const char *name,
		      const struct options *o)
{
	struct picture picture;
	int ok = picture_load(&picture, o->folder, name);
	c->facts = facts[ok && picture.of_peers && facts[1]];
	if (ok && o->print)
		ok = picture_ask(&picture, c->facts, stdout, stdout) >= 0;
	else if (ok)
		ok = picture_draw(&picture, c);
	picture_free(&picture);
	return ok;
}

static int is_query(const struct dirent *e)
{
	const size_t n = strlen(e->d_name);
	return n > 4 && n < 64 && !strcmp(e->d_name + n - 4, ".sql") &&
	       strcmp(e->d_name, "style.sql");
}

static int draw_all(struct canvas *c, struct scratch *facts[2], const struct options *o)
{
	struct dirent **file;
	const int n = scandir(o->folder, &file, is_query, alphasort);
	int ok = n > 0;
	if (!ok)
		complain("--pictures: %s: has no NAME.sql", o->folder);
	for (int i = 0; i < n; i++) {
		file[i]->d_name[strlen(file[i]->d_name) - 4] = '\0';
		ok = ok && draw_named(c, facts, file[i]->d_name, o);
		free(file[i]);
	}
	if (n >= 0)
		free(file);
	return ok;
}

/* Draws the pictures of both databases; an exit code. */
static int plot(const struct options *o, const struct forest *forest, const char *db)
{
	char raced[PATH_TEXT];
	struct scratch *facts[2] = { NULL };
	struct canvas c = { .gpu = o->gpu, .folder = o->out };
	int code = EXIT_USAGE;
	c.style = picture_part(o->folder, "style", "gp");
	c.says = c.style ? picture_part(o->folder, "style", "sql") : NULL;
	peers_path(raced, o->peers, o->gpu);
	const int has_race = o->peers || !access(raced, F_OK);
	if (c.says && (facts[0] = facts_load(db, 0, o, forest)) &&
	    (!has_race || (facts[1] = facts_load(raced, 1, o, forest))))
		code = (o->print ? draw_named(&c, facts, o->print, o) : draw_all(&c, facts, o))
			   ? EXIT_DONE
			   : EXIT_CHECK;
	scratch_free(facts[0]);
	scratch_free(facts[1]);
	free(c.style);
	free(c.says);
	return code;
}

int cmd_plot(int argc, char **argv)
{
	static const char about[] =
	    "Draws a results database: decode latency by batch size, latency of every kernel by "
	    "tokens, shares of the device's ceilings, regret of every policy, the gain of tuning "
	    "for prompts, the distance of mixed batches from the ideal, and the times of other "
	    "projects' kernels on the same batches."
	    "\vExamples:\n"
	    "  attune plot --gpu h200\n"
	    "  attune plot --gpu cpu --stale --out /tmp\n"
	    "  attune plot --gpu h200 --print regret\n"
	    "  cp -r tuner/plot/pictures mine; attune plot --gpu h200 --pictures mine --out mine";
	const struct argp argp = { .options = argp_options, .parser = parse, .doc = about };
	struct options o = { .out = "results" };
	char gpu[GPU_NAME], db[PATH_MAX], header[PATH_MAX], folder[PATH_TEXT];
	struct forest forest = { 0 };
	int code = EXIT_USAGE;
	options_parse(&argp, argc, argv, &o);
	if (!gpu_or_own(o.gpu, gpu))
		return EXIT_NO_DEVICE;
	o.gpu = gpu;
	if (access(o.out, W_OK | X_OK)) {
		complain("--out: %s: %s", o.out, strerror(errno));
		return EXIT_USAGE;
	}
	if (!o.folder && !(o.folder = code_path(folder, "tuner/plot/pictures", "style.gp"))) {
		complain(
		    "the pictures of attune are not installed beside it; name their folder with "
		    "--pictures");
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
