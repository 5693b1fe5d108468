/* SPDX-License-Identifier: Apache-2.0 */
/* store_hash.c - hashes all rows of a device that induction and pictures read. A header's hash leaves
 * out rows of older sources, which no header learns from and merge --compact drops; the seal has all. The hash depends
 * neither on the order of rows or ids nor on the machine. A row is hashed little-endian, with the
 * texts of the names it refers to. A race is hashed over the sum of its rows, since ratios and ties
 * are within a race. The result is the sum over races and over the other tables' rows. */
#include "handle.h"
#include "store.h"
#include "harness/base/base.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

struct sum {
	unsigned long long low, high;
};

static void add(struct sum *s, XXH128_hash_t h)
{
	s->low += h.low64;
	s->high += h.high64 + (s->low < h.low64);
}

/* Bytes that are hashed together. */
struct key {
	XXH3_state_t *state;
};

static void key_begin(struct key *k, const char *table)
{
	XXH3_128bits_reset(k->state);
	XXH3_128bits_update(k->state, table, strlen(table) + 1);
}

static void key_text(struct key *k, const char *text)
{
	XXH3_128bits_update(k->state, text, strlen(text) + 1);
}

static void key_int(struct key *k, long long v)
{
	unsigned char bytes[8];
	for (int i = 0; i < 8; i++)
		bytes[i] = (unsigned char)((unsigned long long)v >> (8 * i));
	XXH3_128bits_update(k->state, bytes, sizeof bytes);
}

static void key_real(struct key *k, double v)
{
	long long bits;
	v = isnan(v) ? (double)NAN : v; /* one of all NaNs */
	memcpy(&bits, &v, sizeof bits);
	key_int(k, bits);
}

static XXH128_hash_t key_end(const struct key *k)
{
	return XXH3_128bits_digest(k->state);
}

/* Adds a column: its type and its value. */
static void key_column(struct key *k, struct store *s, sqlite3_stmt *st, int column)
{
	const int type = sqlite3_column_type(st, column);
	key_int(k, type);
	if (type == SQLITE_INTEGER)
		key_int(k, store_int(s, st, column, INT64_MIN, INT64_MAX));
	else if (type == SQLITE_FLOAT)
		key_real(k, store_real(s, st, column, -INFINITY, INFINITY));
	else if (type != SQLITE_NULL)
		key_text(k, store_text(s, st, column));
}

/* ---- races ------------------------------------------------------------------------------- */
/* Hashes the scenario's identity, its labels, and the work of its calls. */
static XXH128_hash_t of_scenario(struct key *k, const struct dict_scenario *of)
{
	const struct store_cell *c = &of->cell;
	const attune_shape *h = &c->shape;
	const char *const texts[] = { c->model,  c->batch, c->dtype, dtype_name(h->kv_dtype),
				      c->layout, c->set,   c->split };
	const long long numbers[] = { h->page_size,    (long long)c->seed, h->num_query_heads,
				      h->num_kv_heads, h->head_size,       h->causal,
				      h->window,       h->has_sinks,       h->has_alibi };
	const double reals[] = { (double)h->scale, (double)h->softcap, c->weight, of->steps };
	key_begin(k, "scenario");
	for (size_t i = 0; i < COUNT(texts); i++)
		key_text(k, texts[i]);
	for (size_t i = 0; i < COUNT(numbers); i++)
		key_int(k, numbers[i]);
	for (size_t i = 0; i < COUNT(reals); i++)
		key_real(k, reals[i]);
	for (int i = 0; i < NUM_PHASE_IDS; i++) {
		key_real(k, of->bytes[i]);
		key_real(k, of->flops[i]);
	}
	return key_end(k);
}

/* Columns in the order of CELLS; ids are replaced by the texts they refer to. */
static void add_row(struct store *s, const struct dict *d, struct key *k, sqlite3_stmt *st,
		    struct sum *race)
{
	const struct dict_variant *v = &d->variant[store_int(s, st, 1, 1, d->variants - 1)];
	const struct dict_build *b = &d->build[store_int(s, st, 7, 1, d->builds - 1)];
	const struct dict_ending *e = &d->ending[store_int(s, st, 8, 1, d->endings - 1)];
	if (s->is_damaged)
		return;
	const char *const texts[] = { v->kernel,  v->choice,  b->flags,
				      b->sources, e->outcome, e->stopped };
	key_begin(k, "measurement");
	for (size_t i = 0; i < COUNT(texts); i++) {
		if (!texts[i]) {
			store_damaged(s, "a row refers to a missing row");
			return;
		}
		key_text(k, texts[i]);
	}
	key_int(k, e->samples);
	for (int column = 9; column <= 13; column++)
		key_column(k, s, st, column);
	add(race, key_end(k));
}

/* The rows of a race are consecutive. names: of the last row. */
static void end_race(struct key *k, const struct sum *race, XXH128_hash_t scenario,
		     XXH128_hash_t names, struct sum *sum)
{
	const XXH128_hash_t parts[] = { scenario, names, { race->low, race->high } };
	key_begin(k, "race");
	for (size_t i = 0; i < COUNT(parts); i++) {
		key_int(k, (long long)parts[i].low64);
		key_int(k, (long long)parts[i].high64);
	}
	add(sum, key_end(k));
}

