/* SPDX-License-Identifier: Apache-2.0 */
/* t_settled_winners.c - what wins a race is what planning gives from the commit on, for all plans that
 * attune_settle may race. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "settle_world.h"
#include "kernels/settle/alternatives.h"

static void show(struct world *w, const char *text, const attune_plan *plan,
		 const attune_plan *raced)
{
	char got[512], want[512];
	assert_int_equal(attune_plan_text(w->op, plan, got, sizeof got), ATTUNE_OK);
	assert_int_equal(attune_plan_text(w->op, raced, want, sizeof want), ATTUNE_OK);
	fail_msg("%s: %s won, %s is planned", text, want, got);
}

static void plans_are_as_raced(struct world *w, const struct batch *b, const char *text,
			       struct alternatives *a)
{
	for (int i = 1; i < a->n; i++) {
		struct settled_plan first = a->of[0], other = a->of[i];
		attune_plan plan = { .size = sizeof plan };
		first.us = 20;
		other.us = 10;
		settle_to(w->op, text, first, other);
		commit(w->ctx);
		assert_int_equal(attune_plan_batch(w->op, &b->view, &plan), ATTUNE_OK);
		if (attune_plan_serves(&plan, &a->plan[i]) != ATTUNE_SERVES_ALIKE)
			show(w, text, &plan, &a->plan[i]);
	}
}

/* The members of a part of the batch as one of its own, where the rules may name another choice. */
static int members_alone(const attune_op *op, const char *text, int id[MAX_MEMBERS])
{
	struct batch *b = batch_of(text);
	struct selection s;
	struct part whole;
	parts_of_batch(op, &b->view, &s, &whole);
	const int n = part_members(op, s.choice[0], &s.part[0], id);
	batch_free(b);
	return n;
}

static void mixed_batches(void **state)
{
	static const struct {
		const char *prefills, *decodes;
	} rows[] = {
		{ "q1923s6122", "175q1s5757" },
		{ "q870s6270", "21q1s8834" },
		{ "q2k", "24q1s1k" },
		{ "q783_q543_q931s2160", "113q1s283" },
	};
	int strangers = 0;
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[80];
		int member[2][MAX_MEMBERS];
		struct world w;
		struct alternatives a;
		snprintf(text, sizeof text, "%s_%s", rows[i].prefills, rows[i].decodes);
		world_open(&w, "h200");
		struct batch *b = batch_of(text);
		const int prefills = members_alone(w.op, rows[i].prefills, member[0]);
		const int decodes = members_alone(w.op, rows[i].decodes, member[1]);
		for (int k = 0; k < prefills * decodes; k++) {
			const struct settled_plan parts = { .id = { member[0][k % prefills],
								    member[1][k / prefills] } };
			assert_int_equal(alternatives_start(&a, w.op, &b->view), ATTUNE_OK);
			alternatives_add_ways(&a, parts);
			strangers += a.n == 1;
			plans_are_as_raced(&w, b, text, &a);
		}
		batch_free(b);
		world_close(&w);
	}
	assert_true(strangers > 0); /* no memory can name them beside the other part */
}

static void batches_of_one_phase(void **state)
{
	static const char *const rows[] = { "32q1s4k", "2q2k", "25q3s1770", "q40s28712" };
	int steps = 0;
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct world w;
		struct alternatives a;
		world_open(&w, "h200");
		struct batch *b = batch_of(rows[i]);
		assert_int_equal(alternatives_start(&a, w.op, &b->view), ATTUNE_OK);
		alternatives_add_members(&a);
		assert_true(a.n > 1);
		for (int k = a.n - 1; k >= 0; k--)
			for (int more = -1; more <= 1; more += 2)
				steps += alternatives_add_step(&a, k, more) >= 0;
		plans_are_as_raced(&w, b, rows[i], &a);
		batch_free(b);
		world_close(&w);
	}
	assert_true(steps > 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mixed_batches),
		cmocka_unit_test(batches_of_one_phase),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
