/* SPDX-License-Identifier: Apache-2.0 */
/* t_e4m3_library.c - 8-bit caches and the LSE through the public API: decodes run by the
 * defaults where no heuristic serves, and prefills by warpgroup where a heuristic names it. What
 * no kernel can do is refused in one line. */
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "kernels/launch/op.h"
#include "kernels/launch/run.h"
#include "kernels/spec/part.h"
#include <stdio.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/run_plan.h"

static const attune_shape e4m3 = { .size = sizeof(attune_shape),
				   .num_query_heads = 8,
				   .num_kv_heads = 2,
				   .head_size = 128,
				   .page_size = 16,
				   .dtype = ATTUNE_BF16,
				   .kv_dtype = ATTUNE_E4M3,
				   .causal = 1,
				   .has_lse = 1 };

struct call {
	struct scenario s;
	attune_context *ctx;
	attune_op *op;
	attune_plan plan;
	struct workload w;
};

/* The plan, as text or error. */
static enum attune_status call_make(struct call *c, const attune_shape *of, const char *text)
{
	char error[160];
	memset(c, 0, sizeof *c);
	c->s = (struct scenario){ .batch_text = (char *)(uintptr_t)text,
				  .batch = batch_parse(text, error, sizeof error),
				  .shape = *of,
				  .seed = 2 };
	assert_non_null(c->s.batch);
	if (attune_adopt(&c->ctx, &dev) || attune_prepare(c->ctx, of, &c->op) ||
	    workload_make(&c->w, &dev, &pool, &c->s, WORKLOAD_CHECK, 0))
		fail_msg("%s: %s", text, attune_last_error());
	c->plan.size = sizeof c->plan;
	return attune_plan_batch(c->op, &c->s.batch->view, &c->plan);
}

static void call_free(struct call *c)
{
	workload_free(&c->w);
	batch_free(c->s.batch);
	attune_release(c->op);
	attune_close(c->ctx);
}

static void decodes_are_right(void **state)
{
	static const char *const batches[] = { "5q1s300_q1s2", "q1s900", "q3s70_q8s8_q2s33",
					       "q4s1" };
	attune_shape shapes[3] = { e4m3, e4m3, e4m3 };
	(void)state;
	shapes[1].has_lse = 0;
	shapes[2].kv_dtype = ATTUNE_BF16;
	for (size_t i = 0; i < COUNT(shapes) * COUNT(batches); i++) {
		struct call c;
		char text[MAX_CHOICE_TEXT];
		const char *batch = batches[i % COUNT(batches)];
		if (call_make(&c, &shapes[i / COUNT(batches)], batch) ||
		    attune_plan_text(c.op, &c.plan, text, sizeof text))
			fail_msg("%s: %s", batch, attune_last_error());
		assert_memory_equal(text, "ring", 4);
		run_right(c.op, &c.plan, &c.w);
		call_free(&c);
	}
}

/* Q times 2^by, where Q has no zeros that matter: exponents of BF16 from bit 7 on. */
static void grow_q(struct call *c, int by)
{
	const size_t n = (size_t)c->plan.num_tokens * (size_t)c->w.tensors.q_token_stride;
	uint16_t *q = calloc(n, sizeof *q);
	void *memory = (void *)(uintptr_t)c->w.tensors.q;
	assert_non_null(q);
	assert_int_equal(dev.ops->get(&dev, q, memory, n * sizeof *q), ATTUNE_OK);
	for (size_t i = 0; i < n; i++)
		q[i] = (uint16_t)(q[i] & 0x7fff ? q[i] + by * 128 : q[i]);
	assert_int_equal(dev.ops->put(&dev, memory, q, n * sizeof *q), ATTUNE_OK);
	free(q);
}

/* BF16 reaches far beyond F16, of which matrix steps are: with a scale that makes up for it
 * everything is as before. */
static void queries_of_any_size(void **state)
{
	static const int powers[] = { -100, -40, 13, 60, 100 };
	(void)state;
	for (size_t i = 0; i < 2 * COUNT(powers); i++) {
		const int by = powers[i / 2];
		attune_shape s = e4m3;
		struct call c;
		attune_op *op;
		const int prefills = i % 2 && has_warpgroups(&dev.info);
		s.head_size = i % 2 ? 128 : 80;
		assert_int_equal(call_make(&c, &s, prefills ? "q30s60" : "5q1s300_2q7s40"),
				 ATTUNE_OK);
		grow_q(&c, by);
		s.scale = ldexpf(1 / sqrtf((float)s.head_size), -by);
		assert_int_equal(attune_prepare(c.ctx, &s, &op), ATTUNE_OK);
		assert_int_equal(attune_plan_batch(op, &c.s.batch->view, &c.plan), ATTUNE_OK);
		run_right(op, &c.plan, &c.w);
		attune_release(op);
		call_free(&c);
	}
}

static void prefills_are_right(void **state)
{
	attune_shape shapes[] = { e4m3, e4m3 };
	(void)state;
	shapes[1].kv_dtype = ATTUNE_BF16;
	for (size_t i = 0; i < COUNT(shapes) && has_warpgroups(&dev.info); i++) {
		struct call c;
		if (call_make(&c, &shapes[i], "q20_q150s200_4q1s100"))
			fail_msg("%s", attune_last_error());
		run_right(c.op, &c.plan, &c.w);
		call_free(&c);
	}
}

