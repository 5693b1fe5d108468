/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - what was committed, as text. FORMATS.md has the lines. Cells, ops and choices stand in
 * an order of their own, so that equal memories give equal bytes. */
#include "text.h"
#include "kernels/select/selector.h"
#include "kernels/settle/table.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/names.h"
#include "kernels/spec/status.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const kind_names[CELL_MIXED + 1] = { "prefill", "decode", "mixed" };

const char *way_name(int way)
{
	static const char *const names[] = {
		"series",    "streams",   "sparing16",  "sparing32",  "sparing48", "sparing64",
		"sparing80", "sparing96", "sparing112", "one_launch", "fused",
	};
	return way == WAY_AS_RULES                   ? "rules"
	       : way >= 0 && way < (int)COUNT(names) ? names[way]
						     : NULL;
}

void quoted(char text[QUOTED_TEXT], const char *name)
{
	size_t n = 0;
	text[n++] = '"';
	for (; *name && n < QUOTED_TEXT - 2; name++)
		text[n++] = *name < ' ' || *name > '~' || *name == '"' ? '?' : *name;
	text[n++] = '"';
	text[n] = '\0';
}

/* ---- an order of choices and shapes ------------------------------------------------------------ */

/* The committed entries, and for each choice and shape of the store its number in the text. */
struct order {
	const struct settled *s;
	int *choice, *shape; /* -1: no entry has it */
	int *by_choice, *by_shape, num_choices, num_shapes;
	const struct kept **cells;
	char (*names)[MAX_PART_TEXT]; /* of choices */
};

/* qsort_r is not in all of libc's versions: a sort by insertion, of some dozens. */
static void sort(int *at, int n, int (*compare)(const struct order *, int, int),
		 const struct order *o)
{
	for (int i = 1; i < n; i++)
		for (int k = i; k > 0 && compare(o, at[k - 1], at[k]) > 0; k--) {
			const int swap = at[k];
			at[k] = at[k - 1];
			at[k - 1] = swap;
		}
}

static int compare_choices(const struct order *o, int a, int b)
{
	return strcmp(o->names[a], o->names[b]);
}

static int compare_shapes(const struct order *o, int a, int b)
{
	return memcmp(&o->s->shapes[a], &o->s->shapes[b], sizeof *o->s->shapes);
}

static int compare_cells(const void *a, const void *b)
{
	const struct kept *x = *(const struct kept *const *)a, *y = *(const struct kept *const *)b;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->cell < y->cell ? -1 : x->cell > y->cell;
}

static void use(int *number, int at)
{
	if (at >= 0)
		number[at] = 0;
}

static void find_used(struct order *o)
{
	const struct settled *s = o->s;
	for (int i = 0; i < s->num_choices; i++)
		o->choice[i] = -1;
	for (int i = 0; i < s->num_shapes; i++)
		o->shape[i] = -1;
	for (int i = 0; i < s->committed.n; i++) {
		const struct kept *k = &s->committed.at[i];
		o->cells[i] = k;
		use(o->shape, k->shape);
		for (int j = 0; j < 2; j++)
			use(o->choice, k->named[j]);
		for (int j = 0; j < 2 * k->num; j++)
			use(o->choice, k->plan[j / 2].of[j % 2]);
	}
}

static void number(int *numbers, int *by_number, int *n, int all, const struct order *o,
		   int (*compare)(const struct order *, int, int))
{
	*n = 0;
	for (int i = 0; i < all; i++)
		if (numbers[i] >= 0)
			by_number[(*n)++] = i;
	sort(by_number, *n, compare, o);
	for (int i = 0; i < *n; i++)
		numbers[by_number[i]] = i;
}

static void free_order(struct order *o)
{
	free(o->choice);
	free(o->shape);
	free(o->by_choice);
	free(o->by_shape);
	free(o->cells);
	free(o->names);
}

