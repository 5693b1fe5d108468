/* SPDX-License-Identifier: Apache-2.0 */
/* small_forest.h - data of two scenarios and a forest over them, with one choice of
 * SEGMENTS=fitted, for tests of its text. Include after cmocka.h and synthetic.h. */
#ifndef TESTS_TUNER_SMALL_FOREST_H
#define TESTS_TUNER_SMALL_FOREST_H

static inline void leaf(struct tree *t, int at, int action, int support, long long cost)
{
	t->v[at].action = action;
	t->v[at].support = support;
	t->v[at].cost = cost;
	t->v[at].weight = support;
}

static inline void split(struct tree *t, int at, enum attune_feature feature, long long threshold,
			 int below)
{
	t->v[at].feature = (int)feature;
	t->v[at].threshold = threshold;
	t->v[at].below = below;
	t->v[at].above = below + 1;
}

/* The costs make 16 segments of both scenarios. */
static inline void small_forest(struct forest *f, const struct data *d)
{
	struct tree *t;
	*f = (struct forest){ .gpu = "h200", .num_choices = 2, .num_costs = 1 };
	f->costs[0] = (struct selector_costs){ 0, 128, { 5, 96, 7000, 14, 21, 28 } };
	for (int c = 0; c < d->num_choices; c++)
		f->choice[!strcmp(d->choice[c].kernel->name, "qblock")] = d->choice[c];
	f->choice[0].config.v[f->choice[0].kernel->space->formula_axis] = SEGMENTS_FITTED;
	f->list[0] = (struct attune_list){ 2, { 0, 1, -1, -1 } };
	for (int i = 0; i < NUM_DECISIONS; i++)
		assert_int_equal(tree_new_node(&f->tree[i]), 0);
	f->tree[DECIDE_PREFILL].v[0].action = -1;
	f->tree[DECIDE_OVERLAP].v[0].action = SAYS_SERIAL;
	f->tree[DECIDE_EARLY].v[0].action = SAYS_OWN;
	t = &f->tree[DECIDE_DECODE];
	for (int i = 0; i < 6; i++)
		tree_new_node(t);
	split(t, 0, ATTUNE_FEATURE_num_seqs, 8, 1);
	leaf(t, 1, 0, 1, 0);
	t->v[1].runner_up = 1;
	t->v[1].runner_up_cost = cost_of(125, 100);
	t->v[1].row_cost = 0;
	split(t, 2, ATTUNE_FEATURE_max_seq, 4096, 3);
	leaf(t, 3, 1, 5, 5 * 100000);
	t->v[3].p95 = cost_of(150, 100);
	t->v[3].remark = REMARK_UNSURE;
	t->v[3].guarded = "a rule";
	split(t, 4, ATTUNE_FEATURE_kv_tokens, 65536, 5);
	leaf(t, 5, 0, 2, FORBIDDEN_SUM + 7);
	leaf(t, 6, 1, 0, 0);
}

static inline struct data *small_data(void)
{
	struct data *d = data_new("h200", &h200_run);
	struct store_cell c =
	    cell_like("4q1s4k", "decode", "segmented", with("segmented", "SEGMENTS=16"), 100);
	assert_true(data_add(d, &c));
	c.batch = "5q1s4k";
	c.split = "heldout";
	c.median_us = 125;
	assert_true(data_add(d, &c));
	c.kernel = "qblock";
	c.choice = with("qblock", "BLOCK_M=32");
	c.median_us = 100;
	assert_true(data_add(d, &c));
	c.batch = "4q1s4k";
	c.split = "train";
	c.median_us = 125;
	assert_true(data_add(d, &c));
	assert_true(data_finish(d));
	snprintf(d->hash, sizeof d->hash, "%032d", 42);
	return d;
}

static inline void same_costs(const struct selector_costs *a, const struct selector_costs *b)
{
	assert_true(a->id == b->id && a->head_size == b->head_size);
	assert_memory_equal(&a->costs, &b->costs, sizeof a->costs);
}

#endif
