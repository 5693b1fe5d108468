/* SPDX-License-Identifier: Apache-2.0 */
/* t_settled_steps.c - numbers of segments that were settled: planned, listed, written and read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "settle_world.h"
#include "kernels/settle/alternatives.h"

static const char decodes[] = "1q1s68000", alike[] = "1q1s70000";

/* The place of a number on the axis of a choice. */
static int place_on_axis(const attune_op *op, int id, int segments)
{
	const struct space *s = op->ready[id].kernel->space;
	const struct axis *a = &s->axis[s->formula_axis];
	int at = 0;
	while (at < a->num_values && a->values[at] != segments)
		at++;
	assert_true(at < a->num_values);
	return at;
}

static void settle_step(struct world *w, int step)
{
	const int id = plan_of(w->op, decodes).part[0].choice;
	settle_to(w->op, decodes, (struct settled_plan){ WAY_AS_RULES, { -1, -1 }, { 0, 0 }, 20 },
		  (struct settled_plan){ WAY_AS_RULES, { -1, id }, { 0, step }, 18 });
	commit(w->ctx);
}

static void a_step_changes_the_segments(void **state)
{
	(void)state;
	for (int step = -MOST_STEPS; step <= MOST_STEPS; step++) {
		struct world w;
		world_open(&w, "h200");
		const attune_part before = plan_of(w.op, alike).part[0];
		const int from = place_on_axis(w.op, before.choice, before.resolved);
		settle_step(&w, step);
		const attune_part then = plan_of(w.op, alike).part[0];
		assert_int_equal(then.choice, before.choice);
		assert_int_equal(place_on_axis(w.op, then.choice, then.resolved), from + step);
		assert_int_equal(attune_settled_digest(w.ctx) != 0, step != 0);
		world_close(&w);
	}
}

/* A choice whose SEGMENTS are no formula, and a number that is not on the axis, or illegal. */
static void a_step_that_cannot_run_is_left_out(void **state)
{
	struct world w;
	struct config as;
	(void)state;
	world_open(&w, "h200");
	struct batch *b = batch_of("64q1s16");
	struct selection s;
	struct part whole;
	parts_of_batch(w.op, &b->view, &s, &whole);
	const attune_part before = plan_of(w.op, "64q1s16").part[0];
	assert_int_equal(before.resolved, 1);
	assert_true(can_run(w.op, before.choice, &s.part[0], &as));
	assert_false(take_step(w.op, before.choice, &s.part[0], -1, &as));
	assert_false(
	    take_step(w.op, before.choice, &s.part[0], 2, &as)); /* 3 segments of 16 keys */
	batch_free(b);
	for (int step = -1; step <= 2; step += 3) {
		settle_to(
		    w.op, "64q1s16",
		    (struct settled_plan){ WAY_AS_RULES, { -1, -1 }, { 0, 0 }, 20 },
		    (struct settled_plan){ WAY_AS_RULES, { -1, before.choice }, { 0, step }, 18 });
		commit(w.ctx);
		const attune_part then = plan_of(w.op, "64q1s16").part[0];
		assert_int_equal(then.choice, before.choice);
		assert_int_equal(then.resolved, 1);
	}
	world_close(&w);
}

static void the_steps_of_the_present_plan_are_listed(void **state)
{
	(void)state;
	for (int step = -1; step <= MOST_STEPS; step++) {
		struct world w;
		attune_plan plans[ATTUNE_MOST_ALTERNATIVES];
		int n, found[2] = { 0, 0 };
		world_open(&w, "h200");
		settle_step(&w, step);
		struct batch *b = batch_of(decodes);
		plans[0].size = sizeof *plans;
		assert_int_equal(
		    attune_plan_alternatives(w.op, &b->view, plans, ATTUNE_MOST_ALTERNATIVES, &n),
		    ATTUNE_OK);
		const attune_part now = plan_of(w.op, decodes).part[0];
		assert_int_equal(plans[0].part[0].resolved, now.resolved);
		const int at = place_on_axis(w.op, now.choice, now.resolved);
		for (int i = 1; i < n; i++)
			if (plans[i].part[0].choice == now.choice)
				for (int k = 0; k < 2; k++)
					found[k] += place_on_axis(w.op, now.choice,
								  plans[i].part[0].resolved) ==
						    at + (k ? 1 : -1);
		assert_int_equal(found[0], 1);
		assert_int_equal(found[1], step < MOST_STEPS);
		batch_free(b);
		world_close(&w);
	}
}

/* A round in which plan `fast` takes half of the others' time; -1: none does. */
static void report_round(const attune_op *op, const attune_batch *b, int fast)
{
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES];
	double us[ATTUNE_MOST_ALTERNATIVES];
	int n;
	plans[0].size = sizeof *plans;
	assert_int_equal(attune_plan_alternatives(op, b, plans, ATTUNE_MOST_ALTERNATIVES, &n),
			 ATTUNE_OK);
	for (int i = 0; i < n; i++)
		us[i] = i == fast ? 50 : 100;
	assert_int_equal(attune_report(op, b, plans, us, n), ATTUNE_OK);
}

