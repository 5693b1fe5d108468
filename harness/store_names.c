/* store_names.c - what rows refer to, as the database spells it: scenarios, phases,
 * sources. */
#include "store.h"
#include <string.h>
#include <xxhash.h>

struct tokens {
	int max_query, max_seq;
	long long query, kv;
};

static struct tokens count_tokens(const attune_batch *b)
{
	struct tokens t = { 0 };
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		t.max_query = query > t.max_query ? query : t.max_query;
		t.max_seq = b->seq_lens[i] > t.max_seq ? b->seq_lens[i] : t.max_seq;
		t.query += query;
		t.kv += b->seq_lens[i];
	}
	return t;
}

static const char *layout_name(enum layout l)
{
	static const char *const names[] = {
		[LAYOUT_NHD] = "NHD", [LAYOUT_HND] = "HND", [LAYOUT_CLASSIC] = "CLASSIC"
	};
	return names[l];
}

long long store_scenario_id(struct store *s, const struct scenario *sc, enum query add)
{
	const attune_shape *h = &sc->shape;
	const attune_batch *b = &sc->batch->view;
	const struct tokens t = count_tokens(b);
	return store_intern(s, FIND_SCENARIO, add, "ssisssliiiiiddiissdidlili", sc->model,
			    sc->batch_text, h->page_size, dtype_name(h->dtype),
			    dtype_name(h->kv_dtype), layout_name(sc->layout), (long long)sc->seed,
			    h->num_query_heads, h->num_kv_heads, h->head_size, !!h->causal,
			    h->window, (double)h->scale, (double)h->softcap, !!h->has_sinks,
			    !!h->has_alibi, sc->set, sc->split, sc->weight, b->num_seqs, sc->steps,
			    t.query, t.max_query, t.kv, t.max_seq);
}

const char *store_phase(enum phase phase)
{
	static const char *const names[] = {
		[PHASE_ALL] = "all",
		[PHASE_PREFILL] = "prefill",
		[PHASE_DECODE] = "decode",
	};
	return names[phase];
}

/* Hashing reads files, and each row asks for it; sources do not change under a process. */
static int known_hash(const struct kernel *k, const struct config *c, char hex[33])
{
	static _Thread_local struct {
		const struct kernel *kernel;
		int is_wide; /* else its helpers are the same whatever the choice */
		char hex[33];
	} kept[24];
	const int is_wide = kernel_may_take(k, c, HELPER_REDUCE_WIDE);
	size_t i = 0;
	while (i < COUNT(kept) - 1 && kept[i].kernel &&
	       (kept[i].kernel != k || kept[i].is_wide != is_wide))
		i++;
	if (kept[i].kernel != k || kept[i].is_wide != is_wide) {
		if (!source_hash(k, c, kept[i].hex))
			return 0;
		kept[i].kernel = k;
		kept[i].is_wide = is_wide;
	}
	memcpy(hex, kept[i].hex, 33);
	return 1;
}

/* 0 where there is no such kernel. What is wrong in the rest of the text, an old tunable say,
 * counts as its default. */
static int hash_of_choice(char hex[33], enum backend backend, const char *text)
{
	char name[64];
	int n = 0;
	const struct kernel *k =
	    sscanf(text, "%63s%n", name, &n) == 1 ? kernel_find(backend, name) : NULL;
	struct config c;
	const char *where;
	if (!k)
		return 0;
	(void)config_parse(&c, k->space, k->space->reduces_wide ? text + n : "", &where);
	return known_hash(k, &c, hex);
}

void store_source(char hex[33], enum backend backend, const char *text)
{
	char part[2][MAX_PART_TEXT] = { "", "" }, both[68] = "", one[33];
	enum attune_how how;
	int parts = 0;
	if (!parts_parse(text, part, &how))
		snprintf(part[0], sizeof part[0], "%s", text);
	for (int i = 0; i < 2; i++)
		if (hash_of_choice(one, backend, part[i]))
			strcat(both, one), parts++;
	if (parts < 2) {
		memcpy(hex, both, 33);
		return;
	}
	const XXH128_hash_t h = XXH3_128bits(both, strlen(both));
	snprintf(hex, 33, "%016llx%016llx", (unsigned long long)h.high64,
		 (unsigned long long)h.low64);
}
