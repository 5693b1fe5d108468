/* SPDX-License-Identifier: Apache-2.0 */
/* t_segments.c - the cost of a number of segments (kernels/segments.h): against the same sum in
 * other steps, and its longest path against blocks dealt one by one. t_fitted.c tests choices
 * that use these costs. */
#include "kernels/attune.h"
#include "kernels/attune_features.h"
#include "kernels/spec/device_info.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/random_part.h"

enum { ROUNDS = 20000, LARGE = 1 << 18 };

__extension__ typedef __int128 wide;

static const struct device_info *const devices[] = { &gpu, &cpu };

/* Some costs are 0, as fitted ones are. any: the others are as large as they may be, or nearly. */
static struct segment_costs random_costs(int any)
{
	static const long long most[] = { MOST_OF_MANY, MOST_OF_FEW, MOST_OF_FEW, MOST_OF_MANY };
	long long fs[COUNT(most)];
	for (size_t i = 0; i < COUNT(most); i++)
		fs[i] = !below(3) ? 0
			: any     ? most[i] - (long long)below(9)
				  : (long long)below(LARGE) * (1 + below(1000));
	return (struct segment_costs){ .slots = 1 + (int)below(4),
				       .start = 64 * (int)below(9),
				       .path = fs[0],
				       .split = fs[1],
				       .segments = fs[2],
				       .merge = fs[3] };
}

static struct block_shape random_block(void)
{
	return (struct block_shape){ .rows = 1 << below(8),
				     .tile = 1 << below(8),
				     .heads = (int)below(5) };
}

static int random_segments(void)
{
	return 1 + (int)below(below(3) ? 64 : 1);
}

/* ---- costs -------------------------------------------------------------------------------- */

static wide least(wide a, wide b)
{
	return a < b ? a : b;
}

/* The least number of `of` that hold n. */
static wide fill(wide n, wide of)
{
	return n / of + (n % of > 0);
}

/* The idle slots of the last wave count as blocks of `one` keys, the less the more blocks differ. */
static wide path_by_waves(const struct segment_costs *c, const struct segment_load *l, int tile,
			  long long units, int v)
{
	const wide at_once = (wide)units * c->slots, blocks = (wide)l->blocks * v;
	const wide longest = fill(l->tiles, v) * tile + c->start;
	const wide one = fill(l->padded_mean, v) + c->start;
	const wide more = longest > one ? longest - one : 0;
	const wide weight = one + 4 * more;
	if (blocks <= at_once)
		return longest;
	const wide waves = fill(blocks, at_once);
	const wide idle = waves * at_once - blocks;
	const wide busy = one * blocks + (weight ? idle * one * one / weight : 0);
	/* of prompts a quarter of the tail, shared out among the waves */
	const wide tail = l->longest_first ? more * at_once / (4 * blocks) : more;
	const wide path = busy / at_once + tail;
	return path < longest ? longest : path;
}

static wide sum_of(const struct segment_costs *c, const struct block_shape *b,
		   const struct attune_features *f, int v)
{
	const wide most = 1 << 27, rows = (wide)f->query_tokens * f->num_query_heads;
	struct segment_load l;
	segment_load_of(&l, b, f);
	wide sum = c->path * least(path_by_waves(c, &l, b->tile, f->units, v), most);
	if (v == 1)
		return sum;
	for (int i = 0; i < v; i++)
		sum += c->segments;
	return sum + c->split + c->merge * least(rows * v, most);
}

static void costs_are_the_sum(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		const attune_shape s = random_shape();
		const struct segment_costs c = random_costs(0);
		const struct block_shape b = random_block();
		struct part p;
		if (!random_part(&p, &s, devices[i % 2]))
			continue;
		const int v = random_segments();
		const long long fs = segments_cost(&c, &b, &p.f, v);
		assert_true(fs >= 0);
		assert_true(fs == sum_of(&c, &b, &p.f, v));
	}
}

