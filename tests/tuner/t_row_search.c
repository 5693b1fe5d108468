/* SPDX-License-Identifier: Apache-2.0 */
/* t_row_search.c - the rows of choices: what runs where the choice of a leaf is illegal, and which
 * rivals stand beside it. */
#include "tuner/induce/rows.h"
#include "tests/support/synthetic.h"
#include "tuner/forest/forest.h"
#include "tuner/induce/induce.h"
#include "tuner/tree/tree.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#define QBLOCK(m) with("qblock", "BLOCK_M=" #m " TILE_SIZE=64")
#define NONE COST_ILLEGAL
#define FAILED COST_FORBIDDEN

/* ---- one row of choices, from costs ------------------------------------------------------- */
enum { COLS = 4, MOST = 6 };

static const struct {
	const char *name;
	int rows, untimed; /* untimed: scenarios, from the first, in which column 1 has no time */
	int32_t cost[MOST][COLS];
	int32_t fallback;
	struct attune_list wanted; /* of column 0 */
} learned[] = {
	{ "the fastest legal one stands in, though the next is best where the first is legal",
	  3,
	  0,
	  { { 0, 10, 50, 90 }, { 0, 10, 50, 90 }, { NONE, NONE, 300, 200 } },
	  900,
	  { 2, { 0, 3 } } },
	{ "a rival wins where it is faster",
	  3,
	  0,
	  { { 0, 80, 50, 90 }, { 70, 0, 50, 90 }, { 70, 0, 50, 90 } },
	  900,
	  { 2, { 0, 1 } } },
	{ "two rivals and a stand-in",
	  4,
	  0,
	  { { 70, 0, 50, 90 }, { 70, 40, 0, 90 }, { 0, 80, 80, 90 }, { NONE, NONE, NONE, 200 } },
	  900,
	  { 4, { 0, 1, 2, 3 } } },
	{ "a rival stands in, too, if the order of rivals allows it",
	  4,
	  0,
	  { { 70, 0, 50, 90 }, { 70, 40, 0, 90 }, { 0, 80, 80, 90 }, { NONE, 700, 200, 400 } },
	  900,
	  { 3, { 0, 2, 1 } } },
	{ "a rival without times in half of the scenarios is none",
	  3,
	  2,
	  { { 70, 0, 90, 90 }, { 70, 0, 90, 90 }, { 70, 0, 90, 90 } },
	  900,
	  { 1, { 0 } } },
	{ "the defaults, where nothing else is faster",
	  2,
	  0,
	  { { 0, 10, 10, 10 }, { NONE, 500, 600, NONE } },
	  400,
	  { 1, { 0 } } },
	{ "what failed does not stand in",
	  2,
	  0,
	  { { 0, 10, 10, 10 }, { NONE, FAILED, 600, NONE } },
	  900,
	  { 2, { 0, 2 } } },
};

static void rows_of_costs(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(learned); i++) {
		const int rows = learned[i].rows;
		struct matrix *m = matrix_new(rows, COLS);
		struct attune_list list[COLS];
		char timed[MOST * COLS];
		struct tree t = { 0 };
		assert_true(m && tree_constant(&t, 0));
		for (int r = 0; r < rows; r++) {
			m->weight[r] = 1;
			m->fallback[r] = learned[i].fallback;
			for (int c = 0; c < COLS; c++) {
				m->cost[r * COLS + c] = learned[i].cost[r][c];
				timed[r * COLS + c] = c != 1 || r >= learned[i].untimed;
			}
		}
		const struct row_basis basis = { m, timed, rows };
		assert_true(rows_learn(list, &basis, &t));
		int same = list[0].n == learned[i].wanted.n;
		for (int k = 0; same && k < list[0].n; k++)
			same = list[0].at[k] == learned[i].wanted.at[k];
		if (!same)
			fail_msg("%s: %d members: %d %d %d", learned[i].name, list[0].n,
				 list[0].at[1], list[0].at[2], list[0].at[3]);
		tree_free(&t);
		matrix_free(m);
	}
}

/* ---- from times ---------------------------------------------------------------------------- */
#define PACKED with("warpgroup", "BLOCK_M=128 PACKED=1 TILE_SIZE=128")
#define PLAIN with("warpgroup", "BLOCK_M=128 TILE_SIZE=128")

static void add(struct data *d, int kv_heads, const char *split, int tokens, const char *kernel,
		const char *choice, double us)
{
	char batch[40];
	snprintf(batch, sizeof batch, "q%d", tokens);
	struct store_cell c = cell_like(batch, "prefill", kernel, choice, us);
	c.shape.num_kv_heads = kv_heads;
	c.model = kv_heads == 8 ? "llama3.1-8b@1" : "llama2-7b@1";
	c.split = split;
	assert_true(data_add(d, &c));
}

static const char *runs(const struct data *d, const struct forest *f, int s,
			char text[MAX_CHOICE_TEXT])
{
	struct decided made;
	forest_make(d, f, &d->v[s], &made);
	assert_false(made.by_default);
	choice_words(&made.prefill, text);
	return text;
}

static const char *words(const char *kernel, const char *choice)
{
	static char text[MAX_PART_TEXT];
	snprintf(text, sizeof text, "%s %s", kernel, choice);
	return text;
}

/* One leaf, whose choice needs two query heads of a KV head. With one, qblock is the fastest, which
 * is the slowest with four. Beside it stands what wins every third of the other batches. */
