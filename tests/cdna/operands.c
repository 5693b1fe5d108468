/* SPDX-License-Identifier: Apache-2.0 */
/* operands.c - reads operands from registers and constants into a value for each lane, and
 * writes results back. vector.def lists the letters of a form. */
#include "machine.h"
#include <math.h>
#include <string.h>

/* ---- scalars -------------------------------------------------------------------------- */

/* The bits of a constant; a constant with a point has those of the operand's type. */
static uint64_t bits_of_number(const struct operand *o, char type)
{
	const float f = (float)o->real;
	uint64_t bits = 0;
	uint32_t word;
	memcpy(&word, &f, sizeof word);
	if (!o->is_real)
		return type == 'F' && o->number > 64 && o->number < 1ull << 32 ? o->number << 32
									       : o->number;
	if (type == 'U' || type == 'F')
		memcpy(&bits, &o->real, sizeof bits);
	else
		bits = strchr("hsPqxlk", type) ? simt_to_half(f) : word;
	return bits;
}

static uint64_t window(int reg)
{
	return reg == SHARED_BASE ? SHARED_WINDOW : PRIVATE_WINDOW;
}

uint64_t scalar_value(const struct wave *w, const struct instruction *in, const struct operand *o,
		      char type)
{
	if (o->place == NUMBER)
		return bits_of_number(o, type);
	if (o->place != SCALAR_REGISTER)
		die(in, "a vector register where a scalar one is due");
	if (o->reg == CONDITION)
		return (uint64_t)w->scc;
	if (o->reg >= SCALARS)
		return window(o->reg);
	return o->count == 1 ? w->s[o->reg] : pair(w, o->reg);
}

static int is_pair(char type)
{
	return type == 'U' || type == 'F' || type == 'p' || type == 'm';
}

static void set_scalar(struct wave *w, const struct instruction *in, const struct operand *o,
		       char type, uint64_t value)
{
	if (o->place != SCALAR_REGISTER || o->reg + 1 + is_pair(type) > SCALARS)
		die(in, "no scalar register to write");
	w->s[o->reg] = (uint32_t)value;
	if (is_pair(type))
		w->s[o->reg + 1] = (uint32_t)(value >> 32);
}

void run_scalar(struct wave *w, const struct instruction *in)
{
	struct scalar_work x = { .exec = exec_of(w), .scc = w->scc };
	const char *form = in->op->form;
	const char result = *form == '=' ? 0 : *form;
	union scalar *to[] = { &x.a, &x.b };
	int o = result != 0;
	form += 1 + (result != 0);
	for (int i = 0; *form; form++, i++) {
		const char type = *form == '+' ? result : *form;
		const struct operand *from = *form == '+' ? &in->o[0] : &in->o[o++];
		const uint64_t value = scalar_value(w, in, from, type);
		to[i]->U = type == 'U'   ? value
			   : type == 'k' ? (uint32_t)(int16_t)value
			   : type == 'K' ? (uint16_t)value
					 : (uint32_t)value;
	}
	in->op->scalar(&x);
	w->scc = x.scc;
	set_pair(w, EXEC, x.exec);
	if (result)
		set_scalar(w, in, &in->o[0], result, x.d.U);
}

/* ---- what an operand is in each lane -------------------------------------------------- */

static void raw32(const struct wave *w, const struct instruction *in, const struct operand *o,
		  int word, char type, uint32_t *out)
{
	if (o->place == VECTOR_REGISTER) {
		memcpy(out, w->v[o->reg + word], sizeof w->v[0]);
		return;
	}
	const uint32_t value = (uint32_t)(scalar_value(w, in, o, type) >> 32 * word);
	for (int l = 0; l < LANES; l++)
		out[l] = value;
}

static void move_lanes(const struct instruction *in, uint32_t *v)
{
	uint32_t old[LANES];
	memcpy(old, v, sizeof old);
	for (int l = 0; l < LANES; l++) {
		const int from = dpp_lane(in, l);
		v[l] = from < 0 ? 0 : old[from];
	}
}

static void take_part(uint32_t *v, int part, int sext)
{
	const int bits = part >= WORD_0 ? 16 : 8;
	const int at = part >= WORD_0 ? 16 * (part - WORD_0) : 8 * (part - BYTE_0);
	for (int l = 0; part != WHOLE && l < LANES; l++) {
		const uint32_t x = v[l] >> at << (32 - bits);
		v[l] = sext ? (uint32_t)((int32_t)x >> (32 - bits)) : x >> (32 - bits);
	}
}

/* Signs of floats, of `count` in each 4 or 8 bytes. */
static void set_signs(float *f, int count, int absolute, int negated)
{
	for (int i = 0; i < count && absolute; i++)
		f[i] = fabsf(f[i]);
	for (int i = 0; i < count && negated; i++)
		f[i] = -f[i];
}

