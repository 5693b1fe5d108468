/* SPDX-License-Identifier: Apache-2.0 */
/* t_field_bugs.c - batches on which attention libraries were wrong in public (tests/FAULTS.md), by the
 * public API against the definition. All rows run on the CPU; on a GPU, or the emulated one as an H200
 * and as an MI300X, those that it does in seconds. */
#include "harness/check/check.h"
#include "kernels/args_more.h"
#include "kernels/spec/space.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "tests/support/gpu_here.h"
#include "field_world.h"
#include "tests/library/rules_header.h"

enum { FEW = 40 /* sequences of which every row is compared */, RAGGED = 0 };

/* heads, KV heads, head size, page size; types: of the device */
#define SHAPE(heads, kv_heads, page) sizeof(attune_shape), heads, kv_heads, 64, page

static const struct field_row rows[] = {
	// clang-format off
	{ "rows without keys", { SHAPE(4, 2, 16), .causal = 1 },
	  .group = { { 1, 5, 3 }, { 1, 40, 17 }, { 1, 5, 0 }, { 1, 1, 40 } } },
	{ "rows without keys, sinks", { SHAPE(4, 2, 16), .causal = 1, .has_sinks = 1 },
	  .group = { { 1, 5, 0 }, { 1, 5, 3 }, { 1, 40, 17 }, { 2, 1, 0 } } },
	{ "rows without keys, no mask", { SHAPE(4, 2, 16), .causal = 0 },
	  .group = { { 1, 5, 0 }, { 1, 5, 3 }, { 1, 40, 17 }, { 1, 9, 0 } } },
	{ "q300s3", { SHAPE(2, 1, 16), .causal = 1 }, .group = { { 1, 300, 3 } }, .where = NOT_EMULATED },
	{ "no query in the batch", { SHAPE(4, 2, 16), .causal = 1 }, .group = { { 3, 0, 100 } } },
	{ "empty sequences", { SHAPE(4, 2, 16), .causal = 1 },
	  .group = { { 2, 0, 100 }, { 1, 1, 0 }, { 1, 1, 700 }, { 1, 0, 0 }, { 1, 30, 30 } } },
	{ "FA#2711: the table's last row is short", { SHAPE(4, 2, 16), .causal = 1, .has_alibi = 1, .has_sinks = 1 },
	  .group = { { 7, 1, 500 }, { 1, 1, 1 } } },
	{ "softcap 50, products of 1e4", { SHAPE(4, 2, 16), .causal = 1, .softcap = 50, .scale = 1 },
	  .group = { { 1, 1, 300 }, { 1, 20, 64 } }, .keys = LARGE_KEYS },
	{ "a window below a page, draft rows", { SHAPE(4, 2, 16), .causal = 1, .window = 5 },
	  .group = { { 1, 4, 100 }, { 1, 8, 64 }, { 1, 1, 33 }, { 1, 12, 50 } } },
	{ "a window above the sequence", { SHAPE(4, 2, 16), .causal = 1, .window = 1000 },
	  .group = { { 1, 4, 100 }, { 1, 40, 70 } } },
	{ "a window without a mask", { SHAPE(4, 2, 16), .window = 20 },
	  .group = { { 1, 4, 100 }, { 1, 40, 70 } } },
	{ "pages of 1", { SHAPE(4, 2, 1), .causal = 1 }, .group = { { 1, 1, 100 }, { 1, 20, 70 } } },
	{ "pages of 3", { SHAPE(4, 2, 3), .causal = 1 }, .group = { { 1, 1, 100 }, { 1, 20, 70 } } },
	{ "pages of 8", { SHAPE(4, 2, 8), .causal = 1 }, .group = { { 1, 1, 100 }, { 1, 20, 70 } } },
	{ "pages of 48", { SHAPE(4, 2, 48), .causal = 1 }, .group = { { 1, 1, 100 }, { 1, 20, 70 } } },
	{ "pages of 64", { SHAPE(4, 2, 64), .causal = 1 }, .group = { { 1, 1, 100 }, { 1, 20, 70 } } },
	{ "pages of 128", { SHAPE(4, 2, 128), .causal = 1 }, .group = { { 1, 1, 300 }, { 1, 20, 70 } } },
	{ "pages of 544", { SHAPE(4, 2, 544), .causal = 1 }, .group = { { 1, 1, 600 }, { 1, 20, 70 } } },
	{ "pages of 1056", { SHAPE(4, 2, 1056), .causal = 1 }, .group = { { 1, 1, 1100 }, { 1, 20, 70 } } },
	{ "group 1", { SHAPE(2, 2, 16), .causal = 1 }, .group = { { 1, 1, 100 }, { 1, 3, 40 }, { 1, 20, 70 } } },
	{ "group 3", { SHAPE(6, 2, 16), .causal = 1 }, .group = { { 1, 1, 100 }, { 1, 3, 40 }, { 1, 20, 70 } } },
	{ "group 5, sinks", { SHAPE(5, 1, 16), .causal = 1, .has_sinks = 1 }, .group = { { 1, 1, 100 }, { 1, 3, 40 }, { 1, 20, 70 } } },
	{ "group 6, sinks", { SHAPE(6, 1, 16), .causal = 1, .has_sinks = 1 }, .group = { { 1, 1, 100 }, { 1, 3, 40 }, { 1, 20, 70 } } },
	{ "group 7", { SHAPE(7, 1, 16), .causal = 1 }, .group = { { 1, 1, 100 }, { 1, 3, 40 }, { 1, 20, 70 } } },
	{ "group 16", { SHAPE(16, 1, 16), .causal = 1 }, .group = { { 1, 1, 100 }, { 1, 3, 40 }, { 1, 20, 70 } } },
	{ "group 71", { SHAPE(71, 1, 16), .causal = 1 }, .group = { { 1, 1, 40 }, { 1, 9, 20 } } },
	{ "queries of 1 to 9", { SHAPE(4, 2, 16), .causal = 1 }, .group = { { 1, 1, 90 } }, .ladder = 9 },
	{ "queries of 1 to 300", { SHAPE(2, 1, 16), .causal = 1 }, .group = { { 0 } }, .ladder = 300, .where = NOT_EMULATED },
	{ "65,535 decodes", { SHAPE(1, 1, 16), .causal = 1 }, .group = { { 65535, 1, 3 } }, .pages = 1, .where = NOT_EMULATED },
	{ "65,536 decodes", { SHAPE(1, 1, 16), .causal = 1 }, .group = { { 65536, 1, 3 } }, .pages = 1, .where = NOT_EMULATED },
	{ "65,537 decodes", { SHAPE(1, 1, 16), .causal = 1 }, .group = { { 65537, 1, 3 } }, .pages = 1, .where = NOT_EMULATED },
	{ "70,000 decodes", { SHAPE(1, 1, 16), .causal = 1 }, .group = { { 70000, 1, 3 } }, .pages = 1, .where = NOT_EMULATED },
	{ "2^20 + 1 keys", { SHAPE(2, 1, 16), .causal = 1 }, .group = { { 1, 1, (1 << 20) + 1 } }, .pages = 509, .where = NOT_EMULATED },
	{ "100,000 equal keys", { SHAPE(2, 1, 16), .causal = 1 }, .group = { { 1, 1, 100000 }, { 1, 9, 100000 } }, .pages = 509,
	  .keys = EQUAL_KEYS, .where = NOT_EMULATED },
	{ "pages beyond 2^31 and 2^32 elements", { SHAPE(2, 1, 16), .causal = 1 }, .group = { { 1, 1, 40 }, { 1, 20, 33 } },
	  .page_gap = 1ll << 30, .where = CPU_ALONE },
	// clang-format on
};