static struct data *one_leaf(void)
{
	struct data *d = data_new("h200", &h200_run);
	for (int i = 0; i < 15; i++) {
		const char *split = i % 5 == 4 ? "heldout" : "train";
		const int kv_heads = i % 5 == 3 ? 32 : 8, tokens = 512 + 64 * i;
		if (kv_heads == 8)
			add(d, kv_heads, split, tokens, "warpgroup", PACKED, i % 3 ? 100 : 110);
		add(d, kv_heads, split, tokens, "warpgroup", PLAIN,
		    kv_heads == 32 ? 140
		    : i % 3        ? 120
				   : 100);
		add(d, kv_heads, split, tokens, "qblock", QBLOCK(32), kv_heads == 32 ? 110 : 300);
		add(d, kv_heads, split, tokens, "qblock", QBLOCK(64), kv_heads == 32 ? 170 : 200);
	}
	assert_true(data_finish(d));
	return d;
}

static void check_stand_in(struct data *d)
{
	const struct limits limits = { .leaves = 1, .variants = 12 };
	struct forest f;
	char text[MAX_CHOICE_TEXT];
	int with_one = 0;
	assert_true(forest_induce(&f, d, &limits));
	const struct node *leaf = &f.tree[DECIDE_PREFILL].v[0];
	const struct attune_list *l = &f.list[leaf->action];
	assert_true(leaf->action >= 0 && leaf->feature < 0);
	assert_int_equal(l->at[0], leaf->action);
	assert_true(leaf->row_cost < leaf->cost);
	for (int s = 0; s < d->n; s++) {
		const int is_one = d->v[s].shape.num_kv_heads == 32;
		const char *wanted = is_one ? "qblock BLOCK_M=32" : "PACKED=1";
		with_one += is_one;
		if (!strstr(runs(d, &f, s, text), wanted))
			fail_msg("%d KV heads: %s, not %s", d->v[s].shape.num_kv_heads, text,
				 wanted);
	}
	assert_true(with_one > 1);
	forest_free(&f);
	data_free(d);
}

static void what_stands_in_was_measured_there(void **state)
{
	(void)state;
	check_stand_in(one_leaf());
}

/* The rival won settled batches, yet with one query head it would be slower than what stands in. */
static void settled_batches_slow_no_stand_in(void **state)
{
	struct data *d = one_leaf();
	char error[100];
	(void)state;
	d->win = calloc(1, sizeof *d->win);
	assert_non_null(d->win);
	*d->win = (struct settled_win){ .phase = PHASE_PREFILL, .batches = 9 };
	d->num_wins = 1;
	assert_true(choice_parse(&d->win->first, BACKEND_GPU, words("warpgroup", PACKED), error,
				 sizeof error));
	assert_true(choice_parse(&d->win->winner, BACKEND_GPU, words("warpgroup", PLAIN), error,
				 sizeof error));
	check_stand_in(d);
}

/* ---- behind a row ---------------------------------------------------------------------- */
static int says_first(const struct attune_features *f)
{
	(void)f;
	return 0;
}

static struct selector_row portable_choices[] = { { "warpgroup", NULL },
						  { "warpgroup", NULL },
						  { "qblock", NULL } };
static const struct attune_list portable_rows[] = { { 3, { 0, 1, 2 } } };
static const struct selector portable = { .gpu = "portable",
					  .choices = portable_choices,
					  .num_choices = 3,
					  .lists = portable_rows,
					  .num_lists = 1,
					  .compiled = { says_first, says_first } };

/* In place of what the build has. */
const struct selector *selector_portable(void)
{
	return &portable;
}

/* The leaf's choice is illegal, and it has no row. The portable rules' first is illegal, too, and the
 * second on the smallest GPU that they serve. */
static void behind_a_row_stand_the_portable_rules(void **state)
{
	struct data *d = data_new("h200", &h200_run);
	struct forest f = { .gpu = "h200", .num_choices = 1 };
	char text[MAX_CHOICE_TEXT];
	(void)state;
	portable_choices[0].text = PACKED;
	portable_choices[1].text = with("warpgroup", "BLOCK_M=128 TILE_SIZE=128");
	portable_choices[2].text = QBLOCK(64);
	add(d, 32, "train", 512, "qblock", QBLOCK(32), 10);
	add(d, 8, "train", 512, "warpgroup", PACKED, 10);
	assert_true(data_finish(d));
	for (int t = 0; t < NUM_DECISIONS; t++)
		assert_true(tree_constant(&f.tree[t], t == DECIDE_PREFILL ? 0 : -1));
	for (int c = 0; c < d->num_choices; c++)
		if (!strcmp(d->choice[c].kernel->name, "warpgroup"))
			f.choice[0] = d->choice[c];
	for (int s = 0; s < d->n; s++) {
		const int is_one = d->v[s].shape.num_kv_heads == 32;
		struct decided made;
		forest_make(d, &f, &d->v[s], &made);
		assert_int_equal(made.by_default, is_one);
		choice_words(&made.prefill, text);
		if (!strstr(text, is_one ? "qblock BLOCK_M=64" : "PACKED=1"))
			fail_msg("%s", text);
	}
	forest_free(&f);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_of_costs),
		cmocka_unit_test(what_stands_in_was_measured_there),
		cmocka_unit_test(settled_batches_slow_no_stand_in),
		cmocka_unit_test(behind_a_row_stand_the_portable_rules),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("row_search", tests, NULL, NULL);
}
