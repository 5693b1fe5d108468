/* SPDX-License-Identifier: Apache-2.0 */
/* store_read.c - reads the newest row of every cell, and noise, devices, ceilings and free
 * queries. */
#include "handle.h"
#include "store.h"
#include "harness/base/base.h"
#include "harness/machine/machine.h"
#include "kernels/device/shared/gpu_names.h"
#include "harness/scenario/scenario.h"
#include "harness/plugin/plugin.h"
#include <math.h>
#include <string.h>

/* ---- which device --------------------------------------------------------------------- */
static const char *meant; /* by store_machine */

void store_machine(const char *text)
{
	meant = text;
}

/* The CPUs of a database that has times of them, and which ones fit. */
struct cpus {
	long long exact, like; /* ids; 0: none yet */
	int likes;             /* that fit, but not exactly */
	char all[400];         /* names them */
};

enum fits { FITS_NOT, FITS, FITS_EXACTLY };

/* Without a text this machine's CPU fits exactly, and an equal CPU of another machine fits. */
static enum fits cpu_fits(const struct device_info *d, const char *machine)
{
	char here[MACHINE_ID], text[DEVICE_TEXT];
	device_text(text, d);
	if (meant)
		return strstr(text, meant) || !strcmp(machine, meant) ? FITS : FITS_NOT;
	machine_id(here);
	if (!is_this_cpu(d->name, d->arch, d->units))
		return FITS_NOT;
	return strcmp(here, machine) ? FITS : FITS_EXACTLY;
}

static void note_cpu(struct cpus *c, long long id, const struct device_info *d, const char *machine)
{
	const enum fits fits = cpu_fits(d, machine);
	char text[DEVICE_TEXT];
	const size_t n = strlen(c->all);
	device_text(text, d);
	snprintf(c->all + n, sizeof c->all - n, "%s\"%s\" (machine %s)", n ? ", " : "", text,
		 *machine ? machine : "unknown");
	if (fits == FITS_EXACTLY)
		c->exact = id;
	if (fits == FITS)
		c->like = id;
	c->likes += fits == FITS;
}

static void complain_of_cpus(const struct store *s, const struct cpus *c, int n)
{
	if (meant)
		complain("%s: --machine '%s' names %s of its CPUs: %s", s->path, meant,
			 c->likes ? "several" : "none", c->all);
	else
		complain("%s: has times of %d CPUs, and %s this one: %s; attune --machine TEXT "
			 "COMMAND reads the times of one",
			 s->path, n, c->likes ? "several of them are like" : "none of them is",
			 c->all);
}

/* -1 + complain: none, or more than one, is the one that is meant. */
static long long cpu_id(struct store *s)
{
	struct cpus c = { .exact = 0 };
	long long id = 0;
	sqlite3_stmt *st = store_rows(s, MEASURED, "s", "cpu");
	int ok = st != NULL, found = 0;
	for (; store_next(s, st, &ok); found++) {
		struct device_info d = { .backend = BACKEND_CPU, .gpu = "cpu" };
		id = store_int(s, st, 0, 1, INT64_MAX);
		store_copy(s, st, 1, d.name, sizeof d.name);
		store_copy(s, st, 2, d.arch, sizeof d.arch);
		d.units = (int)store_int(s, st, 3, 1, INT32_MAX);
		note_cpu(&c, id, &d, store_text(s, st, 4));
	}
	if (!ok)
		return -1;
	if (!found || (found == 1 && !meant))
		return id;
	if (c.exact || c.likes == 1)
		return c.exact ? c.exact : c.like;
	s->is_unclear = 1;
	complain_of_cpus(s, &c, found);
	return -1;
}

long long store_device_id(struct store *s, const char *gpu)
{
	if (s->device && !strcmp(s->gpu, gpu))
		return s->device;
	if (strcmp(gpu, "cpu"))
		return store_number(s, NEWEST, "s", gpu);
	if (!s->cpu && !s->is_unclear)
		s->cpu = cpu_id(s);
	return s->is_unclear ? -1 : s->cpu;
}

