/* SPDX-License-Identifier: Apache-2.0 */
/* t_settled_memory.c - when an allocation fails while something is settled, committed, written or
 * read, the call says so and what was committed before stays whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "settle_world.h"

#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__)
int main(void)
{
	puts("1..0 # SKIP the allocator has no other name here");
	return 0;
}
#else
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

static _Thread_local int until_failure; /* allocations; 0: none fails */
static int has_failed;

static int fails(void)
{
	if (!until_failure || --until_failure)
		return 0;
	has_failed = 1;
	return 1;
}

void *malloc(size_t n)
{
	return fails() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	return fails() ? NULL : __libc_realloc(p, n);
}

static char text[10000];
static size_t text_size;

static enum attune_status add(struct world *w)
{
	static const int32_t start[] = { 0, 1, 2 }, lens[] = { 4000, 4100 };
	static const attune_batch batch = { sizeof batch, 2, start, lens };
	const struct settled_entry e = { .batch = &batch,
					 .num = 2,
					 .plan = { { WAY_AS_RULES, { -1, -1 }, { 0, 0 }, 20 },
						   { WAY_AS_RULES, { -1, 0 }, { 0, 0 }, 18 } },
					 .winner = 1,
					 .rounds = 3 };
	return settled_add(w->op, &e);
}

static enum attune_status read_all(struct world *w)
{
	return attune_settled_read(w->ctx, text, text_size, NULL, NULL);
}

static enum attune_status write_all(struct world *w)
{
	static char same[sizeof text];
	size_t need;
	const enum attune_status status = attune_settled_text(w->ctx, same, sizeof same, &need);
	if (!status)
		assert_int_equal(need, text_size);
	return status;
}

static enum attune_status commit_all(struct world *w)
{
	return attune_settled_commit(w->ctx);
}

static void settle_two(const attune_op *op)
{
	settle_part(op, "32q1s4k",
		    other_member(op, "32q1s4k", plan_of(op, "32q1s4k").part[0].choice), 900);
	settle_part(op, "2q2k", other_member(op, "2q2k", plan_of(op, "2q2k").part[0].choice), 900);
}

/* The call with each of its allocations failing once, in a context that `before` prepares. */
static void each_allocation(enum attune_status (*call)(struct world *),
			    enum attune_status (*before)(struct world *), const char *gpu)
{
	int n = 0;
	do {
		struct world w;
		world_open(&w, gpu);
		if (before)
			assert_int_equal(before(&w), ATTUNE_OK);
		const uint64_t digest = attune_settled_digest(w.ctx);
		has_failed = 0;
		until_failure = ++n;
		const enum attune_status status = call(&w);
		until_failure = 0;
		if (status && (status != ATTUNE_NO_MEMORY || !has_failed || !*attune_last_error()))
			fail_msg("allocation %d: %s", n, attune_last_error());
		if (status)
			assert_true(attune_settled_digest(w.ctx) == digest);
		assert_int_equal(call(&w), ATTUNE_OK);
		plan_of(w.op, "32q1s4k");
		world_close(&w);
	} while (has_failed);
	assert_true(n > 1);
}

static enum attune_status read_and_commit(struct world *w)
{
	const enum attune_status status = read_all(w);
	return status ? status : commit_all(w);
}

static void says_that_memory_is_short(void **state)
{
	static const char gpu[] = "h200";
	struct world w;
	(void)state;
	world_open(&w, gpu);
	settle_two(w.op);
	commit(w.ctx);
	assert_int_equal(attune_settled_text(w.ctx, text, sizeof text, &text_size), ATTUNE_OK);
	world_close(&w);
	each_allocation(add, NULL, gpu);
	each_allocation(commit_all, add, gpu);
	each_allocation(read_all, NULL, gpu);
	each_allocation(commit_all, read_all, gpu);
	each_allocation(write_all, read_and_commit, gpu);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(says_that_memory_is_short) };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("settled memory", tests, NULL, NULL);
}
#endif
