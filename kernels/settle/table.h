/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - the table that planning asks: one word for each cell that was settled and committed.
 *
 *   63 .. 24  the cell's hash, never 0        23 .. 20  way
 *   19 .. 17  prefills' member    13 .. 11  its step    7 .. 4  its check
 *   16 .. 14  decodes' member     10 .. 8   its step    3 .. 0  its check
 *
 * A member is remembered by its place in the list of its part. The check is of its name: the rules
 * may name other choices for a part of equal lengths beside another part, and then lists differ.
 *
 * A commit writes words one at a time while others read: a word is whole, and words do not depend on
 * each other. A cell keeps its place. The table is at most three quarters full, so that each search
 * ends at an empty word. Any bits of value are safe: planning checks all that it takes. */
#ifndef KERNELS_SETTLE_TABLE_H
#define KERNELS_SETTLE_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

enum { SETTLED_WORDS = 4096, SETTLED_CELLS = SETTLED_WORDS / 4 * 3 };
enum { VALUE_BITS = 24, VALUE_MASK = (1 << VALUE_BITS) - 1 };

struct settled_table {
	_Atomic uint64_t word[SETTLED_WORDS];
};

/* How the parts of a mixed batch share the device. */
enum settled_way {
	WAY_SERIES,
	WAY_STREAMS,
	WAY_SPARING16,
	WAY_SPARING112 = 8,
	WAY_ONE_LAUNCH,
	WAY_FUSED, /* a fused choice: the one that the rules name, else the first of them that runs */
	WAY_AS_RULES = 15
};

/* In the place of a member: the part's own cell decides, else the rules. */
enum { MEMBER_AS_RULES = 7 };
/* A step is by how many values of the axis SEGMENTS a part has more than its choice's costs say. */
enum { MOST_STEPS = 2 };

struct remembered {
	int place, step;
	unsigned check; /* 0 with MEMBER_AS_RULES */
};

static inline unsigned member_value(struct remembered m, int of)
{
	const unsigned place = (unsigned)m.place & 7, step = (unsigned)m.step & 7;
	return of ? place << 14 | step << 8 | (m.check & 15)
		  : place << 17 | step << 11 | (m.check & 15) << 4;
}

static inline unsigned value_of(int way, struct remembered prefill, struct remembered decode)
{
	return (unsigned)way << 20 | member_value(prefill, 0) | member_value(decode, 1);
}

static inline unsigned value_without_steps(unsigned value)
{
	return value & ~(7u << 11 | 7u << 8);
}

static inline int value_way(unsigned value)
{
	return value >> 20 & 15;
}

/* of: 0 the prefills', 1 the decodes' */
static inline struct remembered value_member(unsigned value, int of)
{
	const int step = (int)(value >> (of ? 8 : 11) & 7);
	return (struct remembered){ .place = (int)(value >> (of ? 14 : 17) & 7),
				    .step = step <= MOST_STEPS       ? step
					    : step >= 8 - MOST_STEPS ? step - 8
								     : 0,
				    .check = value >> (of ? 0 : 4) & 15 };
}

/* Nothing other than what the rules say. */
enum { VALUE_AS_RULES = WAY_AS_RULES << 20 | MEMBER_AS_RULES << 17 | MEMBER_AS_RULES << 14 };

/* The value of a cell; VALUE_AS_RULES: it has none. */
static inline unsigned table_find(const struct settled_table *t, uint64_t cell)
{
	for (unsigned i = 0; i < SETTLED_WORDS; i++) {
		const uint64_t word = atomic_load_explicit(
		    &t->word[((cell >> VALUE_BITS) + i) % SETTLED_WORDS], memory_order_relaxed);
		if (!word)
			break;
		if (word >> VALUE_BITS == cell >> VALUE_BITS)
			return (unsigned)(word & VALUE_MASK);
	}
	return VALUE_AS_RULES;
}

/* Writes the value of a cell, whose hash has zeros in its low VALUE_BITS bits. 0: the table is full; it
 * then keeps what it has. One caller at a time. */
int table_put(struct settled_table *, uint64_t cell, unsigned value);
/* The number of cells. */
int table_count(const struct settled_table *);
/* A number for its contents, whatever their order. Cells that the rules decide do not count. */
uint64_t table_digest(const struct settled_table *);

#endif
