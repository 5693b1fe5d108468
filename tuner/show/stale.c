/* stale.c - `attune show --stale`: counts the newest rows of cells that were measured with older
 * kernel sources, by kernel, scenario set and split. Parts of batches with a stale fastest time
 * come first: measuring them again may change the pick. */
#include "show.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/store/store.h"
#include "tuner/base/base.h"
#include "tuner/data/filling.h"
#include <math.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A scenario and phase. */
struct stale_part {
	char *key;
	long long stale; /* rows */
	double us;       /* fastest time of the second pass, else of the first */
	int pass;        /* 'A' or 'B'; 0: no correct time so far */
	int is_stale;    /* of the fastest row */
	struct count *count;
};

/* The counts of a kernel in a set and split. */
struct count {
	char *key; /* kernel, set and split, separated by tabs */
	long long rows, stale, fastest, again;
};

struct row {
	char *text[7]; /* model, batch, phase, kernel, choice, set, split */
	int page_size, pass;
	double us;
	struct stale_part *part;
};
enum { MODEL, BATCH, PHASE, KERNEL, CHOICE, SET, SPLIT };

struct stale {
	void *parts, *counts; /* by tsearch */
	struct count **count;
	int num_counts, room_counts;
	struct row *row; /* with --all */
	int n, room, failed, all;
};

