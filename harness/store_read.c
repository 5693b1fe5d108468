/* store_read.c - the newest row of every cell, to callbacks and as a hash. */
#include "store.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* 0: none; -1: failure. */
static long long device_of(struct store *s, const char *gpu)
{
	return s->device && !strcmp(s->gpu, gpu) ? s->device : store_number(s, NEWEST, "s", gpu);
}

static int has(struct store *s, const char *gpu, const struct scenario *sc, const char *phase,
	       const char *kernel, const char *choice, const char *text)
{
	char source[33];
	const long long device = device_of(s, gpu);
	const long long scenario = device > 0 ? store_scenario_id(s, sc, FIND_SCENARIO) : 0;
	const long long variant =
	    scenario > 0 ? store_number(s, FIND_VARIANT, "ss", kernel, choice) : 0;
	if (variant <= 0)
		return 0;
	store_source(source, strcmp(gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU, text);
	return store_number(s, HAS, "llslsss", scenario, variant, phase, device, source,
			    s->protocol, s->stage) > 0;
}

int store_has(struct store *s, const char *gpu, const struct scenario *sc, enum phase phase,
	      const char *choice_text)
{
	char kernel[64];
	const size_t n = strcspn(choice_text, " ");
	snprintf(kernel, sizeof kernel, "%.*s", (int)n, choice_text);
	return has(s, gpu, sc, store_phase(phase), kernel,
		   choice_text + n + (choice_text[n] == ' '), choice_text);
}

int store_has_plan(struct store *s, const char *gpu, const struct scenario *sc,
		   const char *plan_text)
{
	return has(s, gpu, sc, "plan", "plan", plan_text, plan_text);
}

static const char *text(sqlite3_stmt *st, int column)
{
	return (const char *)sqlite3_column_text(st, column);
}

static double real(sqlite3_stmt *st, int column)
{
	return sqlite3_column_type(st, column) == SQLITE_NULL ? NAN
							      : sqlite3_column_double(st, column);
}

static enum attune_dtype dtype_of(const char *name)
{
	enum attune_dtype t = ATTUNE_F32;
	while (t < ATTUNE_E4M3 && strcmp(dtype_name(t), name))
		t++;
	return t;
}

static void unpack_samples(struct store_cell *c, const unsigned char *bytes, int n)
{
	c->samples = n / 4 < MAX_SAMPLES ? n / 4 : MAX_SAMPLES;
	for (int i = 0; i < c->samples; i++, bytes += 4) {
		const uint32_t bits = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 |
				      (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
		memcpy(&c->us[i], &bits, sizeof bits);
	}
}

static int is_today(const struct store_cell *c, const char *source)
{
	char text[2 * MAX_PART_TEXT], today[33];
	const int is_plan = !strcmp(c->kernel, "plan");
	snprintf(text, sizeof text, "%s %s", is_plan ? "" : c->kernel, c->choice);
	store_source(today, strcmp(c->gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU, text + is_plan);
	return !strcmp(source, today);
}

/* Columns in the order of EACH. */
static void read_cell(struct store_cell *c, sqlite3_stmt *st)
{
	const char **const names[] = { &c->gpu,    &c->model,   &c->set,      &c->split,
				       &c->batch,  &c->phase,   &c->kernel,   &c->choice,
				       &c->plan,   &c->outcome, &c->protocol, &c->dtype,
				       &c->layout, &c->detail,  &c->stage,    &c->stopped };
	double *const numbers[] = { &c->weight, &c->median_us, &c->min_us, &c->q25_us, &c->q75_us,
				    &c->ci_us,  &c->ratio,     &c->gbps,   &c->tflops, &c->joules };
	int *const shape[] = { &c->shape.num_query_heads, &c->shape.num_kv_heads,
			       &c->shape.head_size, &c->shape.causal, &c->shape.window };
	int at = 0;
	for (size_t i = 0; i < COUNT(names); i++)
		*names[i] = text(st, at++);
	c->pass = !strcmp(c->stage, "b") ? 'B' : !strcmp(c->stage, "early") ? 'E' : 'A';
	c->today = is_today(c, text(st, at++));
	c->shape.dtype = dtype_of(c->dtype);
	c->shape.kv_dtype = dtype_of(text(st, at++));
	c->shape.page_size = c->page_size = sqlite3_column_int(st, at++);
	for (size_t i = 0; i < COUNT(numbers); i++)
		*numbers[i] = real(st, at++);
	c->run = sqlite3_column_int64(st, at++);
	c->seed = (unsigned long long)sqlite3_column_int64(st, at++);
	for (size_t i = 0; i < COUNT(shape); i++)
		*shape[i] = sqlite3_column_int(st, at++);
	c->shape.scale = (float)sqlite3_column_double(st, at++);
	c->shape.softcap = (float)sqlite3_column_double(st, at++);
	c->shape.has_sinks = sqlite3_column_int(st, at++);
	c->shape.has_alibi = sqlite3_column_int(st, at++);
	c->shape.has_lse = model_gives_lse(c->model);
	c->shape.has_new_kv = 1; /* workloads always have them */
	c->shape.kv_layout = layout_kv(layout_of(c->layout));
	const void *samples = sqlite3_column_blob(st, at);
	unpack_samples(c, samples, sqlite3_column_bytes(st, at));
}

int store_each(struct store *s, const char *gpu, const struct store_filter *filter,
	       int (*each)(void *, const struct store_cell *), void *arg)
{
	const long long device = device_of(s, gpu);
	sqlite3_stmt *st = device < 0 ? NULL : store_rows(s, EACH, "lss", device, filter ? filter->model : NULL,
							     filter ? filter->batch : NULL);
	int rc = st ? SQLITE_ROW : SQLITE_ERROR, more = 1;
	while (st && more && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct store_cell c = { 0 };
		read_cell(&c, st);
		more = each(arg, &c);
	}
	if (st && rc != SQLITE_ROW && rc != SQLITE_DONE)
		return store_explain(s);
	sqlite3_reset(st);
	return st != NULL;
}

int store_noise(struct store *s, const char *gpu, struct noise *out)
{
	const long long device = device_of(s, gpu);
	sqlite3_stmt *st = device > 0 ? store_rows(s, NOISE, "l", device) : NULL;
	int rc = st ? SQLITE_ROW : SQLITE_DONE;
	*out = (struct noise){ .floor = { 0.005, 0.005, 0.005 } };
	while (st && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		const char *band = text(st, 0);
		const int i = *band == '>' ? 2 : strcmp(band, "< 20 us") ? 1 : 0;
		out->pairs[i] = sqlite3_column_int(st, 1);
		out->floor[i] = sqlite3_column_double(st, 2);
	}
	if (rc != SQLITE_DONE)
		store_explain(s);
	sqlite3_reset(st);
	return device >= 0 && rc == SQLITE_DONE && (st || !device);
}

/* Digest of one row: the type and the value of each column. */
static XXH128_canonical_t row_digest(XXH3_state_t *x, sqlite3_stmt *st)
{
	char value[40];
	XXH128_canonical_t digest;
	XXH3_128bits_reset(x);
	for (int i = 0; i < sqlite3_column_count(st); i++) {
		const void *bytes = value;
		int n = 0;
		const int type = sqlite3_column_type(st, i);
		if (type == SQLITE_INTEGER)
			n = snprintf(value, sizeof value, "%lld",
				     (long long)sqlite3_column_int64(st, i));
		else if (type == SQLITE_FLOAT)
			n = snprintf(value, sizeof value, "%.17g", sqlite3_column_double(st, i));
		else if (type != SQLITE_NULL)
			bytes = sqlite3_column_blob(st, i), n = sqlite3_column_bytes(st, i);
		char head[24];
		const int m = snprintf(head, sizeof head, "%d:%d:", type, n);
		XXH3_128bits_update(x, head, (size_t)m);
		XXH3_128bits_update(x, bytes, (size_t)n);
	}
	XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(x));
	return digest;
}

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(XXH128_canonical_t));
}

