/* SPDX-License-Identifier: Apache-2.0 */
/* t_deal.c - dealing of keys to blocks (kernels/gpu/ring/deal.h), unit by unit: each tile of each item
 * has one block, all blocks of an item agree on it, partials do not share places, and no block
 * has more than its share. Also when blocks end if some began with decodes (kernels/spec/mixed.h),
 * against taking items one by one. */
#include "kernels/gpu/ring/deal.h"
#include "kernels/spec/mixed.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_ITEMS = 300, MOST_TILES = 2000, MOST_BLOCKS = 400, ROUNDS = 300 };

static const struct kind {
	const char *name;
	unsigned items, tiles, blocks, least, start; /* the most there are */
} kinds[] = {
	{ "one item", 1, 2000, 400, 1, 8 },
	{ "few items, many blocks", 5, 60, 400, 1, 4 },
	{ "many items, few blocks", 300, 40, 7, 4, 4 },
	{ "items of one tile", 300, 1, 400, 16, 4 },
	{ "starts weigh more than tiles", 300, 3, 200, 1, 16 },
	{ "as on an H200", 300, 2000, 396, 16, 16 },
	{ "no start counts", 300, 200, 264, 4, 0 },
};

static unsigned below(unsigned n)
{
	static unsigned long long seed = 5;
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33) % n;
}

static struct {
	unsigned num, tiles[MOST_ITEMS], begin[MOST_ITEMS + 1];
	unsigned left[MOST_ITEMS], owner[MOST_ITEMS], parts[MOST_ITEMS]; /* parts: that came */
	unsigned said[MOST_ITEMS];                                       /* that are to come */
	unsigned char slot[2 * MOST_BLOCKS];
} work;

static void random_items(const struct kind *k, unsigned start)
{
	const unsigned most = 1 + below(k->tiles);
	memset(&work, 0, sizeof work);
	work.num = 1 + below(k->items);
	for (unsigned i = 0; i < work.num; i++) {
		work.tiles[i] = below(4) ? 1 + below(most) : 1;
		work.begin[i + 1] = work.begin[i] + start + work.tiles[i];
	}
}

/* The share of item i that `block` takes. Tiles of an item come in the order of blocks. */
static void take(unsigned i, unsigned block, const struct stretch *s)
{
	assert_int_equal(s->first, work.left[i]);
	work.left[i] += s->tiles;
	if (!work.parts[i]) {
		assert_int_equal(s->owner, block);
		work.owner[i] = s->owner;
		work.said[i] = s->parts;
	}
	assert_int_equal(s->owner, work.owner[i]);
	assert_int_equal(s->parts, work.said[i]);
	assert_int_equal(block, s->owner + work.parts[i]);
	work.parts[i]++;
	if (s->parts > 1) {
		const unsigned slot = deal_slot(block, s->owner);
		assert_int_equal(work.slot[slot], 0);
		work.slot[slot] = 1;
	}
}

static void is_dealt_once(void **state)
{
	const struct kind *k = *state;
	for (int round = 0; round < ROUNDS; round++) {
		const unsigned start = below(k->start + 1), least = 1 + below(k->least);
		const unsigned blocks = 1 + below(k->blocks);
		random_items(k, start);
		const unsigned units = work.begin[work.num];
		const struct deal d = deal_units(units, blocks, least);
		unsigned item = 0;
		assert_in_range(d.blocks, 1, blocks);
		assert_true(d.blocks == 1 || d.each >= least);
		for (unsigned block = 0; block < blocks; block++) {
			const unsigned end = deal_begin(&d, block + 1);
			unsigned unit = deal_begin(&d, block);
			assert_in_range(end - unit, block < d.blocks ? d.each : 0, d.each + 1);
			while (unit < end) {
				assert_int_equal(deal_block(&d, unit), block);
				const struct stretch s = deal_stretch(
				    &d, block, work.begin[item], start, work.tiles[item], unit);
				assert_in_range(s.next, unit + 1, end);
				if (s.tiles)
					take(item, block, &s);
				unit = s.next;
				item += unit == work.begin[item + 1];
			}
		}
		assert_int_equal(item, work.num);
		for (unsigned i = 0; i < work.num; i++) {
			assert_int_equal(work.left[i], work.tiles[i]);
			assert_int_equal(work.parts[i], work.said[i]);
		}
	}
}

