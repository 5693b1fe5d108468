/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - device memory, LDS and scratch memory. Each access must lie in one allocation, in
 * the block's LDS or in the lane's scratch memory; what is read from constants and arguments
 * may not be written. */
#include "machine.h"
#include <math.h>
#include <string.h>

/* ---- where it is ---------------------------------------------------------------------- */

static int is_within(uintptr_t at, size_t bytes, uintptr_t begin, uintptr_t end)
{
	return at >= begin && at < end && bytes <= end - at;
}

static char *device_memory(const struct instruction *in, int lane, uint64_t address, size_t bytes,
			   int writes)
{
	struct launch *n = &cdna_now;
	const uintptr_t at = (uintptr_t)address, code = (uintptr_t)n->code->memory;
	const uintptr_t args = (uintptr_t)n->kernarg;
	if (is_within(at, bytes, n->begin, n->end))
		return (char *)at;
	if (!writes && (is_within(at, bytes, code, code + n->code->size) ||
			is_within(at, bytes, args, args + n->kernarg_bytes)))
		return (char *)at;
	if (!n->machine->find(n->machine->state, at, &n->begin, &n->end) ||
	    !is_within(at, bytes, n->begin, n->end))
		die(in, "lane %d %s %zu bytes at 0x%llx, which is no memory of the device", lane,
		    writes ? "writes" : "reads", bytes, (unsigned long long)address);
	return (char *)at;
}

static char *lds(struct wave *w, const struct instruction *in, int lane, uint32_t at, size_t bytes)
{
	if (at >= w->block->lds_bytes || bytes > w->block->lds_bytes - at)
		die(in, "lane %d takes %zu bytes at %d of an LDS of %u", lane, bytes, (int)at,
		    w->block->lds_bytes);
	return w->block->lds + at;
}

static char *scratch(struct wave *w, const struct instruction *in, int lane, int64_t at,
		     size_t bytes)
{
	const uint32_t size = cdna_now.code->scratch;
	if (at < 0 || at >= size || bytes > size - (uint64_t)at)
		die(in, "lane %d takes %zu bytes at %lld of %u bytes of scratch memory", lane,
		    bytes, (long long)at, size);
	return w->scratch + (size_t)lane * size + at;
}

static char *any_memory(struct wave *w, const struct instruction *in, int lane, uint64_t address,
			size_t bytes, int writes)
{
	if (in->op->how & IS_FLAT && address >= PRIVATE_WINDOW)
		return scratch(w, in, lane, (int64_t)(address - PRIVATE_WINDOW), bytes);
	if (in->op->how & IS_FLAT && address >= SHARED_WINDOW)
		return lds(w, in, lane, (uint32_t)(address - SHARED_WINDOW), bytes);
	return device_memory(in, lane, address, bytes, writes);
}

void run_scalar_load(struct wave *w, const struct instruction *in)
{
	const uint64_t base = scalar_value(w, in, &in->o[1], 'U');
	const uint64_t more = scalar_value(w, in, &in->o[2], 'u');
	const size_t bytes = (size_t)in->op->bytes;
	const char *from = device_memory(
	    in, 0, (base + more + (uint64_t)(int64_t)in->m.offset[0]) & ~3ull, bytes, 0);
	if (in->o[0].reg + in->op->bytes / 4 > SCALARS)
		die(in, "no such scalar registers");
	memcpy(&w->s[in->o[0].reg], from, bytes);
}

/* ---- registers ------------------------------------------------------------------------ */

/* From memory to a register and the ones after it; `how` selects parts of a register. */
static void to_registers(struct wave *w, int reg, int lane, const char *from, int bytes, int how)
{
	uint32_t word = 0;
	if (bytes >= 4) {
		for (int i = 0; i < bytes / 4; i++)
			memcpy(&w->v[reg + i][lane], from + 4 * i, 4);
		return;
	}
	memcpy(&word, from, (size_t)bytes);
	if (how & IS_SIGNED)
		word = (uint32_t)((int32_t)(word << (32 - 8 * bytes)) >> (32 - 8 * bytes));
	if (how & IS_HALF) {
		const uint32_t old = w->v[reg][lane];
		word = how & IS_UPPER ? word << 16 | (old & 0xffff)
				      : (word & 0xffff) | (old & 0xffff0000);
	}
	w->v[reg][lane] = word;
}

static void from_registers(const struct wave *w, int reg, int lane, char *to, int bytes, int how)
{
	if (bytes >= 4) {
		for (int i = 0; i < bytes / 4; i++)
			memcpy(to + 4 * i, &w->v[reg + i][lane], 4);
		return;
	}
	const uint32_t word = w->v[reg][lane] >> (how & IS_UPPER ? 16 : 0);
	memcpy(to, &word, (size_t)bytes);
}

static void check_data(const struct instruction *in, const struct operand *o, int bytes)
{
	if (o->place != VECTOR_REGISTER || o->reg + (bytes + 3) / 4 > VECTORS)
		die(in, "no vector registers for %d bytes", bytes);
}

/* ---- device memory -------------------------------------------------------------------- */

