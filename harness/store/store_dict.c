/* SPDX-License-Identifier: Apache-2.0 */
/* store_dict.c - loads the tables of names into memory, so that reading a row needs no join:
 * scenarios in the order of store_each, variants as text, and the freshness of each build. */
#include "handle.h"
#include "store.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static char *copy(struct store *s, const char *text)
{
	char *own = strdup(text);
	if (!own)
		complain("%s: out of memory", s->path);
	return own;
}

/* Grows a table by ids so that it has this id. Returns the new size; 0 + complain. */
static long long grow(struct store *s, void *table, long long n, long long id, size_t size)
{
	void **p = table, *q;
	if (id < n)
		return n;
	const long long room = id + 1 + id / 2;
	q = realloc(*p, (size_t)room * size);
	if (!q) {
		complain("%s: out of memory", s->path);
		return 0;
	}
	memset((char *)q + (size_t)n * size, 0, (size_t)(room - n) * size);
	*p = q;
	return room;
}

enum { MAX_ID = 1 << 22 /* a larger id is damage: a table by id would take all memory */ };

static long long id_of(struct store *s, sqlite3_stmt *st)
{
	return store_int(s, st, 0, 1, MAX_ID);
}

/* ---- scenarios ------------------------------------------------------------------------ */
static enum attune_dtype dtype_of(struct store *s, const char *name)
{
	int t = ATTUNE_F32;
	while (t <= ATTUNE_E4M3 && strcmp(dtype_name((enum attune_dtype)t), name))
		t++;
	if (t > ATTUNE_E4M3)
		store_damaged(s, "a scenario's type is '%.40s'", name);
	return t > ATTUNE_E4M3 ? ATTUNE_F32 : (enum attune_dtype)t;
}

/* "0 BYTES FLOPS 1 BYTES FLOPS ..." */
static void read_work(struct store *s, struct dict_scenario *to, const char *text)
{
	int phase, n;
	double bytes, flops;
	for (int i = 0; i < NUM_PHASE_IDS; i++)
		to->bytes[i] = to->flops[i] = NAN;
	for (; sscanf(text, "%d %lf %lf%n", &phase, &bytes, &flops, &n) == 3; text += n) {
		if (phase < 0 || phase >= NUM_PHASE_IDS || !(bytes >= 0 && bytes < INFINITY) ||
		    !(flops >= 0 && flops < INFINITY)) {
			store_damaged(s, "a row of 'work' has phase %d, %g bytes, %g flops", phase,
				      bytes, flops);
			return;
		}
		to->bytes[phase] = bytes;
		to->flops[phase] = flops;
	}
	if (*text)
		store_damaged(s, "a row of 'work' has no number");
}

/* Columns 3, 5 and 7 to 16 of ALL_SCENARIOS. */
static void read_shape(struct store *s, struct store_cell *c, sqlite3_stmt *st)
{
	attune_shape *h = &c->shape;
	int *const small[] = { &h->num_query_heads, &h->num_kv_heads, &h->head_size, &h->causal,
			       &h->window };
	h->size = sizeof *h;
	h->page_size = c->page_size = (int)store_int(s, st, 3, 1, INT32_MAX);
	h->dtype = dtype_of(s, c->dtype);
	h->kv_dtype = dtype_of(s, store_text(s, st, 5));
	c->seed = (unsigned long long)store_int(s, st, 7, INT64_MIN, INT64_MAX);
	for (size_t k = 0; k < COUNT(small); k++)
		*small[k] = (int)store_int(s, st, 8 + (int)k, k < 3, k == 3 ? 1 : INT32_MAX);
	h->scale = (float)store_real(s, st, 13, 0, (double)FLT_MAX);
	h->softcap = (float)store_real(s, st, 14, 0, (double)FLT_MAX);
	h->has_sinks = (int)store_int(s, st, 15, 0, 1);
	h->has_alibi = (int)store_int(s, st, 16, 0, 1);
	h->has_lse = model_gives_lse(c->model);
	h->has_new_kv = 1; /* workloads always have them */
	h->kv_layout = layout_kv(layout_of(c->layout));
}