/* A longer start and fewer slots do not make it cheaper either. One segment pays nothing for cuts. */
static void dearer_is_not_cheaper(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		const attune_shape s = random_shape();
		const struct segment_costs c = random_costs(0);
		const struct block_shape b = random_block();
		struct part p;
		if (!random_part(&p, &s, &gpu))
			continue;
		const int v = random_segments(), more = 1 + (int)below(LARGE);
		const long long fs = segments_cost(&c, &b, &p.f, v);
		struct segment_costs dear[6] = { c, c, c, c, c, c };
		dear[0].split += more;
		dear[1].segments += more;
		dear[2].merge += more;
		dear[3].path += more;
		dear[4].start += more % 512;
		dear[5].slots -= c.slots > 1;
		for (size_t k = 0; k < COUNT(dear); k++) {
			const long long above = segments_cost(&dear[k], &b, &p.f, v) - fs;
			assert_true(above >= 0);
			if (k < 3 && v == 1)
				assert_true(above == 0);
		}
		if (v > 1)
			assert_true(segments_cost(&dear[0], &b, &p.f, v) - fs == more);
	}
}

/* Batches up to the most keys, sequences and rows that the library takes, on one thread and on many
 * units, at costs up to the largest that can be read. */
static void the_largest_do_not_overflow(void **state)
{
	enum { MOST = 4096, LONGEST = 1 << 29, BATCHES = 4000 };
	static int32_t start[MOST + 1], seq[MOST];
	(void)state;
	for (int i = 0; i < BATCHES; i++) {
		const int heads = below(2) ? 128 : 1, n = 1 + (int)below(1u << below(13));
		const int query = i % 3 ? 1 : (1 << 23) / n;
		const attune_shape s = { .num_query_heads = 128,
					 .num_kv_heads = heads,
					 .head_size = 256,
					 .page_size = 16,
					 .dtype = ATTUNE_F32,
					 .kv_dtype = ATTUNE_F32,
					 .causal = 1 };
		const struct device_info other = { .backend = BACKEND_CPU,
						   .units = below(2) ? 1 : 1024,
						   .lanes = 1 };
		const int longest = LONGEST >> below(10);
		struct part p;
		for (int k = 0; k < n; k++) {
			start[k + 1] = start[k] + query;
			seq[k] = longest > query ? longest : query;
		}
		const attune_batch b = { sizeof(attune_batch), n, start, seq };
		assert_null(batch_error(&b, &s));
		assert_true(part_make(&p, PHASE_ALL, &s, &b, below(2) ? &other : &gpu));
		struct segment_costs c = random_costs(i % 2);
		struct block_shape block = random_block();
		if (!below(3))
			c.slots = MOST_SLOTS;
		if (!below(3))
			c.start = MOST_START;
		if (!below(3))
			block.tile = 1 << 16;
		const int v = below(2) ? 128 : 1;
		assert_true(segments_cost(&c, &block, &p.f, v) == sum_of(&c, &block, &p.f, v));
	}
}

/* ---- loads and paths ------------------------------------------------------------------------ */

