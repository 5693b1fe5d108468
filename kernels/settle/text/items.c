/* SPDX-License-Identifier: Apache-2.0 */
/* items.c - reads shapes and cells of a settled text. */
#include "items.h"
#include "text.h"
#include "kernels/settle/table.h"
#include <string.h>

enum { MOST = 0x7fffffff };

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

void line_shape(struct line *l, attune_shape *s)
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

/* ---- cells ------------------------------------------------------------------------------------- */

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

static int read_number(struct line *l, int num_choices)
{
	return line_has(l, "-")
		   ? -1
		   : (int)line_number(l, 0, num_choices - 1, "the number of a choice above");
}

/* A number, and the step behind it. */
static void read_member(struct line *l, int num_choices, struct cell_plan *p, int of)
{
	p->of[of] = read_number(l, num_choices);
	const int sign = p->of[of] < 0 ? 0 : line_has(l, "+") ? 1 : line_has(l, "-") ? -1 : 0;
	if (sign)
		p->step[of] = sign * (int)line_number(l, 1, MOST_STEPS, "a step");
}

static struct cell_plan read_plan(struct line *l, int num_choices, enum cell_kind kind)
{
	struct cell_plan p = { WAY_AS_RULES, { -1, -1 }, { 0, 0 } };
	const char *words[WAY_AS_RULES + 1];
	int n = 0;
	if (kind != CELL_MIXED) {
		read_member(l, num_choices, &p, kind == CELL_DECODE);
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
		read_member(l, num_choices, &p, 0);
		line_word(l, "/");
		read_member(l, num_choices, &p, 1);
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
	return a->way == b->way && !memcmp(a->of, b->of, sizeof a->of) &&
	       !memcmp(a->step, b->step, sizeof a->step);
}

static void read_plans(struct line *l, int num_choices, struct cell_line *c)
{
	line_word(l, c->kind == CELL_MIXED ? " ways=" : " members=");
	do {
		const struct cell_plan p = read_plan(l, num_choices, c->kind);
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
	const struct cell_plan winner = read_plan(l, num_choices, c->kind);
	while (c->winner < c->num && !same_plan(&c->plan[c->winner], &winner))
		c->winner++;
	if (c->winner == c->num)
		line_expected(l, "a winner that is one of these plans");
}

int line_cell(struct line *l, int num_choices, int num_ops, struct cell_line *c)
{
	const char *const kinds[] = { kind_names[CELL_PREFILL], kind_names[CELL_DECODE],
				      kind_names[CELL_MIXED], NULL };
	c->num = c->winner = c->num_seqs = 0;
	c->start[0] = 0;
	line_word(l, "op=");
	c->op = (int)line_number(l, 0, num_ops - 1, "the number of an op above");
	line_word(l, " kind=");
	c->kind = (enum cell_kind)line_one_of(l, kinds, "a kind");
	read_batch(l, c);
	line_word(l, " first=");
	c->first[0] = read_number(l, num_choices);
	c->first[1] = -1;
	if (c->kind == CELL_MIXED) {
		line_word(l, ",");
		c->first[1] = read_number(l, num_choices);
	}
	read_plans(l, num_choices, c);
	line_word(l, " rounds=");
	c->rounds = (int)line_number(l, 1, 1 << 20, "rounds");
	line_word(l, " settles=");
	c->settles = (int)line_number(l, 0, MOST_SETTLES, "settles");
	return line_end(l);
}

int line_last(struct line *l, int num_cells)
{
	line_number(l, num_cells, num_cells, "the number of cells above");
	return line_end(l);
}