/* Whether it describes a valid scenario. */
static int is_sound(struct store *s, const struct store_cell *c)
{
	char error[160];
	const struct scenario *none = NULL;
	struct batch *b;
	const char *wrong = shape_error(&c->shape);
	if (wrong)
		return store_damaged(s, "scenario %lld: %s", c->scenario_id, wrong);
	if (strlen(c->model) >= sizeof none->model || strlen(c->set) >= sizeof none->set ||
	    strlen(c->split) >= sizeof none->split)
		return store_damaged(s, "scenario %lld has a name that is too long",
				     c->scenario_id);
	if (strcasecmp(layout_names[layout_of(c->layout)], c->layout))
		return store_damaged(s, "scenario %lld has layout '%.40s'", c->scenario_id,
				     c->layout);
	b = batch_parse(c->batch, error, sizeof error);
	if (!b)
		return store_damaged(s, "scenario %lld: batch '%.40s': %s", c->scenario_id,
				     c->batch, error);
	batch_free(b);
	return 1;
}

static struct dict_scenario *new_scenario(struct store *s, struct dict *d)
{
	const size_t n = (size_t)d->scenarios;
	if (!(n & (n - 1))) { /* grows in powers of two */
		void *more = realloc(d->scenario, (n ? 2 * n : 1) * sizeof *d->scenario);
		if (!more) {
			complain("%s: out of memory", s->path);
			return NULL;
		}
		d->scenario = more;
	}
	d->scenario[n] = (struct dict_scenario){ .steps = 0 };
	return &d->scenario[d->scenarios++];
}

/* A database says the layouts from LAYOUT_PACKED on by the model's name. */
static int take_layout_of_model(struct store *s, struct store_cell *c)
{
	const enum layout layout = model_layout(c->model);
	char name[16] = "";
	if (layout == LAYOUT_NHD)
		return 1;
	if (strcmp(c->layout, "NHD"))
		return store_damaged(s, "scenario %lld, %s, has layout '%.40s'", c->scenario_id,
				     layout_names[layout], c->layout);
	for (size_t i = 0; layout_names[layout][i]; i++)
		name[i] = (char)toupper(layout_names[layout][i]);
	free((char *)c->layout);
	c->layout = copy(s, name);
	return c->layout != NULL;
}

/* Columns in the order of ALL_SCENARIOS. */
static int read_scenario(struct store *s, struct dict *d, sqlite3_stmt *st)
{
	struct dict_scenario *to = new_scenario(s, d);
	if (!to)
		return 0;
	struct store_cell *c = &to->cell;
	const char **const texts[] = { &c->model,  &c->batch, &c->dtype,
				       &c->layout, &c->set,   &c->split };
	const int columns[] = { 1, 2, 4, 6, 17, 18 };
	int ok = 1;
	c->scenario_id = id_of(s, st);
	for (size_t k = 0; k < COUNT(texts); k++)
		ok &= (*texts[k] = copy(s, store_text(s, st, columns[k]))) != NULL;
	if (ok)
		ok = take_layout_of_model(s, c);
	if (!ok)
		return 0;
	read_shape(s, c, st);
	c->weight = store_real(s, st, 19, 0, 1e12);
	read_work(s, to, sqlite3_column_type(st, 20) == SQLITE_NULL ? "" : store_text(s, st, 20));
	to->steps = store_real(s, st, 21, 0, 1e12);
	return !s->is_damaged && is_sound(s, c);
}