/* A query head for each KV head, which no measured choice of some head sizes takes. */
static void prefills_of_lone_heads_are_right(void **state)
{
	static const int head_sizes[] = { 64, 96, 128, 192, 256 };
	(void)state;
	for (size_t i = 0; i < COUNT(head_sizes) && has_warpgroups(&dev.info); i++) {
		attune_shape s = e4m3;
		struct call c;
		s.num_query_heads = s.num_kv_heads;
		s.head_size = head_sizes[i];
		s.has_lse = 0;
		if (call_make(&c, &s, "q140s170_2q1s40"))
			fail_msg("head size %d: %s", head_sizes[i], attune_last_error());
		run_right(c.op, &c.plan, &c.w);
		call_free(&c);
	}
}

/* The last Q block sees fewer than 8 keys, and other slots of their group of 8 are not live. */
static void narrow_windows_are_right(void **state)
{
	static const int windows[] = { 1, 2, 3, 9 };
	(void)state;
	for (size_t i = 0; i < COUNT(windows) && has_warpgroups(&dev.info); i++) {
		attune_shape s = e4m3;
		struct call c;
		s.num_query_heads = 12;
		s.num_kv_heads = 1;
		s.page_size = 24;
		s.has_lse = 0;
		s.window = windows[i];
		if (call_make(&c, &s, "q31s44_q42s300_q41s43"))
			fail_msg("window %d: %s", windows[i], attune_last_error());
		run_right(c.op, &c.plan, &c.w);
		call_free(&c);
	}
}

/* No kernel has prefills of these at this head size. */
static void prefills_are_refused(void **state)
{
	attune_shape of_80 = e4m3, bf16;
	struct call c;
	(void)state;
	of_80.head_size = 80;
	bf16 = of_80;
	bf16.kv_dtype = ATTUNE_BF16;
	assert_int_equal(call_make(&c, &of_80, "q20_4q1s100"), ATTUNE_UNSUPPORTED);
	assert_string_equal(attune_last_error(), "no kernel can run queries of 20 tokens over 20 "
						 "keys of an E4M3 cache and give their LSE");
	call_free(&c);
	assert_int_equal(call_make(&c, &bf16, "q20_4q1s100"), ATTUNE_UNSUPPORTED);
	assert_string_equal(
	    attune_last_error(),
	    "no kernel can run queries of 20 tokens over 20 keys and give their LSE");
	call_free(&c);
}

/* No kernel has such pages of this type. */
static void pages_are_named(void **state)
{
	attune_shape s = e4m3;
	attune_context *ctx;
	attune_op *op;
	(void)state;
	s.page_size = 4;
	assert_int_equal(attune_adopt(&ctx, &dev), ATTUNE_OK);
	assert_int_equal(attune_prepare(ctx, &s, &op), ATTUNE_UNSUPPORTED);
	assert_non_null(strstr(attune_last_error(), "pages of 4 tokens"));
	assert_non_null(strstr(attune_last_error(), "are multiples of 8 tokens"));
	attune_close(ctx);
}

static void tensors_are_looked_at(void **state)
{
	struct call c;
	attune_tensors t;
	(void)state;
	assert_int_equal(call_make(&c, &e4m3, "q1s20"), ATTUNE_OK);
	t = c.w.tensors;
	t.lse = NULL;
	assert_int_equal(attune_run(c.op, &c.plan, &t, NULL, 0, NULL), ATTUNE_INVALID);
	assert_string_equal(attune_last_error(),
			    "attune_run: the shape announces lse, which is not given");
	t = c.w.tensors;
	t.k_slot_stride += 8;
	assert_int_equal(attune_run(c.op, &c.plan, &t, NULL, 0, NULL), ATTUNE_INVALID);
	assert_string_equal(attune_last_error(), "attune_run: on a GPU the strides of an E4M3 "
						 "cache must be multiples of 16 elements");
	call_free(&c);
}

static void cpu_has_none(void **state)
{
	attune_shape shape = e4m3;
	attune_context *ctx;
	attune_op *op;
	(void)state;
	shape.has_lse = 0;
	assert_int_equal(attune_open(&ctx, "cpu"), ATTUNE_OK);
	assert_int_equal(attune_prepare(ctx, &shape, &op), ATTUNE_UNSUPPORTED);
	assert_non_null(strstr(attune_last_error(),
			       "no kernel for head size 128, BF16 queries and E4M3 cache on "));
	attune_close(ctx);
}

static void shapes_are_looked_at(void **state)
{
	attune_shape s = e4m3;
	(void)state;
	assert_null(shape_error(&s));
	s.dtype = ATTUNE_F32;
	assert_string_equal(shape_error(&s), "with an E4M3 cache dtype must be F16 or BF16");
	s.dtype = ATTUNE_E4M3;
	assert_non_null(strstr(shape_error(&s), "dtype must be F32, F16 or BF16"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decodes_are_right),
		cmocka_unit_test(queries_of_any_size),
		cmocka_unit_test(prefills_are_right),
		cmocka_unit_test(narrow_windows_are_right),
		cmocka_unit_test(prefills_are_refused),
		cmocka_unit_test(pages_are_named),
		cmocka_unit_test(tensors_are_looked_at),
		cmocka_unit_test(cpu_has_none),
		cmocka_unit_test(shapes_are_looked_at),
		cmocka_unit_test(prefills_of_lone_heads_are_right),
	};
	if (gpu_open(&dev)) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = cmocka_run_group_tests_name("e4m3_library", tests, NULL, NULL);
	pool_free(&dev, pool);
	device_close(&dev);
	return failed;
}
