/* t_list_schedule.c - list scheduling of a batch's blocks: against a simulation that looks at
 * every slot, against bounds that any such schedule keeps, and cases by hand. */
#include "tuner/costmodel/costmodel.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_SEQS = 6, MOST_BLOCKS = 1 << 16, UNITS = 12 };

struct dealt_case {
	attune_shape shape;
	struct cost_model price;
	int32_t query_start[MOST_SEQS + 1], seq_lens[MOST_SEQS];
	attune_batch batch;
	struct list_schedule schedule;
	int segments;
};

static unsigned long long seed = 1;

static int below(int n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (int)((seed >> 33) % (unsigned)n);
}

static void draw(struct dealt_case *c)
{
	static const int rows[] = { 16, 64, 128 }, tiles[] = { 16, 64, 80 };
	const int group = 1 << below(4), kv_heads = 1 << below(3);
	*c = (struct dealt_case){ .segments = 1 + below(4) };
	c->shape = (attune_shape){ .size = sizeof(attune_shape),
				   .num_query_heads = group * kv_heads,
				   .num_kv_heads = kv_heads,
				   .head_size = 128,
				   .page_size = 16,
				   .causal = below(4) > 0,
				   .window = below(3) ? 0 : 1 + below(600),
				   .dtype = ATTUNE_BF16,
				   .kv_dtype = ATTUNE_BF16 };
	c->price = (struct cost_model){ .block = { rows[below(3)], tiles[below(3)], below(2) },
					.slots = 1 + below(3),
					.start = 32 * below(5) };
	c->batch.num_seqs = 1 + below(MOST_SEQS);
	for (int i = 0; i < c->batch.num_seqs; i++) {
		const int query = 9 + below(900);
		c->query_start[i + 1] = c->query_start[i] + query;
		c->seq_lens[i] = query + below(3) * below(3000);
	}
	c->batch.query_start = c->query_start;
	c->batch.seq_lens = c->seq_lens;
	c->schedule = (struct list_schedule){ &c->shape, &c->batch, PHASE_PREFILL,
					      below(2) ? 0 : 1 + below(40), NULL };
}

static int slots_of(const struct dealt_case *c)
{
	return c->schedule.at_once ? c->schedule.at_once : UNITS * c->price.slots;
}

/* ---- blocks, key by key ------------------------------------------------------------------------ */
/* Whether one of the query's tokens from..to - 1 does. */
static int is_seen(const attune_shape *s, int context, int from, int to, int key)
{
	const int first = s->causal && key - context > from ? key - context : from;
	const int end =
	    s->window && key - context + s->window < to ? key - context + s->window : to;
	return first < end;
}

/* Tiles with a key that some token of the block sees; at least one. */
static int tiles_seen(const attune_shape *s, int tile, int query, int seq, int from, int to)
{
	int n = 0;
	for (int at = 0; at < seq; at += tile) {
		int any = 0;
		for (int key = at; key < at + tile && key < seq && !any; key++)
			any = is_seen(s, seq - query, from, to, key);
		n += any;
	}
	return n ? n : 1;
}

static int by_length(const void *a, const void *b)
{
	const long long x = *(const long long *)a, y = *(const long long *)b;
	return (x < y) - (x > y);
}

/* Keys of every block of every head and segment, the longest first; how many. */
static int list(const struct dealt_case *c, long long *keys)
{
	const attune_shape *s = &c->shape;
	const struct block_shape *b = &c->price.block;
	const int group = s->num_query_heads / s->num_kv_heads;
	const int heads = b->heads && b->heads < group ? b->heads : group;
	const int tokens = b->rows / heads > 1 ? b->rows / heads : 1;
	const int packed = heads < b->rows ? heads : b->rows;
	const int copies = s->num_kv_heads * ((group + packed - 1) / packed) * c->segments;
	int n = 0;
	for (int i = 0; i < c->batch.num_seqs; i++) {
		const int query = c->query_start[i + 1] - c->query_start[i];
		for (int from = 0; from < query; from += tokens) {
			const int to = from + tokens < query ? from + tokens : query;
			const int tiles = tiles_seen(s, b->tile, query, c->seq_lens[i], from, to);
			for (int k = 0; k < copies; k++) {
				assert_true(n < MOST_BLOCKS);
				keys[n++] = (tiles + c->segments - 1) / c->segments * b->tile +
					    c->price.start;
			}
		}
	}
	qsort(keys, (size_t)n, sizeof *keys, by_length);
	return n;
}

static long long simulated(const long long *keys, int n, int slots)
{
	long long *load = calloc((size_t)slots, sizeof *load), last = 0;
	assert_non_null(load);
	for (int i = 0; i < n; i++) {
		int least = 0;
		for (int s = 1; s < slots; s++)
			least = load[s] < load[least] ? s : least;
		load[least] += keys[i];
	}
	for (int s = 0; s < slots; s++)
		last = load[s] > last ? load[s] : last;
	free(load);
	return last;
}