/* ---- whether a cell exists ------------------------------------------------------------- */
static int has(struct store *s, const char *gpu, const struct scenario *sc, const char *phase,
	       const char *text)
{
	const long long device = store_device_id(s, gpu);
	const long long scenario = device > 0 ? store_scenario_id(s, sc, FIND_SCENARIO) : 0;
	const long long variant = scenario > 0 ? store_variant_id(s, text, FIND_VARIANT) : 0;
	sqlite3_stmt *st = variant > 0
			       ? store_rows(s, HAS, "llllss", scenario, store_phase_id(phase),
					    variant, device, s->protocol, s->stage)
			       : NULL;
	int found = 0, ok = st != NULL;
	while (!found && store_next(s, st, &ok))
		found = store_freshness(s, gpu, store_text(s, st, 0), store_text(s, st, 1),
					store_text(s, st, 2)) != STALE;
	sqlite3_reset(st);
	return found;
}

int store_has(struct store *s, const char *gpu, const struct scenario *sc, enum phase phase,
	      const char *choice_text)
{
	return has(s, gpu, sc, store_phase(phase), choice_text);
}

int store_has_plan(struct store *s, const char *gpu, const struct scenario *sc,
		   const char *plan_text)
{
	return has(s, gpu, sc, "plan", plan_text);
}

/* ---- each cell --------------------------------------------------------------------------- */

enum { MAX_RUN = 1 << 26 };
static const double longest_ns = 1e15, most_watts = 1e6;

static double microseconds(struct store *s, sqlite3_stmt *st, int column, double lo)
{
	return store_maybe(s, st, column, lo, longest_ns) / 1e3;
}

/* As of schema.sql. */
static double ratio_of(double stored)
{
	return stored > 0 ? stored / 1e4 : -1e4 / stored;
}

/* Columns 9 to 14 of CELLS. */
static void read_times(struct store *s, const struct dict_scenario *of, long long phase,
		       struct store_cell *c, sqlite3_stmt *st)
{
	c->median_us = microseconds(s, st, 9, 1);
	c->min_us = c->median_us * (1 - store_maybe(s, st, 10, 0, 999) / 1e3);
	c->ci_us = microseconds(s, st, 11, 0);
	c->ratio = ratio_of(store_maybe(s, st, 12, -longest_ns, longest_ns));
	c->joules = store_maybe(s, st, 13, 0, 1e3 * most_watts) * c->median_us / 1e9;
	c->power_is_shared = (int)store_int(s, st, 14, 0, 1);
	c->gbps = of->bytes[phase] / c->median_us / 1e3;
	c->tflops = of->flops[phase] / c->median_us / 1e6;
	const int timed = !strcmp(c->outcome, outcome_name(OUTCOME_OK)) ||
			  !strcmp(c->outcome, outcome_name(OUTCOME_NOISY));
	if (timed != (c->samples > 0) || timed != !isnan(c->median_us) ||
	    (timed && !(c->min_us > 0)))
		store_damaged(s, "a row with outcome '%s' has %d samples, least time %g us",
			      c->outcome, c->samples, c->min_us);
}

/* Resolves the row's ids. */
static int read_names(struct store *s, const struct dict *d, struct store_cell *c, sqlite3_stmt *st)
{
	c->variant_id = store_int(s, st, 1, 1, d->variants - 1);
	const long long build = store_int(s, st, 7, 1, d->builds - 1);
	const long long ending = store_int(s, st, 8, 1, d->endings - 1);
	if (s->is_damaged)
		return 0;
	const struct dict_variant *v = &d->variant[c->variant_id];
	const struct dict_build *b = &d->build[build];
	const struct dict_ending *e = &d->ending[ending];
	if (!v->kernel || !b->sources || !e->outcome)
		return store_damaged(s, "a row refers to a missing row");
	c->kernel = v->kernel;
	c->choice = v->choice;
	c->today = b->today;
	c->sources = b->sources;
	c->plugin = !strncmp(b->flags, PLUGIN_FLAG, sizeof PLUGIN_FLAG - 1)
			? b->flags + sizeof PLUGIN_FLAG - 1
			: NULL;
	c->outcome = e->outcome;
	c->stopped = *e->stopped ? e->stopped : NULL;
	c->samples = e->samples;
	return 1;
}