/* The lane's share of an address on top of the scalar register's: the text has both, or one and
 * "off". */
static uint64_t global_address(const struct wave *w, const struct instruction *in, int lane,
			       const struct operand *v, const struct operand *s)
{
	uint64_t at = (uint64_t)(int64_t)in->m.offset[0];
	const int is_wide = s->place == NOWHERE;
	if (s->place == SCALAR_REGISTER)
		at += scalar_value(w, in, s, 'U');
	if (v->place == VECTOR_REGISTER)
		at += is_wide ? (uint64_t)w->v[v->reg + 1][lane] << 32 | w->v[v->reg][lane]
			      : w->v[v->reg][lane];
	return at;
}

static int64_t scratch_address(const struct wave *w, const struct instruction *in, int lane,
			       const struct operand *v, const struct operand *s)
{
	int64_t at = in->m.offset[0];
	if (s->place == SCALAR_REGISTER)
		at += (int32_t)scalar_value(w, in, s, 'u');
	if (v->place == VECTOR_REGISTER)
		at += (int32_t)w->v[v->reg][lane];
	return at;
}

/* A buffer: base, stride, bytes, kind in four scalar registers. Beyond its bytes zeros are read
 * and nothing is written: NULL. */
static char *buffer_memory(const struct wave *w, const struct instruction *in, int lane, int beyond,
			   size_t bytes)
{
	const uint32_t *r = &w->s[in->o[2].reg];
	const uint64_t base = (uint64_t)(r[1] & 0xffff) << 32 | r[0];
	const uint32_t by_lane = in->m.by_lane ? w->v[in->o[1].reg][lane] : 0;
	const uint64_t from = scalar_value(w, in, &in->o[3], 'u');
	const uint64_t at = from + by_lane + (uint64_t)in->m.offset[0] + (uint64_t)beyond;
	if (r[1] >> 16 || in->m.by_index)
		die(in, "a buffer with a stride");
	if (at + bytes > r[2])
		return NULL;
	return device_memory(in, lane, base + at, bytes, in->op->how & IS_STORE);
}

/* By words, since part of it may be out of bounds. */
static void buffer_lane(struct wave *w, const struct instruction *in, int lane)
{
	static const char zeros[4];
	const int how = in->op->how, bytes = in->op->bytes < 4 ? in->op->bytes : 4;
	for (int i = 0; i < in->op->bytes; i += 4) {
		char *at = buffer_memory(w, in, lane, i, (size_t)bytes);
		const int reg = in->o[0].reg + i / 4;
		if (!(how & IS_STORE))
			to_registers(w, reg, lane, at ? at : zeros, bytes, how);
		else if (at)
			from_registers(w, reg, lane, at, bytes, how);
	}
}

static void lane_to_lds(struct wave *w, const struct instruction *in, int lane, const char *from)
{
	const uint32_t at = (w->s[M0] & 0xffff) + (uint32_t)in->m.offset[0] + 4 * (uint32_t)lane;
	memcpy(lds(w, in, lane, at, 4), from, 4);
}

static void global_lane(struct wave *w, const struct instruction *in, int lane)
{
	const int how = in->op->how, bytes = in->op->bytes, writes = how & IS_STORE;
	const int v = writes || how & IS_TO_LDS ? 0 : 1, s = how & IS_TO_LDS ? 1 : 2;
	const int data = writes ? 1 : 0;
	char *at = how & IS_SCRATCH
		       ? scratch(w, in, lane, scratch_address(w, in, lane, &in->o[v], &in->o[s]),
				 (size_t)bytes)
		       : any_memory(w, in, lane, global_address(w, in, lane, &in->o[v], &in->o[s]),
				    (size_t)bytes, writes);
	if (how & IS_TO_LDS)
		lane_to_lds(w, in, lane, at);
	else if (writes)
		from_registers(w, in->o[data].reg, lane, at, bytes, how);
	else
		to_registers(w, in->o[data].reg, lane, at, bytes, how);
}

void run_global(struct wave *w, const struct instruction *in)
{
	const int how = in->op->how, is_buffer = how & IS_BUFFER;
	const uint64_t lanes = exec_of(w);
	if (in->m.to_lds)
		die(in, "a buffer's way to LDS");
	if (!(how & IS_TO_LDS))
		check_data(in, &in->o[how & IS_STORE && !is_buffer ? 1 : 0], in->op->bytes);
	for (int l = 0; l < LANES; l++)
		if (lanes >> l & 1)
			is_buffer ? buffer_lane(w, in, l) : global_lane(w, in, l);
}

/* ---- LDS ------------------------------------------------------------------------------ */

void run_lds(struct wave *w, const struct instruction *in)
{
	const int bytes = in->op->bytes, how = in->op->how, writes = how & IS_STORE;
	const struct operand *data = &in->o[writes ? 1 : 0], *v = &in->o[writes ? 0 : 1];
	const uint64_t lanes = exec_of(w);
	check_data(in, data, bytes);
	check_data(in, v, 4);
	for (int l = 0; l < LANES; l++) {
		if (!(lanes >> l & 1))
			continue;
		char *at =
		    lds(w, in, l, w->v[v->reg][l] + (uint32_t)in->m.offset[0], (size_t)bytes);
		if (writes)
			from_registers(w, data->reg, l, at, bytes, how);
		else
			to_registers(w, data->reg, l, at, bytes, how);
	}
}

