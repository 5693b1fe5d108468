/* SPDX-License-Identifier: Apache-2.0 */
/* t_write_kv.c - attune_write_kv on the CPU and on a GPU, or the emulated one: the whole cache, which
 * was poisoned, bit by bit as a plain loop writes it. */
#include "kernels/launch/op.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/write/write_step.h"

// clang-format off
static const struct row rows[] = {
	{ "decodes of F32", ATTUNE_F32, ATTUNE_F32, 3, 80, 5, 0, 0, NULL, 0 },
	{ "slots of F32", ATTUNE_F32, ATTUNE_F32, 2, 64, 16, 1, 1, NULL, 0 },
	{ "NHD by lengths", ATTUNE_BF16, ATTUNE_BF16, 8, 128, 16, 0, 0, NULL, 0 },
	{ "NHD by slots", ATTUNE_F16, ATTUNE_F16, 8, 128, 16, 0, 1, NULL, 0 },
	{ "HND", ATTUNE_BF16, ATTUNE_BF16, 2, 64, 32, 1, 0, NULL, 0 },
	{ "slots outermost", ATTUNE_BF16, ATTUNE_BF16, 4, 96, 8, 2, 1, NULL, 0 },
	{ "heads outermost", ATTUNE_BF16, ATTUNE_BF16, 4, 80, 1, 3, 0, NULL, 0 },
	{ "packed NHD", ATTUNE_F16, ATTUNE_F16, 3, 192, 7, 4, 1, NULL, 0 },
	{ "packed HND", ATTUNE_BF16, ATTUNE_BF16, 8, 128, 16, 5, 0, NULL, 0 },
	{ "packed, heads outermost", ATTUNE_BF16, ATTUNE_BF16, 5, 64, 48, 6, 1, NULL, 0 },
	{ "gaps", ATTUNE_BF16, ATTUNE_BF16, 7, 64, 3, 7, 0, NULL, 0 },
	{ "heads in reverse", ATTUNE_BF16, ATTUNE_BF16, 6, 96, 16, 8, 1, NULL, 0 },
	{ "wide tokens", ATTUNE_BF16, ATTUNE_BF16, 33, 256, 16, 0, 1, NULL, 0 },
	{ "one head", ATTUNE_F16, ATTUNE_F16, 1, 64, 16, 1, 0, NULL, 0 },
	{ "classic", ATTUNE_F16, ATTUNE_F16, 4, 80, 8, 9, 0, NULL, 0 },
	{ "classic by slots", ATTUNE_BF16, ATTUNE_BF16, 8, 128, 16, 9, 1, NULL, 0 },
	{ "E4M3, no scale", ATTUNE_BF16, ATTUNE_E4M3, 8, 128, 16, 0, 0, "none", 0 },
	{ "E4M3, one scale", ATTUNE_F16, ATTUNE_E4M3, 4, 64, 16, 1, 1, "one", 0 },
	{ "E4M3, scales of heads", ATTUNE_BF16, ATTUNE_E4M3, 3, 80, 24, 5, 1, "heads", 0 },
	{ "E4M3, scales of sequences", ATTUNE_BF16, ATTUNE_E4M3, 2, 64, 16, 0, 0, "seqs", 0 },
	{ "E4M3, slots and scales of sequences", ATTUNE_F16, ATTUNE_E4M3, 2, 96, 24, 7, 1, "seqs", 0 },
	{ "E4M3 of every BF16", ATTUNE_BF16, ATTUNE_E4M3, 8, 128, 16, 0, 1, "none", 1 },
	{ "E4M3 of every F16", ATTUNE_F16, ATTUNE_E4M3, 8, 128, 16, 0, 1, "none", 1 },
	{ "E4M3 of every BF16, scaled", ATTUNE_BF16, ATTUNE_E4M3, 8, 128, 16, 0, 1, "heads", 1 },
	{ "E4M3 of every F16, scaled", ATTUNE_F16, ATTUNE_E4M3, 8, 128, 16, 0, 1, "heads", 1 },
};
// clang-format on

/* ---- the tests ----------------------------------------------------------------------------- */

/* On a GPU by a graph. */
static void launch(const attune_op *op, const struct step *s, const int64_t *slots)
{
	struct graph *graph;
	double ns;
	ok(dev.ops->graph_begin(&dev));
	ok(attune_write_kv(op, s->num_seqs, s->num_tokens, &s->t, slots, dev.ops->stream(&dev)));
	ok(dev.ops->graph_end(&dev, &graph));
	ok(dev.ops->graph_play(&dev, graph, &ns));
	dev.ops->graph_free(&dev, graph);
}

