/* small_forest.h - data of two scenarios and a forest of four leaves over them, one price, for
 * tests that know its text. Include after cmocka.h and synthetic.h. */
#ifndef SMALL_FOREST_H
#define SMALL_FOREST_H

static inline void leaf(struct tree *t, int at, int action, int support, long long cost)
{
	t->v[at].action = action;
	t->v[at].support = support;
	t->v[at].cost = cost;
	t->v[at].weight = support;
}

static inline void small_forest(struct forest *f, const struct data *d)
{
	struct tree *t;
	*f = (struct forest){ .gpu = "h200", .num_choices = 2, .num_prices = 1 };
	f->price[0] = (struct selector_price){ DECIDE_DECODE, 1, 128, { 32, 64, 8, 2, 96, { 0 } } };
	for (int i = 0; i < NUM_PRICE_TERMS; i++)
		f->price[0].price.fs[i] = 7 * i;
	for (int c = 0; c < d->num_choices; c++)
		f->choice[!strcmp(d->choice[c].kernel->name, "qblock")] = d->choice[c];
	for (int i = 0; i < NUM_DECISIONS; i++)
		assert_int_equal(tree_new_node(&f->tree[i]), 0);
	f->tree[DECIDE_PREFILL].v[0].action = -1;
	f->tree[DECIDE_OVERLAP].v[0].action = SAYS_SERIAL;
	f->tree[DECIDE_EARLY].v[0].action = SAYS_OWN;
	t = &f->tree[DECIDE_DECODE];
	for (int i = 0; i < 4; i++)
		tree_new_node(t);
	t->v[0].feature = ATTUNE_FEATURE_num_seqs;
	t->v[0].threshold = 8;
	t->v[0].below = 1;
	t->v[0].above = 2;
	leaf(t, 1, 0, 1, 0);
	t->v[1].runner_up = 1;
	t->v[1].runner_up_cost = cost_of(125, 100);
	t->v[2].feature = ATTUNE_FEATURE_max_seq;
	t->v[2].threshold = 4096;
	t->v[2].below = 3;
	t->v[2].above = 4;
	leaf(t, 3, 1, 5, 5 * 100000);
	t->v[3].p95 = cost_of(150, 100);
	t->v[3].remark = REMARK_UNSURE;
	t->v[3].guarded = "a rule";
	leaf(t, 4, 0, 2, FORBIDDEN_SUM + 7);
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

static inline void same_price(const struct selector_price *a, const struct selector_price *b)
{
	assert_true(a->decision == b->decision && a->id == b->id && a->head_size == b->head_size);
	assert_memory_equal(&a->price, &b->price, sizeof a->price);
}

#endif