/* ---- variants and endings --------------------------------------------------------------- */
static int read_variant(struct store *s, struct dict *d, sqlite3_stmt *st)
{
	char prefill[MAX_PART_TEXT + 80], decode[MAX_PART_TEXT + 80], plan[2 * sizeof prefill];
	const long long id = id_of(s, st);
	const char *kernel = store_text(s, st, 1), *text = store_text(s, st, 2);
	const char *how = store_text(s, st, 3);
	d->variants = grow(s, &d->variant, d->variants, id, sizeof *d->variant);
	if (!d->variants)
		return 0;
	struct dict_variant *v = &d->variant[id];
	if (*how && strcmp(how, "|") && strcmp(how, "||"))
		return store_damaged(s, "variant %lld runs its parts by '%.40s'", id, how);
	if (*how) {
		snprintf(prefill, sizeof prefill, "%s%s%s", kernel, *text ? " " : "", text);
		kernel = store_text(s, st, 4), text = store_text(s, st, 5);
		snprintf(decode, sizeof decode, "%s%s%s", kernel, *text ? " " : "", text);
		parts_text(plan, sizeof plan, prefill, decode,
			   strcmp(how, "||") ? ATTUNE_SERIAL : ATTUNE_STREAMS);
		kernel = "plan", text = plan;
	}
	v->kernel = copy(s, kernel);
	v->choice = copy(s, text);
	return v->kernel && v->choice;
}

static int read_ending(struct store *s, struct dict *d, sqlite3_stmt *st)
{
	const long long id = id_of(s, st);
	d->endings = grow(s, &d->ending, d->endings, id, sizeof *d->ending);
	if (!d->endings)
		return 0;
	struct dict_ending *e = &d->ending[id];
	e->outcome = copy(s, store_text(s, st, 1));
	e->stopped = copy(s, store_text(s, st, 2));
	e->samples = (int)store_int(s, st, 3, 0, INT32_MAX);
	int known = 0;
	for (int o = 0; e->outcome && o < NUM_OUTCOMES; o++)
		known |= !strcmp(e->outcome, outcome_name((enum outcome)o));
	if (e->outcome && !known)
		store_damaged(s, "an outcome is '%.40s'", e->outcome);
	return e->outcome && e->stopped;
}

/* ---- builds, and whether their code is today's ------------------------------------------- */
/* A row of `bridge` that leads from the binary to a newer source. */
struct step {
	char hash[64];
	struct step *next;
};

static struct step *steps_from(struct store *s, const struct built_source *b)
{
	struct step *list = NULL;
	sqlite3_stmt *st =
	    store_rows(s, ALL_BRIDGES, "ssss", b->arch, b->kernel, b->hash, b->flags);
	int ok = st != NULL;
	while (store_next(s, st, &ok)) {
		struct step *one = malloc(sizeof *one);
		if (!one) {
			complain("%s: out of memory", s->path);
			ok = 0;
			continue;
		}
		*one = (struct step){ .next = list };
		store_copy(s, st, 0, one->hash, sizeof one->hash);
		list = one;
	}
	s->is_damaged |= !ok; /* a missing row might have been a bridge */
	return list;
}

int store_next_sources(struct store *s, const struct built_source *b, struct built_source *to,
		       int most)
{
	int n = 0;
	for (struct step *step = steps_from(s, b), *next; step; step = next) {
		if (n < most) {
			to[n] = *b;
			memcpy(to[n++].hash, step->hash, sizeof step->hash);
		}
		next = step->next;
		free(step);
	}
	return n;
}

enum { LONGEST_CHAIN = 32 };