/* ---- a run and its rows ------------------------------------------------------------------------ */

static void run_op(struct world *w, const attune_op *op)
{
	attune_plan plan = { .size = sizeof plan };
	void *workspace = NULL;
	ok(attune_plan_batch(op, &w->b, &plan));
	ok(dev.ops->alloc(&dev, &workspace, plan.workspace + 16));
	ok(attune_run(op, &plan, &w->d, workspace, plan.workspace, dev.ops->stream(&dev)));
	ok(dev.ops->wait(&dev, dev.ops->stream(&dev)));
	if (dev.info.backend == BACKEND_GPU)
		ok(dev.ops->get(&dev, w->host[OUT], w->device[OUT], w->bytes[OUT]));
	dev.ops->release(&dev, workspace);
}

static void fetch_host(const struct kv_source *from, int is_v, int page, int slot, int kv_head,
		       double *row)
{
	const struct kv_place at = kv_place(from->args, from->shape, is_v, page, slot, kv_head);
	for (int d = 0; d < from->shape->head_size; d++)
		row[d] = value_of(from->shape->kv_dtype,
				  is_v ? from->args->v_cache : from->args->k_cache, at.first + d);
}

static void check_row(const struct world *w, const attune_shape *s, int seq, int token, int head)
{
	double want[64], mass[64];
	struct attune_call call;
	call_from_tensors(&call, s, &w->h, w->b.num_seqs);
	call.args.window = s->window;
	const struct kv_source from = { .fetch = fetch_host,
					.args = &call.args,
					.shape = s,
					.scales = &call.more,
					.mass = mass };
	reference_row_from(&from, seq, token, head, want);
	const long long at =
	    (w->b.query_start[seq] + token) * w->h.out_token_stride + head * w->h.out_head_stride;
	for (int d = 0; d < s->head_size; d++) {
		const double got = value_of(s->dtype, w->host[OUT], at + d);
		if (!(fabs(got - want[d]) <= check_tolerance(s, mass[d], want[d])))
			fail_msg("sequence %d, token %d, head %d, dim %d: %g, %g is right", seq,
				 token, head, d, got, want[d]);
	}
}