/* Two floats or two 16-bit halves; op_sel selects the first, op_sel_hi the second. */
static void fetch_pairs(const struct wave *w, const struct instruction *in, int i, char type,
			union lanes *out)
{
	const struct operand *o = &in->o[i];
	const int bit = i - 1, lower = in->m.sel >> bit & 1;
	const int upper = in->m.has_sel_hi ? (int)(in->m.sel_hi >> bit & 1) : 1;
	uint32_t word[2][LANES];
	const int is_constant = o->place == NUMBER;
	raw32(w, in, o, 0, type == 'p' ? 'f' : type, word[0]);
	if (type == 'p' && is_constant)
		memcpy(word[1], word[0], sizeof word[1]);
	else if (type == 'p')
		raw32(w, in, o, 1, type, word[1]);
	if (type == 'p' && is_constant && o->number && (lower || upper))
		die(in, "the upper half of a constant");
	for (int l = 0; l < LANES; l++)
		for (int half = 0; half < 2; half++) {
			const int from = half ? upper : lower;
			const uint16_t bits = (uint16_t)(word[0][l] >> 16 * from);
			if (type == 'p')
				memcpy(&out->p[l][half], &word[from][l], 4);
			else if (type == 'P')
				out->p[l][half] = simt_from_half(bits);
			else
				out->q[l][half] = bits;
			if (type != 'q' && (half ? in->m.neg_hi : in->m.neg_lo) >> bit & 1)
				out->p[l][half] = -out->p[l][half];
		}
}

static void fetch_half(const struct instruction *in, int i, char type, union lanes *v)
{
	const unsigned bit = 1u << (i - 1);
	const int shift = in->m.sel & bit ? 16 : 0;
	if (type == 'x' && !(in->m.sel_hi & bit))
		return;
	for (int l = 0; l < LANES; l++) {
		const uint16_t bits = (uint16_t)(v->u[l] >> shift);
		if (type == 's')
			v->u[l] = bits;
		else
			v->f[l] = simt_from_half(bits);
	}
}

const union lanes *fetch(const struct wave *w, const struct instruction *in, int i, char type,
			 union lanes *room)
{
	const struct operand *o = &in->o[i];
	const int is_first = i == 1 + (in->op->form[1] == 'm');
	const int is_second = i == 2 + (in->op->form[1] == 'm');
	const int part = is_first ? in->m.source_part[0] : is_second ? in->m.source_part[1] : WHOLE;
	const int is_moved = in->m.dpp && is_first;
	if (o->place == VECTOR_REGISTER && !o->absolute && !o->negated && !is_moved &&
	    part == WHOLE && (type == 'u' || type == 'f'))
		return (const union lanes *)(const void *)w->v[o->reg];
	if (strchr("pPq", type)) {
		fetch_pairs(w, in, i, type, room);
		return room;
	}
	if (type == 'U' || type == 'F') {
		uint32_t low[LANES], high[LANES];
		raw32(w, in, o, 0, type, low);
		raw32(w, in, o, 1, type, high);
		if (is_moved) {
			move_lanes(in, low);
			move_lanes(in, high);
		}
		for (int l = 0; l < LANES; l++)
			room->U[l] = (uint64_t)high[l] << 32 | low[l];
		for (int l = 0; l < LANES && (o->absolute || o->negated); l++)
			room->F[l] =
			    (o->negated ? -1 : 1) * (o->absolute ? fabs(room->F[l]) : room->F[l]);
		return room;
	}
	raw32(w, in, o, 0, type, room->u);
	if (is_moved)
		move_lanes(in, room->u);
	take_part(room->u, part, o->sext);
	if (strchr("hsx", type))
		fetch_half(in, i, type, room);
	set_signs(room->f, LANES, o->absolute, o->negated);
	return room;
}

/* ---- results -------------------------------------------------------------------------- */

void store32(struct wave *w, const struct operand *o, int word, const uint32_t *values,
	     uint64_t lanes)
{
	uint32_t *to = w->v[o->reg + word];
	if (lanes == ~0ull) {
		memcpy(to, values, sizeof w->v[0]);
		return;
	}
	for (int l = 0; l < LANES; l++)
		to[l] = lanes >> l & 1 ? values[l] : to[l];
}

/* The lanes that DPP lets write. */
static uint64_t written_lanes(const struct wave *w, const struct instruction *in)
{
	uint64_t lanes = exec_of(w);
	if (!in->m.dpp)
		return lanes;
	for (int l = 0; l < LANES; l++) {
		const int from = dpp_lane(in, l);
		const int is_there = from >= 0 && exec_of(w) >> from & 1;
		if (!(in->m.row_mask >> l / 16 & 1) || !(in->m.bank_mask >> l % 16 / 4 & 1) ||
		    (!is_there && !in->m.zero_beyond))
			lanes &= ~(1ull << l);
	}
	return lanes;
}

static void scale_and_clamp(const struct instruction *in, float *f, int n)
{
	for (int i = 0; i < n && in->m.doubled; i++)
		f[i] = ldexpf(f[i], in->m.doubled);
	for (int i = 0; i < n && in->m.clamp; i++)
		f[i] = f[i] > 0 ? fminf(f[i], 1) : 0;
}