/* Whether some chain of bridges leads to today's. */
static enum freshness freshness_of(struct store *s, const struct built_source *b, int steps_left)
{
	const struct kernel *k =
	    kernel_find(strcmp(b->gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU, b->kernel);
	enum freshness best = STALE;
	char today[33];
	if (!k || !source_identity(k, today))
		return STALE;
	if (!strcmp(b->hash, today))
		return TODAY;
	if (!steps_left)
		return STALE;
	for (struct step *step = steps_from(s, b), *next; step; step = next) {
		struct built_source to = *b;
		snprintf(to.hash, sizeof to.hash, "%s", step->hash);
		if (best == STALE && freshness_of(s, &to, steps_left - 1) != STALE)
			best = BRIDGED;
		next = step->next;
		free(step);
	}
	return best;
}

enum freshness store_source_today(struct store *s, const struct built_source *b)
{
	return freshness_of(s, b, LONGEST_CHAIN);
}

int next_source(const char **sources, struct built_source *b)
{
	int n;
	if (sscanf(*sources, " %63[^: ]:%63[^ ]%n", b->kernel, b->hash, &n) != 2)
		return 0;
	*sources += n;
	return 1;
}

enum freshness store_freshness(struct store *s, const char *gpu, const char *arch,
			       const char *flags, const char *sources)
{
	enum freshness worst = TODAY;
	struct built_source b = { .flags = flags, .arch = arch, .gpu = gpu };
	while (next_source(&sources, &b)) {
		const enum freshness f = store_source_today(s, &b);
		if (f == STALE)
			return STALE;
		worst = f > worst ? f : worst;
	}
	return *sources ? STALE : worst;
}

static int read_build(struct store *s, struct dict *d, sqlite3_stmt *st)
{
	const long long id = id_of(s, st);
	d->builds = grow(s, &d->build, d->builds, id, sizeof *d->build);
	if (!d->builds)
		return 0;
	struct dict_build *b = &d->build[id];
	b->arch = copy(s, store_text(s, st, 1));
	b->flags = copy(s, store_text(s, st, 2));
	b->sources = copy(s, store_text(s, st, 3));
	if (!b->arch || !b->flags || !b->sources)
		return 0;
	b->today = store_freshness(s, d->gpu, b->arch, b->flags, b->sources);
	return 1;
}

/* ---- all of them --------------------------------------------------------------------------- */
static int read_all(struct store *s, struct dict *d, enum query q,
		    int (*row)(struct store *, struct dict *, sqlite3_stmt *))
{
	sqlite3_stmt *st = store_rows(s, q, "");
	int ok = st != NULL;
	while (store_next(s, st, &ok))
		ok = row(s, d, st);
	return ok;
}

static int read_device(struct store *s, struct dict *d, long long device)
{
	sqlite3_stmt *st = device ? store_rows(s, DEVICE_NAMES, "l", device) : NULL;
	const int rc = st ? sqlite3_step(st) : SQLITE_DONE;
	const int found = rc == SQLITE_ROW, ok = found || (rc == SQLITE_DONE && (st || !device));
	d->gpu = copy(s, found ? store_text(s, st, 0) : "");
	d->arch = copy(s, found ? store_text(s, st, 1) : "");
	if (st && !ok)
		store_explain(s);
	sqlite3_reset(st);
	return ok && d->gpu && d->arch && !s->is_damaged;
}

const struct dict *store_dict(struct store *s, long long device)
{
	if (s->dict && s->dict->device == device)
		return s->dict;
	store_forget(s);
	struct dict *d = s->dict = calloc(1, sizeof *d);
	if (!d) {
		complain("%s: out of memory", s->path);
		return NULL;
	}
	d->device = device;
	d->cells = store_number(s, HAS_READINGS, "") ? CELLS_READ : CELLS;
	if (read_device(s, d, device) && read_all(s, d, ALL_SCENARIOS, read_scenario) &&
	    read_all(s, d, ALL_VARIANTS, read_variant) &&
	    read_all(s, d, ALL_ENDINGS, read_ending) &&
	    (!device || read_all(s, d, ALL_BUILDS, read_build)))
		return d;
	store_forget(s);
	return NULL;
}

void store_forget(struct store *s)
{
	struct dict *d = s->dict;
	s->dict = NULL;
	if (!d)
		return;
	for (long long i = 0; i < d->scenarios; i++) {
		const struct store_cell *c = &d->scenario[i].cell;
		const char *const texts[] = { c->model,  c->batch, c->dtype,
					      c->layout, c->set,   c->split };
		for (size_t k = 0; k < COUNT(texts); k++)
			free((char *)texts[k]);
	}
	for (long long i = 0; i < d->variants; i++)
		free(d->variant[i].kernel), free(d->variant[i].choice);
	for (long long i = 0; i < d->builds; i++)
		free(d->build[i].arch), free(d->build[i].flags), free(d->build[i].sources);
	for (long long i = 0; i < d->endings; i++)
		free(d->ending[i].outcome), free(d->ending[i].stopped);
	free(d->scenario);
	free(d->variant);
	free(d->build);
	free(d->ending);
	free(d->gpu);
	free(d->arch);
	free(d);
}