/* Of many sequences some, of a long query the first and last token and some between. */
static void check(const struct world *w, const attune_shape *s)
{
	const int n = w->b.num_seqs, each = n > FEW ? n / FEW : 1;
	const long long values = w->b.query_start[n] * w->h.out_token_stride;
	for (long long i = 0; i < values; i++)
		if (!isfinite(value_of(s->dtype, w->host[OUT], i)))
			fail_msg("element %lld is not finite", i);
	for (int i = n - 1; i >= 0; i -= each) {
		const int query = w->b.query_start[i + 1] - w->b.query_start[i];
		for (int token = 0; token < query; token++)
			if (query < 10 || token + 1 == query || token % 13 == 0)
				for (int head = 0; head < s->num_query_heads; head += 1 + head / 8)
					check_row(w, s, i, token, head);
	}
}

enum which { ON_CPU, ON_GPU, ON_AMD /* the emulated one */, NUM_WHICH };
static const char *const which_names[] = { "cpu", "gpu", "emulated MI300X" };

static void open_device(enum which which)
{
	ok(which == ON_CPU ? device_open(&dev, "cpu") : gpu_open(&dev));
	if (which == ON_AMD)
		simt_pose(&dev, SIMT_MI300X);
}

/* Whether the library that is linked has code for the emulated GPU. */
static int gpu_is_emulated(void)
{
	ok(gpu_open(&dev));
	const int emulated = is_emulated(&dev);
	device_close(&dev);
	return emulated;
}

static void is_right(const struct field_row *r, enum which which)
{
	attune_context *ctx;
	attune_op *op;
	struct world w;
	open_device(which);
	make_world(&w, r);
	ok(attune_adopt(&ctx, &dev));
	ok(attune_prepare(ctx, &w.s, &op));
	run_op(&w, op);
	check(&w, &w.s);
	attune_release(op);
	attune_close(ctx);
	free_world(&w);
	device_close(&dev);
}

static void right_on_cpu(void **state)
{
	is_right(*state, ON_CPU);
}

static void right_on_gpu(void **state)
{
	is_right(*state, ON_GPU);
}

static void right_on_amd(void **state)
{
	is_right(*state, ON_AMD);
}

