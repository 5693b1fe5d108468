/* store_hash.c - the hash of what a database says of a GPU. It depends on the newest rows alone,
 * not on their order, their ids or the machine: each row is hashed with the hashes of the names it
 * refers to, and the rows' hashes are added up. */
#include "store.h"
#include <stdlib.h>
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

static unsigned long long hash_text(unsigned long long seed, const char *text)
{
	return XXH3_64bits_withSeed(text, strlen(text) + 1, seed);
}

static unsigned long long hash_bytes(unsigned long long seed, const void *v, size_t n)
{
	return XXH3_64bits_withSeed(v, n, seed);
}

/* What identifies the scenario, and its labels. Members one by one: padding has any bytes. */
static unsigned long long of_scenario(const struct store_cell *c)
{
	const attune_shape *h = &c->shape;
	const char *const texts[] = { c->model, c->batch, c->dtype, dtype_name(h->kv_dtype),
				      c->layout, c->set, c->split };
	const long long numbers[] = { h->page_size, (long long)c->seed, h->num_query_heads,
				      h->num_kv_heads, h->head_size, h->causal, h->window,
				      h->has_sinks, h->has_alibi };
	const double reals[] = { (double)h->scale, (double)h->softcap, c->weight };
	unsigned long long x = 0;
	for (size_t i = 0; i < COUNT(texts); i++)
		x = hash_text(x, texts[i]);
	x = hash_bytes(x, numbers, sizeof numbers);
	return hash_bytes(x, reals, sizeof reals);
}

/* Columns in the order of CELLS; where ids stand, what they stand for. */
static XXH128_hash_t of_row(struct store *s, const struct dict *d, unsigned long long scenario,
			    sqlite3_stmt *st)
{
	const struct dict_variant *v = &d->variant[store_int(s, st, 1, 1, d->variants - 1)];
	const struct dict_build *b = &d->build[store_int(s, st, 7, 1, d->builds - 1)];
	const struct dict_ending *e = &d->ending[store_int(s, st, 8, 1, d->endings - 1)];
	unsigned long long key[12] = { scenario };
	int n = 1;
	if (s->is_damaged || !v->kernel || !b->sources || !e->outcome)
		return (XXH128_hash_t){ 0 };
	key[n++] = hash_text(hash_text(0, v->kernel), v->choice);
	key[n++] = hash_text(hash_text(0, b->flags), b->sources);
	key[n++] = hash_text(hash_text(0, e->outcome), e->stopped);
	key[n++] = hash_text(hash_text((unsigned)sqlite3_column_int(st, 2), store_text(s, st, 3)),
			     store_text(s, st, 6));
	for (int column = 9; column < 15; column++) /* NULL: no number of ours */
		key[n++] = sqlite3_column_type(st, column) == SQLITE_NULL
			       ? ~0ull
			       : (unsigned long long)sqlite3_column_int64(st, column);
	return XXH3_128bits(key, (size_t)n * sizeof *key);
}

static int add_scenario(struct store *s, const struct dict *d, const struct dict_scenario *of,
			struct sum *sum)
{
	const unsigned long long scenario = of_scenario(&of->cell);
	sqlite3_stmt *st = store_rows(s, CELLS, "ll", of->cell.scenario_id, d->device);
	int rc = SQLITE_ERROR;
	while (st && (rc = sqlite3_step(st)) == SQLITE_ROW)
		add(sum, of_row(s, d, scenario, st));
	if (st && rc != SQLITE_DONE)
		store_explain(s);
	if (st)
		sqlite3_reset(st);
	return rc == SQLITE_DONE && !s->is_damaged;
}

int store_hash(struct store *s, const char *gpu, char hex[33])
{
	struct sum sum = { 0, 0 };
	const long long device = store_device_id(s, gpu);
	const struct dict *d = device >= 0 ? store_dict(s, device) : NULL;
	int ok = d != NULL;
	for (long long i = 0; ok && device && i < d->scenarios; i++)
		ok = add_scenario(s, d, &d->scenario[i], &sum);
	snprintf(hex, 33, "%016llx%016llx", sum.high, sum.low);
	return ok;
}