/* After the commit of a step the alternatives are the same choices by other steps. */
static void rounds_of_other_steps_do_not_count(void **state)
{
	struct world w;
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES];
	int n, more = -1;
	(void)state;
	world_open(&w, "h200");
	struct batch *b = batch_of(decodes);
	const attune_part before = plan_of(w.op, decodes).part[0];
	const int at = place_on_axis(w.op, before.choice, before.resolved);
	plans[0].size = sizeof *plans;
	assert_int_equal(
	    attune_plan_alternatives(w.op, &b->view, plans, ATTUNE_MOST_ALTERNATIVES, &n),
	    ATTUNE_OK);
	for (int i = 0; i < n; i++)
		if (plans[i].part[0].choice == before.choice &&
		    place_on_axis(w.op, before.choice, plans[i].part[0].resolved) == at + 1)
			more = i;
	assert_true(more > 0);
	for (int round = 0; round < 10; round++)
		report_round(w.op, &b->view, more);
	commit(w.ctx);
	const attune_part then = plan_of(w.op, decodes).part[0];
	assert_int_equal(place_on_axis(w.op, then.choice, then.resolved), at + 1);
	report_round(w.op, &b->view, -1);
	commit(w.ctx);
	assert_int_equal(plan_of(w.op, decodes).part[0].resolved, then.resolved);
	batch_free(b);
	world_close(&w);
}

/* Two batches of a cell, by 1.5 % each: `step` is that of the winner, and its member took `plain` of the
 * 200 without. */
static void settle_prefill(struct world *w, const char *text, int id, int step, double plain)
{
	struct batch *b = batch_of(text);
	const struct settled_entry e = { .batch = &b->view,
					 .num = 3,
					 .plan = { { WAY_AS_RULES, { -1, -1 }, { 0, 0 }, 200 },
						   { WAY_AS_RULES, { id, -1 }, { 0, 0 }, plain },
						   { WAY_AS_RULES, { id, -1 }, { step, 0 }, 197 } },
					 .winner = step ? 2 : 1,
					 .rounds = 10 };
	assert_int_equal(settled_add(w->op, &e), ATTUNE_OK);
	commit(w->ctx);
	batch_free(b);
}

static void prefills_agree_on_the_member(void **state)
{
	static const char one[] = "q36s28712", another[] = "q37s28713";
	static const struct {
		int step[2];
		double plain[2];
		int counts, planned;
	} rows[] = {
		{ { 1, 1 }, { 197.5, 197.5 }, 1, 1 }, { { 1, 0 }, { 197.5, 197 }, 1, 0 },
		{ { 0, 1 }, { 197, 197.5 }, 1, 0 },   { { 1, -1 }, { 197.5, 197.5 }, 1, 0 },
		{ { 1, 0 }, { 199.5, 197 }, 0, 0 },   { { 0, 1 }, { 197, 199.5 }, 0, 0 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct world w, other;
		static char text[1 << 14];
		size_t size;
		world_open(&w, "h200");
		world_open(&other, "h200");
		const attune_part before = plan_of(w.op, one).part[0];
		const int id = other_member(w.op, one, before.choice);
		for (int k = 0; k < 2; k++)
			settle_prefill(&w, k ? another : one, id, rows[i].step[k],
				       rows[i].plain[k]);
		const attune_part then = plan_of(w.op, one).part[0];
		assert_int_equal(then.choice, rows[i].counts ? id : before.choice);
		settle_prefill(&other, one, id, 0, 180);
		const attune_part plain = plan_of(other.op, one).part[0];
		assert_int_equal(plain.choice, id);
		if (rows[i].counts)
			assert_int_equal(place_on_axis(w.op, id, then.resolved),
					 place_on_axis(w.op, id, plain.resolved) + rows[i].planned);
		assert_int_equal(attune_settled_text(w.ctx, text, sizeof text, &size), ATTUNE_OK);
		settled_forget(other.ctx); /* a text has what counts */
		assert_int_equal(attune_settled_read(other.ctx, text, size, NULL, NULL), ATTUNE_OK);
		commit(other.ctx);
		assert_true(attune_settled_digest(w.ctx) == attune_settled_digest(other.ctx));
		world_close(&w);
		world_close(&other);
	}
}

static void a_text_has_them(void **state)
{
	static const char *const wrong[] = { "+3 ", "+0 ", "+ ", "--1 " };
	struct world w, other;
	static char text[1 << 16], changed[1 << 16];
	size_t size;
	int taken, dropped;
	(void)state;
	world_open(&w, "h200");
	world_open(&other, "h200");
	settle_step(&w, -2);
	assert_int_equal(attune_settled_text(w.ctx, text, sizeof text - 1, &size), ATTUNE_OK);
	text[size] = '\0';
	assert_non_null(strstr(text, "-2 rounds="));
	assert_int_equal(attune_settled_read(other.ctx, text, size, &taken, &dropped), ATTUNE_OK);
	assert_int_equal(taken, 1);
	commit(other.ctx);
	assert_true(attune_settled_digest(w.ctx) == attune_settled_digest(other.ctx));
	const attune_plan plan = plan_of(w.op, alike), again = plan_of(other.op, alike);
	assert_int_equal(plan.part[0].resolved, again.part[0].resolved);
	for (size_t i = 0; i < COUNT(wrong); i++) {
		const char *at = strstr(text, "-2 rounds=");
		const int n = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text,
				       wrong[i], at + 3);
		assert_int_equal(
		    attune_settled_read(other.ctx, changed, (size_t)n, &taken, &dropped),
		    ATTUNE_INVALID);
	}
	world_close(&w);
	world_close(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_changes_the_segments),
		cmocka_unit_test(a_step_that_cannot_run_is_left_out),
		cmocka_unit_test(the_steps_of_the_present_plan_are_listed),
		cmocka_unit_test(rounds_of_other_steps_do_not_count),
		cmocka_unit_test(prefills_agree_on_the_member),
		cmocka_unit_test(a_text_has_them),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