/* Two ops of one shape but for scale, softcap and window, in turn over the same tensors. */
static void ops_keep_their_scales(void **state)
{
	attune_context *ctx;
	attune_op *op[2];
	attune_shape s[2];
	struct world w;
	open_device(*state ? ON_GPU : ON_CPU);
	make_world(&w, &rows[RAGGED]);
	s[0] = s[1] = w.s;
	s[0].scale = 0.5f;
	s[1].scale = 0.03f, s[1].softcap = 2, s[1].window = 9;
	ok(attune_adopt(&ctx, &dev));
	for (int i = 0; i < 2; i++)
		ok(attune_prepare(ctx, &s[i], &op[i]));
	for (int turn = 0; turn < 4; turn++) {
		run_op(&w, op[turn % 2]);
		check(&w, &s[turn % 2]);
	}
	for (int i = 0; i < 2; i++)
		attune_release(op[i]);
	attune_close(ctx);
	free_world(&w);
	device_close(&dev);
}

/* B8: denormal keys count as zeros, so that all keys weigh the same. */
static void denormal_keys(void **state)
{
	static const struct field_row row = { "",
					      { SHAPE(4, 2, 16), .causal = 1 },
					      .group = { { 1, 1, 300 }, { 1, 20, 64 } },
					      .keys = DENORMAL_KEYS };
	attune_context *ctx;
	attune_op *op;
	struct world w;
	(void)state;
	open_device(ON_CPU);
	make_world(&w, &row);
	ok(attune_adopt(&ctx, &dev));
	ok(attune_prepare(ctx, &w.s, &op));
	run_op(&w, op);
	memset(w.host[K], 0, w.bytes[K]);
	check(&w, &w.s);
	attune_release(op);
	attune_close(ctx);
	free_world(&w);
	device_close(&dev);
}

/* Empty sequences beside long ones, at each number of segments that the kernel has. */
static void every_number_of_segments(void **state)
{
	static const struct field_row empty = {
		"",
		{ SHAPE(4, 2, 16), .causal = 1 },
		.group = { { 1, 1, 0 }, { 1, 1, 2000 }, { 2, 0, 5 }, { 1, 3, 0 }, { 1, 2, 900 } },
		.ladder = 0
	};
	const struct space *space = kernel_find(BACKEND_CPU, "segmented")->space;
	const struct axis *a = &space->axis[space->formula_axis];
	char path[] = "/tmp/t_field_bugs_XXXXXX";
	(void)state;
	close(mkstemp(path));
	setenv("ATTUNE_HEURISTICS", path, 1);
	for (int i = 0; i < a->num_values; i++) {
		FILE *f = fopen(path, "w");
		char choice[80];
		snprintf(choice, sizeof choice,
			 "segmented TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=%d",
			 a->values[i]);
		fputs(rules_header("cpu", &(struct rules){ .choice = { choice } }), f);
		fclose(f);
		is_right(&empty, ON_CPU);
	}
	unsetenv("ATTUNE_HEURISTICS");
	remove(path);
}

int main(void)
{
	static struct CMUnitTest tests[NUM_WHICH * COUNT(rows) + 4];
	static char names[COUNT(tests)][80];
	static const CMUnitTestFunction right[] = { right_on_cpu, right_on_gpu, right_on_amd };
	const int is_emulated_here = gpu_is_emulated();
	const int devices = is_emulated_here ? NUM_WHICH : ON_AMD;
	size_t n = 0;
	for (int which = 0; which < devices; which++)
		for (size_t i = 0; i < COUNT(rows); i++) {
			if (which != ON_CPU &&
			    (rows[i].where == CPU_ALONE || (is_emulated_here && rows[i].where)))
				continue;
			snprintf(names[n], sizeof names[n], "%s: %s", which_names[which],
				 rows[i].name);
			tests[n] = (struct CMUnitTest){ names[n], right[which], NULL, NULL,
							(void *)(uintptr_t)&rows[i] };
			n++;
		}
	tests[n++] = (struct CMUnitTest){ "cpu: ops keep their scales", ops_keep_their_scales, NULL,
					  NULL, NULL };
	tests[n++] = (struct CMUnitTest){ "gpu: ops keep their scales", ops_keep_their_scales, NULL,
					  NULL, &dev };
	tests[n++] = (struct CMUnitTest){ "cpu: empty sequences at every number of segments",
					  every_number_of_segments, NULL, NULL, NULL };
	tests[n++] =
	    (struct CMUnitTest){ "cpu: B8, denormal keys", denormal_keys, NULL, NULL, NULL };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("field_bugs", tests, n, NULL, NULL);
}