static int make_order(struct order *o, const struct settled *s)
{
	const size_t choices = (size_t)s->num_choices + 1, shapes = (size_t)s->num_shapes + 1;
	*o = (struct order){ .s = s,
			     .choice = malloc(choices * sizeof *o->choice),
			     .shape = malloc(shapes * sizeof *o->shape),
			     .by_choice = malloc(choices * sizeof *o->by_choice),
			     .by_shape = malloc(shapes * sizeof *o->by_shape),
			     .cells = malloc(((size_t)s->committed.n + 1) * sizeof *o->cells),
			     .names = malloc(choices * sizeof *o->names) };
	if (!o->choice || !o->shape || !o->by_choice || !o->by_shape || !o->cells || !o->names)
		return 0;
	for (int i = 0; i < s->num_choices; i++)
		choice_text(o->names[i], sizeof o->names[i], &s->choices[i]);
	find_used(o);
	number(o->choice, o->by_choice, &o->num_choices, s->num_choices, o, compare_choices);
	number(o->shape, o->by_shape, &o->num_shapes, s->num_shapes, o, compare_shapes);
	qsort(o->cells, (size_t)s->committed.n, sizeof *o->cells, compare_cells);
	return 1;
}

/* ---- lines ------------------------------------------------------------------------------------- */

struct sink {
	char *text;
	size_t room, n;
};

__attribute__((format(printf, 2, 3))) static void put(struct sink *o, const char *format, ...)
{
	char item[MAX_PART_TEXT + 64];
	va_list ap;
	va_start(ap, format);
	vsnprintf(item, sizeof item, format, ap);
	va_end(ap);
	const size_t n = strlen(item);
	if (o->n + n <= o->room)
		memcpy(o->text + o->n, item, n);
	o->n += n;
}

static uint64_t rules_name(uint64_t h, const struct selector *rules)
{
	if (!rules)
		return h;
	h = text_name(h, rules->gpu);
	for (int i = 0; i < rules->num_choices; i++)
		h = text_name(text_name(h, rules->choices[i].kernel), rules->choices[i].text);
	for (int i = 0; i < rules->num_lists; i++)
		for (int m = 0; m < rules->lists[i].n; m++)
			h = hash_add(h, (uint64_t)rules->lists[i].at[m]);
	return h;
}

static void put_device(struct sink *o, const attune_context *ctx)
{
	const struct device_info *d = &ctx->device.info;
	char name[QUOTED_TEXT];
	quoted(name, d->name);
	const struct selector *own =
	    ctx->override ? override_selector(ctx->override) : selector_for(d, ATTUNE_BF16);
	uint64_t rules = rules_name(0, own);
	if (!ctx->override)
		rules = rules_name(rules, selector_for(d, ATTUNE_E4M3));
	put(o, SETTLED_FIRST_LINE "\n");
	put(o, "device name=%s gpu=%s arch=%s units=%d version=%s rules=%016llx\n", name, d->gpu,
	    d->arch, d->units, attune_version(), (unsigned long long)rules);
	quoted(name, d->driver);
	put(o, "conditions driver=%s", name);
	if (d->clock_mhz > 0)
		put(o, " sm_clock_mhz=%d", d->clock_mhz);
	if (d->power_limit_w >= 1)
		put(o, " power_limit_w=%d", (int)d->power_limit_w);
	put(o, "\n");
}

/* "bf16" */
static const char *type_word(char word[8], enum attune_dtype t)
{
	const char *name = dtype_name(t);
	int n = 0;
	for (; name[n] && n < 7; n++)
		word[n] = (char)(name[n] >= 'A' && name[n] <= 'Z' ? name[n] + 'a' - 'A' : name[n]);
	word[n] = '\0';
	return word;
}

/* A whole number as such, another one by its bits: no text of it depends on the locale. */
static void put_float(struct sink *o, const char *key, float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	if (value >= 0 && value < 1 << 20 && value == (float)(int)value)
		put(o, " %s=%d", key, (int)value);
	else
		put(o, " %s=0x%08x", key, bits);
}

static void put_op(struct sink *o, int i, const attune_shape *s)
{
	char q[8], kv[8];
	put(o, "op %d heads=%d/%d head_size=%d page_size=%d dtype=%s kv_dtype=%s layout=%s", i,
	    s->num_query_heads, s->num_kv_heads, s->head_size, s->page_size, type_word(q, s->dtype),
	    type_word(kv, s->kv_dtype), s->kv_layout == ATTUNE_KV_CLASSIC ? "classic" : "strided");
	put(o, " causal=%d window=%d", !!s->causal, s->window);
	put_float(o, "scale", s->scale);
	put_float(o, "softcap", s->softcap);
	put(o, " sinks=%d alibi=%d new_kv=%d lse=%d\n", !!s->has_sinks, !!s->has_alibi,
	    !!s->has_new_kv, !!s->has_lse);
}

