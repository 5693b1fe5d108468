/* SPDX-License-Identifier: Apache-2.0 */
/* settled_file.c - reads a file of attune_settled_text, line by line, and checks each where it enters. The
 * library reads items of lines the same way (kernels/settle/text). Numbers of choices and ops are replaced
 * by what they stand for, so a row means the same outside of its file. */
#include "settled.h"
#include "harness/base/base.h"
#include "harness/base/text_rule.h"
#include "harness/scenario/scenario.h"
#include "kernels/settle/text/items.h"
#include "kernels/settle/text/text.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CODE = 17 /* 16 hex digits */, PLAN_TEXT = 2 * MAX_PART_TEXT + 32, SHOWN = 60 };

_Static_assert((int)SETTLED_MEMBERS >= (int)ATTUNE_MOST_ALTERNATIVES, "a row has room for a line");

/* A choice, with its code, or an op; the texts belong to the file. */
struct named {
	const char *text, *code;
	attune_shape shape;
};
struct names {
	struct named *v;
	int n, room;
};

struct reading {
	struct settled_file *to;
	const char *path;
	struct line line;
	char made[64];      /* "version=... rules=..." */
	const char *writer; /* the same, and the conditions */
	struct names choices, ops;
	struct cell_line *cell;
	int is_whole; /* its last line was read */
};

/* ---- complaints and memory ------------------------------------------------------------------- */
static int refuse(const struct reading *r, const char *what)
{
	complain("%s:%d: %s; nothing is taken", r->path, r->line.number, what);
	return 0;
}

/* Where the line begins to differ from what is expected, in a few words of it. */
static int malformed(const struct reading *r)
{
	const struct line *l = &r->line;
	if (*l->at)
		complain("%s:%d: \"%.*s\"; expected is %s; nothing is taken", r->path, l->number,
			 SHOWN, l->at, l->expected);
	else
		complain("%s:%d: it ends; expected is %s; nothing is taken", r->path, l->number,
			 l->expected);
	return 0;
}

/* Takes a text that the file then owns. NULL + complain: out of memory, and text is freed. */
static const char *keep(struct reading *r, char *text)
{
	struct settled_file *f = r->to;
	if (text && array_grow(&f->text, f->texts, &f->text_room, sizeof *f->text))
		return f->text[f->texts++] = text;
	free(text);
	complain("%s: out of memory", r->path);
	return NULL;
}

/* ---- the lines before cells ------------------------------------------------------------------ */
static int read_device(struct reading *r)
{
	struct settled_file *f = r->to;
	struct line *l = &r->line;
	char version[32] = "";
	line_word(l, "device name=");
	line_quoted(l, f->name, sizeof f->name, "the device's name");
	line_word(l, " gpu=");
	line_token(l, f->gpu, sizeof f->gpu, "the GPU");
	line_word(l, " arch=");
	line_token(l, f->arch, sizeof f->arch, "the architecture");
	line_word(l, " units=");
	f->units = (int)line_number(l, 1, 1 << 20, "the device's units");
	line_word(l, " version=");
	line_token(l, version, sizeof version, "the version that settled");
	line_word(l, " rules=");
	const unsigned long long rules = line_hex(l, CODE - 1, "the hash of the rules");
	if (!line_end(l))
		return malformed(r);
	if (!text_keeps(TEXT_WORD, f->gpu) || !text_keeps(TEXT_NAME, f->arch) ||
	    !text_keeps(TEXT_NAME, version))
		return refuse(
		    r, "gpu, arch and version must be letters, digits and '_', '.', '-', '+'");
	snprintf(r->made, sizeof r->made, "version=%s rules=%016llx", version, rules);
	return 1;
}