/* Worked out by hand, for 132 units and 32 query heads, of which a KV head has 4, of the last row 16.
 *
 * One query of 4096 keys in 8 segments, 64 blocks of 512 keys at once: 512 + 128.
 * 100 of up to 8000 keys, 3000 on average (47 tiles: 3008): of 800 blocks in 264 slots a last
 * wave lacks 256; they are 4992 keys shorter than the longest: 256 x 3136^2 / (3136 + 4 x 4992)
 * = 108969; (3136 x 800 + 108969) / 264 + 4992 = 14907.
 * The same in 4 segments: 3200 blocks of 752 keys, the longest of 32 tiles, 2048; 13 waves lack
 * 232: 232 x 880^2 / (880 + 4 x 1296) = 29627; (880 x 3200 + 29627) / 264 + 1296 = 12074.
 * A prompt of 1000: 63 Q blocks of 16, so 504; 500 + 8 keys are 8 tiles, the longest 16:
 * 24 are lacking, 24 x 576^2 / (576 + 4 x 512) = 3034; of the 512 keys that the longest is longer
 * 512 x 264 / (4 x 504) = 67 count; (576 x 504 + 3034) / 264 + 67 = 1178.
 * Three prompts of up to 200, 300 in all, window 512: (600 + 9) / 8 = 77 Q blocks of 4; 402 keys
 * are 13 tiles of 32, the longest, 516, 17: 44 are lacking in 132 slots, 44 x 416^2 / (416 + 4 x
 * 128) = 8205; 128 x 132 / (4 x 616) = 6; (416 x 616 + 8205) / 132 + 6 = 2009.
 * A prompt of 1000 after 1000, blocks of 64 tokens of one head: 16 x 32 = 512; 1500 + 32 keys are
 * 24 tiles, the longest 32: 16 are lacking, 16 x 1600^2 / (1600 + 4 x 512) = 11228; 512 x 264 / (4 x
 * 512) = 66; (1600 x 512 + 11228) / 264 + 66 = 3211.
 * Five queries of 16 heads on each of 2 KV heads, blocks of 8 rows: 20; 700 keys are 44 tiles of
 * 16, 704, the longest 63; a third of these, 21 x 16 + 32, all at once. */
static const struct {
	struct attune_features f;
	struct block_shape block;
	struct segment_costs costs;
	int segments;
	struct segment_load load;
	long long path;
} by_hand[] = {
#define SHAPE .num_query_heads = 32, .num_kv_heads = 8, .group = 4, .units = 132
	{ { SHAPE, .window = 1 << 30, .num_seqs = 1, .max_query = 1, .mean_query = 1,
	    .query_tokens = 1, .max_seq = 4096, .keys_per_query = 4096 },
	  { 16, 64, 0, 0 },
	  { .slots = 2, .start = 128 },
	  8,
	  { 8, 64, 4096, 4096, 0 },
	  640 },
	{ { SHAPE, .window = 1 << 30, .num_seqs = 100, .max_query = 1, .mean_query = 1,
	    .query_tokens = 100, .max_seq = 8000, .keys_per_query = 3000 },
	  { 16, 64, 0, 0 },
	  { .slots = 2, .start = 128 },
	  1,
	  { 800, 125, 3008, 3000, 0 },
	  14907 },
	{ { SHAPE, .window = 1 << 30, .num_seqs = 100, .max_query = 1, .mean_query = 1,
	    .query_tokens = 100, .max_seq = 8000, .keys_per_query = 3000 },
	  { 16, 64, 0, 0 },
	  { .slots = 2, .start = 128 },
	  4,
	  { 800, 125, 3008, 3000, 0 },
	  12074 },
	{ { SHAPE, .window = 1 << 30, .num_seqs = 1, .max_query = 1000, .mean_query = 1000,
	    .query_tokens = 1000, .max_seq = 1000, .keys_per_query = 500 },
	  { 64, 64, 0, 0 },
	  { .slots = 2, .start = 64 },
	  1,
	  { 504, 16, 512, 508, 1 },
	  1178 },
	{ { SHAPE, .window = 512, .num_seqs = 3, .max_query = 200, .mean_query = 100,
	    .query_tokens = 300, .max_seq = 700, .keys_per_query = 400 },
	  { 16, 32, 0, 0 },
	  { .slots = 1, .start = 0 },
	  1,
	  { 616, 17, 416, 402, 1 },
	  2009 },
	{ { SHAPE, .window = 1 << 30, .num_seqs = 1, .max_query = 1000, .mean_query = 1000,
	    .query_tokens = 1000, .max_seq = 2000, .keys_per_query = 1500 },
	  { 64, 64, 1, 0 },
	  { .slots = 2, .start = 64 },
	  1,
	  { 512, 32, 1536, 1532, 1 },
	  3211 },
	{ { .num_query_heads = 32,
	    .num_kv_heads = 2,
	    .group = 16,
	    .units = 132,
	    .window = 1 << 30,
	    .num_seqs = 5,
	    .max_query = 1,
	    .mean_query = 1,
	    .query_tokens = 5,
	    .max_seq = 1000,
	    .keys_per_query = 700 },
	  { 8, 16, 0, 0 },
	  { .slots = 1, .start = 32 },
	  3,
	  { 20, 63, 704, 700, 0 },
	  368 },
#undef SHAPE
};