/* A half in one half of a register; the other is kept or becomes 0. */
static void place_halves(const struct wave *w, const struct instruction *in, char type,
			 union lanes *d)
{
	const int sources = in->num_operands - 1;
	const int is_upper = type == 'k' || (in->m.sel >> sources & 1),
		  keeps = type != 'h' || is_upper;
	const uint32_t *old = w->v[in->o[0].reg];
	for (int l = 0; l < LANES; l++) {
		const uint32_t half = type == 's' ? d->u[l] & 0xffff : simt_to_half(d->f[l]);
		const uint32_t other = is_upper ? old[l] & 0xffff : old[l] & 0xffff0000;
		d->u[l] = half << (is_upper ? 16 : 0) | (keeps && type != 's' ? other : 0);
	}
}

static void place_part(const struct wave *w, const struct instruction *in, uint32_t *d)
{
	const int part = in->m.result_part, bits = part >= WORD_0 ? 16 : 8;
	const int at = part >= WORD_0 ? 16 * (part - WORD_0) : 8 * (part - BYTE_0);
	const uint32_t mask = ((1u << bits) - 1) << at, *old = w->v[in->o[0].reg];
	if (in->m.keeps == SEXT)
		die(in, "a part with its sign");
	for (int l = 0; l < LANES; l++)
		d[l] = (d[l] << at & mask) | (in->m.keeps == PRESERVE ? old[l] & ~mask : 0);
}

static void store_pairs(struct wave *w, const struct instruction *in, char type, union lanes *d,
			uint64_t lanes)
{
	uint32_t word[2][LANES];
	if (type != 'q')
		scale_and_clamp(in, &d->p[0][0], 2 * LANES);
	for (int l = 0; l < LANES; l++) {
		if (type == 'p')
			memcpy(&word[0][l], &d->p[l][0], 4), memcpy(&word[1][l], &d->p[l][1], 4);
		else if (type == 'P')
			word[0][l] = simt_to_half(d->p[l][0]) | (uint32_t)simt_to_half(d->p[l][1])
								    << 16;
		else
			word[0][l] = d->q[l][0] | (uint32_t)d->q[l][1] << 16;
	}
	store32(w, &in->o[0], 0, word[0], lanes);
	if (type == 'p')
		store32(w, &in->o[0], 1, word[1], lanes);
}

static void store_wide(struct wave *w, const struct operand *o, const union lanes *d,
		       uint64_t lanes)
{
	uint32_t word[2][LANES];
	for (int l = 0; l < LANES; l++) {
		word[0][l] = (uint32_t)d->U[l];
		word[1][l] = (uint32_t)(d->U[l] >> 32);
	}
	store32(w, o, 0, word[0], lanes);
	store32(w, o, 1, word[1], lanes);
}

static void store(struct wave *w, const struct instruction *in, char type, union lanes *d)
{
	const uint64_t lanes = written_lanes(w, in);
	const struct operand *o = &in->o[0];
	if (type == 'S') {
		const int first = exec_of(w) ? __builtin_ctzll(exec_of(w)) : 0;
		set_scalar(w, in, o, 'u', d->u[first]);
		return;
	}
	if (o->place != VECTOR_REGISTER)
		die(in, "no vector register to write");
	if (type == 'u' && !in->m.result_part && !in->m.clamp) {
		store32(w, o, 0, d->u, lanes);
		return;
	}
	if (strchr("pPq", type)) {
		store_pairs(w, in, type, d, lanes);
		return;
	}
	if (type == 'U' || type == 'F') {
		store_wide(w, o, d, lanes);
		return;
	}
	if (strchr("fhlk", type))
		scale_and_clamp(in, d->f, LANES);
	else if (in->m.clamp)
		die(in, "a clamp of integers");
	if (strchr("hslk", type))
		place_halves(w, in, type, d);
	if (in->m.result_part != WHOLE)
		place_part(w, in, d->u);
	store32(w, o, 0, d->u, lanes);
}

static uint64_t mask_operand(const struct wave *w, const struct instruction *in, int i)
{
	return scalar_value(w, in, &in->o[i], 'U');
}

/* Results first, then operands, as the form has them. */
void run_vector(struct wave *w, const struct instruction *in)
{
	const char *form = in->op->form, *sources = strchr(form, '=') + 1;
	const int num_results = (int)(sources - form) - 1, masked = form[num_results - 1] == 'm';
	union lanes room[3], d;
	const union lanes *v[3] = { NULL, NULL, NULL };
	struct work x = { .d = &d, .table = in->m.table };
	int o = num_results, n = 0;
	for (const char *type = sources; *type; type++) {
		if (*type == 'v')
			x.mask = pair(w, VCC);
		else if (*type == 'm')
			x.mask = mask_operand(w, in, o++);
		else if (*type == '+')
			v[n] = fetch(w, in, 0, *form, &room[n]), n++;
		else
			v[n] = fetch(w, in, o++, *type, &room[n]), n++;
	}
	if (o != in->num_operands)
		die(in, "%d operands, %d are due", in->num_operands, o);
	x.a = v[0], x.b = v[1], x.c = v[2];
	in->op->lanes(&x);
	if (masked)
		set_scalar(w, in, &in->o[num_results - 1], 'm', x.mask & exec_of(w));
	if (*form != 'm')
		store(w, in, *form, &d);
}
