/* SPDX-License-Identifier: Apache-2.0 */
/* t_lone_strides.c - strides of dimensions of size 1 mean nothing: with any of them attune_run and
 * attune_write_kv do what they do with ordinary ones. */
#define PLAN_ROWS 200
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "kernels/launch/op.h"
#include "kernels/launch/run.h"
#include "kernels/spec/part.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/run_plan.h"

enum { HEADS = 1, QUERY_HEADS = 2, SLOTS = 4, TOKENS = 8 };

static const struct row {
	const char *name;
	int query_heads, kv_heads, page_size;
	const char *batch;
	unsigned lone;
} rows[] = {
	{ "one KV head, decodes", 4, 1, 16, "2q1s40_q3s9", HEADS },
	{ "one KV head, a prefill", 4, 1, 16, "q30s60", HEADS },
	{ "one head of either, decodes", 1, 1, 16, "2q1s40", HEADS | QUERY_HEADS },
	{ "one head of either, a prefill", 1, 1, 16, "q20s30", HEADS | QUERY_HEADS },
	{ "pages of one slot, decodes", 4, 2, 1, "2q1s20", SLOTS },
	{ "pages of one slot, a prefill", 4, 2, 1, "q12s20", SLOTS },
	{ "one token", 4, 2, 16, "q1s33", TOKENS },
	{ "one of each", 1, 1, 1, "q1s9", HEADS | QUERY_HEADS | SLOTS | TOKENS },
};
/* As exporters of tensors set them: DLPack's 1, and what a view leaves. */
static const int64_t odd[] = { 1, 3, -5, INT64_MAX, INT64_MIN };

static void set_lone(attune_tensors *t, unsigned lone, int64_t stride)
{
	if (lone & HEADS)
		t->k_head_stride = t->v_head_stride = t->k_new_head_stride = t->v_new_head_stride =
		    stride;
	if (lone & QUERY_HEADS)
		t->q_head_stride = t->out_head_stride = stride;
	if (lone & SLOTS)
		t->k_slot_stride = t->v_slot_stride = stride;
	if (lone & TOKENS)
		t->q_token_stride = t->out_token_stride = t->k_new_token_stride =
		    t->v_new_token_stride = stride;
}

/* The calls with such strides; the outputs are compared with those of ordinary ones. */
static void run_with(const attune_op *op, const attune_plan *plan, struct workload *w,
		     unsigned lone, int64_t stride)
{
	const attune_tensors before = w->tensors;
	attune_tensors *t = &w->tensors;
	void *workspace = NULL;
	struct graph *graph;
	struct verdict v;
	double ns;
	assert_int_equal(workload_poison(w), ATTUNE_OK);
	set_lone(t, lone, stride);
	if (dev.ops->alloc(&dev, &workspace, plan->workspace + 16) || dev.ops->graph_begin(&dev) ||
	    attune_write_kv(op, plan->num_seqs, plan->num_tokens, t, NULL, dev.ops->stream(&dev)) ||
	    attune_run(op, plan, t, workspace, plan->workspace, dev.ops->stream(&dev)) ||
	    dev.ops->graph_end(&dev, &graph) || dev.ops->graph_play(&dev, graph, &ns))
		fail_msg("a stride of %lld: %s", (long long)stride, attune_last_error());
	*t = before;
	check_output(&v, w, PHASE_ALL, PLAN_ROWS, 0);
	if (v.outcome != OUTCOME_OK)
		fail_msg("a stride of %lld: %s: %s", (long long)stride, outcome_name(v.outcome),
			 v.text);
	dev.ops->graph_free(&dev, graph);
	dev.ops->release(&dev, workspace);
}

static void with_each(const attune_op *op, attune_plan *plan, struct workload *w, const void *row)
{
	const struct row *r = row;
	for (size_t i = 0; i < COUNT(odd); i++)
		run_with(op, plan, w, r->lone, odd[i]);
}

static void any_stride(const char *device, const struct row *r)
{
	attune_shape of = shape;
	of.num_query_heads = r->query_heads;
	of.num_kv_heads = r->kv_heads;
	of.page_size = r->page_size;
	of.has_new_kv = 1;
	with_plan(device, &of, r->batch, with_each, r);
}

static void on_cpu(void **state)
{
	any_stride("cpu", *state);
}

static void on_gpu(void **state)
{
	any_stride("gpu", *state);
}

int main(void)
{
	return run_on_both("lone strides", rows, sizeof rows[0], COUNT(rows), on_cpu, on_gpu);
}
