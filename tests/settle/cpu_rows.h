/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_rows.h - a batch on the CPU, by rules of a file with rows of members, for tests of settling. */
#ifndef TESTS_SETTLE_CPU_ROWS_H
#define TESTS_SETTLE_CPU_ROWS_H

#include "tests/library/cpu_step.h"
#include "kernels/attune_settle.h"
#include "kernels/launch/run.h"

#define SEGMENTED(n) "segmented TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=" #n
#define BY_ROWS "qblock BLOCK_M=192 TILE_SIZE=256"

/* Decodes: a row of three. Prefills: a row of two. */
static const struct rules rows = { .choice = { SEGMENTED(1), SEGMENTED(2), SEGMENTED(4), BY_ROWS },
				   .lists = "LIST(c0, c1, c2, none) LIST(c3, c0, none, none)",
				   .prefill = "3" };

static struct device dev;
static attune_context *ctx;
static attune_op *op;
static struct step step;

static inline void ok(enum attune_status status)
{
	if (status)
		fail_msg("%s", attune_last_error());
}

/* The device is taken at its word: 16 threads, so that keys may be cut, and a last cache of 64 KB,
 * which is soon filled. */
static inline void open_by(const struct rules *rules, int num_seqs, const int (*lens)[2])
{
	char path[] = "/tmp/attune_rules_XXXXXX";
	const int fd = mkstemp(path);
	assert_true(fd >= 0);
	dprintf(fd, "%s", rules_header("cpu", rules));
	close(fd);
	setenv("ATTUNE_HEURISTICS", path, 1);
	ok(device_open(&dev, "cpu"));
	dev.info.units = 16;
	dev.info.l2_bytes = 64 << 10;
	ok(attune_adopt(&ctx, &dev));
	unsetenv("ATTUNE_HEURISTICS");
	unlink(path);
	op = prepare(ctx);
	step_make(&step, num_seqs, lens);
}

static inline void open_step(int num_seqs, const int (*lens)[2])
{
	open_by(&rows, num_seqs, lens);
}

static inline void close_step(void)
{
	step_free(&step);
	attune_release(op);
	attune_close(ctx);
	device_close(&dev);
}

static inline int list(attune_plan plans[ATTUNE_MOST_ALTERNATIVES])
{
	int n = 0;
	plans[0].size = sizeof *plans;
	ok(attune_plan_alternatives(op, &step.batch, plans, ATTUNE_MOST_ALTERNATIVES, &n));
	return n;
}

static inline attune_plan plan_now(void)
{
	attune_plan plan = { .size = sizeof plan };
	ok(attune_plan_batch(op, &step.batch, &plan));
	return plan;
}

static inline int alike(const attune_plan *a, const attune_plan *b)
{
	return attune_plan_serves(a, b) == ATTUNE_SERVES_ALIKE;
}

static inline void run_right(const attune_plan *plan)
{
	void *workspace = aligned_alloc(64, (plan->workspace + 64) / 64 * 64);
	assert_non_null(workspace);
	ok(attune_run(op, plan, &step.t, workspace, plan->workspace, NULL));
	free(workspace);
	assert_step_is_right(&step);
}

#endif