/* Phase, stage, pass and protocol. */
static XXH128_hash_t of_names(struct store *s, struct key *k, sqlite3_stmt *st)
{
	static const int columns[] = { 2, 3, 4, 6 };
	key_begin(k, "names");
	for (size_t i = 0; i < COUNT(columns); i++)
		key_column(k, s, st, columns[i]);
	return key_end(k);
}

/* Whether the row is of today's or bridged sources. */
static int is_fresh(struct store *s, const struct dict *d, sqlite3_stmt *st)
{
	const long long build = store_int(s, st, 7, 1, d->builds - 1);
	return s->is_damaged || d->build[build].today != STALE;
}

static int add_scenario(struct store *s, const struct dict *d, const struct dict_scenario *of,
			int with_all, struct key *k, struct sum *sum)
{
	const XXH128_hash_t scenario = of_scenario(k, of);
	XXH128_hash_t names = { 0 };
	struct sum race = { 0, 0 };
	long long id = 0;
	sqlite3_stmt *st = store_rows(s, d->cells, "ll", of->cell.scenario_id, d->device);
	int ok = st != NULL;
	while (store_next(s, st, &ok)) {
		const long long its = store_int(s, st, 0, 1, INT64_MAX);
		if (!with_all && !is_fresh(s, d, st))
			continue;
		if (id && its != id) {
			end_race(k, &race, scenario, names, sum);
			race = (struct sum){ 0, 0 };
		}
		if (its != id)
			names = of_names(s, k, st);
		id = its;
		add_row(s, d, k, st, &race);
	}
	if (id)
		end_race(k, &race, scenario, names, sum);
	return ok;
}

/* ---- other tables -------------------------------------------------------------------------- */
/* Adds the rows of a query, with the table's name. */
static int add_rows(struct store *s, sqlite3_stmt *st, const char *table, struct key *k,
		    struct sum *sum)
{
	int ok = st != NULL;
	while (store_next(s, st, &ok)) {
		key_begin(k, table);
		for (int i = 0; i < sqlite3_column_count(st); i++)
			key_column(k, s, st, i);
		add(sum, key_end(k));
	}
	return ok;
}

/* Without a basis the hash is the same as before table `basis` existed. */
static int add_bases(struct store *s, const struct dict *d, struct key *k, struct sum *sum)
{
	const int has = store_has_basis(s);
	return has == 0 ||
	       (has > 0 && add_rows(s, store_rows(s, BASES_OF, "l", d->device), "basis", k, sum));
}

/* The same for table `settled`. */
static int add_settled(struct store *s, const struct dict *d, struct key *k, struct sum *sum)
{
	const int has = store_has_settled(s);
	return has == 0 || (has > 0 && add_rows(s, store_rows(s, SETTLED_HASHED, "l", d->device),
						"settled", k, sum));
}

static int add_all(struct store *s, const struct dict *d, int with_all, struct key *k,
		   struct sum *sum)
{
	int ok = 1;
	for (long long i = 0; ok && i < d->scenarios; i++)
		ok = add_scenario(s, d, &d->scenario[i], with_all, k, sum);
	ok = ok && add_rows(s, store_rows(s, DEVICE_LIMITS, "l", d->device), "device", k, sum) &&
	     add_rows(s, store_rows(s, BRIDGES_OF, "s", d->arch), "bridge", k, sum) &&
	     add_bases(s, d, k, sum) && add_settled(s, d, k, sum) &&
	     add_rows(s, store_rows(s, CONTROLS, "l", d->device), "control", k, sum);
	if (!ok || !with_all)
		return ok;
	const int has_bench = store_has_bench(s);
	return has_bench >= 0 &&
	       (!has_bench ||
		add_rows(s, store_rows(s, BENCH_OF, "l", d->device), "bench", k, sum)) &&
	       add_rows(s, store_rows(s, RUNS_OF, "l", d->device), "run", k, sum) &&
	       add_rows(s, store_rows(s, CEILINGS_OF, "l", d->device), "ceiling", k, sum);
}

int store_hash_device(struct store *s, long long device, int with_all, char hex[33])
{
	struct sum sum = { 0, 0 };
	struct key k = { XXH3_createState() };
	const struct dict *d = k.state ? store_dict(s, device) : NULL;
	if (!k.state)
		complain("%s: out of memory", s->path);
	const int ok = d && add_all(s, d, with_all, &k, &sum);
	XXH3_freeState(k.state);
	snprintf(hex, 33, "%016llx%016llx", sum.high, sum.low);
	return ok;
}

int store_hash(struct store *s, const char *gpu, char hex[33])
{
	const long long device = store_device_id(s, gpu);
	snprintf(hex, 33, "%032d", 0);
	return device > 0 ? store_hash_device(s, device, 0, hex) : device == 0;
}