static const struct block_shape clusters = { 8, 16, 0, 1 }, apart = { 8, 16, 0, 0 };

/* An H200 with one block a unit ran 66, 39, 30, 17 and 15 clusters of 2, 3, 4, 6 and 8 at a time. */
static void clusters_leave_slots_idle(void **state)
{
	static const struct {
		int segments, slots, blocks;
	} rows[] = { { 1, 1, 132 }, { 2, 1, 128 }, { 3, 1, 117 }, { 4, 1, 120 }, { 6, 1, 114 },
		     { 8, 1, 104 }, { 1, 3, 396 }, { 8, 3, 368 }, { 64, 1, 64 } };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct segment_costs costs = { .slots = rows[i].slots };
		assert_int_equal(segment_slots(&costs, &clusters, 132, rows[i].segments),
				 rows[i].blocks);
		assert_int_equal(segment_slots(&costs, &apart, 132, rows[i].segments),
				 132 * rows[i].slots);
	}
}

/* 40 Q blocks of 1024 keys, in clusters of two one wave, in clusters of three two. */
static void a_cluster_too_many_takes_a_second_wave(void **state)
{
	const struct attune_features f = { .num_query_heads = 16,
					   .num_kv_heads = 8,
					   .group = 2,
					   .units = 132,
					   .window = 1 << 30,
					   .num_seqs = 5,
					   .max_query = 1,
					   .mean_query = 1,
					   .query_tokens = 5,
					   .max_seq = 1024,
					   .keys_per_query = 1024 };
	const struct segment_costs costs = { .slots = 1, .path = 1 };
	(void)state;
	assert_int_equal(segments_cost(&costs, &clusters, &f, 2), 512);
	assert_int_equal(segments_cost(&costs, &apart, &f, 3), 352);
	assert_in_range(segments_cost(&costs, &clusters, &f, 3), 513, 704);
}

static void some_by_hand(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(by_hand); i++) {
		const struct segment_load *want = &by_hand[i].load;
		struct segment_load l;
		segment_load_of(&l, &by_hand[i].block, &by_hand[i].f);
		if (l.blocks != want->blocks || l.tiles != want->tiles ||
		    l.padded_mean != want->padded_mean || l.mean != want->mean ||
		    l.longest_first != want->longest_first)
			fail_msg("%zu: %lld blocks, %lld tiles, %lld and %lld keys", i, l.blocks,
				 l.tiles, l.padded_mean, l.mean);
		const long long path = segment_path(&by_hand[i].costs, &l, &by_hand[i].block,
						    by_hand[i].f.units, by_hand[i].segments);
		if (path != by_hand[i].path)
			fail_msg("%zu: %lld", i, path);
	}
}

/* Decodes of one token, on a device that is soon full. */
struct decodes {
	attune_shape shape;
	struct part part;
	int n;
	int32_t seq[MAX_SEQS];
	struct block_shape block;
	struct segment_costs costs;
	int segments;
};