static void put_choice(struct sink *o, int i, const struct choice *c)
{
	char text[MAX_CHOICE_TEXT];
	config_text(text, sizeof text, &c->config, c->kernel->space);
	put(o, "choice %d %s %016llx%s%s\n", i, c->kernel->name, kernel_hash(c->kernel),
	    *text ? " " : "", text);
}

static void put_number(struct sink *o, const char *before, const struct order *order, int choice)
{
	if (choice < 0)
		put(o, "%s-", before);
	else
		put(o, "%s%d", before, order->choice[choice]);
}

static void put_member(struct sink *o, const char *before, const struct order *order,
		       const struct kept_plan *p, int of)
{
	put_number(o, before, order, p->of[of]);
	if (p->step[of])
		put(o, "%+d", p->step[of]);
}

static void put_plan(struct sink *o, const char *before, const struct order *order,
		     const struct kept *k, const struct kept_plan *p)
{
	if (k->kind != CELL_MIXED) {
		put_member(o, before, order, p, k->kind == CELL_DECODE);
		return;
	}
	put(o, "%s%s", before, way_name(p->way));
	if (p->of[0] < 0 && p->of[1] < 0)
		return;
	put_member(o, "/", order, p, 0);
	put_member(o, "/", order, p, 1);
}

static void put_us(struct sink *o, const char *before, long long ns)
{
	put(o, "%s%lld.%03lld", before, ns / 1000, ns % 1000);
}

static void put_cell(struct sink *o, const struct order *order, const struct kept *k)
{
	put(o, "cell op=%d kind=%s batch=", order->shape[k->shape], kind_names[k->kind]);
	for (int i = 0; i < k->num_runs; i++)
		put(o, "%s%dq%ds%d", i ? "," : "", k->runs[i].count, k->runs[i].query,
		    k->runs[i].seq);
	put_number(o, " first=", order, k->named[0]);
	if (k->kind == CELL_MIXED)
		put_number(o, ",", order, k->named[1]);
	put(o, k->kind == CELL_MIXED ? " ways" : " members");
	for (int i = 0; i < k->num; i++)
		put_plan(o, i ? "," : "=", order, k, &k->plan[i]);
	put(o, " us");
	for (int i = 0; i < k->num; i++)
		put_us(o, i ? "," : "=", k->plan[i].ns);
	put_us(o, " again=", k->again_ns);
	put_plan(o, " winner=", order, k, &k->plan[k->winner]);
	put(o, " rounds=%d settles=%d\n", k->rounds, k->settles);
}

/* ---- the whole --------------------------------------------------------------------------------- */

static enum attune_status write_all(struct sink *o, const attune_context *ctx,
				    const struct settled *s)
{
	struct order order;
	if (!make_order(&order, s)) {
		free_order(&order);
		return fail(ATTUNE_NO_MEMORY, "attune_settled_text: out of memory");
	}
	put_device(o, ctx);
	for (int i = 0; i < order.num_choices; i++)
		put_choice(o, i, &s->choices[order.by_choice[i]]);
	for (int i = 0; i < order.num_shapes; i++)
		put_op(o, i, &s->shapes[order.by_shape[i]]);
	for (int i = 0; i < s->committed.n; i++)
		put_cell(o, &order, order.cells[i]);
	put(o, "end %d\n", s->committed.n);
	free_order(&order);
	return ATTUNE_OK;
}

enum attune_status attune_settled_text(const attune_context *ctx, char *text, size_t room,
				       size_t *need)
{
	static const struct settled nothing;
	if (!ctx || !need)
		return fail(ATTUNE_INVALID, "attune_settled_text: an argument is NULL");
	struct sink o = { text, text ? room : 0, 0 };
	settled_lock(LOCK_STORES);
	const enum attune_status status =
	    write_all(&o, ctx, ctx->settled ? ctx->settled : &nothing);
	settled_unlock(LOCK_STORES);
	if (status)
		return status;
	*need = o.n;
	return !text || room >= o.n
		   ? ATTUNE_OK
		   : fail(ATTUNE_TOO_SMALL,
			  "attune_settled_text: room for %zu bytes, %zu are needed", room, o.n);
}
