/* SPDX-License-Identifier: Apache-2.0 */
/* t_kept_tree.c - another GPU's trees with labels of own times (tuner/induce/kept_tree.c), on two made-up
 * GPUs. */
#include "tuner/induce/induce.h"
#include "tests/support/synthetic.h"
#include "tuner/data/filling.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "tests/support/two_gpus.h"

enum { TRAIN = 150, HELD_OUT = 60 };

static struct world world;
static struct forest borrowed; /* of the first GPU */

/* TRAIN scenarios to learn from and held-out ones; all times of a GPU, that many times as long. */
static struct data *times_of(const struct made_up_gpu *g, double slower)
{
	const struct asked all = { g, &world, NULL, 0.01 };
	struct data *d = world_data(g);
	for (int i = 0; i < TRAIN; i++)
		add_world_scenario(d, &all, i, "train");
	for (int i = 0; i < HELD_OUT; i++)
		add_world_scenario(d, &all, 10000 + i, "heldout");
	for (int i = 0; i < d->num_cells; i++)
		d->cell[i].us = d->cell[i].median_us *= slower;
	assert_true(data_finish(d));
	return d;
}

static int has_threshold(const struct tree *t, const struct node *v)
{
	for (int i = 0; i < t->n; i++)
		if (t->v[i].feature == v->feature && t->v[i].threshold == v->threshold)
			return 1;
	return 0;
}

/* Prefill and decode tree with the borrowed thresholds and labels of own times. */
static struct forest relabelled(struct data *own)
{
	struct limits limits = default_limits;
	struct forest f;
	limits.kept = &borrowed;
	assert_true(forest_induce(&f, own, &limits));
	for (int t = DECIDE_PREFILL; t <= DECIDE_DECODE; t++)
		for (int i = 0; borrowed.tree[t].n > 1 && i < f.tree[t].n; i++)
			assert_true(f.tree[t].v[i].feature < 0 ||
				    has_threshold(&borrowed.tree[t], &f.tree[t].v[i]));
	return f;
}

/* Whether some choice of the rules differs from it at most in how SEGMENTS is made. */
static int names_family(const struct forest *f, struct choice c)
{
	const int axis = c.kernel->space->formula_axis;
	for (int i = 0; i < f->num_choices; i++) {
		if (axis >= 0)
			c.config.v[axis] = f->choice[i].config.v[axis];
		if (choice_same(&f->choice[i], &c))
			return 1;
	}
	return 0;
}

/* Where the other GPU's choices are the best, too, they stay; where not, others are named. A tree of one
 * leaf is not kept. */
static void labels_follow_times(void **state)
{
	struct data *alike = times_of(&first_gpu, 1.5), *own = times_of(&second_gpu, 1);
	struct forest same = relabelled(alike), other = relabelled(own);
	(void)state;
	assert_true(borrowed.tree[DECIDE_PREFILL].n > 1 || borrowed.tree[DECIDE_DECODE].n > 1);
	for (int t = DECIDE_PREFILL; t <= DECIDE_DECODE; t++)
		for (int i = 0; borrowed.tree[t].n > 1 && i < same.tree[t].n; i++) {
			const struct node *v = &same.tree[t].v[i];
			assert_true(v->feature >= 0 || v->action < 0 ||
				    names_family(&borrowed, same.choice[v->action]));
		}
	const double before = world_slowdown(&second_gpu, &world, own, &borrowed, "heldout", NULL);
	const double after = world_slowdown(&second_gpu, &world, own, &other, "heldout", NULL);
	print_message("borrowed %.4f, with new labels %.4f\n", before, after);
	assert_true(before > 1.02 && after - 1 < 0.7 * (before - 1));
	forest_free(&same);
	forest_free(&other);
	data_free(alike);
	data_free(own);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(labels_follow_times) };
	world = world_of_choices();
	struct data *d = times_of(&first_gpu, 1);
	if (!forest_induce(&borrowed, d, &default_limits))
		return 1;
	data_free(d);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = cmocka_run_group_tests_name("kept_tree", tests, NULL, NULL);
	forest_free(&borrowed);
	return failed;
}
