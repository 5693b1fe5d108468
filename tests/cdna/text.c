/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - parses the disassembler's lines into instructions, each line once:
 *
 *	v_add_f32_dpp v1, v2, -v3 row_ror:8 row_mask:0xf   // 000000001900: 020206FA FF010102
 *	`- op, how    `- operands `- modifiers                `- address     `- words
 *
 * DPP, SDWA, branches and the like are decoded from the words. */
#include "machine.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int begins(const char **at, const char *with)
{
	const size_t n = strlen(with);
	if (strncmp(*at, with, n))
		return 0;
	*at += n;
	return 1;
}

/* ---- operands ------------------------------------------------------------------------- */

static const struct {
	const char *name;
	int reg, count;
} special[] = {
	{ "vcc_lo", VCC, 1 },
	{ "vcc_hi", VCC + 1, 1 },
	{ "vcc", VCC, 2 },
	{ "exec_lo", EXEC, 1 },
	{ "exec_hi", EXEC + 1, 1 },
	{ "exec", EXEC, 2 },
	{ "m0", M0, 1 },
	{ "src_scc", CONDITION, 1 },
	{ "scc", CONDITION, 1 },
	{ "src_shared_base", SHARED_BASE, 2 },
	{ "src_private_base", PRIVATE_BASE, 2 },
};

/* v7, a[0:3], s5: 1; *at is behind it. */
static int read_register(struct operand *o, const char **at)
{
	const char *t = *at, kind = *t;
	char *end;
	if (!strchr("vas", kind) || (t[1] != '[' && (t[1] < '0' || t[1] > '9')))
		return 0;
	o->place = kind == 's' ? SCALAR_REGISTER : VECTOR_REGISTER;
	o->reg = (int)strtol(t + 1 + (t[1] == '['), &end, 10);
	o->count = t[1] == '[' && *end == ':' ? (int)strtol(end + 1, &end, 10) - o->reg + 1 : 1;
	*at = end + (t[1] == '[');
	const int most = kind == 's' ? VCC : AGPR;
	if (o->reg < 0 || o->count < 1 || o->reg + o->count > most)
		return 0;
	o->reg += kind == 'a' ? AGPR : 0;
	return 1;
}

static int read_special(struct operand *o, const char **at)
{
	for (size_t i = 0; i < sizeof special / sizeof *special; i++)
		if (begins(at, special[i].name)) {
			o->place = SCALAR_REGISTER;
			o->reg = special[i].reg;
			o->count = special[i].count;
			return 1;
		}
	return begins(at, "off"); /* is no operand, but has its place */
}

static int read_number(struct operand *o, const char **at)
{
	const size_t n = strspn(*at, "-0123456789abcdefx.");
	char *end;
	if (!n || !strpbrk(*at, "0123456789"))
		return 0;
	o->place = NUMBER;
	o->is_real = memchr(*at, '.', n) != NULL;
	if (o->is_real)
		o->real = strtod(*at, &end);
	else
		o->number = (uint64_t)strtoll(*at, &end, 0);
	*at = end;
	return 1;
}

static int read_operand(struct operand *o, const char **at)
{
	if (begins(at, "hwreg("))
		return (*at = strchr(*at, ')')) && begins(at, ")");
	o->negated = **at == '-' && (*at)[1] && strchr("vas|", (*at)[1]);
	*at += o->negated;
	o->absolute = (unsigned char)begins(at, "|");
	o->sext = (unsigned char)begins(at, "sext(");
	if (!read_special(o, at) && !read_register(o, at) && !read_number(o, at))
		return 0;
	return (!o->absolute || begins(at, "|")) && (!o->sext || begins(at, ")"));
}

/* ---- modifiers ------------------------------------------------------------------------ */

enum takes { FLAG, INTEGER, SET, DOUBLES, HALVES, IGNORED };
#define PLACE(member) offsetof(struct modifiers, member)
static const struct {
	const char *name;
	enum takes takes;
	size_t place;
} words[] = {
	{ "offset0:", INTEGER, PLACE(offset[0]) },
	{ "offset1:", INTEGER, PLACE(offset[1]) },
	{ "offset:", INTEGER, PLACE(offset[0]) },
	{ "op_sel_hi:", SET, PLACE(sel_hi) },
	{ "op_sel:", SET, PLACE(sel) },
	{ "neg_lo:", SET, PLACE(neg_lo) },
	{ "neg_hi:", SET, PLACE(neg_hi) },
	{ "clamp", FLAG, PLACE(clamp) },
	{ "mul:", DOUBLES, PLACE(doubled) },
	{ "div:", HALVES, PLACE(doubled) },
	{ "sc0", FLAG, PLACE(returns) },
	{ "glc", FLAG, PLACE(returns) }, /* as gfx90a calls it */
	{ "offen", FLAG, PLACE(by_lane) },
	{ "idxen", FLAG, PLACE(by_index) },
	{ "lds", FLAG, PLACE(to_lds) },
	{ "bitop3:", INTEGER, PLACE(table) },
	{ "cbsz:", INTEGER, PLACE(other) },
	{ "abid:", INTEGER, PLACE(other) },
	{ "blgp:", INTEGER, PLACE(other) },
	{ "sc1", IGNORED, 0 },
	{ "slc", IGNORED, 0 },
	{ "scc", IGNORED, 0 },
	{ "nt", IGNORED, 0 },
};

static void read_set(const char *at, unsigned *set)
{
	*set = 0;
	for (int i = 0; *at && *at != ']'; at++) {
		*set |= (unsigned)(*at == '1') << i;
		i += *at == ',';
	}
}

static int read_modifier(struct modifiers *m, const char *at)
{
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		int *to = (int *)(void *)((char *)m + words[i].place);
		const char *rest = at;
		if (!begins(&rest, words[i].name))
			continue;
		switch (words[i].takes) {
		case FLAG: *to = 1; break;
		case INTEGER: *to = (int)strtol(rest, NULL, 0); break;
		case SET: read_set(rest, (unsigned *)to); break;
		case DOUBLES: *to = *rest == '4' ? 2 : 1; break;
		case HALVES: *to = -1; break;
		case IGNORED: break;
		}
		m->has_sel_hi |= words[i].place == PLACE(sel_hi);
		return 1;
	}
	return 0;
}

/* ---- lines ---------------------------------------------------------------------------- */

enum { PART_BITS = 7 };

static void read_dpp(struct modifiers *m, uint32_t word)
{
	m->dpp = (word >> 8 & 0x1ff) | 1 << 16;
	m->zero_beyond = word >> 19 & 1;
	m->bank_mask = word >> 24 & 15;
	m->row_mask = word >> 28;
}

static void read_sdwa(struct instruction *in, uint32_t word)
{
	static const unsigned char parts[8] = { BYTE_0, BYTE_1, BYTE_2, BYTE_3,
						WORD_0, WORD_1, WHOLE,  WHOLE };
	const int is_compare = !strncmp(in->op->name, "v_cmp", 5);
	in->m.source_part[0] = parts[word >> 16 & PART_BITS];
	in->m.source_part[1] = parts[word >> 24 & PART_BITS];
	in->m.result_part = is_compare ? WHOLE : parts[word >> 8 & PART_BITS];
	in->m.keeps = is_compare ? PAD : (int)(word >> 11 & 3);
}

/* The mnemonic without its encoding suffix. */
static size_t name_length(const char *line, const char **how)
{
	static const char *const ends[] = { "_e64_dpp", "_e32", "_e64", "_dpp", "_sdwa" };
	const size_t n = strcspn(line, " \n");
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		const size_t end = strlen(ends[i]);
		if (n > end && !strncmp(line + n - end, ends[i], end)) {
			*how = ends[i];
			return n - end;
		}
	}
	*how = "";
	return n;
}

static int read_operands(struct instruction *in, const char *at, const char *end)
{
	int is_encoded = in->m.dpp || in->op->run == run_swizzle;
	at += strspn(at, " ");
	if (at < end)
		do {
			if (in->num_operands == MAX_OPERANDS ||
			    !read_operand(&in->o[in->num_operands++], &at))
				return 0;
		} while (begins(&at, ", "));
	is_encoded |= in->m.result_part || in->m.source_part[0] || in->m.source_part[1];
	for (at += strspn(at, " "); at < end; at += strcspn(at, " "), at += strspn(at, " "))
		if (!read_modifier(&in->m, at) && !is_encoded)
			return 0;
	return 1;
}

static int read_line(struct instruction *in, const char *line)
{
	const char *how, *comment = strstr(line, "// "), *newline = strchr(line, '\n');
	char *at;
	const size_t n = name_length(line, &how);
	in->text = line;
	in->op = find_op(line, n);
	if (!in->op || !comment || !newline || comment > newline)
		return 0;
	in->at = (uint32_t)strtoul(comment + 3, &at, 16);
	const uint32_t first = (uint32_t)strtoul(at + 1, &at, 16);
	const uint32_t second = (uint32_t)strtoul(at, NULL, 16);
	in->next = in->at + ((at - comment > 28) ? 8 : 4);
	in->target = (int16_t)first;
	if (strstr(how, "_dpp"))
		read_dpp(&in->m, second);
	if (!strcmp(how, "_sdwa"))
		read_sdwa(in, second);
	if (in->op->run == run_nothing || in->op->run == run_yield)
		return 1;
	while (comment > line && comment[-1] == ' ')
		comment--;
	return read_operands(in, line + n + strlen(how), comment);
}

/* From words to places in the list. */
static int set_targets(struct cdna_code *c)
{
	for (int i = 0; i < c->n; i++) {
		struct instruction *in = &c->v[i];
		if (in->op->run != run_branch)
			continue;
		const uint32_t to = in->at + 4 + 4 * (uint32_t)in->target;
		for (in->target = 0; in->target < c->n && c->v[in->target].at != to; in->target++)
			;
		if (in->target == c->n)
			return 0;
	}
	return 1;
}

const char *read_listing(struct cdna_code *c, char *room, size_t size)
{
	int lines = 0;
	for (const char *t = c->listing; (t = strstr(t, "\n\t")); t++)
		lines++;
	c->v = calloc((size_t)lines + 1, sizeof *c->v);
	if (!c->v)
		return "no memory";
	for (const char *t = c->listing; (t = strstr(t, "\n\t")); t++) {
		const char *line = t + 2;
		if (read_line(&c->v[c->n], line)) {
			c->n++;
			continue;
		}
		snprintf(room, size, "nobody here knows \"%.*s\"", (int)strcspn(line, "\n"), line);
		return room;
	}
	return set_targets(c) ? NULL : "a branch leads nowhere";
}