/* Columns in the order of CELLS. 0: damaged. */
static int read_cell(struct store *s, const struct dict *d, const struct dict_scenario *of,
		     struct store_cell *c, sqlite3_stmt *st)
{
	const long long phase = store_int(s, st, 2, 0, NUM_PHASE_IDS - 1);
	*c = of->cell;
	c->gpu = d->gpu;
	c->race_id = store_int(s, st, 0, 1, INT64_MAX);
	c->phase = store_phase_text(phase);
	c->stage = store_text(s, st, 3);
	c->pass = *store_text(s, st, 4);
	c->run = store_int(s, st, 5, 1, MAX_RUN);
	c->protocol = store_text(s, st, 6);
	if (!store_stage_id(c->stage) || !strchr("ABE", c->pass) || !c->pass)
		return store_damaged(s, "a stage is '%.40s'", c->stage);
	if (!read_names(s, d, c, st))
		return 0;
	read_times(s, of, phase, c, st);
	return !s->is_damaged;
}

static int each_of(struct store *s, const struct dict *d, const struct dict_scenario *of,
		   int (*each)(void *, const struct store_cell *), void *arg, int *more)
{
	sqlite3_stmt *st = store_rows(s, d->cells, "ll", of->cell.scenario_id, d->device);
	int sound = st != NULL;
	while (*more && store_next(s, st, &sound)) {
		struct store_cell c;
		sound = read_cell(s, d, of, &c, st);
		*more = sound && each(arg, &c);
	}
	sqlite3_reset(st);
	return sound;
}

static int each_of_device(struct store *s, long long device,
			  int (*wants)(void *, const struct store_cell *),
			  int (*each)(void *, const struct store_cell *), void *arg)
{
	const struct dict *d = store_dict(s, device);
	int ok = d != NULL, more = 1;
	for (long long i = 0; ok && more && i < d->scenarios; i++) {
		const struct dict_scenario *of = &d->scenario[i];
		const long long raced =
		    wants ? store_number(s, HAS_RACE, "ll", of->cell.scenario_id, device) : 1;
		ok = raced >= 0;
		if (raced > 0 && (!wants || wants(arg, &of->cell)))
			ok = each_of(s, d, of, each, arg, &more);
	}
	return ok;
}

int store_each_of(struct store *s, const char *gpu, int (*wants)(void *, const struct store_cell *),
		  int (*each)(void *, const struct store_cell *), void *arg)
{
	const long long device = store_device_id(s, gpu);
	return device > 0 ? each_of_device(s, device, wants, each, arg) : device == 0;
}

int store_each(struct store *s, const char *gpu, int (*each)(void *, const struct store_cell *),
	       void *arg)
{
	return store_each_of(s, gpu, NULL, each, arg);
}

static int pass_over(void *arg, const struct store_cell *c)
{
	(void)arg, (void)c;
	return 1;
}

int store_noise(struct store *s, const char *gpu, struct noise *out)
{
	const long long device = store_device_id(s, gpu);
	sqlite3_stmt *st = device > 0 ? store_rows(s, NOISE, "l", device) : NULL;
	int ok = st || !device;
	*out = (struct noise){ .floor = { 0.005, 0.005, 0.005 } };
	while (st && store_next(s, st, &ok)) {
		const char *band = store_text(s, st, 0);
		const int i = *band == '>' ? 2 : strcmp(band, "< 20 us") ? 1 : 0;
		out->pairs[i] = (int)store_int(s, st, 1, 1, INT32_MAX);
		out->floor[i] = store_real(s, st, 2, 0, 1e12);
	}
	return ok;
}

