/* SPDX-License-Identifier: Apache-2.0 */
/* mixed_batches.h - times of mixed batches, serial and side by side, and the rules they lead to. */
#ifndef TESTS_TUNER_MIXED_BATCHES_H
#define TESTS_TUNER_MIXED_BATCHES_H

#include "tuner/emit/emit.h"
#include "tuner/forest/forest.h"
#include "tuner/induce/induce.h"
#include "tuner/tree/tree.h"
#include "tests/support/synthetic.h"
#include "kernels/select/selector.h"
#include "tuner/eval/eval.h"
#include "tuner/policy/policy.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>

/* One choice for each part of a mixed batch, serial and side by side. */
static void add(struct data *d, const char *batch, const char *phase, const char *choice, double us,
		double ratio)
{
	const int is_plan = !strcmp(phase, "plan");
	struct store_cell c = cell_like(batch, phase, is_plan ? "plan" : "qblock", choice, us);
	c.ratio = ratio;
	c.stage = "race";
	if (!strcmp(phase, "decode"))
		c.kernel = "segmented";
	if (!data_add(d, &c))
		abort();
}

/* whole: time of one launch by the prefill's choice; in turn the parts take 200. beside: time of two
 * streams relative to the best serial plan; 0: not measured. The clock of the race ran `fast`
 * meanwhile, which ratios do not show. */
static inline void add_ways(struct data *d, const char *batch, double whole, double beside, double fast)
{
	const char *q = with("qblock", ""), *s = with("segmented", "");
	char text[2][2 * MAX_PART_TEXT + 32], part[2][MAX_PART_TEXT];
	snprintf(part[0], MAX_PART_TEXT, "qblock %s", q);
	snprintf(part[1], MAX_PART_TEXT, "segmented %s", s);
	for (int how = 0; how < 2; how++)
		parts_text(text[how], sizeof text[how], part[0], part[1], (enum attune_how)how);
	add(d, batch, "prefill", q, 100, 1);
	add(d, batch, "decode", s, 100, 1);
	add(d, batch, "all", q, whole, whole / 300);
	add(d, batch, "plan", text[ATTUNE_SERIAL], 200, 2. / 3);
	if (beside > 0)
		add(d, batch, "plan", text[ATTUNE_STREAMS], fast * 200 * beside, beside * 2 / 3);
}

static inline void add_mixed(struct data *d, const char *batch, double beside, double fast)
{
	add_ways(d, batch, 300, beside, fast);
}

static struct data *begin(void)
{
	struct data *d = data_new("h200", &h200_run);
	assert_non_null(d);
	return d;
}

static void induce(struct data *d, struct forest *f)
{
	assert_true(data_finish(d));
	assert_true(forest_induce(f, d, &default_limits));
}

static inline void add_fused(struct data *d, const char *batch, const char *values, double us)
{
	struct store_cell c =
	    cell_like(batch, "all", "warpgroup_mixed", with("warpgroup_mixed", values), us);
	c.ratio = us / 300;
	c.stage = "race";
	assert_true(data_add(d, &c));
}

/* The rules written as a header, which has `text`, and read back run the same plans. */
static inline void header_holds(const struct forest *f, const struct data *d, const char *text)
{
	struct forest back;
	char *header = forest_emit(f, d);
	assert_non_null(header);
	assert_non_null(strstr(header, text));
	assert_true(forest_parse(&back, header, "text"));
	for (int s = 0; s < d->n; s++) {
		struct pick p, q;
		forest_pick(d, f, s, &p);
		forest_pick(d, &back, s, &q);
		assert_memory_equal(&p, &q, sizeof p);
	}
	free(header);
	forest_free(&back);
}

#endif
