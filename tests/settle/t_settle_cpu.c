/* SPDX-License-Identifier: Apache-2.0 */
/* t_settle_cpu.c - attune_settle on the CPU, by a clock of the test: the fastest is settled and runs
 * right, and what cannot be timed is refused. */
#include "cpu_rows.h"
#include "kernels/settle/race.h"
#include "kernels/settle/stage.h"
#include "kernels/settle/store.h"
#include <dlfcn.h>

/* A clock of the test: a call takes 100 us, half of it where one of its parts runs the fast choice. */
static double now_s, call_s = 100e-6;
static int timed_calls, fails_at, fast_choice = -1;

double settle_clock(void)
{
	return now_s;
}

enum attune_status stage_run(const struct stage *s, const attune_plan *plan, int set)
{
	static enum attune_status (*inside)(const struct stage *, const attune_plan *, int);
	int is_fast = 0;
	if (!inside)
		*(void **)(void *)&inside = dlsym(RTLD_NEXT, "stage_run");
	const enum attune_status status = inside(s, plan, set);
	for (int i = 0; i < plan->num_parts; i++)
		is_fast |= plan->part[i].choice == fast_choice;
	now_s += is_fast ? call_s / 2 : call_s;
	return ++timed_calls == fails_at ? ATTUNE_DEVICE_ERROR : status;
}

static const attune_settle_how one_layer = {
	.size = sizeof one_layer, .num_layers = 1, .num_pages = MAX_SEQS * MAX_PAGES, .most_ms = 500
};

/* less: bytes that the workspace is too small by */
static enum attune_status settle_with(const attune_settle_how *how, const attune_tensors *layers,
				      size_t less)
{
	size_t bytes;
	double ms = -1;
	ok(attune_settle_sizes(op, &step.batch, how, &bytes));
	char *workspace = aligned_alloc(64, (bytes + 64 + 63) / 64 * 64);
	assert_non_null(workspace);
	memset(workspace + bytes, 0x5a, 64);
	const enum attune_status status =
	    attune_settle(op, &step.batch, layers, how, workspace, bytes - less, NULL, &ms);
	for (int i = 0; i < 64; i++)
		assert_int_equal(workspace[bytes + (size_t)i], 0x5a);
	assert_true(status || ms > 0);
	free(workspace);
	return status;
}