static void writes_as_the_loop(struct step *s)
{
	attune_context *ctx;
	attune_op *op;
	ok(attune_adopt(&ctx, &dev));
	ok(attune_prepare(ctx, &s->shape, &op));
	launch(op, s, step_give(s));
	void *cache = s->on_device[0];
	ok(dev.ops->get(&dev, s->got, cache, s->cache_bytes));
	write_plainly(s);
	for (size_t i = 0; i < s->cache_bytes; i++)
		if (s->got[i] != s->cache[i])
			fail_msg("byte %zu of %zu: %02x, not %02x", i, s->cache_bytes, s->got[i],
				 s->cache[i]);
	attune_release(op);
	attune_close(ctx);
}

/* ---- what is refused ----------------------------------------------------------------------- */

enum change {
	NO_OP,
	NO_TENSORS,
	ODD_SIZE,
	NO_K_NEW,
	NO_V_CACHE,
	NO_TABLE,
	NO_LENGTHS,
	NO_SEQS,
	NEGATIVE_TOKENS,
	NEGATIVE_SEQS,
	ODD_STRIDE,
	ODD_NEW_STRIDE,
	ODD_E4M3_STRIDE,
	ODD_CACHE,
	ODD_ROWS,
	SCALES_WITHOUT_SEQS,
	SCALES_WITHOUT_QUERIES
};

static const struct refused {
	const char *name;
	enum change change;
	int gpu, row; /* row: of `rows` */
	const char *message;
} refused[] = {
	{ "no op", NO_OP, 0, 2, "attune_write_kv: an argument is NULL" },
	{ "no tensors", NO_TENSORS, 0, 2, "attune_write_kv: an argument is NULL" },
	{ "no size", ODD_SIZE, 0, 2,
	  "attune_write_kv: attune_tensors.size is 0: set it to sizeof(attune_tensors)" },
	{ "no rows", NO_K_NEW, 0, 2,
	  "attune_write_kv: k_new, v_new, k_cache and v_cache must be given" },
	{ "no cache", NO_V_CACHE, 1, 2,
	  "attune_write_kv: k_new, v_new, k_cache and v_cache must be given" },
	{ "no table", NO_TABLE, 0, 2,
	  "attune_write_kv: without slots block_table, query_start and seq_lens must be given" },
	{ "no lengths", NO_LENGTHS, 1, 2,
	  "attune_write_kv: without slots block_table, query_start and seq_lens must be given" },
	{ "no sequences", NO_SEQS, 0, 2,
	  "attune_write_kv: num_seqs is 0: without slots, and with a scale for each sequence, "
	  "tokens are those of sequences" },
	{ "-1 tokens", NEGATIVE_TOKENS, 0, 2,
	  "attune_write_kv: num_seqs is 8, num_tokens -1: they must be 0 or more" },
	{ "-1 sequences", NEGATIVE_SEQS, 0, 2,
	  "attune_write_kv: num_seqs is -1, num_tokens 32: they must be 0 or more" },
	{ "a slot stride of 1028", ODD_STRIDE, 1, 2,
	  "attune_write_kv: on a GPU all strides must be multiples of 8 elements" },
	{ "a token stride of 3076", ODD_NEW_STRIDE, 1, 2,
	  "attune_write_kv: on a GPU k_new and v_new must be 16-byte aligned, and their strides "
	  "multiples of 8 elements" },
	{ "an E4M3 stride of 1032", ODD_E4M3_STRIDE, 1, 16,
	  "attune_write_kv: on a GPU the strides of an E4M3 cache must be multiples of 16 "
	  "elements" },
	{ "a cache at 8 bytes", ODD_CACHE, 1, 2,
	  "attune_write_kv: on a GPU k_cache and v_cache must be 16-byte aligned" },
	{ "rows at 8 bytes", ODD_ROWS, 1, 2,
	  "attune_write_kv: on a GPU k_new and v_new must be 16-byte aligned, and their strides "
	  "multiples of 8 elements" },
	{ "scales of no sequences", SCALES_WITHOUT_SEQS, 1, 20,
	  "attune_write_kv: num_seqs is 0: without slots, and with a scale for each sequence, "
	  "tokens are those of sequences" },
	{ "scales of sequences without queries", SCALES_WITHOUT_QUERIES, 1, 20,
	  "attune_write_kv: with a scale for each sequence query_start must be given" },
};

