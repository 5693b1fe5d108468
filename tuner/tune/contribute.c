/* SPDX-License-Identifier: Apache-2.0 */
/* contribute.c - `attune merge --contribute`: merges this machine's measurements into the project's.
 *
 *   results/local/<gpu>.sqlite   measured on this machine
 *   results/<gpu>.sqlite         committed, if present
 *     both -> results/<gpu>.new.sqlite -> checks -> a header -> checks
 *
 * If all checks pass, the new database and header replace the committed ones; else nothing
 * changes. */
#include "tune.h"
#include "harness/base/base.h"
#include "harness/store/store.h"
#include "harness/sweep/sweep.h"
#include "tuner/base/base.h"
#include "tuner/commands.h"
#include "tuner/data/data.h"
#include "tuner/emit/emit.h"
#include "tuner/emit/induce.h"
#include "tuner/eval/eval.h"
#include "tuner/forest/forest.h"
#include "tuner/transfer/basis.h"
#include "tuner/transfer/gate.h"
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double most_noisy = 0.05; /* share of noisy times */
static const double most_floor = 0.20; /* difference of two times of one choice */
static const double rounding = 1.002;  /* new rules may be slower by this factor */
static const long long most_bytes = 25000000;
enum { LEAST_LEARNED = 40, LEAST_HELD_OUT = 10 };

struct contribution {
	const char *asked, *results, *generated; /* options */
	int dry_run;
	enum format format;
	char gpu[GPU_NAME];
	char local[PATH_MAX];                /* of this machine */
	char db[PATH_MAX], header[PATH_MAX]; /* the project's */
	char joined[PATH_MAX];               /* both: what would be committed */
	struct compacted gone;               /* rows that a committed database must not have */
	struct data *d;
	struct induced induced;
	struct forest before; /* rules that the header would replace */
	int has_induced;
};

/* ---- the database -------------------------------------------------------------------------- */

/* If the committed header was learned from its own times alone, so is the new one. */
static int join(struct contribution *c)
{
	const int is_known = !access(c->db, R_OK);
	long long added;
	struct store *s = store_open(c->joined, 0);
	int done = s && (!is_known || store_merge(s, c->db, &added));
	const int alone = done && is_known && store_has_basis(s) <= 0;
	done = done && store_merge(s, c->local, &added) && (!alone || store_drop_basis(s)) &&
	       provenance_find(s) && store_compact(s, COMPACT_LIGHT, &c->gone);
	store_close(s);
	return done;
}

static int load(struct contribution *c)
{
	c->d = data_load(c->joined, c->gpu);
	return c->d && data_has_times(c->d, c->joined) && data_hash(c->d, c->joined);
}

/* ---- the rules ----------------------------------------------------------------------------- */

static int load_before(struct contribution *c)
{
	struct inheritance i;
	if (!access(c->header, R_OK))
		return forest_load(&c->before, c->header);
	const int has = inheritance_open(&i, c->d, c->joined);
	if (has < 0)
		return 0;
	const int done = has && *i.basis.rules ? forest_parse(&c->before, i.basis.rules, c->joined)
					       : forest_defaults(&c->before, c->gpu);
	if (has)
		inheritance_close(&i);
	return done;
}

/* Returns 1 also if the data are too few for rules. */
static int make_rules(struct contribution *c)
{
	c->has_induced = induced_make(&c->induced, c->d, &default_limits, c->joined);
	return c->has_induced ? load_before(c) : c->induced.too_little;
}

/* ---- checks -------------------------------------------------------------------------------- */

struct report {
	struct table *t;
	int failed;
};

__attribute__((format(printf, 5, 6))) static void found(struct report *r, const char *check, int ok,
							const char *needed, const char *format, ...)
{
	char text[200];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	table_text(r->t, check);
	table_text(r->t, ok ? "ok" : "FAILED");
	table_text(r->t, text);
	table_text(r->t, needed);
	table_end_row(r->t);
	r->failed += !ok;
}

struct counts {
	double devices, times, noisy;
};

