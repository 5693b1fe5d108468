/* SPDX-License-Identifier: Apache-2.0 */
/* cells_read.c - choices, ops and cells of a settled text. */
#include "cells_read.h"
#include "items.h"
#include "text.h"
#include "kernels/api/plan.h"
#include "kernels/settle/members.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/status.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

enum attune_status read_op(struct line *l, struct reading *r)
{
	struct read_op *more =
	    numbered(l, r->ops, &r->num_ops, sizeof *more, "the op's number, one more than before");
	if (!more)
		return *l->expected ? ATTUNE_OK : no_memory();
	r->ops = more;
	attune_shape *shape = &more[r->num_ops++].shape;
	line_shape(l, shape);
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
		memcpy(p->step, c->plan[i].step, sizeof p->step);
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
	r->num_cells++;
	const enum attune_status status =
	    line_cell(l, r->num_choices, r->num_ops, c) ? take_cell(l, r, c) : ATTUNE_OK;
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
