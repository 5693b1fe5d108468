/* SPDX-License-Identifier: Apache-2.0 */
/* read.c - reads a text of settled cells. First all of it is read and checked; then its cells are
 * given to the context. */
#include "cells_read.h"
#include "items.h"
#include "text.h"
#include "kernels/spec/status.h"
#include <stdlib.h>
#include <string.h>

/* Where the line begins to differ from what is expected, in a few words of it. */
static enum attune_status malformed(const struct line *l)
{
	const int n = (int)strnlen(l->at, 40);
	return n ? fail(ATTUNE_INVALID, "line %d: \"%.*s\"; expected is %s", l->number, n, l->at,
			l->expected)
		 : fail(ATTUNE_INVALID, "line %d: it ends; expected is %s", l->number, l->expected);
}

/* Settled times count where the device is the same. */
static enum attune_status read_device(struct line *l, const attune_context *ctx)
{
	const struct device_info *d = &ctx->device.info;
	char name[QUOTED_TEXT], own[QUOTED_TEXT], gpu[GPU_NAME], arch[16], version[32];
	line_word(l, "device name=");
	line_quoted(l, name, sizeof name, "the device's name");
	line_word(l, " gpu=");
	line_token(l, gpu, sizeof gpu, "the GPU");
	line_word(l, " arch=");
	line_token(l, arch, sizeof arch, "the architecture");
	line_word(l, " units=");
	const int units = (int)line_number(l, 1, 1 << 20, "the device's units");
	line_word(l, " version=");
	line_token(l, version, sizeof version, "the version that settled");
	line_word(l, " rules=");
	line_hex(l, 16, "the hash of the rules");
	if (!line_end(l))
		return malformed(l);
	quoted(own, d->name);
	if (strcmp(name, own) || strcmp(gpu, d->gpu) || strcmp(arch, d->arch) || units != d->units)
		return fail(ATTUNE_INVALID,
			    "line %d: settled on %s (%s, %s, %d units); this device is %s (%s, %s, "
			    "%d units)",
			    l->number, name, gpu, arch, units, own, d->gpu, d->arch, d->units);
	return ATTUNE_OK;
}

/* Recorded only. */
static enum attune_status read_conditions(struct line *l)
{
	char driver[QUOTED_TEXT];
	line_word(l, "conditions driver=");
	line_quoted(l, driver, sizeof driver, "the driver");
	if (line_has(l, " sm_clock_mhz="))
		line_number(l, 1, 1 << 20, "the clock");
	if (line_has(l, " power_limit_w="))
		line_number(l, 1, 1 << 20, "the power limit");
	return line_end(l) ? ATTUNE_OK : malformed(l);
}

static enum attune_status read_line(struct line *l, struct reading *r)
{
	enum attune_status status = ATTUNE_OK;
	if (l->number == 1)
		return line_word(l, SETTLED_FIRST_LINE) && line_end(l) ? ATTUNE_OK : malformed(l);
	if (l->number == 2)
		return read_device(l, r->ctx);
	if (l->number == 3)
		return read_conditions(l);
	if (r->is_whole)
		line_expected(l, "the end of the text");
	else if (line_has(l, "choice "))
		status = read_choice(l, r);
	else if (line_has(l, "op "))
		status = read_op(l, r);
	else if (line_has(l, "cell "))
		status = read_cell(l, r);
	else if (line_has(l, "end "))
		r->is_whole = line_last(l, r->num_cells);
	else
		line_expected(l, "choice, op, cell or end");
	return status ? status : *l->expected ? malformed(l) : ATTUNE_OK;
}

/* Ends each line with a 0. */
static enum attune_status read_lines(struct reading *r, char *text, size_t size)
{
	struct line l = { .at = text };
	enum attune_status status = ATTUNE_OK;
	for (size_t begin = 0, i = 0; i < size && !status; i++) {
		if (text[i] != '\n' && text[i] >= ' ' && text[i] <= '~')
			continue;
		l.number++;
		if (text[i] != '\n')
			return fail(ATTUNE_INVALID,
				    "line %d: byte %zu is no character of ASCII that prints",
				    l.number, i - begin + 1);
		text[i] = '\0';
		l.at = text + begin;
		status = read_line(&l, r);
		begin = i + 1;
	}
	if (!status && size && text[size - 1])
		return fail(ATTUNE_INVALID, "line %d: the text ends within it", l.number + 1);
	if (!status && !r->is_whole)
		return fail(ATTUNE_INVALID, "line %d: the text ends before its last line",
			    l.number + 1);
	return status;
}

static enum attune_status give(struct settled *s, struct kept_list *read)
{
	if (!store_reserve(&s->pending, read->n))
		return fail(ATTUNE_NO_MEMORY, "attune_settled_read: out of memory");
	for (int i = 0; i < read->n; i++)
		store_put(&s->pending, &read->at[i]);
	return ATTUNE_OK;
}

static enum attune_status read_text(attune_context *ctx, char *text, size_t size, int *taken,
				    int *dropped)
{
	struct reading r = { .ctx = ctx };
	settled_lock(LOCK_STORES);
	r.s = settled_of(ctx);
	enum attune_status status =
	    r.s ? read_lines(&r, text, size)
		: fail(ATTUNE_NO_MEMORY, "attune_settled_read: out of memory");
	const int n = r.cells.n;
	if (!status)
		status = give(r.s, &r.cells);
	settled_unlock(LOCK_STORES);
	if (!status && taken)
		*taken = n;
	if (!status && dropped)
		*dropped = r.dropped;
	reading_free(&r);
	return status;
}

enum attune_status attune_settled_read(attune_context *ctx, const char *text, size_t size,
				       int *taken, int *dropped)
{
	if (!ctx || !text)
		return fail(ATTUNE_INVALID, "attune_settled_read: an argument is NULL");
	if (ctx->is_invariant)
		return fail(ATTUNE_UNSUPPORTED,
			    "attune_settled_read: ATTUNE_INVARIANT=1 takes no other choices");
	if (size > MOST_SETTLED_TEXT)
		return fail(ATTUNE_INVALID, "line 1: the text has %zu bytes, %d at most are read",
			    size, MOST_SETTLED_TEXT);
	char *own = malloc(size + 1);
	if (!own)
		return fail(ATTUNE_NO_MEMORY, "attune_settled_read: out of memory");
	memcpy(own, text, size);
	own[size] = '\0';
	const enum attune_status status = read_text(ctx, own, size, taken, dropped);
	free(own);
	return status;
}
