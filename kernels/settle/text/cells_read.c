/* cells_read.c - choices, ops and cells of a settled text. */
#include "cells_read.h"
#include "text.h"
#include "kernels/api/plan.h"
#include "kernels/settle/members.h"
#include "kernels/settle/table.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/status.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 0x7fffffff };

static enum attune_status no_memory(void)
{
	return fail(ATTUNE_NO_MEMORY, "attune_settled_read: out of memory");
}

/* The items of one kind are numbered from 0. Makes room for one more, 0 in all its bytes. */
static void *numbered(struct line *l, void *items, int *n, size_t size, const char *what)
{
	line_number(l, *n, *n, what);
	void *more = *l->expected ? NULL : realloc(items, (size_t)(*n + 1) * size);
	if (more)
		memset((char *)more + (size_t)*n * size, 0, size);
	return more;
}

enum attune_status read_choice(struct line *l, struct reading *r)
{
	char name[64], tunables[MAX_CHOICE_TEXT] = "";
	const char *where;
	struct choice *more = numbered(l, r->choices, &r->num_choices, sizeof *more,
				       "the choice's number, one more than before");
	if (!more)
		return *l->expected ? ATTUNE_OK : no_memory();
	r->choices = more;
	struct choice *c = &more[r->num_choices++];
	line_word(l, " ");
	line_token(l, name, sizeof name, "the kernel");
	line_word(l, " ");
	const uint64_t hash = line_hex(l, 16, "the kernel's hash");
	if (line_has(l, " ")) {
		snprintf(tunables, sizeof tunables, "%s", l->at);
		if (!*tunables || strlen(l->at) >= sizeof tunables)
			return line_expected(l, "the choice's tunables"), ATTUNE_OK;
		l->at += strlen(l->at);
	}
	if (!line_end(l))
		return ATTUNE_OK;
	c->kernel = kernel_find(r->ctx->device.info.backend, name);
	if (c->kernel && (kernel_hash(c->kernel) != hash || !c->kernel->selectable ||
			  !config_parse(&c->config, c->kernel->space, tunables, &where)))
		c->kernel = NULL;
	return ATTUNE_OK;
}

/* ---- ops --------------------------------------------------------------------------------------- */

static int read_int(struct line *l, const char *key, int least, int most)
{
	line_word(l, key);
	return (int)line_number(l, least, most, key);
}

static float read_float(struct line *l, const char *key)
{
	float value;
	line_word(l, key);
	if (!line_has(l, "0x"))
		return (float)line_number(l, 0, 1 << 20, key);
	const uint32_t bits = (uint32_t)line_hex(l, 8, key);
	memcpy(&value, &bits, sizeof value);
	return value;
}

static void read_shape(struct line *l, attune_shape *s)
{
	static const char *const types[] = { "f32", "f16", "bf16", "e4m3", NULL };
	static const char *const layouts[] = { "strided", "classic", NULL };
	s->size = sizeof *s;
	s->num_query_heads = read_int(l, " heads=", 1, MOST);
	s->num_kv_heads = read_int(l, "/", 1, MOST);
	s->head_size = read_int(l, " head_size=", 1, MOST);
	s->page_size = read_int(l, " page_size=", 1, MOST);
	line_word(l, " dtype=");
	s->dtype = (enum attune_dtype)line_one_of(l, types, "a type");
	line_word(l, " kv_dtype=");
	s->kv_dtype = (enum attune_dtype)line_one_of(l, types, "a type");
	line_word(l, " layout=");
	s->kv_layout = (enum attune_kv_layout)line_one_of(l, layouts, "a layout");
	s->causal = read_int(l, " causal=", 0, 1);
	s->window = read_int(l, " window=", 0, MOST);
	s->scale = read_float(l, " scale=");
	s->softcap = read_float(l, " softcap=");
	s->has_sinks = read_int(l, " sinks=", 0, 1);
	s->has_alibi = read_int(l, " alibi=", 0, 1);
	s->has_new_kv = read_int(l, " new_kv=", 0, 1);
	s->has_lse = read_int(l, " lse=", 0, 1);
}

enum attune_status read_op(struct line *l, struct reading *r)
{
	struct read_op *more =
	    numbered(l, r->ops, &r->num_ops, sizeof *more, "the op's number, one more than before");
	if (!more)
		return *l->expected ? ATTUNE_OK : no_memory();
	r->ops = more;
	attune_shape *shape = &more[r->num_ops++].shape;
	read_shape(l, shape);
	if (!line_end(l))
		return ATTUNE_OK;
	const char *error = shape_error(shape);
	return error ? fail(ATTUNE_INVALID, "line %d: %s", l->number, error) : ATTUNE_OK;
}

