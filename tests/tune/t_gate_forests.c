/* SPDX-License-Identifier: Apache-2.0 */
/* t_gate_forests.c - one forest made of two: decisions of the incumbent beside fresh ones
 * (tuner/transfer/gate.h). */
#include "forests.h"

/* ---- forests by hand -------------------------------------------------------------------- */
enum {
	PREFILL = 1 << GATE_PREFILL,
	DECODE = 1 << GATE_DECODE,
	MIXED = 1 << GATE_MIXED,
	ALL = PREFILL | DECODE | MIXED
};

static const char *name_of_leaf(const struct forest *f, enum decision t, char text[300])
{
	const int id = f->tree[t].v[0].action;
	choice_text(text, 300, &f->choice[id]);
	return text;
}

static void cut_by_costs(struct forest *f, int id, int head_size, long long path)
{
	struct choice *c = &f->choice[id];
	c->config.v[c->kernel->space->formula_axis] = SEGMENTS_FITTED;
	f->costs[f->num_costs++] =
	    (struct selector_costs){ id, head_size, { 2, 64, path, 1, 2, 3 } };
}

static void test_combine(void **state)
{
	struct forest old, new, f;
	char text[300], wanted[300];
	(void)state;
	make_forest(&old, &old_rules);
	make_forest(&new, &new_rules);

	assert_true(forest_combine(&f, &old, &new, DECODE));
	assert_int_equal(f.num_choices, 2); /* segmented 8 of new, qblock of old */
	assert_string_equal(name_of_leaf(&f, DECIDE_DECODE, text),
			    name_of_leaf(&new, DECIDE_DECODE, wanted));
	assert_string_equal(name_of_leaf(&f, DECIDE_PREFILL, text),
			    name_of_leaf(&old, DECIDE_PREFILL, wanted));
	assert_int_equal(f.tree[DECIDE_OVERLAP].v[0].action, SAYS_SERIAL);
	assert_int_equal(f.num_costs, 0);
	forest_free(&f);

	assert_true(forest_combine(&f, &old, &new, ALL));
	assert_int_equal(f.tree[DECIDE_PREFILL].v[0].action, 1); /* as new numbers them */
	assert_string_equal(name_of_leaf(&f, DECIDE_OVERLAP, text),
			    name_of_leaf(&new, DECIDE_OVERLAP, wanted));
	assert_int_equal(f.tree[DECIDE_OVERLAP].v[0].action, 2);
	assert_int_equal(f.num_choices, 3); /* segmented 2, which no leaf names, is gone */
	forest_free(&f);

	forest_free(&old);
	forest_free(&new);
}

/* Costs move with the choice, under its new id: the costs that the combined trees were learned
 * with. */
static void test_combine_costs(void **state)
{
	static const struct {
		int groups, num;
		long long path[2]; /* of the decode leaf's choice at head sizes 64, 128; 0: none */
	} rows[] = {
		{ DECODE, 2, { 20, 21 } },         /* of new; the costs of old's decodes are gone */
		{ PREFILL | MIXED, 1, { 0, 11 } }, /* of old; the costs of new's are gone */
		{ ALL, 2, { 20, 21 } },
		{ 0, 1, { 0, 11 } },
	};
	struct forest old, new, f;
	(void)state;
	make_forest(&old, &old_rules);
	make_forest(&new, &new_rules);
	cut_by_costs(&old, 1, 128, 11);
	cut_by_costs(&new, 2, 128, 31); /* which no leaf names */
	cut_by_costs(&new, 0, 64, 20);
	cut_by_costs(&new, 0, 128, 21);
	/* Else both decode leaves would be the same. */
	new.choice[0].config.v[0] = new.choice[0].kernel->space->axis[0].values[1];
	assert_false(choice_same(&new.choice[0], &old.choice[1]));
	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_true(forest_combine(&f, &old, &new, rows[i].groups));
		const int id = f.tree[DECIDE_DECODE].v[0].action;
		const struct forest *from = rows[i].groups & DECODE ? &new : &old;
		assert_true(choice_same(&f.choice[id],
					&from->choice[from->tree[DECIDE_DECODE].v[0].action]));
		assert_int_equal(f.num_costs, rows[i].num);
		for (int k = 0; k < f.num_costs; k++) {
			assert_int_equal(f.costs[k].id, id);
			assert_true(f.costs[k].costs.path ==
				    rows[i].path[f.costs[k].head_size == 128]);
		}
		forest_free(&f);
	}
	forest_free(&old);
	forest_free(&new);
}

/* A choice that both forests name is there once, with one forest's costs: the new one's. */
static void test_combine_same_choice(void **state)
{
	struct forest old, new, f;
	(void)state;
	make_forest(&old, &old_rules);
	make_forest(&new, &new_rules);
	cut_by_costs(&old, 1, 128, 11);
	cut_by_costs(&old, 1, 64, 10);
	cut_by_costs(&new, 0, 128, 21);
	old.tree[DECIDE_PREFILL].v[0].action = 1;
	assert_true(choice_same(&old.choice[1], &new.choice[0]));
	assert_true(forest_combine(&f, &old, &new, DECODE));
	assert_int_equal(f.num_choices, 1);
	assert_int_equal(f.tree[DECIDE_PREFILL].v[0].action, 0);
	assert_int_equal(f.tree[DECIDE_DECODE].v[0].action, 0);
	assert_int_equal(f.num_costs, 1);
	assert_true(f.costs[0].costs.path == 21);
	forest_free(&f);
	forest_free(&old);
	forest_free(&new);
}