static void make_wrong(attune_tensors *t, enum change change)
{
	t->size = change == ODD_SIZE ? 0 : t->size;
	t->k_new = change == NO_K_NEW ? NULL : t->k_new;
	t->v_cache = change == NO_V_CACHE ? NULL : t->v_cache;
	t->block_table = change == NO_TABLE ? NULL : t->block_table;
	t->seq_lens = change == NO_LENGTHS ? NULL : t->seq_lens;
	t->query_start = change == SCALES_WITHOUT_QUERIES ? NULL : t->query_start;
	t->k_slot_stride += change == ODD_STRIDE ? 4 : change == ODD_E4M3_STRIDE ? 8 : 0;
	t->v_new_token_stride += change == ODD_NEW_STRIDE ? 4 : 0;
	t->k_cache = (const char *)t->k_cache + (change == ODD_CACHE ? 8 : 0);
	t->v_new = (const char *)t->v_new + (change == ODD_ROWS ? 8 : 0);
}

static void in_one_line(void **state)
{
	const struct refused *r = *state;
	attune_context *ctx;
	attune_op *op;
	struct step s;
	ok(r->gpu ? gpu_open(&dev) : device_open(&dev, "cpu"));
	step_make(&s, &rows[r->row]);
	const int64_t *slots = step_give(&s);
	ok(attune_adopt(&ctx, &dev));
	ok(attune_prepare(ctx, &s.shape, &op));
	if (r->change == NO_SEQS || r->change == SCALES_WITHOUT_SEQS)
		s.num_seqs = 0;
	make_wrong(&s.t, r->change);
	const enum attune_status status = attune_write_kv(
	    r->change == NO_OP ? NULL : op, r->change == NEGATIVE_SEQS ? -1 : s.num_seqs,
	    r->change == NEGATIVE_TOKENS ? -1 : s.num_tokens, r->change == NO_TENSORS ? NULL : &s.t,
	    slots, NULL);
	assert_int_equal(status, ATTUNE_INVALID);
	assert_string_equal(attune_last_error(), r->message);
	ok(attune_write_kv(op, 0, 0, &(attune_tensors){ .size = sizeof s.t }, NULL, NULL));
	ok(dev.ops->get(&dev, s.got, s.on_device[0], s.cache_bytes));
	assert_memory_equal(s.got, s.cache, s.cache_bytes);
	attune_release(op);
	attune_close(ctx);
	step_free(&s);
	device_close(&dev);
}

/* ---- devices ------------------------------------------------------------------------------- */

static void as_the_loop(const struct row *r)
{
	struct step s;
	state_of_random = 7;
	step_make(&s, r);
	writes_as_the_loop(&s);
	step_free(&s);
	device_close(&dev);
}

static void on_cpu(void **state)
{
	ok(device_open(&dev, "cpu"));
	as_the_loop(*state);
}

static void on_gpu(void **state)
{
	ok(gpu_open(&dev));
	as_the_loop(*state);
}

static void on_mi300(void **state)
{
	ok(simt_open(&dev, EMULATED_UNITS, 0));
	simt_pose(&dev, SIMT_MI300X);
	as_the_loop(*state);
}

/* Which rows a device runs. */
static int is_for_cpu(const struct row *r)
{
	return r->kv_dtype != ATTUNE_E4M3 && !layouts[r->layout].classic;
}

static int is_for_gpu(const struct row *r)
{
	return r->dtype != ATTUNE_F32;
}

static int carries(const char *arch)
{
	for (int i = 0; i < attune_num_shipped; i++)
		if (!strcmp(attune_shipped[i].arch, arch))
			return 1;
	return 0;
}

/* The library carries 64, 128 and 256 for AMD, if it was built for AMD at all. */
static int is_for_mi300(const struct row *r)
{
	return carries("gfx942") && is_for_gpu(r) && r->kv_dtype != ATTUNE_E4M3 &&
	       !(r->head_size & (r->head_size - 1));
}

static const struct where {
	const char *name;
	int (*takes)(const struct row *);
	CMUnitTestFunction run;
} devices[] = {
	{ "cpu", is_for_cpu, on_cpu },
	{ "gpu", is_for_gpu, on_gpu },
	{ "mi300", is_for_mi300, on_mi300 },
};

int main(void)
{
	static char names[COUNT(devices) * COUNT(rows)][80];
	struct CMUnitTest tests[COUNT(names) + COUNT(refused)];
	size_t n = 0;
	for (size_t i = 0; i < COUNT(names); i++) {
		const struct where *d = &devices[i / COUNT(rows)];
		const struct row *r = &rows[i % COUNT(rows)];
		snprintf(names[i], sizeof names[i], "%s: %s", d->name, r->name);
		if (d->takes(r))
			tests[n++] = (struct CMUnitTest){ names[i], d->run, NULL, NULL,
							  (void *)(uintptr_t)r };
	}
	for (size_t i = 0; i < COUNT(refused); i++)
		tests[n++] = (struct CMUnitTest){ refused[i].name, in_one_line, NULL, NULL,
						  (void *)(uintptr_t)&refused[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("write_kv", tests, n, NULL, NULL);
}
