/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - writes the table of what was settled, and sums it up. */
#include "table.h"
#include "kernels/spec/names.h"

int table_count(const struct settled_table *t)
{
	int n = 0;
	for (int i = 0; i < SETTLED_WORDS; i++)
		n += atomic_load_explicit(&t->word[i], memory_order_relaxed) != 0;
	return n;
}

int table_put(struct settled_table *t, uint64_t cell, unsigned value)
{
	unsigned i = 0;
	uint64_t word;
	for (;; i++) {
		word = atomic_load_explicit(&t->word[((cell >> VALUE_BITS) + i) % SETTLED_WORDS],
					    memory_order_relaxed);
		if (!word || word >> VALUE_BITS == cell >> VALUE_BITS)
			break;
	}
	if (!word && table_count(t) >= SETTLED_CELLS)
		return 0;
	atomic_store_explicit(&t->word[((cell >> VALUE_BITS) + i) % SETTLED_WORDS], cell | value,
			      memory_order_relaxed);
	return 1;
}

uint64_t table_digest(const struct settled_table *t)
{
	uint64_t sum = 0;
	for (int i = 0; i < SETTLED_WORDS; i++) {
		const uint64_t word = atomic_load_explicit(&t->word[i], memory_order_relaxed);
		if (word && (word & VALUE_MASK) != VALUE_AS_RULES)
			sum += hash_add(0, word);
	}
	return sum;
}
