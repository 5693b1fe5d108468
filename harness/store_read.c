/* store_read.c - the newest row of every cell, to callbacks; noise, devices, free queries. */
#include "store.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

long long store_device_id(struct store *s, const char *gpu)
{
	return s->device && !strcmp(s->gpu, gpu) ? s->device : store_number(s, NEWEST, "s", gpu);
}

/* ---- is a cell there ------------------------------------------------------------------- */
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
	int found = 0;
	while (st && !found && sqlite3_step(st) == SQLITE_ROW)
		found = store_freshness(s, gpu, store_text(s, st, 0), store_text(s, st, 1),
					store_text(s, st, 2)) != STALE;
	if (st)
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
static const char *phase_text(long long id)
{
	static const char *const names[NUM_PHASE_IDS] = { "all", "prefill", "decode", "plan" };
	return names[id];
}

static double picoseconds(sqlite3_stmt *st, int column)
{
	return store_real(st, column) / 1e6;
}

/* Columns in the order of CELLS. 0: damaged. */
static int read_cell(struct store *s, const struct dict *d, const struct dict_scenario *of,
		     struct store_cell *c, sqlite3_stmt *st)
{
	const long long phase = store_int(s, st, 2, 0, NUM_PHASE_IDS - 1);
	*c = of->cell;
	c->gpu = d->gpu;
	c->race_id = store_int(s, st, 0, 1, INT64_MAX);
	c->variant_id = store_int(s, st, 1, 1, d->variants - 1);
	c->phase = phase_text(phase);
	c->stage = store_text(s, st, 3);
	c->pass = *store_text(s, st, 4);
	c->run = store_int(s, st, 5, 1, INT64_MAX);
	c->protocol = store_text(s, st, 6);
	const struct dict_variant *v = &d->variant[c->variant_id];
	const struct dict_build *b = &d->build[store_int(s, st, 7, 1, d->builds - 1)];
	const struct dict_ending *e = &d->ending[store_int(s, st, 8, 1, d->endings - 1)];
	if (s->is_damaged || !v->kernel || !b->sources || !e->outcome)
		return 0;
	c->kernel = v->kernel;
	c->choice = v->choice;
	c->today = b->today;
	c->sources = b->sources;
	c->outcome = e->outcome;
	c->stopped = *e->stopped ? e->stopped : NULL;
	c->samples = sqlite3_column_int(st, 9);
	c->median_us = picoseconds(st, 10);
	c->min_us = c->median_us - picoseconds(st, 11);
	c->iqr_us = picoseconds(st, 12);
	c->ci_us = picoseconds(st, 13);
	c->ratio = store_real(st, 14) / 1e8;
	c->joules = store_real(st, 15) * c->median_us / 1e6;
	c->gbps = of->bytes[phase] / c->median_us / 1e3;
	c->tflops = of->flops[phase] / c->median_us / 1e6;
	return 1;
}

static int each_of(struct store *s, const struct dict *d, const struct dict_scenario *of,
		   int (*each)(void *, const struct store_cell *), void *arg, int *more)
{
	sqlite3_stmt *st = store_rows(s, CELLS, "ll", of->cell.scenario_id, d->device);
	int rc = st ? SQLITE_ROW : SQLITE_ERROR;
	while (st && *more && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct store_cell c;
		if (!read_cell(s, d, of, &c, st)) {
			if (!s->is_damaged)
				complain("%s: damaged: a row names what is not there", s->path);
			rc = SQLITE_CORRUPT;
			break;
		}
		*more = each(arg, &c);
	}
	if (rc == SQLITE_ERROR || (rc != SQLITE_ROW && rc != SQLITE_DONE && rc != SQLITE_CORRUPT))
		store_explain(s);
	if (st)
		sqlite3_reset(st);
	return rc == SQLITE_ROW || rc == SQLITE_DONE;
}

static int passes(const struct store_filter *f, const struct store_cell *c)
{
	return !f || ((!f->model || !strcmp(f->model, c->model)) &&
		      (!f->batch || !strcmp(f->batch, c->batch)));
}

