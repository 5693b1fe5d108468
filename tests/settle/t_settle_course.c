/* SPDX-License-Identifier: Apache-2.0 */
/* t_settle_course.c - which plans race when a batch is settled, by times of the test: the fastest
 * member, its number of segments, and of mixed batches the way and one change of a part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "settle_world.h"
#include "kernels/settle/race.h"
#include "kernels/settle/races.h"
#include "kernels/settle/stage.h"

/* ---- races of the test ----------------------------------------------------------------------- */

static double (*us_of)(const attune_plan *);
static int num_races, last_races, gives_up_at; /* the race that does not come to an end; -1: none */

enum attune_status settle_race(struct race *r)
{
	r->fastest = r->winner = r->rounds = 0;
	assert_true(r->n > 1 && r->n <= MOST_RACED);
	last_races += r->is_last;
	if (num_races++ == gives_up_at)
		return ATTUNE_OK;
	for (int i = 0; i < r->n; i++) {
		for (int k = 0; k < i; k++)
			assert_true(r->plan[i] != r->plan[k]);
		r->us[i] = us_of(r->plan[i]);
		if (r->us[i] < r->us[r->fastest])
			r->fastest = i;
	}
	r->again = r->us[0];
	r->winner = r->us[r->fastest] < 0.99 * r->us[0] ? r->fastest : 0;
	r->rounds = r->is_last ? MOST_ROUNDS : FIRST_ROUNDS;
	return ATTUNE_OK;
}

enum attune_status stage_check(const struct stage *s)
{
	(void)s;
	return ATTUNE_OK;
}

enum attune_status stage_fill(const struct stage *s)
{
	(void)s;
	return ATTUNE_OK;
}

static struct world w;

static void settle_text(const char *text, double (*us)(const attune_plan *))
{
	static const attune_settle_how how = { .size = sizeof how,
					       .num_layers = 1,
					       .num_pages = 1 << 16 };
	static const attune_tensors layer = { .size = sizeof layer };
	struct batch *b = batch_of(text);
	struct job job = {
		.op = w.op, .how = &how, .layers = &layer, .begin = settle_clock(), .most = 1
	};
	us_of = us;
	num_races = last_races = 0;
	assert_int_equal(settle_job(&job, &b->view), ATTUNE_OK);
	commit(w.ctx);
	batch_free(b);
}

/* ---- decodes --------------------------------------------------------------------------------- */

static const char decodes[] = "1q1s68000";
static int liked, liked_segments;

static const int values[] = { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128 };

static int place_of(int segments)
{
	int at = 0;
	while (at < (int)COUNT(values) && values[at] < segments)
		at++;
	return at;
}

/* Another member, whose number of segments may be both higher and lower by two values. *from: the
 * place of the number that its costs say. */
static int other_of_any_number(int but, int *from)
{
	struct batch *b = batch_of(decodes);
	struct selection s;
	struct part whole;
	int id[MAX_MEMBERS], found = -1;
	parts_of_batch(w.op, &b->view, &s, &whole);
	const int n = part_members(w.op, s.choice[0], &s.part[0], id);
	for (int i = 0; i < n && found < 0; i++) {
		struct config as, up, down;
		if (id[i] == but || !can_run(w.op, id[i], &s.part[0], &as))
			continue;
		up = down = as;
		if (take_step(w.op, id[i], &s.part[0], 2, &up) &&
		    take_step(w.op, id[i], &s.part[0], -2, &down)) {
			found = id[i];
			*from = place_of(as.v[w.op->ready[id[i]].kernel->space->formula_axis]);
		}
	}
	assert_true(found >= 0);
	batch_free(b);
	return found;
}

/* 4 % for each value that the number of segments is off, 15 % where the choice is another. */
static double by_segments(const attune_plan *p)
{
	const int off = abs(place_of(p->part[0].resolved) - place_of(liked_segments));
	return 100 + 4 * off + 15 * (p->part[0].choice != liked);
}

static void the_number_of_segments_is_settled(void **state)
{
	static const struct {
		int steps, planned;
	} rows[] = { { 0, 0 }, { 1, 1 }, { -1, -1 }, { 2, 2 }, { -2, -2 }, { 3, 2 }, { -3, -2 } };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++)
		for (int other = 0; other < 2; other++) {
			if (other && abs(rows[i].steps) > MOST_STEPS)
				continue;
			world_open(&w, "h200");
			const attune_part own = plan_of(w.op, decodes).part[0];
			int from = place_of(own.resolved);
			liked = other ? other_of_any_number(own.choice, &from) : own.choice;
			liked_segments = values[from + rows[i].steps];
			settle_text(decodes, by_segments);
			const attune_part now = plan_of(w.op, decodes).part[0];
			assert_int_equal(now.choice, liked);
			assert_int_equal(place_of(now.resolved), from + rows[i].planned);
			assert_int_equal(last_races, other || rows[i].steps);
			world_close(&w);
		}
}

/* What was known before it stays. */
static void a_race_that_gives_up_changes_nothing(void **state)
{
	static const struct {
		int at, other, step; /* what is planned then */
	} rows[] = { { 0, 0, 0 }, { 1, 1, 0 }, { 2, 1, 1 }, { -1, 1, 2 } };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		world_open(&w, "h200");
		const int own = plan_of(w.op, decodes).part[0].choice;
		int from;
		liked = other_of_any_number(own, &from);
		liked_segments = values[from + 2];
		gives_up_at = rows[i].at;
		settle_text(decodes, by_segments);
		gives_up_at = -1;
		const attune_part now = plan_of(w.op, decodes).part[0];
		assert_int_equal(now.choice, rows[i].other ? liked : own);
		if (rows[i].other)
			assert_int_equal(place_of(now.resolved), from + rows[i].step);
		world_close(&w);
	}
}

/* ---- mixed ----------------------------------------------------------------------------------- */

static const char mixed[] = "q1k_32q1s1k";
static int liked_spared, liked_prefill, liked_alone;

static double by_way(const attune_plan *p)
{
	double us = p->num_seqs == 1 && p->part[0].choice == liked_alone ? 80 : 100;
	if (p->num_parts == 2 && p->how == ATTUNE_STREAMS && p->spared[0] == liked_spared)
		us -= 10;
	if (p->num_parts == 2 && p->part[0].choice == liked_prefill)
		us -= 5;
	return us;
}

/* The prefills alone are fastest by another choice; the change of a part finds the one that is best
 * beside the decodes. */
static void the_way_and_a_change_of_a_part_are_settled(void **state)
{
	(void)state;
	for (liked_spared = 0; liked_spared <= 64; liked_spared += liked_spared ? 48 : 16) {
		world_open(&w, "h200");
		const attune_plan rules = plan_of(w.op, mixed);
		liked_prefill = rules.num_parts == 2 ? rules.part[0].choice : -1;
		assert_true(liked_prefill >= 0);
		liked_alone = other_member(w.op, "q1k", liked_prefill);
		settle_text(mixed, by_way);
		const attune_plan now = plan_of(w.op, mixed);
		assert_int_equal(plan_of(w.op, "q1k").part[0].choice, liked_alone);
		assert_int_equal(now.num_parts, 2);
		assert_int_equal(now.how, ATTUNE_STREAMS);
		assert_int_equal(now.spared[0], liked_spared);
		assert_int_equal(now.part[0].choice, liked_prefill);
		world_close(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_number_of_segments_is_settled),
		cmocka_unit_test(a_race_that_gives_up_changes_nothing),
		cmocka_unit_test(the_way_and_a_change_of_a_part_are_settled),
	};
	gives_up_at = -1;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
