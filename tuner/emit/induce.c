/* SPDX-License-Identifier: Apache-2.0 */
/* induce.c - `attune induce`: learns rules from a database and writes its header, or checks that
 * the committed header matches the database. */
#include "emit.h"
#include "induce.h"
#include "harness/base/base.h"
#include "tuner/base/base.h"
#include "tuner/commands.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/induce/induce.h"
#include "tuner/transfer/basis.h"
#include "tuner/transfer/gate.h"
#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
	const char *gpu, *db, *out, *emit;
	struct limits limits;
	int check;
};

enum { OPT_CHECK = 256, OPT_LEAVES, OPT_EMIT };

// clang-format off
static const struct argp_option rows[] = {
	{ "gpu", 'g', "NAME", 0, "Device: h200, cpu, ... (this machine's)", 0 },
	{ "db", 'd', "FILE", 0, "Database, or the folder of NAME.sqlite (results/)", 0 },
	{ "out", 'o', "FILE", 0, "File to write (C: generated/attune_NAME.h; else standard output)", 0 },
	{ "max-leaves", OPT_LEAVES, "N", 0, "Leaves of each tree, at most (64; of the overlap half of them): the fewest within noise are taken", 0 },
	{ "check", OPT_CHECK, NULL, 0, "Write nothing; exit 1 with a diff if the file would change", 0 },
	{ "emit", OPT_EMIT, "LANGUAGE", 0, "c or json (c)", 0 },
	{ 0 }
};
// clang-format on

