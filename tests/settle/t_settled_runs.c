/* SPDX-License-Identifier: Apache-2.0 */
/* t_settled_runs.c - results are right whatever the table has for a batch: each member of a part,
 * each way to run both parts, and values that stand for nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "any_value.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "kernels/api/plan.h"
#include "kernels/launch/run.h"
#include "kernels/settle/settled.h"
#include "kernels/settle/table.h"
#include "tests/support/run_plan.h"

static const char *const batches[][2] = {
	{ "5q1s900_2q3s70", "2q1s40_q3s20" },
	{ "q70s200_q33", "q20s40" },
	{ "q40s90_4q1s300_q2s17", "q12s20_2q1s33" },
};

enum { MOST_RUN = 1024 };
static attune_plan run[MOST_RUN];
static int num_run;

/* Whether the same launches did not run yet. */
static int is_new(const attune_plan *plan)
{
	for (int i = 0; i < num_run; i++)
		if (attune_plan_serves(&run[i], plan) == ATTUNE_SERVES_ALIKE)
			return 0;
	assert_true(num_run < MOST_RUN);
	run[num_run++] = *plan;
	return 1;
}

static void run_value(const attune_op *op, struct workload *w, const attune_batch *b, uint64_t cell,
		      unsigned value)
{
	attune_plan plan = { .size = sizeof plan };
	size_t most;
	assert_true(table_put(atomic_load(&op->ctx->table), cell, value));
	if (attune_plan_batch(op, b, &plan) ||
	    attune_max_workspace(op, b->num_seqs, b->query_start[b->num_seqs], &most))
		fail_msg("%06x: %s", value, attune_last_error());
	assert_true(plan.workspace <= most);
	if (is_new(&plan))
		run_right(op, &plan, w);
}

/* Any entry makes the table. */
static void make_table(const attune_op *op, const attune_batch *b)
{
	const struct settled_entry e = { .batch = b,
					 .num = 1,
					 .plan = { { WAY_AS_RULES, { -1, -1 }, { 0, 0 }, 1 } },
					 .rounds = 1 };
	if (settled_add(op, &e) || attune_settled_commit(op->ctx))
		fail_msg("%s", attune_last_error());
}

static void run_all(const attune_op *op, struct workload *w, const attune_batch *b)
{
	struct selection parts;
	struct part whole;
	const int both = parts_of_batch(op, b, &parts, &whole);
	const uint64_t cell = cell_of_batch(op, b);
	make_table(op, b);
	num_run = 0;
	for (int prefill = 0; prefill < 8; prefill++)
		for (int decode = 0; decode < (both ? 8 : 1); decode++)
			for (int step = -1; step <= 1; step++) {
				const int place[2] = { prefill, both ? decode : prefill };
				run_value(op, w, b, cell,
					  value_naming(op, &parts, both ? WAY_SERIES : WAY_AS_RULES,
						       place, step));
			}
	for (unsigned way = 0; way < 16; way++)
		run_value(op, w, b, cell, way << 20 | (VALUE_AS_RULES & 0xfffff) | 0x3fff);
	assert_true(num_run > (both ? 3 : 1));
}

static void any_value_is_right(void **state)
{
	attune_context *ctx;
	if (open_device(*state))
		fail_msg("%s", attune_last_error());
	if (attune_adopt(&ctx, &dev))
		fail_msg("%s", attune_last_error());
	each_batch(ctx, batches, COUNT(batches), run_all);
}

int main(void)
{
	return run_on_devices("settled runs", any_value_is_right);
}