/* Two places at a time, of 4 or 8 bytes; offsets count these, or 64 of them. */
void run_lds_pair(struct wave *w, const struct instruction *in)
{
	const int bytes = in->op->bytes, writes = in->op->how & IS_STORE;
	const uint32_t step = (uint32_t)bytes * (in->op->how & BY_64 ? 64 : 1);
	const struct operand *v = &in->o[writes ? 0 : 1];
	const uint64_t lanes = exec_of(w);
	check_data(in, v, 4);
	check_data(in, &in->o[writes ? 1 : 0], bytes);
	uint32_t address[LANES]; /* which the first result may overwrite */
	memcpy(address, w->v[v->reg], sizeof address);
	for (int l = 0; l < LANES; l++)
		for (int i = 0; i < 2 && lanes >> l & 1; i++) {
			char *at = lds(w, in, l, address[l] + step * (uint32_t)in->m.offset[i],
				       (size_t)bytes);
			if (writes)
				from_registers(w, in->o[1 + i].reg, l, at, bytes, 0);
			else
				to_registers(w, in->o[0].reg + i * bytes / 4, l, at, bytes, 0);
		}
}

/* ---- atomics -------------------------------------------------------------------------- */

static uint64_t float_sum(uint64_t a, uint64_t b)
{
	const uint32_t x = (uint32_t)a, y = (uint32_t)b;
	float f, g;
	uint32_t bits;
	memcpy(&f, &x, 4);
	memcpy(&g, &y, 4);
	f += g;
	memcpy(&bits, &f, 4);
	return bits;
}

static uint64_t changed(int how, uint64_t old, uint64_t v, uint64_t expected, int bits)
{
	const int64_t a = (int64_t)(old << (64 - bits)), b = (int64_t)(v << (64 - bits));
	switch (how & ATOMIC_MASK) {
	case ATOMIC_ADD: return old + v;
	case ATOMIC_SUB: return old - v;
	case ATOMIC_SMIN: return a < b ? old : v;
	case ATOMIC_SMAX: return a > b ? old : v;
	case ATOMIC_UMIN: return old < v ? old : v;
	case ATOMIC_UMAX: return old > v ? old : v;
	case ATOMIC_AND: return old & v;
	case ATOMIC_OR: return old | v;
	case ATOMIC_XOR: return old ^ v;
	case ATOMIC_INC: return old >= v ? 0 : old + 1;
	case ATOMIC_DEC: return old == 0 || old > v ? v : old - 1;
	case ATOMIC_SWAP: return v;
	case ATOMIC_CMPSWAP: return old == expected ? v : old;
	case ATOMIC_FADD: return float_sum(old, v);
	}
	return old;
}

static uint64_t register_value(const struct wave *w, int reg, int lane, int bytes)
{
	return (bytes == 8 ? (uint64_t)w->v[reg + 1][lane] << 32 : 0) | w->v[reg][lane];
}

/* LDS: address, [expected,] value. Elsewhere: address, value [and expected behind it]. */
static void atomic_lane(struct wave *w, const struct instruction *in, int lane, int first)
{
	const int bytes = in->op->bytes, how = in->op->how, is_lds = how & IS_LDS;
	const int swaps = (how & ATOMIC_MASK) == ATOMIC_CMPSWAP, reg = in->o[first + 1].reg;
	const uint64_t one = register_value(w, reg, lane, bytes);
	const uint64_t other =
	    !swaps
		? 0
		: register_value(w, is_lds ? in->o[first + 2].reg : reg + bytes / 4, lane, bytes);
	char *at = is_lds
		       ? lds(w, in, lane, w->v[in->o[first].reg][lane] + (uint32_t)in->m.offset[0],
			     (size_t)bytes)
		       : any_memory(w, in, lane,
				    global_address(w, in, lane, &in->o[first], &in->o[first + 2]),
				    (size_t)bytes, 1);
	uint64_t old = 0;
	memcpy(&old, at, (size_t)bytes);
	const uint64_t next = is_lds && swaps ? changed(how, old, other, one, 8 * bytes)
					      : changed(how, old, one, other, 8 * bytes);
	memcpy(at, &next, (size_t)bytes);
	for (int i = 0; first && i < bytes / 4; i++)
		w->v[in->o[0].reg + i][lane] = (uint32_t)(old >> 32 * i);
}

void run_atomic(struct wave *w, const struct instruction *in)
{
	const uint64_t lanes = exec_of(w);
	const int first = in->op->how & IS_LDS ? !!(in->op->how & RETURNS) : in->m.returns;
	check_data(in, &in->o[first + 1], in->op->bytes);
	for (int l = 0; l < LANES; l++)
		if (lanes >> l & 1)
			atomic_lane(w, in, l, first);
	w->must_yield = !(in->op->how & IS_LDS);
}
