/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - a block's shared memory, asynchronous copies into it, and 16-bit numbers. Kernels
 * see 32-bit addresses: dynamic memory lies below 4 GiB and has its own; static memory has those
 * of a window without memory. */
#include "machine.h"
#include <stdlib.h>
#include <string.h>

void *simt_dynamic(void)
{
	return me()->home->shared;
}

static int is_static(const void *p)
{
	return (const char *)p >= machine.kernel->shared_begin &&
	       (const char *)p < machine.kernel->shared_end;
}

int simt_is_shared(const void *p)
{
	return is_static(p) || ((const char *)p >= me()->home->shared &&
				(const char *)p < me()->home->shared + WINDOW_OPEN);
}

uint32_t simt_shared_address(const void *p)
{
	if (is_static(p))
		return STATIC_WINDOW + (uint32_t)((const char *)p - machine.kernel->shared_begin);
	if (!simt_is_shared(p))
		simt_die("%p is not in shared memory", p);
	return (uint32_t)(uintptr_t)p;
}

void *simt_shared_pointer(uint32_t address, size_t bytes)
{
	char *base = me()->home->shared;
	const uint32_t at = address - (uint32_t)(uintptr_t)base;
	const uint32_t in_static = address - STATIC_WINDOW;
	if (in_static < static_bytes() && in_static + bytes <= static_bytes())
		return machine.kernel->shared_begin + in_static;
	if (at >= machine.smem || at + bytes > machine.smem)
		simt_die("%zu bytes at %d of a dynamic shared memory of %u", bytes, (int)at,
			 machine.smem);
	return base + at;
}

void *simt_cluster_pointer(uint32_t address, int rank, size_t bytes)
{
	const size_t at =
	    (size_t)((char *)simt_shared_pointer(address, bytes) - me()->home->shared);
	if (at + bytes > machine.smem)
		simt_die("0x%x is static, and of a cluster's only dynamic memory is known",
			 address);
	if (rank < 0 || rank >= machine.cluster)
		simt_die("block %d of a cluster of %d", rank, machine.cluster);
	if (!my_cluster()[rank]->live)
		simt_die("block %d of the cluster has ended", rank);
	return my_cluster()[rank]->shared + at;
}

/* ---- copies ------------------------------------------------------------------------------ */

void simt_copy_async(uint32_t to, const void *from, size_t bytes, size_t valid)
{
	struct fiber *f = me();
	f->pc = __builtin_return_address(0);
	if (to % bytes || (valid && (uintptr_t)from % bytes))
		simt_die("asynchronous copy of %zu bytes from %p to 0x%x: misaligned", bytes, from,
			 to);
	if (valid && front_writes(from, valid))
		simt_die("asynchronous copy from %p, which the launch in front may still write",
			 from);
	if (f->num_copies == f->room) {
		f->room = f->room ? 2 * f->room : 64;
		f->copy = realloc(f->copy, (size_t)f->room * sizeof *f->copy);
		if (!f->copy)
			simt_die("out of memory");
	}
	f->copy[f->num_copies++] =
	    (struct copy){ simt_shared_pointer(to, bytes), from, bytes, valid, f->committed };
	memset(simt_shared_pointer(to, bytes), SIMT_POISON, bytes);
}

void simt_copies_commit(void)
{
	me()->committed++;
	shake();
}

void simt_copies_wait(int pending)
{
	struct fiber *f = me();
	shake();
	while (f->first_copy < f->num_copies) {
		const struct copy *c = &f->copy[f->first_copy];
		if (c->group >= f->committed - pending)
			break;
		memset(c->to, 0, c->bytes);
		memcpy(c->to, c->from, c->valid);
		f->first_copy++;
	}
	if (f->first_copy == f->num_copies)
		f->first_copy = f->num_copies = 0;
}

/* ---- numbers ----------------------------------------------------------------------------- */

/* To the nearest, of two to the even one. */
uint16_t simt_to_half(float f)
{
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	const uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
	if (f != f)
		return 0x7fff;
	if (rest >= 0x477ff000) /* 65520 and more */
		return (uint16_t)(sign | 0x7c00);
	if (rest < 0x38800000) { /* below 2^-14: a sum whose last bit is 2^-24 rounds it */
		float sum = (sign ? -f : f) + 0.5f;
		memcpy(&bits, &sum, sizeof bits);
		return (uint16_t)(sign | (bits - 0x3f000000));
	}
	return (uint16_t)(sign | (rest - (112u << 23) + 0xfff + (rest >> 13 & 1)) >> 13);
}

uint16_t simt_to_bfloat(float f)
{
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	if (f != f)
		return 0x7fff;
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