static int take_counts(void *arg, int columns, const char *const *names, const char *const *cells)
{
	(void)columns;
	(void)names;
	*(struct counts *)arg =
	    (struct counts){ atof(cells[0]), atof(cells[1]), cells[2] ? atof(cells[2]) : 0 };
	return 0;
}

/* 0 + complain. */
static int count(const struct contribution *c, struct counts *n)
{
	char sql[300];
	struct store *s = store_open(c->joined, 1);
	snprintf(sql, sizeof sql,
		 "SELECT (SELECT count(*) FROM device WHERE gpu = '%.*s'), count(*),"
		 " sum(e.outcome = 'noisy') FROM measurement AS m JOIN ran AS r ON r.id = m.ran"
		 " JOIN ending AS e ON e.id = r.ending",
		 gpu_length(c->gpu), c->gpu);
	const int done = s && store_query(s, sql, take_counts, n);
	store_close(s);
	return done;
}

static void check_noise(const struct contribution *c, const struct counts *n, struct report *r)
{
	const double *floor = c->d->noise.floor;
	int ok = n->noisy <= most_noisy * n->times;
	for (int i = 0; i < NOISE_BANDS; i++)
		ok &= floor[i] < most_floor;
	found(r, "noise", ok, "at most 5 % noisy times, A/A pairs at most 20 % apart",
	      "%.1f %% of %.0f times noisy, A/A pairs %.1f, %.1f, %.1f %% apart",
	      100 * n->noisy / fmax(n->times, 1), n->times, 100 * floor[0], 100 * floor[1],
	      100 * floor[2]);
}

/* 0 + complain: the rules could not be made. */
static int check_rules(struct contribution *c, struct report *r)
{
	struct held_out h;
	if (!make_rules(c))
		return 0;
	if (c->induced.too_little) {
		found(r, "rules", 0, "enough times of the current sources", "too few");
		return 1;
	}
	if (!held_out_judge(c->d, &c->induced.f, &c->before, &h))
		return 0;
	const int learned = data_count_training(c->d);
	found(r, "scenarios", learned >= LEAST_LEARNED && h.n >= LEAST_HELD_OUT,
	      "40 and 10; make tune PRESET=full measures more",
	      "%d to learn from, %d held out and evaluated", learned, h.n);
	found(r, "rules", h.n && h.slowdown[INSTALLED] <= rounding * h.slowdown[BEFORE],
	      "no slower than before", "%.3f x the fastest measured, before %.3f, defaults %.2f",
	      h.slowdown[INSTALLED], h.slowdown[BEFORE], h.slowdown[DEFAULTS]);
	if (c->induced.has_gate) {
		const int taken = gate_taken(&c->induced.gate);
		found(r, "gate", taken > 0, "at least 1 decision that is faster by the new rules",
		      "%d of %d decisions", taken, NUM_GATE_GROUPS);
	}
	return 1;
}

/* The number of failed checks; -1 + complain. Rules are made only if the checks of the data
 * pass. */
static int check(struct contribution *c)
{
	const char *columns[] = { "check", "verdict", "found", "needed" };
	struct counts n;
	struct stat st = { .st_size = 0 };
	if (!count(c, &n))
		return -1;
	struct report r = { .t = table_new(c->format, columns, (int)COUNT(columns)) };
	if (!r.t)
		return -1;
	found(&r, "devices", n.devices == 1, "1: one GPU model, or one CPU machine", "%.0f: %s%s",
	      n.devices, c->d->run.device.name, n.devices > 1 ? ", others" : "");
	found(&r, "sources", !c->gone.modified, "no times by uncommitted sources",
	      "%lld times by uncommitted sources", c->gone.modified);
	check_noise(c, &n, &r);
	stat(c->joined, &st);
	found(&r, "size", st.st_size > 0 && st.st_size <= most_bytes, "at most 25 MB", "%.1f MB",
	      1e-6 * (double)st.st_size);
	const int done = r.failed || check_rules(c, &r);
	table_print(r.t, stdout);
	return done ? r.failed : -1;
}

/* ---- the command --------------------------------------------------------------------------- */