/* A row follows the tree that names its first; its members are kept, under their new ids. A choice that
 * trees of both forests name is there twice, each with the row of its tree. */
static void test_combine_rows(void **state)
{
	struct forest old, new, f;
	(void)state;
	make_forest(&old, &old_rules);
	make_forest(&new, &new_rules);
	old.list[0] =
	    (struct attune_list){ 2, { 0, 1, -1, -1 } }; /* prefills: qblock, segmented 2 */
	new.list[0] = (struct attune_list){ 3, { 0, 3, 2, -1 } };  /* decodes */
	new.list[1] = (struct attune_list){ 2, { 1, 0, -1, -1 } }; /* prefills, not taken */

	assert_true(forest_combine(&f, &old, &new, DECODE));
	const int decode = f.tree[DECIDE_DECODE].v[0].action,
		  prefill = f.tree[DECIDE_PREFILL].v[0].action;
	const struct attune_list *row = &f.list[decode];
	assert_int_equal(f.num_choices, 4); /* three of new and qblock of old */
	assert_true(row->n == 3 && row->at[0] == decode && row->at[3] == -1);
	assert_true(choice_same(&f.choice[row->at[1]], &new.choice[3]));
	assert_true(choice_same(&f.choice[row->at[2]], &new.choice[2]));
	row = &f.list[prefill];
	assert_true(row->n == 2 && row->at[0] == prefill);
	assert_true(choice_same(&f.choice[row->at[1]], &old.choice[1]));
	for (int id = 0; id < f.num_choices; id++)
		assert_true(id == decode || id == prefill || !f.list[id].n);
	forest_free(&f);

	/* both name segmented 8 */
	old.choice[0] = new.choice[0];
	assert_true(forest_combine(&f, &old, &new, DECODE));
	assert_int_equal(f.tree[DECIDE_DECODE].v[0].action, 0);
	assert_int_equal(f.list[0].n, 3);
	const int twin = f.tree[DECIDE_PREFILL].v[0].action;
	assert_true(twin && choice_same(&f.choice[twin], &f.choice[0]));
	assert_true(f.list[twin].n == 2 && f.list[twin].at[0] == twin);
	assert_true(choice_same(&f.choice[f.list[twin].at[1]], &old.choice[1]));
	forest_free(&f);

	/* one without a row takes that of the other */
	old.list[0].n = 0;
	assert_true(forest_combine(&f, &old, &new, DECODE));
	assert_int_equal(f.tree[DECIDE_PREFILL].v[0].action, 0);
	assert_int_equal(f.list[0].n, 3);
	forest_free(&f);
	forest_free(&old);
	forest_free(&new);
}

/* A tree with one leaf a choice. */
static void many_choices(struct forest *f, int tile)
{
	static const int segments[] = { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64 };
	struct tree *t = &f->tree[DECIDE_DECODE];
	char set[80];
	const char *where;
	assert_true(forest_defaults(f, "h200"));
	for (int i = 0; i < 33; i++) {
		struct choice *c = &f->choice[f->num_choices];
		snprintf(set, sizeof set, "TILE_SIZE=%d NUM_WARPS=%d SEGMENTS=%d", tile,
			 2 << i / 12, segments[i % 12]);
		c->kernel = kernel_find(BACKEND_GPU, "segmented");
		assert_true(
		    config_parse(&c->config, c->kernel->space, with("segmented", set), &where));
		const int leaf = i ? tree_new_node(t) : -1, next = i ? tree_new_node(t) : 0;
		if (i) {
			t->v[t->n - 3].feature = ATTUNE_FEATURE_num_seqs;
			t->v[t->n - 3].threshold = i;
			t->v[t->n - 3].below = leaf;
			t->v[t->n - 3].above = next;
			t->v[leaf].action = i - 1;
		}
		t->v[next].action = i;
		f->num_choices++;
	}
}

static void test_too_many(void **state)
{
	struct forest old, new, f;
	(void)state;
	many_choices(&old, 32);
	many_choices(&new, 64);
	tree_free(&new.tree[DECIDE_PREFILL]); /* the same tree for both parts */
	new.tree[DECIDE_PREFILL] = new.tree[DECIDE_DECODE];
	new.tree[DECIDE_DECODE] = (struct tree){ 0 };
	assert_true(tree_constant(&new.tree[DECIDE_DECODE], SAYS_DEFAULTS));
	const int said = complaints();
	assert_false(forest_combine(&f, &old, &new, PREFILL | MIXED));
	assert_int_equal(complaints() - said, 1);
	forest_free(&old);
	forest_free(&new);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_combine),
		cmocka_unit_test(test_combine_costs),
		cmocka_unit_test(test_combine_same_choice),
		cmocka_unit_test(test_combine_rows),
		cmocka_unit_test(test_too_many),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