static void draw_decodes(struct decodes *d, int are_alike)
{
	static const struct device_info few = { .backend = BACKEND_GPU, .units = 5, .lanes = 32 };
	int32_t start[MAX_SEQS + 1] = { 0 };
	d->n = 1 + (int)below(MAX_SEQS);
	d->shape = random_shape();
	d->shape.window = 0;
	d->block = random_block();
	d->costs = random_costs(0);
	d->segments = random_segments();
	const int tiles = d->segments * (1 + (int)below(20));
	for (int i = 0; i < d->n; i++) {
		start[i + 1] = i + 1;
		d->seq[i] = are_alike ? tiles * d->block.tile : 1 + (int)below(2u << below(14));
	}
	const attune_batch b = { sizeof(attune_batch), d->n, start, d->seq };
	assert_true(part_make(&d->part, PHASE_DECODE, &d->shape, &b, &few));
}

/* The time when the last slot ends if each block goes to the first free slot: blocks of a
 * sequence's KV heads, chunks of heads and segments. */
static long long deal(const struct decodes *d)
{
	enum { MOST_SLOTS_HERE = 5 * 4 };
	const int group = d->shape.num_query_heads / d->shape.num_kv_heads;
	const int packed = d->block.heads && d->block.heads < group ? d->block.heads : group;
	const int heads = packed < d->block.rows ? packed : d->block.rows;
	const int slots = (int)d->part.f.units * d->costs.slots;
	long long end[MOST_SLOTS_HERE] = { 0 }, last = 0;
	assert_in_range(slots, 1, MOST_SLOTS_HERE);
	for (int i = 0; i < d->n; i++) {
		const long long tiles = (long long)fill(d->seq[i], d->block.tile);
		const long long keys = (long long)fill(tiles, d->segments) * d->block.tile;
		const int blocks = d->shape.num_kv_heads * (int)fill(group, heads) * d->segments;
		for (int b = 0; b < blocks; b++) {
			int first = 0;
			for (int k = 1; k < slots; k++)
				first = end[k] < end[first] ? k : first;
			end[first] += keys + d->costs.start;
			last = end[first] > last ? end[first] : last;
		}
	}
	return last;
}

static long long path_of(const struct decodes *d, struct segment_load *l)
{
	segment_load_of(l, &d->block, &d->part.f);
	return segment_path(&d->costs, l, &d->block, d->part.f.units, d->segments);
}

static void of_equal_blocks_the_path_is_what_dealing_takes(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS / 10; i++) {
		struct decodes d;
		struct segment_load l;
		draw_decodes(&d, 1);
		assert_true(path_of(&d, &l) == deal(&d));
	}
}

/* Some slot runs the longest block, and some slot runs no less than the mean of all slots. Dealt in
 * turn, the last slot ends no later than both together (Graham). The path and the deal keep to these
 * bounds, so that neither is more than twice the other. The path knows the mean block to whole tiles. */
static void of_others_it_keeps_to_grahams_bounds(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS / 10; i++) {
		struct decodes d;
		struct segment_load l;
		draw_decodes(&d, 0);
		const long long path = path_of(&d, &l), dealt = deal(&d);
		const long long n = l.blocks * d.segments;
		const long long slots = d.part.f.units * d.costs.slots;
		const long long longest =
		    (long long)fill(l.tiles, d.segments) * d.block.tile + d.costs.start;
		const long long one = (long long)fill(l.padded_mean, d.segments) + d.costs.start;
		const long long tiles = d.block.tile * (long long)fill(n, slots);
		assert_true(path >= longest);
		assert_true(path <= one * n / slots + longest);
		if (n > slots)
			assert_true(path >= one * n / slots);
		assert_true(path <= 2 * (dealt + tiles));
		assert_true(dealt <= 2 * (path + tiles));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(costs_are_the_sum),
		cmocka_unit_test(dearer_is_not_cheaper),
		cmocka_unit_test(the_largest_do_not_overflow),
		cmocka_unit_test(some_by_hand),
		cmocka_unit_test(clusters_leave_slots_idle),
		cmocka_unit_test(a_cluster_too_many_takes_a_second_wave),
		cmocka_unit_test(of_equal_blocks_the_path_is_what_dealing_takes),
		cmocka_unit_test(of_others_it_keeps_to_grahams_bounds),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("segments", tests, NULL, NULL);
}