/* 0 + complain. */
static int move(const char *from, const char *to)
{
	if (!rename(from, to))
		return 1;
	complain("%s: cannot be renamed to %s: %s", from, to, strerror(errno));
	return 0;
}

static int put_in_place(const struct contribution *c)
{
	char *text = forest_emit(&c->induced.f, c->d);
	const int done = text && file_put(c->header, text) && move(c->joined, c->db);
	free(text);
	if (done)
		fprintf(stderr,
			"wrote %s and %s; next: make plot GPU=%s, make test, then commit the "
			"changes in %s and %s\n",
			c->db, c->header, c->gpu, c->results, c->generated);
	return done;
}

static int contribute(struct contribution *c)
{
	int code = EXIT_CHECK;
	store_remove(c->joined);
	if (join(c) && load(c)) {
		const int failed = check(c);
		if (failed > 0)
			complain("%d check%s failed; nothing was written", failed,
				 failed == 1 ? "" : "s");
		if (!failed && (c->dry_run || put_in_place(c)))
			code = EXIT_DONE;
	}
	if (c->has_induced)
		induced_free(&c->induced);
	forest_free(&c->before);
	data_free(c->d);
	store_remove(c->joined);
	return code;
}

enum { OPT_RESULTS = 256, OPT_GENERATED, OPT_DRY, OPT_FORMAT };

// clang-format off
static const struct argp_option rows[] = {
	{ "gpu",       'g',           "NAME",   0, "Device: h100, cpu, ... (this machine's)", 0 },
	{ "results",   OPT_RESULTS,   "DIR",    0, "Folder of databases; DIR/local has this machine's (results)", 0 },
	{ "generated", OPT_GENERATED, "DIR",    0, "Folder of headers (generated)", 0 },
	{ "dry-run",   OPT_DRY,       0,        0, "Run the checks, write nothing", 0 },
	{ "format",    OPT_FORMAT,    "FORMAT", 0, FORMAT_WORDS, 0 },
	{ 0 }
};
// clang-format on

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct contribution *c = state->input;
	switch (key) {
	case 'g': gpu_option(&c->asked, arg, state); return 0;
	case OPT_RESULTS: c->results = arg; return 0;
	case OPT_GENERATED: c->generated = arg; return 0;
	case OPT_DRY: c->dry_run = 1; return 0;
	case OPT_FORMAT: format_option(&c->format, arg, state); return 0;
	case ARGP_KEY_ARG: no_option(arg, state); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const char about[] =
    "Merges this machine's measurements (results/local) into results/NAME.sqlite and "
    "generated/attune_NAME.h, ready to commit."
    "\vThe merged database must come from one device and from committed sources, hold enough "
    "scenarios, and have little noise. Its header must be no slower on held-out scenarios than "
    "the one it replaces. If a check fails, nothing is written.\n\n"
    "Example:\n  attune merge --contribute --gpu l40s --dry-run\n  attune merge --contribute "
    "--gpu l40s";
static const struct argp help = { .options = rows, .parser = parse_option, .doc = about };

static int name_paths(struct contribution *c)
{
	snprintf(c->local, sizeof c->local, "%s/local/%s.sqlite", c->results, c->gpu);
	snprintf(c->db, sizeof c->db, "%s/%s.sqlite", c->results, c->gpu);
	snprintf(c->joined, sizeof c->joined, "%s/%s.new.sqlite", c->results, c->gpu);
	snprintf(c->header, sizeof c->header, "%s/attune_%s.h", c->generated, c->gpu);
	if (!access(c->local, R_OK))
		return 1;
	complain("%s cannot be read; make tune GPU=%s writes it", c->local, c->gpu);
	return 0;
}

int cmd_contribute(int argc, char **argv)
{
	struct contribution c = { .results = "results", .generated = "generated" };
	options_parse(&help, argc, argv, &c);
	if (!gpu_or_own(c.asked, c.gpu))
		return EXIT_NO_DEVICE;
	return name_paths(&c) ? contribute(&c) : EXIT_USAGE;
}