static void the_fastest_is_settled_and_runs_right(void **state)
{
	static const struct {
		int n;
		const int (*lens)[2];
		int64_t num_pages; /* too few for one batch, or for many */
		int fast;          /* a choice of the rules */
	} batches[] = {
		{ 3, decodes, 512, 2 },   { 3, decodes, 5, 1 }, { 3, decodes, 512, 0 },
		{ 1, mixed + 1, 512, 0 }, { 6, mixed, 512, 1 }, { 6, mixed, 1, 0 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(batches); i++) {
		attune_plan plans[ATTUNE_MOST_ALTERNATIVES], now;
		attune_settle_how how = one_layer;
		int is_fast = 0;
		open_step(batches[i].n, batches[i].lens);
		const size_t cache = (size_t)MAX_SEQS * MAX_PAGES * PAGE * KV_HEADS * HEAD * 4;
		char *before = malloc(cache);
		assert_non_null(before);
		memcpy(before, step.k, cache);
		list(plans);
		how.num_pages = batches[i].num_pages;
		how.eager = (int)i % 2;
		fast_choice = batches[i].fast;
		ok(settle_with(&how, &step.t, 0));
		now = plan_now();
		assert_true(alike(&now, &plans[0])); /* nothing changes before the commit */
		ok(attune_settled_commit(ctx));
		now = plan_now();
		for (int k = 0; k < now.num_parts; k++)
			is_fast |= now.part[k].choice == fast_choice;
		assert_true(is_fast);
		run_right(&now);
		assert_memory_equal(before, step.k, cache);
		fast_choice = -1;
		free(before);
		close_step();
	}
}

/* Pages that are read twice come from the cache: they do not make a call cold. Where it is not the
 * workspace has room to write twice the last cache. */
static void few_pages_count_once(void **state)
{
	static const int64_t pages[] = { 3, 64 };
	const double page_bytes = 2. * PAGE * KV_HEADS * HEAD * sizeof(float);
	(void)state;
	open_step(3, decodes);
	for (size_t i = 0; i < COUNT(pages); i++) {
		attune_settle_how how = one_layer;
		struct stage s;
		size_t bytes;
		how.num_pages = pages[i];
		stage_layout(&s, op, &step.batch, &how);
		const double reads = stage_call_bytes(&s);
		assert_true(i ? reads > 60 * page_bytes : reads <= 3 * page_bytes + 1);
		ok(attune_settle_sizes(op, &step.batch, &how, &bytes));
		assert_int_equal(bytes > s.flush, i == 0);
	}
	close_step();
}

/* The overlap tree names another choice for the prefills, which is no member. */
static void the_workspace_is_enough_beside_a_choice_of_the_overlap_tree(void **state)
{
	static const int lens[][2] = { { 1, 300 }, { 40, 300 }, { 1, 900 } };
	struct rules overlapped = rows;
	char text[400];
	(void)state;
	overlapped.overlap = "1";
	open_by(&overlapped, 3, lens);
	const attune_plan now = plan_now();
	ok(attune_plan_text(op, &now, text, sizeof text));
	assert_string_equal(text, "prefill: " SEGMENTED(2) " || decode: " SEGMENTED(1));
	ok(settle_with(&one_layer, &step.t, 0));
	close_step();
}

static void layers_may_be_many(void **state)
{
	(void)state;
	open_step(6, mixed);
	attune_tensors layers[3] = { step.t, step.t, step.t };
	attune_settle_how how = one_layer;
	how.num_layers = 3;
	/* an engine's dummy step has other metadata, or none */
	layers[1].block_table = NULL;
	layers[2].seq_lens = layers[2].query_start = NULL;
	ok(settle_with(&how, layers, 0));
	close_step();
}

static void assert_refused(enum attune_status status, enum attune_status want, const char *why)
{
	assert_int_equal(status, want);
	if (!strstr(attune_last_error(), why))
		fail_msg("\"%s\" is not in \"%s\"", why, attune_last_error());
}

static void what_cannot_be_timed_is_refused(void **state)
{
	attune_settle_how how = one_layer;
	size_t bytes;
	(void)state;
	open_step(6, mixed);
	attune_tensors layers[2] = { step.t, step.t };
	assert_refused(settle_with(&how, layers, 1), ATTUNE_TOO_SMALL, "are needed");
	assert_refused(attune_settle(op, &step.batch, layers, &how, NULL, 0, NULL, NULL),
		       ATTUNE_TOO_SMALL, "0 bytes");
	assert_refused(attune_settle(op, &step.batch, NULL, &how, NULL, 0, NULL, NULL),
		       ATTUNE_INVALID, "NULL");
	how.num_layers = 2;
	layers[1].q = NULL;
	assert_refused(settle_with(&how, layers, 0), ATTUNE_INVALID, "layer 1: out, q");
	layers[1] = layers[0];
	layers[1].size = 7;
	assert_refused(settle_with(&how, layers, 0), ATTUNE_INVALID, "size is 7");
	how = one_layer;
	how.num_layers = 0;
	assert_refused(attune_settle_sizes(op, &step.batch, &how, &bytes), ATTUNE_INVALID,
		       "num_layers");
	how = one_layer;
	how.num_pages = 0;
	assert_refused(attune_settle_sizes(op, &step.batch, &how, &bytes), ATTUNE_INVALID,
		       "num_pages");
	how.num_pages = 1ll << 31; /* block tables have 32 bits */
	assert_refused(attune_settle_sizes(op, &step.batch, &how, &bytes), ATTUNE_INVALID,
		       "num_pages");
	how = one_layer;
	how.most_ms = NAN;
	assert_refused(attune_settle_sizes(op, &step.batch, &how, &bytes), ATTUNE_INVALID,
		       "most_ms");
	how.most_ms = -1;
	assert_refused(attune_settle_sizes(op, &step.batch, &how, &bytes), ATTUNE_INVALID,
		       "most_ms");
	memset(step.k, 0, (size_t)MAX_SEQS * MAX_PAGES * PAGE * KV_HEADS * HEAD * 4);
	assert_refused(settle_with(&one_layer, &step.t, 0), ATTUNE_INVALID, "8 are all zeros");
	step.k[0] = 1; /* a page that a dummy step wrote */
	assert_refused(settle_with(&one_layer, &step.t, 0), ATTUNE_INVALID, "7 are all zeros");
	ok(attune_settled_commit(ctx));
	assert_true(attune_settled_digest(ctx) == 0);
	close_step();
}

static int num_pending(void)
{
	return ctx->settled ? ctx->settled->pending.n : 0;
}

/* Of a mixed batch all three or none: the prefills, the decodes, and how they run together. */
static void errors_leave_all_as_it_was(void **state)
{
	(void)state;
	open_step(6, mixed);
	timed_calls = 0;
	ok(settle_with(&one_layer, &step.t, 0));
	const int all = timed_calls;
	assert_int_equal(num_pending(), 3);
	close_step();
	for (int k = 0; k < 8; k++) {
		open_step(6, mixed);
		timed_calls = 0;
		fails_at = 1 + (all - 1) * k / 7;
		assert_int_equal(settle_with(&one_layer, &step.t, 0), ATTUNE_DEVICE_ERROR);
		assert_int_equal(num_pending(), 0);
		close_step();
	}
	fails_at = 0;
}

/* A microsecond is over at the first call. */
static void without_time_nothing_is_settled(void **state)
{
	attune_settle_how how = one_layer;
	(void)state;
	open_step(6, mixed);
	how.most_ms = 1e-3;
	timed_calls = 0;
	ok(settle_with(&how, &step.t, 0));
	assert_int_equal(num_pending(), 0);
	assert_true(timed_calls <= 3 * 2);
	close_step();
}

/* 20 ms for decodes, 200 where there are prefills; all races end by then. */
static void it_takes_what_is_usual(void **state)
{
	static const struct {
		int n;
		const int (*lens)[2];
		double call_s, most_s;
		int settles;
	} usual[] = {
		{ 3, decodes, 100e-6, 20e-3, 1 },
		{ 3, decodes, 3e-3, 20e-3, 0 },
		{ 1, mixed + 1, 3e-3, 200e-3, 1 },
		{ 6, mixed, 1e-3, 200e-3, 3 },
	};
	attune_settle_how how = one_layer;
	(void)state;
	how.most_ms = 0;
	for (size_t i = 0; i < COUNT(usual); i++) {
		open_step(usual[i].n, usual[i].lens);
		const double begin = now_s;
		call_s = usual[i].call_s;
		fast_choice = 1;
		ok(settle_with(&how, &step.t, 0));
		assert_int_equal(num_pending(), usual[i].settles);
		assert_true(now_s - begin <= usual[i].most_s);
		close_step();
	}
	call_s = 100e-6;
	fast_choice = -1;
}

static void invariant_contexts_settle_nothing(void **state)
{
	attune_context *invariant;
	attune_op *of;
	attune_plan plan = { .size = sizeof plan };
	double us = 1;
	size_t bytes;
	int n;
	(void)state;
	open_step(3, decodes);
	setenv("ATTUNE_INVARIANT", "1", 1);
	ok(attune_open(&invariant, "cpu"));
	unsetenv("ATTUNE_INVARIANT");
	ok(attune_prepare(invariant, &shape, &of));
	assert_refused(attune_settle_sizes(of, &step.batch, &one_layer, &bytes), ATTUNE_UNSUPPORTED,
		       "ATTUNE_INVARIANT");
	assert_refused(attune_settle(of, &step.batch, &step.t, &one_layer, NULL, 0, NULL, NULL),
		       ATTUNE_UNSUPPORTED, "ATTUNE_INVARIANT");
	assert_refused(attune_plan_alternatives(of, &step.batch, &plan, 1, &n), ATTUNE_UNSUPPORTED,
		       "ATTUNE_INVARIANT");
	assert_refused(attune_report(of, &step.batch, &plan, &us, 1), ATTUNE_UNSUPPORTED,
		       "ATTUNE_INVARIANT");
	attune_release(of);
	attune_close(invariant);
	close_step();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_fastest_is_settled_and_runs_right),
		cmocka_unit_test(few_pages_count_once),
		cmocka_unit_test(the_workspace_is_enough_beside_a_choice_of_the_overlap_tree),
		cmocka_unit_test(layers_may_be_many),
		cmocka_unit_test(what_cannot_be_timed_is_refused),
		cmocka_unit_test(errors_leave_all_as_it_was),
		cmocka_unit_test(without_time_nothing_is_settled),
		cmocka_unit_test(it_takes_what_is_usual),
		cmocka_unit_test(invariant_contexts_settle_nothing),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
