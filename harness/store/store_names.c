/* SPDX-License-Identifier: Apache-2.0 */
/* store_names.c - the rows that other rows refer to: scenarios, choices, variants and stages; and
 * sources as text. */
#include "handle.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include <stdio.h>
#include <stdlib.h>
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
	return l < LAYOUT_PACKED ? names[l] : "NHD"; /* the model's name says it */
}

static long long find_scenario(struct store *s, const struct scenario *sc, enum query add)
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

/* Stores the least bytes and operations of calls of the scenario's phases. */
static int add_work(struct store *s, long long id, const attune_shape *h, const attune_batch *b)
{
	for (int i = 0; i < NUM_PHASE_IDS; i++) {
		const enum phase phase = i < 3 ? (enum phase)i : PHASE_ALL; /* a plan runs all */
		const double keys = (double)part_live_keys(h, b, phase);
		const double pairs = (double)part_pairs(h, b, phase);
		if (store_number(s, ADD_WORK, "lidd", id, i,
				 2 * keys * h->num_kv_heads * h->head_size *
				     dtype_bytes(h->kv_dtype),
				 4 * pairs * h->head_size * h->num_query_heads) < 0)
			return 0;
	}
	return 1;
}

long long store_scenario_id(struct store *s, const struct scenario *sc, enum query add)
{
	long long id = find_scenario(s, sc, FIND_SCENARIO);
	if (id || add == FIND_SCENARIO)
		return id;
	id = find_scenario(s, sc, add);
	return id > 0 && !add_work(s, id, &sc->shape, &sc->batch->view) ? -1 : id;
}

/* ---- choices and plans ------------------------------------------------------------- */
enum { MAX_LONG_TEXT = MAX_PART_TEXT + 64 };

/* XXH3-64 of "kernel text". */
static long long family_digest(const char *kernel, const char *text)
{
	char whole[MAX_LONG_TEXT + 64];
	const int n = snprintf(whole, sizeof whole, "%s %s", kernel, text);
	return (long long)XXH3_64bits(whole,
				      (size_t)n < sizeof whole ? (size_t)n : sizeof whole - 1);
}

/* Takes the number out of "... SEGMENTS=16 ..."; a text without it, or with several, or with more
 * digits than such a number has, stays whole. Returns the number; -1: none. */
static int take_segments(char *text)
{
	static const char name[] = "SEGMENTS=";
	char *at = strstr(text, name), *digits = at ? at + strlen(name) : NULL;
	const size_t n = digits ? strspn(digits, "0123456789") : 0;
	if (!n || n > 6 || (*digits == '0' && n > 1) || strstr(digits, name))
		return -1;
	const int segments = atoi(digits);
	memmove(digits, digits + n, strlen(digits + n) + 1);
	return segments;
}

static long long choice_id(struct store *s, const char *text, enum query add)
{
	char kernel[64], rest[MAX_LONG_TEXT];
	const size_t n = strcspn(text, " ");
	if (!n || n >= sizeof kernel ||
	    (size_t)snprintf(rest, sizeof rest, "%s", text + n + (text[n] == ' ')) >= sizeof rest) {
		complain("%s: row refused: '%.40s' names no kernel", s->path, text);
		return -1;
	}
	snprintf(kernel, sizeof kernel, "%.*s", (int)n, text);
	const int segments = take_segments(rest);
	const long long family =
	    store_intern(s, FIND_FAMILY, add == FIND_CHOICE ? FIND_FAMILY : ADD_FAMILY, "ssl",
			 kernel, rest, family_digest(kernel, rest));
	return family > 0 ? store_intern(s, FIND_CHOICE, add, "li", family, segments) : family;
}

/* ---- the same in SQL ------------------------------------------------------------------ */
static void sql_split(sqlite3_context *to, sqlite3_value **v, int as_text)
{
	char text[MAX_LONG_TEXT];
	const char *whole = (const char *)sqlite3_value_text(v[0]);
	if (!whole || (size_t)snprintf(text, sizeof text, "%s", whole) >= sizeof text) {
		sqlite3_result_error(to, "a choice's text is too long", -1);
		return;
	}
	const int segments = take_segments(text);
	if (as_text)
		sqlite3_result_text(to, text, -1, SQLITE_TRANSIENT);
	else
		sqlite3_result_int(to, segments);
}

static void sql_family_text(sqlite3_context *to, int n, sqlite3_value **v)
{
	(void)n;
	sql_split(to, v, 1);
}

static void sql_segments(sqlite3_context *to, int n, sqlite3_value **v)
{
	(void)n;
	sql_split(to, v, 0);
}

static void sql_family_digest(sqlite3_context *to, int n, sqlite3_value **v)
{
	const char *kernel = (const char *)sqlite3_value_text(v[0]);
	const char *text = (const char *)sqlite3_value_text(v[1]);
	(void)n;
	if (kernel && text)
		sqlite3_result_int64(to, family_digest(kernel, text));
}