/* *op: NULL where the library has no kernel for the shape. */
static enum attune_status op_of(struct reading *r, int i, const attune_op **op)
{
	struct read_op *o = &r->ops[i];
	enum attune_status status = ATTUNE_OK;
	if (!o->was_asked)
		status = op_list(r->ctx, &o->shape, &o->op);
	o->was_asked = 1;
	*op = o->op;
	return status == ATTUNE_UNSUPPORTED ? ATTUNE_OK : status;
}

/* ---- cells ------------------------------------------------------------------------------------- */

/* The numbers of a plan's choices in the text, -1: none. */
struct cell_plan {
	int way, of[2];
};

struct cell_line {
	int op, num, winner, rounds, settles, first[2];
	enum cell_kind kind;
	struct cell_plan plan[ATTUNE_MOST_ALTERNATIVES];
	double us[ATTUNE_MOST_ALTERNATIVES], again;
	int num_seqs;
	int32_t start[MOST_KEPT_SEQS + 1], lens[MOST_KEPT_SEQS];
};

static void read_batch(struct line *l, struct cell_line *c)
{
	long long tokens = 0;
	line_word(l, " batch=");
	do {
		const int n = (int)line_number(l, 1, MOST_KEPT_SEQS - c->num_seqs, "sequences");
		line_word(l, "q");
		const int query = (int)line_number(l, 0, 1 << 29, "query tokens");
		line_word(l, "s");
		const int seq = (int)line_number(l, 0, 1 << 29, "keys");
		if (tokens + (long long)n * query > MOST)
			line_expected(l, "a batch of less than 2^31 query tokens");
		for (int i = 0; i < n && !*l->expected; i++) {
			tokens += query;
			c->lens[c->num_seqs++] = seq;
			c->start[c->num_seqs] = (int32_t)tokens;
		}
	} while (line_has(l, ","));
}

static int read_number(struct line *l, const struct reading *r)
{
	return line_has(l, "-")
		   ? -1
		   : (int)line_number(l, 0, r->num_choices - 1, "the number of a choice above");
}

static struct cell_plan read_plan(struct line *l, const struct reading *r, enum cell_kind kind)
{
	struct cell_plan p = { WAY_AS_RULES, { -1, -1 } };
	const char *words[WAY_AS_RULES + 1];
	int n = 0;
	if (kind != CELL_MIXED) {
		p.of[kind == CELL_DECODE] = read_number(l, r);
		return p;
	}
	while (way_name(n)) {
		words[n] = way_name(n);
		n++;
	}
	words[n] = way_name(WAY_AS_RULES);
	words[n + 1] = NULL;
	const int way = line_one_of(l, words, "a way");
	p.way = way == n ? WAY_AS_RULES : way;
	if (line_has(l, "/")) {
		p.of[0] = read_number(l, r);
		line_word(l, "/");
		p.of[1] = read_number(l, r);
	}
	return p;
}

/* One to three decimals, or none. */
static double read_us(struct line *l)
{
	static const char what[] = "microseconds";
	const long long whole = line_number(l, 0, 999999999, what);
	long long ns = 0;
	if (!line_has(l, "."))
		return (double)whole;
	const char *from = l->at;
	for (int unit = 100; unit && *l->at >= '0' && *l->at <= '9'; unit /= 10)
		ns += unit * (*l->at++ - '0');
	if (l->at == from)
		line_expected(l, "one to three decimals");
	return (double)(1000 * whole + ns) / 1000;
}

static int same_plan(const struct cell_plan *a, const struct cell_plan *b)
{
	return a->way == b->way && a->of[0] == b->of[0] && a->of[1] == b->of[1];
}

static void read_plans(struct line *l, const struct reading *r, struct cell_line *c)
{
	line_word(l, c->kind == CELL_MIXED ? " ways=" : " members=");
	do {
		const struct cell_plan p = read_plan(l, r, c->kind);
		if (c->num == ATTUNE_MOST_ALTERNATIVES)
			line_expected(l, "%d plans at most", ATTUNE_MOST_ALTERNATIVES);
		else
			c->plan[c->num++] = p;
	} while (line_has(l, ","));
	for (int i = 0; i < c->num; i++) {
		line_word(l, i ? "," : " us=");
		c->us[i] = read_us(l);
		if (c->us[i] < 0.001)
			line_expected(l, "a time above 0");
	}
	line_word(l, " again=");
	c->again = read_us(l);
	line_word(l, " winner=");
	const struct cell_plan winner = read_plan(l, r, c->kind);
	while (c->winner < c->num && !same_plan(&c->plan[c->winner], &winner))
		c->winner++;
	if (c->winner == c->num)
		line_expected(l, "a winner that is one of these plans");
}