int store_each(struct store *s, const char *gpu, const struct store_filter *filter,
	       int (*each)(void *, const struct store_cell *), void *arg)
{
	const long long device = store_device_id(s, gpu);
	if (device <= 0)
		return device == 0;
	const struct dict *d = store_dict(s, device);
	int ok = d != NULL, more = 1;
	for (long long i = 0; ok && more && i < d->scenarios; i++)
		if (passes(filter, &d->scenario[i].cell))
			ok = each_of(s, d, &d->scenario[i], each, arg, &more);
	return ok;
}

int store_samples(struct store *s, const struct store_cell *c, float us[])
{
	sqlite3_stmt *st = store_rows(s, SAMPLES, "ll", c->race_id, c->variant_id);
	int n = -1, rc = st ? sqlite3_step(st) : SQLITE_ERROR;
	if (rc == SQLITE_DONE)
		n = 0;
	if (rc == SQLITE_ROW) {
		const unsigned char *bytes = sqlite3_column_blob(st, 0);
		n = sqlite3_column_bytes(st, 0) / 4;
		n = n < MAX_SAMPLES ? n : MAX_SAMPLES;
		for (int i = 0; i < n; i++, bytes += 4) {
			const uint32_t bits = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 |
					      (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
			memcpy(&us[i], &bits, sizeof bits);
		}
	}
	if (st && n < 0)
		store_explain(s);
	if (st)
		sqlite3_reset(st);
	return n;
}

int store_noise(struct store *s, const char *gpu, struct noise *out)
{
	const long long device = store_device_id(s, gpu);
	sqlite3_stmt *st = device > 0 ? store_rows(s, NOISE, "l", device) : NULL;
	int rc = st ? SQLITE_ROW : SQLITE_DONE;
	*out = (struct noise){ .floor = { 0.005, 0.005, 0.005 } };
	while (st && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		const char *band = store_text(s, st, 0);
		const int i = *band == '>' ? 2 : strcmp(band, "< 20 us") ? 1 : 0;
		out->pairs[i] = sqlite3_column_int(st, 1);
		out->floor[i] = sqlite3_column_double(st, 2);
	}
	if (rc != SQLITE_DONE)
		store_explain(s);
	sqlite3_reset(st);
	return device >= 0 && rc == SQLITE_DONE && (st || !device);
}

int store_device(struct store *s, const char *gpu, struct run_info *out)
{
	const long long device = store_device_id(s, gpu);
	sqlite3_stmt *st = device > 0 ? store_rows(s, DEVICE, "l", device) : NULL;
	const int rc = st ? sqlite3_step(st) : SQLITE_DONE;
	struct device_info *d = &out->device;
	memset(out, 0, sizeof *out);
	if (rc == SQLITE_ROW) {
#define TEXT(field, column) snprintf(field, sizeof field, "%s", store_text(s, st, column))
		TEXT(d->name, 0), TEXT(d->gpu, 1), TEXT(d->arch, 2), TEXT(d->driver, 3);
		TEXT(out->commit, 4), TEXT(out->toolkit, 5), TEXT(out->protocol, 6);
		TEXT(out->command, 7), TEXT(out->sources, 8), TEXT(out->machine, 9);
#undef TEXT
		int *const small[] = { &d->units, &d->lanes, &d->smem_per_block,
				       &d->smem_per_unit };
		for (size_t i = 0; i < COUNT(small); i++)
			*small[i] = (int)store_int(s, st, 10 + (int)i, i < 2, INT32_MAX);
		d->l2_bytes = (size_t)store_int(s, st, 14, 0, INT64_MAX);
		d->memory_bytes = (size_t)store_int(s, st, 15, 0, INT64_MAX);
		d->clock_mhz = sqlite3_column_int(st, 16);
		d->memory_clock_mhz = sqlite3_column_int(st, 17);
		d->power_limit_w = sqlite3_column_double(st, 18);
		out->dram_gbps = sqlite3_column_double(st, 19);
		out->fma_tflops = sqlite3_column_double(st, 20);
		d->backend = strcmp(d->gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU;
	} else if (rc != SQLITE_DONE) {
		store_explain(s);
	} else if (device == 0) {
		complain("%s: holds no measurement of %s", s->path, gpu);
	}
	sqlite3_reset(st);
	return rc == SQLITE_ROW && !s->is_damaged;
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
