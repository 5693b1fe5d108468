/* table.h - the table that planning asks: one word for each cell that was settled and committed.
 *
 *   63 .. 16  the cell's hash, never 0        15 .. 12  way   11 .. 9  prefills' member
 *                                              8 .. 6   decodes' member    5 .. 0  0
 *
 * A commit writes words one at a time while others read: a word is whole, and words do not depend on
 * each other. A cell keeps its place. The table is at most three quarters full, so that each search
 * ends at an empty word. Any 16 bits of value are safe: planning checks all that it takes. */
#ifndef KERNELS_SETTLE_TABLE_H
#define KERNELS_SETTLE_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

enum { SETTLED_WORDS = 4096, SETTLED_CELLS = SETTLED_WORDS / 4 * 3 };

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

static inline unsigned value_of(int way, int prefill, int decode)
{
	return (unsigned)way << 12 | (unsigned)prefill << 9 | (unsigned)decode << 6;
}

static inline int value_way(unsigned value)
{
	return value >> 12 & 15;
}

/* of: 0 the prefills', 1 the decodes' */
static inline int value_member(unsigned value, int of)
{
	return value >> (of ? 6 : 9) & 7;
}

/* Nothing other than what the rules say. */
enum { VALUE_AS_RULES = WAY_AS_RULES << 12 | MEMBER_AS_RULES << 9 | MEMBER_AS_RULES << 6 };

/* The value of a cell; VALUE_AS_RULES: it has none. */
static inline unsigned table_find(const struct settled_table *t, uint64_t cell)
{
	for (unsigned i = 0; i < SETTLED_WORDS; i++) {
		const uint64_t word = atomic_load_explicit(
		    &t->word[((cell >> 16) + i) % SETTLED_WORDS], memory_order_relaxed);
		if (!word)
			break;
		if (word >> 16 == cell >> 16)
			return word & 0xffff;
	}
	return VALUE_AS_RULES;
}

/* Writes the value of a cell, whose hash has zeros in its low 16 bits. 0: the table is full; it
 * then keeps what it has. One caller at a time. */
int table_put(struct settled_table *, uint64_t cell, unsigned value);
/* The number of cells. */
int table_count(const struct settled_table *);
/* A number for its contents, whatever their order. Cells that the rules decide do not count. */
uint64_t table_digest(const struct settled_table *);

#endif