static int by_key(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Finds or adds the entry of a key, and takes ownership of the key. NULL without memory. Entries
 * begin with their key. */
static void *entry_of(void **root, char *key, size_t size, int *is_new)
{
	char **made = key ? calloc(1, size) : NULL, ***at;
	*is_new = 0;
	if (made) {
		*made = key;
		at = tsearch(made, root, by_key);
		*is_new = at && *at == made;
		if (*is_new)
			return made;
		free(made);
		free(key);
		return at ? *at : NULL;
	}
	free(key);
	return NULL;
}

static struct stale_part *part_of(struct stale *s, const struct store_cell *c)
{
	const attune_shape *h = &c->shape;
	char *key;
	int is_new;
	if (asprintf(&key, "%s %d %s %s %s %s %llu %d %d %d %d %d %.9g %.9g %d %d %s", c->model,
		     c->page_size, c->dtype, dtype_name(h->kv_dtype), c->layout, c->batch, c->seed,
		     h->num_query_heads, h->num_kv_heads, h->head_size, h->causal, h->window,
		     (double)h->scale, (double)h->softcap, h->has_sinks, h->has_alibi,
		     c->phase) < 0)
		return NULL;
	return entry_of(&s->parts, key, sizeof(struct stale_part), &is_new);
}

static struct count *count_of(struct stale *s, const struct store_cell *c)
{
	char *key;
	int is_new;
	if (asprintf(&key, "%s\t%s\t%s", c->kernel, c->set, c->split) < 0)
		return NULL;
	struct count *n = entry_of(&s->counts, key, sizeof *n, &is_new);
	if (!n || !is_new)
		return n;
	if (!array_grow(&s->count, s->num_counts, &s->room_counts, sizeof *s->count))
		return NULL;
	return s->count[s->num_counts++] = n;
}

static int keep_row(struct stale *s, const struct store_cell *c, struct stale_part *part)
{
	const char *const text[] = { c->model,  c->batch, c->phase, c->kernel,
				     c->choice, c->set,   c->split };
	if (!array_grow(&s->row, s->n, &s->room, sizeof *s->row))
		return 0;
	struct row *r = &s->row[s->n++];
	*r = (struct row){
		.page_size = c->page_size, .pass = c->pass, .us = c->median_us, .part = part
	};
	for (size_t i = 0; i < COUNT(text); i++)
		if (!(r->text[i] = strdup(text[i])))
			return 0;
	return 1;
}

static void meet(struct stale_part *p, const struct store_cell *c, struct count *count)
{
	const int later = c->pass == 'B' && p->pass == 'A';
	if (strcmp(c->outcome, "ok") || c->pass == 'E' || (c->pass == 'A' && p->pass == 'B') ||
	    (p->pass && !later && c->median_us >= p->us))
		return;
	p->us = c->median_us;
	p->pass = c->pass;
	p->is_stale = !c->today;
	p->count = count;
}

static int take(void *arg, const struct store_cell *c)
{
	struct stale *s = arg;
	struct stale_part *part = part_of(s, c);
	struct count *count = part ? count_of(s, c) : NULL;
	s->failed = !count || (s->all && !c->today && !keep_row(s, c, part));
	if (s->failed)
		return 0;
	part->stale += !c->today;
	count->rows++;
	count->stale += !c->today;
	meet(part, c, count);
	return 1;
}

static void add_fastest(const void *node, VISIT visit, int depth)
{
	const struct stale_part *p = *(struct stale_part *const *)node;
	(void)depth;
	if ((visit != postorder && visit != leaf) || !p->is_stale)
		return;
	p->count->fastest++;
	p->count->again += p->stale;
}

/* ---- tables --------------------------------------------------------------------------------- */
static int by_need(const void *pa, const void *pb)
{
	const struct count *a = *(struct count *const *)pa, *b = *(struct count *const *)pb;
	if (a->fastest != b->fastest)
		return a->fastest > b->fastest ? -1 : 1;
	if (a->stale != b->stale)
		return a->stale > b->stale ? -1 : 1;
	return strcmp(a->key, b->key);
}

/* Prints the first rows in formats for people, else all. */
static void print_counts(const struct stale *s, enum format format)
{
	enum { MOST_ROWS = 20 };
	const int most = format_for_people(format) ? MOST_ROWS : s->num_counts;
	int shown = 0, hidden = 0;
	static const char *const columns[] = { "kernel", "set",     "split",        "rows",
					       "stale",  "fastest", "rows_of_these" };
	struct table *t = table_new(format, columns, COUNT(columns));
	for (int i = 0; i < s->num_counts; i++) {
		const struct count *n = s->count[i];
		const char *word = n->key;
		if (n->stale && shown == most)
			hidden++;
		if (!n->stale || shown == most)
			continue;
		shown++;
		for (int k = 0; k < 3; k++) {
			char text[128];
			const size_t length = strcspn(word, "\t");
			snprintf(text, sizeof text, "%.*s", (int)length, word);
			table_text(t, text);
			word += length + (word[length] == '\t');
		}
		table_number(t, (double)n->rows, 0);
		table_number(t, (double)n->stale, 0);
		table_number(t, (double)n->fastest, 0);
		table_number(t, (double)n->again, 0);
		table_end_row(t);
	}
	table_print(t, stdout);
	if (hidden)
		show_note(format, "%d more in tsv, csv and json; --all lists each cell", hidden);
}

/* Whether the row has its part's fastest time. */
static int is_fastest(const struct row *r)
{
	return r->part->is_stale && r->part->pass == r->pass && !(r->us > r->part->us);
}

static int by_part(const void *pa, const void *pb)
{
	const struct row *a = pa, *b = pb;
	const struct stale_part *p = a->part, *q = b->part;
	if (p->is_stale != q->is_stale)
		return q->is_stale - p->is_stale;
	if (p->stale != q->stale)
		return p->stale > q->stale ? -1 : 1;
	if (p != q)
		return strcmp(p->key, q->key);
	if (is_fastest(a) != is_fastest(b))
		return is_fastest(b) - is_fastest(a);
	if (a->us != b->us)
		return a->us < b->us || isnan(b->us) ? -1 : 1;
	const int kernel = strcmp(a->text[KERNEL], b->text[KERNEL]);
	return kernel ? kernel : strcmp(a->text[CHOICE], b->text[CHOICE]);
}

static void print_rows(struct stale *s, enum format format)
{
	static const char *const columns[] = {
		"model", "page_size", "batch",   "phase", "kernel", "variant",
		"pass",  "median_us", "fastest", "set",   "split",  "stale_rows_of_part"
	};
	struct table *t = table_new(format, columns, COUNT(columns));
	if (s->n)
		qsort(s->row, (size_t)s->n, sizeof *s->row, by_part);
	for (int i = 0; i < s->n; i++) {
		const struct row *r = &s->row[i];
		const char pass[] = { (char)r->pass, '\0' };
		table_text(t, r->text[MODEL]);
		table_number(t, r->page_size, 0);
		batch_cell(t, r->text[BATCH], format);
		table_text(t, r->text[PHASE]);
		table_text(t, r->text[KERNEL]);
		table_text(t, r->text[CHOICE]);
		table_text(t, pass);
		table_number(t, r->us, 3);
		table_text(t, is_fastest(r) ? "yes" : "no");
		table_text(t, r->text[SET]);
		table_text(t, r->text[SPLIT]);
		table_number(t, (double)r->part->stale, 0);
		table_end_row(t);
	}
	table_print(t, stdout);
}

static void print(struct stale *s, const char *gpu, const struct show *o)
{
	long long rows = 0, stale = 0, fastest = 0, again = 0;
	twalk(s->parts, add_fastest);
	if (s->num_counts)
		qsort(s->count, (size_t)s->num_counts, sizeof(struct count *), by_need);
	for (int i = 0; i < s->num_counts; i++) {
		rows += s->count[i]->rows;
		stale += s->count[i]->stale;
		fastest += s->count[i]->fastest;
		again += s->count[i]->again;
	}
	if (format_for_people(o->format)) {
		show_note(o->format,
			  "%s: %lld of %lld rows were measured with older kernel sources", gpu,
			  stale, rows);
		show_note(o->format,
			  "fastest: parts of batches with a stale fastest time, %lld in all; "
			  "rows_of_these: their stale rows, %lld in all",
			  fastest, again);
	}
	if (o->all)
		print_rows(s, o->format);
	else
		print_counts(s, o->format);
}

/* ---- the command ---------------------------------------------------------------------------- */
static void free_entry(void *p)
{
	free(*(char **)p); /* its key */
	free(p);
}

static void stale_free(struct stale *s)
{
	for (int i = 0; i < s->n; i++)
		for (size_t k = 0; k < COUNT(s->row[i].text); k++)
			free(s->row[i].text[k]);
	free(s->row);
	free(s->count);
	tdestroy(s->parts, free_entry);
	tdestroy(s->counts, free_entry);
}

int show_stale(const char *db, const char *name, const struct show *o)
{
	struct stale s = { .all = o->all };
	struct run_info run;
	char gpu[GPU_NAME];
	snprintf(gpu, sizeof gpu, "%.*s", gpu_length(name), name);
	if (!source_root()) {
		complain(
		    "no kernel sources found to compare with; set ATTUNE_SOURCE to the kernels "
		    "folder");
		return EXIT_USAGE;
	}
	struct store *store = store_open(db, 1);
	int code = EXIT_USAGE;
	if (store && store_device(store, gpu, &run)) { /* which complains on failure */
		code = store_each(store, gpu, NULL, take, &s) ? EXIT_DONE : EXIT_CHECK;
		if (s.failed) {
			complain("out of memory");
			code = EXIT_CHECK;
		}
	} else if (store) {
		code = EXIT_CHECK;
	}
	if (code == EXIT_DONE)
		print(&s, gpu, o);
	if (store)
		store_close(store);
	stale_free(&s);
	return code;
}