/* Recorded only. */
static int read_conditions(struct reading *r)
{
	struct line *l = &r->line;
	char driver[QUOTED_TEXT], *writer;
	const char *text = l->at;
	line_word(l, "conditions driver=");
	line_quoted(l, driver, sizeof driver, "the driver");
	if (line_has(l, " sm_clock_mhz="))
		line_number(l, 1, 1 << 20, "the clock");
	if (line_has(l, " power_limit_w="))
		line_number(l, 1, 1 << 20, "the power limit");
	if (!line_end(l))
		return malformed(r);
	if (asprintf(&writer, "%s%s", r->made, text + strlen("conditions")) < 0)
		writer = NULL;
	return (r->writer = keep(r, writer)) != NULL;
}

/* Reads the number of a new choice or op from the line, which must be the next one, and makes room
 * for it. NULL + complain. */
static struct named *next_named(struct reading *r, struct names *names, const char *what)
{
	line_number(&r->line, names->n, names->n, what);
	if (*r->line.expected) {
		malformed(r);
		return NULL;
	}
	if (!array_grow(&names->v, names->n, &names->room, sizeof *names->v)) {
		complain("%s: out of memory", r->path);
		return NULL;
	}
	names->v[names->n] = (struct named){ 0 };
	return &names->v[names->n++];
}

/* "0 ring 3075d3602d2b0250 BLOCK_M=8 ..." becomes "ring BLOCK_M=8 ...". */
static int read_choice(struct reading *r)
{
	struct line *l = &r->line;
	char kernel[64] = "", text[MAX_PART_TEXT], code[CODE];
	struct named *c = next_named(r, &r->choices, "the choice's number, one more than before");
	if (!c)
		return 0;
	line_word(l, " ");
	line_token(l, kernel, sizeof kernel, "the kernel");
	line_word(l, " ");
	snprintf(code, sizeof code, "%016llx",
		 (unsigned long long)line_hex(l, CODE - 1, "the kernel's hash"));
	if (*l->expected || !text_keeps(TEXT_WORD, kernel))
		return *l->expected ? malformed(r)
				    : refuse(r, "a kernel's name has letters, digits and '_'");
	if (*l->at && (*l->at != ' ' || !l->at[1]))
		return line_expected(l, "the choice's tunables"), malformed(r);
	if (snprintf(text, sizeof text, "%s%s", kernel, l->at) >= (int)sizeof text)
		return line_expected(l, "tunables of at most %zu characters", sizeof text),
		       malformed(r);
	return (c->text = keep(r, strdup(text))) && (c->code = keep(r, strdup(code)));
}

static int read_op(struct reading *r)
{
	struct line *l = &r->line;
	struct named *op = next_named(r, &r->ops, "the op's number, one more than before");
	if (!op)
		return 0;
	const char *text = l->at + (*l->at != '\0');
	line_shape(l, &op->shape);
	if (!line_end(l))
		return malformed(r);
	const char *wrong = shape_error(&op->shape);
	return wrong ? refuse(r, wrong) : (op->text = keep(r, strdup(text))) != NULL;
}

/* ---- cells ----------------------------------------------------------------------------------- */
/* Whether the batch has just the parts of its kind. */
static int fits(const attune_batch *b, enum cell_kind kind)
{
	int has[2] = { 0 };
	for (int i = 0; i < b->num_seqs; i++)
		if (batch_query_len(b, i))
			has[batch_is_of_phase(b, PHASE_DECODE, i)] = 1;
	return has[0] == (kind != CELL_DECODE) && has[1] == (kind != CELL_PREFILL);
}

/* In the form of scenarios. */
static const char *batch_text(struct reading *r)
{
	const struct cell_line *c = r->cell;
	const attune_batch b = { sizeof b, c->num_seqs, c->start, c->lens };
	const char *wrong = batch_error(&b, &r->ops.v[c->op].shape);
	char what[200];
	if (wrong || !fits(&b, c->kind)) {
		snprintf(what, sizeof what, "batch: %s%s", wrong ? wrong : "it is not of kind ",
			 wrong ? "" : kind_names[c->kind]);
		refuse(r, what);
		return NULL;
	}
	return keep(r, batch_format(&b));
}