/* Columns in the order of DEVICE. */
static void read_device(struct store *s, sqlite3_stmt *st, struct run_info *out)
{
	struct device_info *d = &out->device;
#define TEXT(field, column) store_copy(s, st, column, field, sizeof field)
	TEXT(d->name, 0), TEXT(d->gpu, 1), TEXT(d->arch, 2), TEXT(d->driver, 3);
	TEXT(out->commit, 4), TEXT(out->toolkit, 5), TEXT(out->protocol, 6);
	TEXT(out->command, 7), TEXT(out->sources, 8), TEXT(out->machine, 9);
#undef TEXT
	int *const small[] = { &d->units, &d->lanes, &d->smem_per_block, &d->smem_per_unit };
	for (size_t i = 0; i < COUNT(small); i++)
		*small[i] = (int)store_int(s, st, 10 + (int)i, i < 2, INT32_MAX);
	d->l2_bytes = (size_t)store_int(s, st, 14, 0, INT64_MAX);
	d->memory_bytes = (size_t)store_int(s, st, 15, 0, INT64_MAX);
	/* 0: not known */
	d->clock_mhz = (int)fmax(0, store_maybe(s, st, 16, 1, 1e6));
	d->memory_clock_mhz = (int)fmax(0, store_maybe(s, st, 17, 1, 1e6));
	d->power_limit_w = fmax(0, store_maybe(s, st, 18, 0, most_watts));
	out->dram_gbps = fmax(0, store_maybe(s, st, 19, 0, 1e9));
	out->fma_tflops = fmax(0, store_maybe(s, st, 20, 0, 1e9));
	d->backend = strcmp(d->gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU;
}

/* 0: the device has no run with a measurement; -1 + complain. */
static int read_newest_run(struct store *s, long long device, struct run_info *out)
{
	sqlite3_stmt *st = store_rows(s, DEVICE, "l", device);
	const int rc = st ? sqlite3_step(st) : SQLITE_ERROR;
	if (rc == SQLITE_ROW)
		read_device(s, st, out);
	else if (st && rc != SQLITE_DONE)
		store_explain(s);
	sqlite3_reset(st);
	return s->is_damaged || (rc != SQLITE_ROW && rc != SQLITE_DONE) ? -1 : rc == SQLITE_ROW;
}

int store_knows(struct store *s, const char *gpu)
{
	const long long device = store_device_id(s, gpu);
	return (device > 0) - (device < 0);
}

int store_device(struct store *s, const char *gpu, struct run_info *out)
{
	const long long device = store_device_id(s, gpu);
	memset(out, 0, sizeof *out);
	if (device == 0)
		complain("%s: holds no measurement of %s", s->path, gpu);
	return device > 0 && read_newest_run(s, device, out) > 0;
}

int store_can_read(struct store *s, long long device)
{
	struct run_info run;
	return read_newest_run(s, device, &run) >= 0 &&
	       each_of_device(s, device, NULL, pass_over, NULL);
}

/* Columns in the order of CEILINGS. */
int store_each_ceiling(struct store *s, const char *gpu,
		       int (*each)(void *, const struct ceiling *), void *arg)
{
	sqlite3_stmt *st = store_rows(s, CEILINGS, "s", gpu);
	int ok = st != NULL, more = 1;
	while (more && store_next(s, st, &ok)) {
		const struct ceiling c = { .name = store_text(s, st, 0),
					   .detail = store_text(s, st, 1),
					   .value = store_real(s, st, 2, 0, 1e12),
					   .unit = store_text(s, st, 3) };
		more = s->is_damaged || each(arg, &c);
	}
	sqlite3_reset(st);
	return ok;
}

struct callback {
	int (*each)(void *, int, const char *const *, const char *const *);
	void *arg;
	int stopped;
};

static int on_row(void *arg, int n, char **cells, char **names)
{
	struct callback *c = arg;
	c->stopped = !c->each(c->arg, n, (const char *const *)names, (const char *const *)cells);
	return c->stopped;
}

int store_query(struct store *s, const char *sql,
		int (*each)(void *, int columns, const char *const *names,
			    const char *const *cells),
		void *arg)
{
	struct callback c = { each, arg, 0 };
	const int rc = sqlite3_exec(s->db, sql, each ? on_row : NULL, &c, NULL);
	return rc == SQLITE_OK || c.stopped || store_explain(s);
}