static int read_items(struct line *l, const struct reading *r, struct cell_line *c)
{
	const char *const kinds[] = { kind_names[CELL_PREFILL], kind_names[CELL_DECODE],
				      kind_names[CELL_MIXED], NULL };
	line_word(l, "op=");
	c->op = (int)line_number(l, 0, r->num_ops - 1, "the number of an op above");
	line_word(l, " kind=");
	c->kind = (enum cell_kind)line_one_of(l, kinds, "a kind");
	read_batch(l, c);
	line_word(l, " first=");
	c->first[0] = read_number(l, r);
	c->first[1] = -1;
	if (c->kind == CELL_MIXED) {
		line_word(l, ",");
		c->first[1] = read_number(l, r);
	}
	read_plans(l, r, c);
	line_word(l, " rounds=");
	c->rounds = (int)line_number(l, 1, 1 << 20, "rounds");
	line_word(l, " settles=");
	c->settles = (int)line_number(l, 1, 1 << 20, "settles");
	return line_end(l);
}

/* The id in the op of a choice of the text; -1: it is -1, or the op does not have it, and then *gone
 * is set. */
static int id_of(const attune_op *op, const struct reading *r, int number, int *gone)
{
	if (number < 0)
		return -1;
	const struct choice *c = &r->choices[number];
	for (int i = 0; c->kernel && i < op->num_ready; i++) {
		const struct choice own = { op->ready[i].kernel, op->ready[i].config };
		if (choice_same(&own, c))
			return i;
	}
	*gone = 1;
	return -1;
}

/* The entry of a line. Returns whether this version has all its choices, and as members. */
static int entry_of(struct settled_entry *e, int named[2], const struct cell_line *c,
		    const struct selection *parts, const attune_op *op, const struct reading *r)
{
	int gone = 0;
	for (int i = 0; i < 2; i++)
		named[i] = id_of(op, r, c->first[i], &gone);
	e->num = c->num;
	e->winner = c->winner;
	e->rounds = c->rounds;
	e->again_us = c->again;
	for (int i = 0; i < c->num && !gone; i++) {
		struct settled_plan *p = &e->plan[i];
		p->way = c->plan[i].way;
		p->us = c->us[i];
		for (int j = 0; j < 2; j++)
			p->id[j] = id_of(op, r, c->plan[i].of[j], &gone);
		for (int k = 0; k < parts->num_parts && !gone; k++) {
			const int id = p->id[parts->part[k].f.max_query <= DECODE_MAX_QUERY];
			gone = id >= 0 && member_place(op, named[k], &parts->part[k], id) < 0;
		}
	}
	return !gone;
}

static enum attune_status take_cell(const struct line *l, struct reading *r,
				    const struct cell_line *c)
{
	const attune_batch batch = { sizeof batch, c->num_seqs, c->start, c->lens };
	const char *error = batch_error(&batch, &r->ops[c->op].shape);
	struct settled_entry e = { .batch = &batch };
	const attune_op *op = NULL;
	struct selection parts;
	struct part whole;
	struct kept k;
	int named[2];
	if (error)
		return fail(ATTUNE_INVALID, "line %d: batch: %s", l->number, error);
	enum attune_status status = op_of(r, c->op, &op);
	if (status || !op) {
		r->dropped += !status;
		return status;
	}
	parts_of_batch(op, &batch, &parts, &whole);
	if (!parts.num_parts || kind_of(&parts) != c->kind)
		return fail(ATTUNE_INVALID, "line %d: the batch is not of kind %s", l->number,
			    kind_names[c->kind]);
	if (!entry_of(&e, named, c, &parts, op, r)) {
		r->dropped++;
		return ATTUNE_OK;
	}
	if (!store_reserve(&r->cells, 1))
		return no_memory();
	status = store_make(&k, r->s, op, &e, named, c->settles);
	k.is_read = 1;
	if (!status)
		store_put(&r->cells, &k);
	return status;
}

enum attune_status read_cell(struct line *l, struct reading *r)
{
	struct cell_line *c = calloc(1, sizeof *c);
	if (!c)
		return no_memory();
	const enum attune_status status = read_items(l, r, c) ? take_cell(l, r, c) : ATTUNE_OK;
	free(c);
	return status;
}

void reading_free(struct reading *r)
{
	for (int i = 0; i < r->num_ops; i++)
		attune_release(r->ops[i].op);
	store_clear(&r->cells);
	free(r->ops);
	free(r->choices);
}