static int count_arg(struct argp_state *state, const char *arg, int least, int most)
{
	char *end;
	const long v = strtol(arg, &end, 10);
	if (*end || end == arg || v < least || v > most)
		argp_error(state, "'%s' should be a number of %d to %d", arg, least, most);
	return (int)v;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	switch (key) {
	case 'g': gpu_option(&o->gpu, arg, state); return 0;
	case 'd': o->db = arg; return 0;
	case 'o': o->out = arg; return 0;
	case OPT_LEAVES: o->limits.leaves = count_arg(state, arg, 1, 200); return 0;
	case OPT_CHECK: o->check = 1; return 0;
	case OPT_EMIT:
		if (strcmp(arg, "c") && strcmp(arg, "json"))
			argp_error(state, "--emit '%s' should be c or json", arg);
		o->emit = arg;
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const char about[] =
    "Learns rules from a database of measurements and writes generated/attune_NAME.h, which "
    "chooses by if-else."
    "\vScenarios of splits 'peers', 'gate' and 'heldout...' are not learned from; all others "
    "are. Times of older kernel sources count only if a bridge (attune merge --bridge) carries "
    "them to the current ones. Batches that the library settled (attune merge --settled) put "
    "the rivals in rows in order. A database of attune tune names the rules that it began "
    "from: few times put their rows in another order, more make trees, and a decision is "
    "replaced only if scenarios of split 'gate' show that the new one is faster. --gpu portable "
    "learns, from an H200's times of what every NVIDIA GPU from sm_80 on may run, rules for "
    "those without a nearer header.\n\n"
    "Examples:\n  attune induce --gpu h200 --max-leaves 32\n  attune induce --gpu h200 "
    "--check";
static const struct argp help = { .options = rows, .parser = parse_option, .doc = about };

/* Prints in which lines the file and the text differ, by diff. */
static void print_diff(const char *path, const char *text)
{
	fflush(stdout);
	/* The path goes by the environment, where no shell reads it. */
	FILE *diff = setenv("ATTUNE_COMMITTED", path, 1)
			 ? NULL
			 : popen("diff -u --label \"$ATTUNE_COMMITTED\" --label 'by the database' "
				 "-- \"$ATTUNE_COMMITTED\" -",
				 "w");
	void (*pipes)(int) = signal(SIGPIPE, SIG_IGN); /* there may be no diff */
	if (diff) {
		fputs(text, diff);
		pclose(diff);
	}
	signal(SIGPIPE, pipes);
}

static int check_file(const char *path, const char *text)
{
	char *committed = file_text(path);
	int same;
	if (!committed) {
		complain("%s cannot be read; `attune induce` writes it", path);
		return 0;
	}
	same = !strcmp(committed, text);
	if (!same) {
		print_diff(path, text);
		complain("%s does not match the database; without --check it is rewritten", path);
	} else {
		printf("# %s matches the database\n", path);
	}
	free(committed);
	return same;
}

/* ---- too few times ---------------------------------------------------------------------- */
/* A header is not remade if more than one in MOST_LOST of its scenarios cannot be learned from. */
enum { MOST_LOST = 4 };
static const char held_line[] =
    " *   stale     too few times of today's sources are left to remake this header\n";

static int is_too_little(const struct data *d, int training)
{
	return d->lost * MOST_LOST > training + d->lost;
}

/* The header with that line after the line of its database; NULL without memory. */
static char *with_held_line(const char *text)
{
	const char *database = strstr(text, " *   database");
	const char *end = database ? strchr(database, '\n') : NULL;
	char *held;
	if (!end || strstr(text, held_line))
		return strdup(text);
	const int n = asprintf(&held, "%.*s%s%s", (int)(end + 1 - text), text, held_line, end + 1);
	return n < 0 ? NULL : held;
}

/* Keeps the existing header, with a line that gives the reason. */
static int hold(const struct data *d, const struct options *o, const char *out, int training)
{
	char *text = out ? file_text(out) : NULL, *held = text ? with_held_line(text) : NULL;
	int done = 0;
	if (!d->n)
		complain("%s: all %d times are by older kernel sources; %s stays until they are "
			 "measured again: attune sweep --gpu %s",
			 o->db, d->stale, out ? out : "the header", d->gpu);
	else
		complain(
		    "%s: in %d of %d training scenarios the fastest kernel has changed since it "
		    "was "
		    "measured, too many to learn from the rest; %s stays until they are measured "
		    "again: attune sweep --gpu %s",
		    o->db, d->lost, training + d->lost, out ? out : "the header", d->gpu);
	if (!text)
		complain("%s: there is no header to keep", out ? out : d->gpu);
	else if (held && o->check)
		done = check_file(out, held);
	else if (held)
		done = !strcmp(text, held) || file_put(out, held);
	free(held);
	free(text);
	return done;
}

/* Writes, prints or checks the text of a forest. */
static int deliver(const struct forest *f, const struct data *d, const struct options *o,
		   const char *out)
{
	char *text = strcmp(o->emit, "c") ? forest_emit_json(f, d) : forest_emit(f, d);
	int done = 0;
	if (output_was_lost()) /* a part of the text is missing */
		done = 0;
	else if (text && o->check)
		done = check_file(out, text);
	else if (text && !out)
		done = fputs(text, stdout) >= 0;
	else if (text && file_put(out, text)) {
		printf("# %s: %d leaves, %d choices of %d kernels; attune eval scores them\n",
		       f->gpu, forest_leaves(f), f->num_choices, forest_kernels(f));
		done = 1;
	}
	free(text);
	return done;
}

/* Learns from the GPU's own times alone. */
static int induce_own(struct induced *r, const struct data *d, const struct limits *limits,
		      const char *db)
{
	const int training = data_count_training(d);
	r->too_little = is_too_little(d, training);
	if (r->too_little)
		return 0;
	if (!training || training == d->n) {
		complain("%s has %d scenarios to learn from and %d held out; both are needed", db,
			 training, d->n - training);
		return 0;
	}
	return forest_induce(&r->f, d, limits);
}

/* Learns new rules for a header that began from other rules, and applies the gate. */
static int induce_from(struct induced *r, const struct inheritance *i, const struct data *d,
		       const struct limits *limits)
{
	struct fresh_rules fresh;
	if (!inheritance_learn(i, d, limits, &fresh))
		return 0;
	const int done = inheritance_judge(i, d, &fresh, &r->f, &r->gate);
	fresh_rules_free(&fresh);
	return done;
}

int induced_make(struct induced *r, const struct data *d, const struct limits *limits,
		 const char *db)
{
	struct inheritance i;
	*r = (struct induced){ .has_gate = 0 };
	const int has_basis = inheritance_open(&i, d, db);
	if (has_basis < 0)
		return 0;
	r->has_gate = has_basis;
	const int done = has_basis ? induce_from(r, &i, d, limits) : induce_own(r, d, limits, db);
	if (has_basis)
		inheritance_close(&i);
	return done;
}

void induced_free(struct induced *r)
{
	forest_free(&r->f);
}

static int induce(const struct data *d, const struct options *o, const char *out)
{
	struct induced r;
	data_say_left_out(d, o->db);
	if (!induced_make(&r, d, &o->limits, o->db))
		return r.too_little && hold(d, o, out, data_count_training(d));
	if (r.has_gate && !o->check && out)
		gate_print(stdout, &r.gate, "# gate: ");
	const int done = deliver(&r.f, d, o, out);
	induced_free(&r);
	return done;
}

int cmd_induce(int argc, char **argv)
{
	struct options o = { .limits = default_limits, .emit = "c" };
	char gpu[GPU_NAME], db[PATH_TEXT], out[PATH_TEXT];
	struct data *d;
	int done = 0;
	options_parse(&help, argc, argv, &o);
	if (!gpu_or_own(o.gpu, gpu))
		return EXIT_NO_DEVICE;
	db_path(db, o.db, gpu);
	own_header(out, gpu);
	o.db = db;
	d = data_load_as(o.db, gpu, (struct which_rows){ .ours_only = 1 });
	if (!d || !data_hash(d, o.db)) {
		data_free(d);
		return EXIT_USAGE;
	}
	if (!o.out && !strcmp(o.emit, "c"))
		o.out = out;
	if (!o.out && o.check) {
		complain("--check of %s needs --out: it has no default file", o.emit);
		data_free(d);
		return EXIT_USAGE;
	}
	if (!d->n && d->stale)
		done = hold(d, &o, o.out, 0);
	else if (data_has_times(d, o.db)) {
		data_say_machine(d, o.db);
		done = induce(d, &o, o.out);
	}
	data_free(d);
	return done ? EXIT_DONE : EXIT_CHECK;
}