static void nothing_is_dealt(void **state)
{
	const struct deal d = deal_units(0, 100, 4);
	(void)state;
	for (unsigned block = 0; block < 100; block++)
		assert_int_equal(deal_begin(&d, block), 0);
}

/* Each item goes to the first free block; a block with decodes is free at t. */
static long long one_by_one(const struct mixed *m, int decoding, long long t)
{
	static long long free_at[MOST_BLOCKS];
	long long end = t;
	for (int u = 0; u < m->units; u++)
		free_at[u] = u < decoding ? t + m->rates->leave_ns : 0;
	for (long long i = 0; i < m->items; i++) {
		int first = 0;
		for (int u = 1; u < m->units; u++)
			first = free_at[u] < free_at[first] ? u : first;
		free_at[first] += m->item_ns;
		end = max_of(end, free_at[first]);
	}
	return end;
}

static void mixed_ends_as_estimated(void **state)
{
	(void)state;
	for (int round = 0; round < 10 * ROUNDS; round++) {
		const struct mixed m = { 1 + (int)below(140), 1 + below(400), 1 + below(200000),
					 below(400000000), below(3000), &mixed_by_hand };
		const int decoding = 1 + (int)below((unsigned)m.units);
		const long long t = mixed_reads_ns(&m, decoding);
		long long ns;
		const int best = mixed_units(&m, decoding, &ns);
		assert_int_equal(mixed_ns(&m, decoding, t), one_by_one(&m, decoding, t));
		assert_true(best == m.units || best % decoding == 0);
		assert_int_equal(ns, mixed_sum_ns(&m, best));
		assert_true(ns <= mixed_sum_ns(&m, decoding));
	}
}

/* Few units are the limit, then the bandwidth of half of them, which more units do not raise. */
static void mixed_reads_saturate(void **state)
{
	const struct mixed_rates *r = &mixed_by_hand;
	const struct mixed m = { 132, 1, 1, 4000000000, 0, r };
	const long long half = mixed_reads_ns(&m, 66);
	(void)state;
	for (int d = 1; d < 66; d++)
		assert_true(mixed_reads_ns(&m, d + 1) <= mixed_reads_ns(&m, d));
	for (int d = 67; d <= 132; d++)
		assert_true(mixed_reads_ns(&m, d) > half);
	assert_int_equal(mixed_reads_ns(&m, 1), r->start_ns + m.bytes / r->unit_reads);
	assert_int_equal(half, r->start_ns + m.bytes / r->half_reads);
	assert_true(mixed_reads_ns(&m, 20) > 2 * half);
	const struct mixed many = { 132, 1, 1, 1, 1000, r }; /* tiny ones cost their starts */
	assert_int_equal(mixed_reads_ns(&many, 10), r->start_ns + 100 * r->stream_ns);
}

int main(void)
{
	static struct CMUnitTest tests[sizeof kinds / sizeof *kinds + 3];
	size_t n = 0;
	for (; n < sizeof kinds / sizeof *kinds; n++)
		tests[n] = (struct CMUnitTest){ kinds[n].name, is_dealt_once, NULL, NULL,
						(void *)(uintptr_t)&kinds[n] };
	tests[n++] = (struct CMUnitTest){ "no units", nothing_is_dealt, NULL, NULL, NULL };
	tests[n++] = (struct CMUnitTest){ "mixed", mixed_ends_as_estimated, NULL, NULL, NULL };
	tests[n++] = (struct CMUnitTest){ "reads", mixed_reads_saturate, NULL, NULL, NULL };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("deal", tests, n, NULL, NULL);
}
