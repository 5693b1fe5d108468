/* SPDX-License-Identifier: Apache-2.0 */
/* settle_world.h - contexts that plan for a device which need not be here, and batches that are
 * settled to a given member. Include after cmocka.h. */
#ifndef TESTS_SETTLE_SETTLE_WORLD_H
#define TESTS_SETTLE_SETTLE_WORLD_H

#include "harness/compile/compile.h"
#include "harness/machine/machine.h"
#include "harness/scenario/scenario.h"
#include "kernels/api/plan.h"
#include "kernels/launch/run.h"
#include "kernels/settle/members.h"
#include "kernels/settle/settled.h"
#include "kernels/settle/table.h"
#include "kernels/spec/space.h"

static const attune_shape llama = { .size = sizeof llama,
				    .num_query_heads = 32,
				    .num_kv_heads = 8,
				    .head_size = 128,
				    .page_size = 16,
				    .dtype = ATTUNE_BF16,
				    .kv_dtype = ATTUNE_BF16,
				    .causal = 1 };

struct world {
	struct device dev;
	attune_context *ctx;
	attune_op *op;
};

/* gpu: "cpu", "h200", "mi300". */
static inline void world_open(struct world *w, const char *gpu)
{
	struct device_info info;
	if (!strcmp(gpu, "cpu")) {
		if (attune_open(&w->ctx, "cpu"))
			fail_msg("%s", attune_last_error());
	} else {
		assert_true(gpu_imagine(&info, gpu, NULL));
		planning_device(&w->dev, &info);
		if (attune_adopt(&w->ctx, &w->dev))
			fail_msg("%s: %s", gpu, attune_last_error());
	}
	if (attune_prepare(w->ctx, &llama, &w->op))
		fail_msg("%s: %s", gpu, attune_last_error());
}

static inline void world_close(struct world *w)
{
	attune_release(w->op);
	attune_close(w->ctx);
}

static inline struct batch *batch_of(const char *text)
{
	char error[160];
	struct batch *b = batch_parse(text, error, sizeof error);
	if (!b)
		fail_msg("%s: %s", text, error);
	return b;
}

static inline attune_plan plan_of(const attune_op *op, const char *text)
{
	attune_plan plan = { .size = sizeof plan };
	struct batch *b = batch_of(text);
	if (attune_plan_batch(op, &b->view, &plan))
		fail_msg("%s: %s", text, attune_last_error());
	batch_free(b);
	return plan;
}

static inline int same_plan_of(const attune_plan *a, const attune_plan *b)
{
	return !memcmp(a, b, sizeof *a);
}

/* The choice that the rules name for the only part of a batch. */
static inline int named_of(const attune_op *op, const char *text)
{
	struct batch *b = batch_of(text);
	struct selection s;
	struct part whole;
	parts_of_batch(op, &b->view, &s, &whole);
	batch_free(b);
	return s.choice[0];
}

/* A member of the only part of a batch, other than `but`, that can run it; -1: there is none. */
static inline int other_member(const attune_op *op, const char *text, int but)
{
	struct batch *b = batch_of(text);
	struct selection s;
	struct part whole;
	struct config as;
	int id[MAX_MEMBERS], found = -1;
	parts_of_batch(op, &b->view, &s, &whole);
	const int n = part_members(op, s.choice[0], &s.part[0], id);
	for (int i = 0; i < n && found < 0; i++)
		if (op->ready[id[i]].name != op->ready[but].name &&
		    can_run(op, id[i], &s.part[0], &as))
			found = id[i];
	batch_free(b);
	return found;
}

/* Settles a batch between two plans: `first_us` and `us` are their times, the faster one wins. */
static inline void settle_to(const attune_op *op, const char *text, struct settled_plan first,
			     struct settled_plan other)
{
	struct batch *b = batch_of(text);
	const struct settled_entry e = { .batch = &b->view,
					 .num = 2,
					 .plan = { first, other },
					 .winner = other.us < first.us,
					 .again_us = first.us,
					 .rounds = 10 };
	if (settled_add(op, &e))
		fail_msg("%s: %s", text, attune_last_error());
	batch_free(b);
}

/* A batch of one phase, to the member `id` which takes `share` 1000ths of the present choice's
 * time. */
static inline void settle_part(const attune_op *op, const char *text, int id, int share)
{
	const attune_plan plan = plan_of(op, text);
	const int of = plan.part[0].decode.seq_count > 0;
	struct settled_plan first = { WAY_AS_RULES, { -1, -1 }, { 0, 0 }, 20 };
	struct settled_plan other = { WAY_AS_RULES, { -1, -1 }, { 0, 0 }, 0.02 * share };
	first.id[of] = plan.part[0].choice;
	other.id[of] = id;
	settle_to(op, text, first, other);
}

static inline void commit(attune_context *ctx)
{
	if (attune_settled_commit(ctx))
		fail_msg("%s", attune_last_error());
}

#endif