int store_name_functions(struct store *s)
{
	static const struct {
		const char *name;
		int arguments;
		void (*run)(sqlite3_context *, int, sqlite3_value **);
	} all[] = { { "family_text", 1, sql_family_text },
		    { "segments", 1, sql_segments },
		    { "family_digest", 2, sql_family_digest } };
	for (size_t i = 0; i < COUNT(all); i++)
		if (sqlite3_create_function(s->db, all[i].name, all[i].arguments, SQLITE_UTF8, NULL,
					    all[i].run, NULL, NULL) != SQLITE_OK)
			return store_explain(s);
	return 1;
}

/* ---- variants, phases, stages ---------------------------------------------------------- */
long long store_variant_id(struct store *s, const char *text, enum query add)
{
	const enum query of_choice = add == FIND_VARIANT ? FIND_CHOICE : ADD_CHOICE;
	char part[2][MAX_PART_TEXT];
	enum attune_how how;
	long long decode = 0;
	const int is_plan = parts_parse(text, part, &how);
	const long long choice = choice_id(s, is_plan ? part[0] : text, of_choice);
	if (choice <= 0 || (is_plan && (decode = choice_id(s, part[1], of_choice)) <= 0))
		return choice < 0 || decode < 0 ? -1 : 0;
	return store_intern(s, FIND_VARIANT, add, "lls", choice, decode,
			    !is_plan                ? ""
			    : how == ATTUNE_STREAMS ? "||"
						    : "|");
}

static long long index_of(const char *word, const char *const *words, int n)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(word, words[i]))
			return i;
	return -1;
}

static const char *const phase_names[NUM_PHASE_IDS] = { "all", "prefill", "decode", "plan" };

long long store_phase_id(const char *phase)
{
	return index_of(phase, phase_names, NUM_PHASE_IDS);
}

const char *store_phase_text(long long id)
{
	return phase_names[id];
}

long long store_stage_id(const char *stage)
{
	static const char *const names[] = { "",       "race",  "complete", "cold",
					     "refine", "audit", "b",        "early" };
	const long long id = index_of(stage, names, COUNT(names));
	return id < 0 ? 0 : id;
}

const char *store_phase(enum phase phase)
{
	return phase_names[phase];
}

/* ---- sources ------------------------------------------------------------------------ */
enum { MOST_SOURCES = 2 * (1 + NUM_HELPERS) };
struct sources {
	const struct kernel *kernel[MOST_SOURCES];
	int n;
};

static void add_source(struct sources *v, const struct kernel *k)
{
	for (int i = 0; i < v->n; i++)
		if (v->kernel[i] == k)
			return;
	if (k && v->n < MOST_SOURCES)
		v->kernel[v->n++] = k;
}

/* An error after the kernel's name, such as an old tunable, counts as the default choice. */
static void add_sources(struct sources *v, enum backend backend, const char *text)
{
	char name[64];
	int n = 0;
	const struct kernel *k =
	    sscanf(text, "%63s%n", name, &n) == 1 ? kernel_find(backend, name) : NULL;
	struct config c;
	const char *where;
	if (!k)
		return;
	(void)config_parse(&c, k->space, text + n, &where);
	add_source(v, k);
	for (enum helper h = 0; h < NUM_HELPERS; h++)
		if (kernel_may_take(k, &c, h))
			add_source(v, kernel_helper(backend, h));
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(const struct kernel *const *)a)->name,
		      (*(const struct kernel *const *)b)->name);
}

void store_code(char text[CODE_TEXT], enum backend backend, const char *choice)
{
	struct sources v = { .n = 0 };
	char part[2][MAX_PART_TEXT], hash[33];
	enum attune_how how;
	size_t n = 0;
	if (parts_parse(choice, part, &how)) {
		add_sources(&v, backend, part[0]);
		add_sources(&v, backend, part[1]);
	} else {
		add_sources(&v, backend, choice);
	}
	qsort(v.kernel, (size_t)v.n, sizeof *v.kernel, by_name);
	snprintf(text, CODE_TEXT, "none");
	for (int i = 0; i < v.n && n < CODE_TEXT; i++)
		n += (size_t)snprintf(text + n, CODE_TEXT - n, "%s%s:%s", i ? " " : "",
				      v.kernel[i]->name,
				      source_identity(v.kernel[i], hash) ? hash : "none");
}

/* ---- stages and scenarios ------------------------------------------------------------------ */
const char *const stage_names[NUM_STAGES] = { "",       "race",  "complete", "cold",
					      "refine", "audit", "b",        "early" };

int cell_is_of(const struct store_cell *c, const struct scenario *s)
{
	return c->page_size == s->shape.page_size && c->seed == s->seed &&
	       !strcmp(c->model, s->model) && !strcmp(c->batch, s->batch_text) &&
	       c->shape.dtype == s->shape.dtype && c->shape.kv_dtype == s->shape.kv_dtype &&
	       layout_of(c->layout) == s->layout;
}