/* A choice by its number; -1, whatever planning picks, is "-". */
static struct named choice_of(const struct reading *r, int number)
{
	return number < 0 ? (struct named){ .text = "-", .code = "-" } : r->choices.v[number];
}

/* The choice of a batch with one part, else both as a plan; and their code. */
static int read_plan(struct reading *r, const int of[2], const char **text, const char **code)
{
	char plan[PLAN_TEXT], codes[2 * CODE];
	const struct cell_line *c = r->cell;
	const struct named prefill = choice_of(r, of[0]), decode = choice_of(r, of[1]);
	if (c->kind != CELL_MIXED) {
		const struct named *part = c->kind == CELL_DECODE ? &decode : &prefill;
		*text = part->text;
		*code = part->code;
		return 1;
	}
	parts_text(plan, sizeof plan, prefill.text, decode.text, ATTUNE_SERIAL);
	snprintf(codes, sizeof codes, "%s %s", prefill.code, decode.code);
	return (*text = keep(r, strdup(plan))) && (*code = keep(r, strdup(codes)));
}

/* How both parts of a mixed batch run, and the steps of their numbers of segments, where there are
 * some: "streams", "streams:+1:+0"; of one part "" or "+1". */
static int read_way(struct reading *r, const struct cell_plan *p, const char **way)
{
	char text[64];
	const int is_mixed = r->cell->kind == CELL_MIXED;
	const int step = p->step[r->cell->kind == CELL_DECODE];
	*way = is_mixed ? way_name(p->way) : "";
	if (!p->step[0] && !p->step[1])
		return 1;
	if (is_mixed)
		snprintf(text, sizeof text, "%s:%+d:%+d", *way, p->step[0], p->step[1]);
	else
		snprintf(text, sizeof text, "%+d", step);
	return (*way = keep(r, strdup(text))) != NULL;
}

static int read_members(struct reading *r, struct store_settled *row)
{
	const struct cell_line *c = r->cell;
	for (row->n = 0; row->n < c->num; row->n++) {
		struct store_settled_member *v = &row->v[row->n];
		const struct cell_plan *p = &c->plan[row->n];
		/* a plan without choices has those that the rules named */
		const int is_firsts = c->kind == CELL_MIXED && p->of[0] < 0 && p->of[1] < 0;
		v->us = c->us[row->n];
		if (!read_way(r, p, &v->way) ||
		    !read_plan(r, is_firsts ? c->first : p->of, &v->choice, &v->code))
			return 0;
	}
	return 1;
}

static int read_cell(struct reading *r)
{
	struct settled_file *f = r->to;
	struct cell_line *c = r->cell;
	const char *code;
	if (!line_cell(&r->line, r->choices.n, r->ops.n, c))
		return malformed(r);
	struct store_settled row = { .protocol = "settled",
				     .writer = r->writer,
				     .op = r->ops.v[c->op].text,
				     .kind = kind_names[c->kind],
				     .winner = c->winner,
				     .again_us = c->again > 0 ? c->again : NAN,
				     .rounds = c->rounds,
				     .settles = c->settles };
	const int first[2] = { c->first[0], c->first[c->kind == CELL_MIXED] };
	row.batch = batch_text(r);
	if (!row.batch || !read_plan(r, first, &row.first, &code) || !read_members(r, &row))
		return 0;
	if (!array_grow(&f->row, f->n, &f->room, sizeof *f->row)) {
		complain("%s: out of memory", r->path);
		return 0;
	}
	f->row[f->n++] = row;
	return 1;
}