static void as_if_every_slot_was_looked_at(void **state)
{
	static long long keys[MOST_BLOCKS];
	int exact = 0, many = 0;
	(void)state;
	for (int i = 0; i < 400; i++) {
		struct dealt_case c;
		draw(&c);
		const int n = list(&c, keys), slots = slots_of(&c);
		const long long want = simulated(keys, n, slots);
		const long long got = list_schedule_path(&c.price, &c.schedule, UNITS, c.segments);
		if (n < 16 * slots) {
			assert_true(got == want);
			exact++;
		} else { /* each slot has so many that the last hardly matters */
			assert_true(20 * llabs(got - want) <= want);
			many++;
		}
	}
	assert_true(exact > 100 && many > 20);
}

/* No deal is shorter than its longest block or an even share. */
static void bounds_hold(void **state)
{
	static long long keys[MOST_BLOCKS];
	(void)state;
	for (int i = 0; i < 400; i++) {
		struct dealt_case c;
		draw(&c);
		const int n = list(&c, keys), slots = slots_of(&c);
		const long long got = list_schedule_path(&c.price, &c.schedule, UNITS, c.segments);
		long long sum = 0;
		for (int k = 0; k < n; k++)
			sum += keys[k];
		assert_true(got >= keys[0]);
		assert_true(got >= sum / slots);
		assert_true(got <= sum / slots + keys[0]);
	}
}

/* 8 heads, blocks of 64 tokens of a head, tiles of 64, 32 keys more each. */
static void some_by_hand(void **state)
{
	static const struct {
		int query, seq, units, segments;
		long long path;
	} rows[] = {
		/* one block a head, all at once: 2 tiles */
		{ 64, 128, 8, 1, 128 + 32 },
		/* the same on 4 units: two blocks each */
		{ 64, 128, 4, 1, 2 * (128 + 32) },
		/* 16 blocks on 8, of 2 tiles and of 1: the long ones first, then the short ones */
		{ 128, 128, 8, 1, 128 + 32 + 64 + 32 },
		/* 9 of 8 units' worth of blocks: 8 x 9 blocks of 4 tiles */
		{ 576, 576, 72, 1, 576 + 32 },
		/* in 2 segments a block has 1 tile of its 2 */
		{ 64, 128, 16, 2, 64 + 32 },
	};
	const attune_shape shape = { .size = sizeof(attune_shape),
				     .num_query_heads = 8,
				     .num_kv_heads = 8,
				     .head_size = 64,
				     .page_size = 16,
				     .causal = 1,
				     .dtype = ATTUNE_BF16,
				     .kv_dtype = ATTUNE_BF16 };
	const struct cost_model price = { .block = { 64, 64, 1, 0 }, .slots = 1, .start = 32 };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const int32_t start[] = { 0, rows[i].query }, seq[] = { rows[i].seq };
		const attune_batch batch = { sizeof(attune_batch), 1, start, seq };
		const struct list_schedule d = { &shape, &batch, PHASE_PREFILL, 0, NULL };
		const long long got =
		    list_schedule_path(&price, &d, rows[i].units, rows[i].segments);
		if (got != rows[i].path)
			fail_msg("%zu: %lld", i, got);
	}
}

/* Sequences of the other phase are not dealt out. */
static void decodes_are_left_out(void **state)
{
	const int32_t start[] = { 0, 64, 65 }, seq[] = { 128, 60000 };
	const attune_shape shape = { .size = sizeof(attune_shape),
				     .num_query_heads = 8,
				     .num_kv_heads = 8,
				     .head_size = 64,
				     .page_size = 16,
				     .causal = 1 };
	const attune_batch both = { sizeof(attune_batch), 2, start, seq };
	const attune_batch one = { sizeof(attune_batch), 1, start, seq };
	const struct cost_model price = { .block = { 64, 64, 1, 0 }, .slots = 1, .start = 32 };
	const struct list_schedule of_both = { &shape, &both, PHASE_PREFILL, 0, NULL },
				   of_one = { &shape, &one, PHASE_PREFILL, 0, NULL };
	(void)state;
	assert_true(list_schedule_path(&price, &of_both, 8, 1) ==
		    list_schedule_path(&price, &of_one, 8, 1));
}

/* Batches of many shapes share a memo, and each is asked for twice. */
static void a_memo_changes_nothing(void **state)
{
	enum { CASES = 300 };
	struct dealt_case *c = calloc(CASES, sizeof *c);
	struct path_memo *memo = path_memo_new();
	(void)state;
	assert_true(c && memo);
	for (int i = 0; i < CASES; i++)
		draw(&c[i]);
	for (int again = 0; again < 2; again++)
		for (int i = 0; i < CASES; i++)
			for (int segments = 1; segments <= 3; segments++) {
				struct list_schedule d = { &c[i].shape, &c[i].batch, PHASE_PREFILL,
							   c[i].schedule.at_once, NULL };
				const long long want =
				    list_schedule_path(&c[i].price, &d, UNITS, segments);
				d.memo = memo;
				assert_true(list_schedule_path(&c[i].price, &d, UNITS, segments) ==
					    want);
			}
	free(memo);
	free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_if_every_slot_was_looked_at),
		cmocka_unit_test(bounds_hold),
		cmocka_unit_test(some_by_hand),
		cmocka_unit_test(decodes_are_left_out),
		cmocka_unit_test(a_memo_changes_nothing),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("dealt", tests, NULL, NULL);
}
