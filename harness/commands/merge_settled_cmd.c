/* SPDX-License-Identifier: Apache-2.0 */
/* merge_settled_cmd.c - attune merge --settled: adds files of what the library settled to a database. */
#include "commands.h"
#include "harness/base/base.h"
#include "harness/settled/settled.h"
#include "harness/store/store.h"
#include "kernels/settle/text/text.h"
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct options {
	const char *into;
	char **path;
	int n;
};

enum { OPT_INTO = 256 };
static const struct argp_option rows[] = {
	{ "into", OPT_INTO, "DB", 0, "Database of the GPU, such as results/h200.sqlite", 0 }, { 0 }
};

static error_t on_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	switch (key) {
	case OPT_INTO: o->into = arg; return 0;
	case ARGP_KEY_ARGS:
		o->path = state->argv + state->next;
		o->n = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state,
			   "name the files to add: attune merge --settled FILE... --into DB");
		return ARGP_ERR_UNKNOWN;
	case ARGP_KEY_END:
		if (!o->into)
			argp_error(state, "--into is missing: the database that gets the rows");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = rows,
	.parser = on_option,
	.args_doc = "FILE...",
	.doc =
	    "Adds what the library settled by timing (attune_settled_text) to a database."
	    "\vThe batches and times of the files go into tables of their own, so that "
	    "measurements "
	    "stay as they are. attune induce then learns from them in which order the rivals of a "
	    "choice stand, and attune scenarios --settled writes the batches that are worth a "
	    "sweep.\n\n"
	    "The database must have measurements of the device that the files name. If a line is "
	    "malformed, or a file is of another device, nothing of any file is taken. Merging a "
	    "file again changes nothing. attune merge OUT IN... keeps these rows, too.\n\n"
	    "Example:\n  attune merge --settled node*.settled --into results/h200.sqlite\n",
};

/* Whether the database has measurements of the file's device, which its second line names. */
static int is_of(struct store *s, const struct settled_file *f, const char *path, const char *db)
{
	struct run_info run;
	const struct device_info *d = &run.device;
	char name[QUOTED_TEXT];
	const int known = store_knows(s, f->gpu);
	if (known < 0 || (known && !store_device(s, f->gpu, &run)))
		return 0;
	if (known)
		quoted(name, d->name);
	if (known && !strcmp(name, f->name) && !strcmp(d->arch, f->arch) && d->units == f->units)
		return 1;
	if (known)
		complain(
		    "%s:2: settled on %s (%s, %d units), but the %s of %s is %s (%s, %d units); "
		    "nothing is taken",
		    path, f->name, f->arch, f->units, f->gpu, db, name, d->arch, d->units);
	else
		complain("%s:2: settled on %s (%s, %d units), but %s holds no measurement of %s; "
			 "nothing "
			 "is taken",
			 path, f->name, f->arch, f->units, db, f->gpu);
	return 0;
}

static int add(struct store *s, const struct settled_file *f, const char *path)
{
	int added;
	if (!store_add_settled(s, f->gpu, f->row, f->n, &added))
		return 0;
	fprintf(stderr, "%s: %d settled batches, %d of them new", path, f->n, added);
	if (f->outdated)
		fprintf(stderr, "; %d name kernels that have changed and teach nothing",
			f->outdated);
	fputc('\n', stderr);
	return 1;
}

/* Checks a file, and adds it unless it is only checked. */
static int take(struct store *s, const char *path, const char *db, int only_check)
{
	struct settled_file f;
	if (!settled_file_read(&f, path))
		return 0;
	const int done = is_of(s, &f, path, db) && (only_check || add(s, &f, path));
	settled_file_free(&f);
	return done;
}

int cmd_merge_settled(int argc, char **argv)
{
	struct options o = { 0 };
	options_parse(&argp, argc, argv, &o);
	if (access(o.into, F_OK)) {
		complain("--into: %s: %s", o.into, strerror(errno));
		return EXIT_USAGE;
	}
	struct store *s = store_open(o.into, 0);
	int done = s && store_check(s);
	/* all files are checked before the first is added */
	for (int i = 0; done && i < 2 * o.n; i++)
		done = take(s, o.path[i % o.n], o.into, i < o.n);
	store_close(s);
	return done ? EXIT_DONE : EXIT_USAGE;
}