/* ---- the file --------------------------------------------------------------------------------- */
static int read_line(struct reading *r)
{
	struct line *l = &r->line;
	if (l->number == 1)
		return (line_word(l, SETTLED_FIRST_LINE) && line_end(l)) || malformed(r);
	if (l->number == 2)
		return read_device(r);
	if (l->number == 3)
		return read_conditions(r);
	if (r->is_whole)
		return line_expected(l, "the end of the text"), malformed(r);
	if (line_has(l, "end "))
		return (r->is_whole = line_last(l, r->to->n)) || malformed(r);
	if (line_has(l, "choice "))
		return read_choice(r);
	if (line_has(l, "op "))
		return read_op(r);
	if (line_has(l, "cell "))
		return read_cell(r);
	line_expected(l, "choice, op, cell or end");
	return malformed(r);
}

static int read_lines(struct reading *r, char *text, size_t size)
{
	for (char *at = text, *end; at < text + size; at = end + 1) {
		r->line = (struct line){ .at = at, .number = r->line.number + 1 };
		end = memchr(at, '\n', (size_t)(text + size - at));
		if (!end)
			return refuse(r, "the text ends within this line");
		*end = '\0';
		if (strlen(at) != (size_t)(end - at) || !text_keeps(TEXT_PRINTED, at))
			return refuse(r, "the line must be printable ASCII");
		if (!read_line(r))
			return 0;
	}
	r->line.number++;
	return r->is_whole || refuse(r, "the text ends before its last line");
}

/* The code of a choice today; "-": it has none. */
static void code_today(char code[CODE], enum backend backend, const char *choice)
{
	char kernel[64];
	snprintf(kernel, sizeof kernel, "%.*s", (int)strcspn(choice, " "), choice);
	const struct kernel *k = kernel_find(backend, kernel);
	snprintf(code, CODE, k ? "%016llx" : "-", k ? kernel_hash(k) : 0);
}

int settled_is_today(const char *gpu, const struct store_settled *row, int member)
{
	const enum backend backend = strcmp(gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU;
	const struct store_settled_member *v = &row->v[member];
	char part[2][MAX_PART_TEXT], code[2][CODE], both[2 * CODE];
	enum attune_how how;
	if (!parts_parse(v->choice, part, &how)) {
		code_today(code[0], backend, v->choice);
		return !strcmp(code[0], v->code);
	}
	for (int i = 0; i < 2; i++)
		code_today(code[i], backend, part[i]);
	snprintf(both, sizeof both, "%s %s", code[0], code[1]);
	return !strcmp(both, v->code);
}

int settled_op(attune_shape *shape, const struct store_settled *row)
{
	char text[OP_TEXT];
	snprintf(text, sizeof text, " %s", row->op);
	struct line l = { .at = text };
	*shape = (attune_shape){ 0 };
	line_shape(&l, shape);
	return line_end(&l) && !shape_error(shape);
}

static int is_today(const struct settled_file *f, const struct store_settled *row)
{
	int today = 1;
	for (int i = 0; i < row->n; i++)
		today &= settled_is_today(f->gpu, row, i);
	return today;
}

int settled_file_read(struct settled_file *f, const char *path)
{
	struct reading r = { .to = f, .path = path, .cell = malloc(sizeof *r.cell) };
	size_t size = 0;
	char *text = file_bytes(path, &size);
	*f = (struct settled_file){ .units = 0 };
	if (!text || !r.cell)
		complain("%s: cannot be read: %s", path, strerror(errno));
	else if (size > MOST_SETTLED_TEXT)
		complain("%s: has %zu bytes; a settled text has %d at most", path, size,
			 MOST_SETTLED_TEXT);
	const int done = text && r.cell && size <= MOST_SETTLED_TEXT && read_lines(&r, text, size);
	for (int i = 0; done && i < f->n; i++)
		f->outdated += !is_today(f, &f->row[i]);
	free(r.choices.v);
	free(r.ops.v);
	free(r.cell);
	free(text);
	if (!done)
		settled_file_free(f);
	return done;
}

void settled_file_free(struct settled_file *f)
{
	for (int i = 0; i < f->texts; i++)
		free(f->text[i]);
	free(f->text);
	free(f->row);
	*f = (struct settled_file){ .units = 0 };
}