int store_hash(struct store *s, const char *gpu, char hex[33])
{
	XXH128_canonical_t *v = NULL;
	size_t n = 0, room = 0;
	int rc = SQLITE_ERROR;
	XXH3_state_t *x = XXH3_createState();
	const long long device = device_of(s, gpu);
	sqlite3_stmt *st = x && device >= 0 ? store_rows(s, HASH, "l", device) : NULL;
	while (st && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		if (n == room) {
			XXH128_canonical_t *more = realloc(v, (room = 2 * room + 64) * sizeof *v);
			if (!more)
				break;
			v = more;
		}
		v[n++] = row_digest(x, st);
	}
	if (st && rc != SQLITE_DONE)
		rc == SQLITE_ROW ? complain("%s: out of memory", s->path) : (void)store_explain(s);
	sqlite3_reset(st);
	if (n)
		qsort(v, n, sizeof *v, by_bytes);
	const XXH128_hash_t h = XXH3_128bits(v, n * sizeof *v);
	snprintf(hex, 33, "%016llx%016llx", (unsigned long long)h.high64,
		 (unsigned long long)h.low64);
	free(v);
	XXH3_freeState(x);
	return rc == SQLITE_DONE;
}

int store_device(struct store *s, const char *gpu, struct run_info *out)
{
	const long long device = device_of(s, gpu);
	sqlite3_stmt *st = device > 0 ? store_rows(s, DEVICE, "l", device) : NULL;
	const int rc = st ? sqlite3_step(st) : SQLITE_DONE;
	struct device_info *d = &out->device;
	memset(out, 0, sizeof *out);
	if (rc == SQLITE_ROW) {
#define TEXT(field, column) snprintf(field, sizeof field, "%s", text(st, column))
		TEXT(d->name, 0), TEXT(d->gpu, 1), TEXT(d->arch, 2), TEXT(d->driver, 3);
		TEXT(out->commit, 4), TEXT(out->toolkit, 5), TEXT(out->protocol, 6);
		TEXT(out->command, 7);
#undef TEXT
		int *const small[] = { &d->units, &d->lanes, &d->smem_per_block,
				       &d->smem_per_unit };
		for (size_t i = 0; i < COUNT(small); i++)
			*small[i] = sqlite3_column_int(st, 8 + (int)i);
		d->l2_bytes = (size_t)sqlite3_column_int64(st, 12);
		d->memory_bytes = (size_t)sqlite3_column_int64(st, 13);
		d->clock_mhz = sqlite3_column_int(st, 14);
		d->memory_clock_mhz = sqlite3_column_int(st, 15);
		d->power_limit_w = sqlite3_column_double(st, 16);
		out->dram_gbps = sqlite3_column_double(st, 17);
		out->fma_tflops = sqlite3_column_double(st, 18);
		d->backend = strcmp(d->gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU;
	} else if (rc != SQLITE_DONE) {
		store_explain(s);
	} else if (device == 0) {
		complain("%s: holds no measurement of %s", s->path, gpu);
	}
	sqlite3_reset(st);
	return rc == SQLITE_ROW;
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
