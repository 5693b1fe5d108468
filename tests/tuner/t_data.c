/* SPDX-License-Identifier: Apache-2.0 */
/* t_data.c - the data behind the matrices: cells that are refused, lookups, both passes; the order
 * of insertion leaves no trace. */
#include "cells.h"
#include "harness/store/store.h"
#include "tuner/data/filling.h"

static void refused(struct data *d, const struct store_cell *c, const char *why)
{
	listen_begin();
	const int added = data_add(d, c);
	const char *said = heard();
	assert_false(added);
	assert_non_null(strstr(said, why));
}

static void test_what_does_not_belong_is_refused(void **state)
{
	struct data *d = begin();
	struct store_cell c = cell_like("4q1s4k", "decode", "qblock", QBLOCK(16), 100);
	(void)state;
	assert_true(data_add(d, &c));
	c.gpu = "h100";
	refused(d, &c, "of GPU 'h200', found one of 'h100'");
	c.gpu = "h200";
	c.protocol = "stream-warm";
	refused(d, &c, "'stream-warm' cannot be compared");
	c.protocol = plain_cell.protocol;
	c.median_us = 0;
	refused(d, &c, "a time of 0 us");
	c.median_us = NAN;
	refused(d, &c, "a time of nan us");
	c.median_us = 5;
	c.batch = "4q1s4k_";
	refused(d, &c, "column 8");
	c.batch = "q0s100";
	refused(d, &c, "no sequence has a query");
	c.batch = "4q1s4k";
	c.choice = with("qblock", "BLOCK_M=17");
	assert_true(data_add(d, &c)); /* of older tables: ignored, and counted */
	assert_int_equal(d->ignored, 1);
	assert_true(data_finish(d));
	assert_int_equal(d->num_choices, 1);
	data_free(d);
}

static void test_scenarios_differ_by_any_of_their_keys(void **state)
{
	struct data *d = begin();
	struct store_cell c = cell_like("4q1s4k", "decode", "qblock", QBLOCK(16), 100);
	(void)state;
	assert_true(data_add(d, &c));
	c.batch = "5q1s4k";
	assert_true(data_add(d, &c));
	c.layout = "HND";
	assert_true(data_add(d, &c));
	c.shape.page_size = 32;
	assert_true(data_add(d, &c));
	c.shape.dtype = c.shape.kv_dtype = ATTUNE_F16;
	assert_true(data_add(d, &c));
	assert_true(data_add(d, &c));
	assert_true(data_finish(d));
	assert_int_equal(d->n, 5);
	data_free(d);
}

static void test_splits_of_the_data_are_known(void **state)
{
	static const struct {
		const char *split;
		int known;
	} rows[] = {
		{ NULL, 1 }, { "train", 1 }, { "heldout_random", 1 }, { "mine", 1 }, { "yours", 0 }
	};
	struct data *d = begin();
	struct store_cell c = cell_like("4q1s4k", "decode", "qblock", QBLOCK(16), 100);
	(void)state;
	c.split = "mine";
	assert_true(data_add(d, &c) && data_finish(d));
	for (size_t i = 0; i < COUNT(rows); i++) {
		listen_begin();
		const int known = split_known(d, rows[i].split);
		const char *said = heard();
		assert_int_equal(known, rows[i].known);
		assert_true(known == !strstr(said, "--split 'yours' should be one of "));
	}
	data_free(d);
}

/* ---- two passes ------------------------------------------------------------------------- */
static void add_pass(struct data *d, int pass, const char *batch, const char *phase,
		     const char *choice, double us)
{
	struct store_cell c = cell_like(batch, phase, "qblock", choice, us);
	c.pass = pass;
	c.stage = pass == 'B' ? "b" : "race";
	assert_true(data_add(d, &c));
}

/* Pass A prefers 16 rows, pass B 32; 64 was not measured again. */
static void test_trees_learn_from_pass_a_and_pass_b_decides(void **state)
{
	struct data *d = begin();
	(void)state;
	add_pass(d, 'A', "4q1s4k", "decode", QBLOCK(16), 100);
	add_pass(d, 'A', "4q1s4k", "decode", QBLOCK(32), 110);
	add_pass(d, 'A', "4q1s4k", "decode", QBLOCK(64), 98);
	add_pass(d, 'B', "4q1s4k", "decode", QBLOCK(16), 120);
	add_pass(d, 'B', "4q1s4k", "decode", QBLOCK(32), 110);
	add_pass(d, 'A', "8q1s4k", "decode", QBLOCK(16), 70);
	assert_true(data_finish(d));
	const int four = strcmp(d->v[0].batch_text, "4q1s4k") != 0;
	const int c16 = choice_of(d, "qblock", QBLOCK(16)),
		  c32 = choice_of(d, "qblock", QBLOCK(32)),
		  c64 = choice_of(d, "qblock", QBLOCK(64));
	int best;
	assert_int_equal(d->pass, PASS_B);
	assert_true(data_time(d, four, PHASE_DECODE, c16) == 120);
	assert_true(fabs(d->shift[four] - 1.1) < 1e-12); /* of 1.2 and 1.0 */
	assert_true(fabs(data_time(d, four, PHASE_DECODE, c64) - 107.8) < 1e-9);
	assert_true(data_best(d, four, PHASE_DECODE, &best) == 110); /* 107.8 was not measured */
	assert_int_equal(best, c32);
	assert_true(data_oracle(d, four) == 110);
	assert_false(data_confirmed(d, four, &(struct pick){ -1, c64, 1, ATTUNE_SERIAL }));
	assert_true(data_confirmed(d, four, &(struct pick){ -1, c16, 1, ATTUNE_SERIAL }));
	assert_true(data_time(d, !four, PHASE_DECODE, c16) == 70); /* no pass B: pass A */
	assert_true(data_confirmed(d, !four, &(struct pick){ -1, c16, 1, ATTUNE_SERIAL }));
	struct matrix *m = matrix_parts(d, DECIDE_DECODE);
	const int row = m->scenario[0] == four ? 0 : 1;
	assert_int_equal(cost(m, d, row, "qblock", QBLOCK(64)), 0);
	assert_int_equal(cost(m, d, row, "qblock", QBLOCK(16)), 20203); /* ln 100/98 */
	matrix_free(m);
	data_free(d);
}

/* One launch for a whole mixed batch. */
static void test_one_launch_is_confirmed_by_its_own_pass_b(void **state)
{
	static const char mixed[] = "q512s1k_8q1s4k";
	struct data *d = begin();
	(void)state;
	add_pass(d, 'A', mixed, "all", QBLOCK(16), 100);
	add_pass(d, 'A', mixed, "all", QBLOCK(64), 98);
	add_pass(d, 'B', mixed, "all", QBLOCK(16), 110);
	assert_true(data_finish(d));
	const int c16 = choice_of(d, "qblock", QBLOCK(16)),
		  c64 = choice_of(d, "qblock", QBLOCK(64));
	assert_true(data_confirmed(d, 0, &(struct pick){ c16, -1, 0, ATTUNE_SERIAL }));
	assert_false(data_confirmed(d, 0, &(struct pick){ c64, -1, 0, ATTUNE_SERIAL }));
	data_free(d);
}

/* A choice that pass B lacks is faster by far than all in it: it came later, so both passes
 * count as one. */
static void test_an_old_pass_b_decides_nothing(void **state)
{
	struct data *d = begin();
	int best;
	(void)state;
	add_pass(d, 'A', "4q1s4k", "decode", QBLOCK(16), 100);
	add_pass(d, 'A', "4q1s4k", "decode", QBLOCK(64), 90);
	add_pass(d, 'B', "4q1s4k", "decode", QBLOCK(16), 110);
	assert_true(data_finish(d));
	const int c64 = choice_of(d, "qblock", QBLOCK(64));
	assert_true(fabs(data_best(d, 0, PHASE_DECODE, &best) - 99) < 1e-9);
	assert_int_equal(best, c64);
	assert_true(fabs(data_oracle(d, 0) - 99) < 1e-9);
	assert_true(data_confirmed(d, 0, &(struct pick){ -1, c64, 1, ATTUNE_SERIAL }));
	data_free(d);
}

/* ---- kernels whose times are of older sources ------------------------------------------- */
static void test_a_part_is_lost_with_its_fastest_kernel(void **state)
{
	/* The fastest time of each kernel: by today's sources, by older ones; 0: none. */
	static const struct {
		double fresh[2], stale[2];
		int lost;
	} rows[] = { { { 5, 7 }, { 0, 0 }, 0 }, { { 0, 7 }, { 5, 0 }, 1 },
		     { { 0, 7 }, { 9, 0 }, 0 }, { { 6, 7 }, { 5, 0 }, 0 },
		     { { 0, 0 }, { 5, 7 }, 1 }, { { 5, 0 }, { 0, 4 }, 1 } };
	static struct lost l;
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		for (int k = 0; k < 2; k++)
			for (int stale = 0; stale < 2; stale++) {
				struct store_cell c =
				    cell_like("4q1s4k", "decode", k ? "segmented" : "qblock", "",
					      stale ? rows[i].stale[k] : rows[i].fresh[k]);
				c.pass = 'A';
				c.today = stale ? STALE : TODAY;
				if (c.median_us > 0)
					lost_note(&l, &c);
			}
		if (lost_end(&l) != rows[i].lost)
			fail_msg("row %zu", i);
	}
}

/* ---- formulas ----------------------------------------------------------------------------- */
static void test_order_of_insertion_leaves_no_trace(void **state)
{
	struct data *a = synthetic_data(0), *b = synthetic_data(99);
	(void)state;
	assert_int_equal(a->n, b->n);
	assert_int_equal(a->num_choices, b->num_choices);
	for (int t = DECIDE_PREFILL; t <= DECIDE_DECODE; t++) {
		struct matrix *m = matrix_parts(a, (enum decision)t);
		struct matrix *n = matrix_parts(b, (enum decision)t);
		assert_int_equal(m->rows, n->rows);
		assert_memory_equal(m->cost, n->cost,
				    sizeof *m->cost * (size_t)m->rows * (size_t)m->cols);
		assert_memory_equal(m->f, n->f, sizeof *m->f * (size_t)m->rows);
		matrix_free(m);
		matrix_free(n);
	}
	data_free(a);
	data_free(b);
}

/* ---- where cells are -------------------------------------------------------------------- */
/* The added cells, in a table of its own: the newest of each place stays. */
struct added {
	const char *batch, *choice;
	int phase, pass;
	double us;
};

static const struct added *newest_of(const struct added *v, int n, const char *batch, int phase,
				     int pass, const char *choice)
{
	for (int i = n - 1; i >= 0; i--)
		if (!strcmp(v[i].batch, batch) && v[i].phase == phase && v[i].pass == pass &&
		    !strcmp(v[i].choice, choice))
			return &v[i];
	return NULL;
}

/* Every lookup and every walk finds the cells of the table, and nothing else. */
static void same_cells(const struct data *d, const struct added *v, int n)
{
	static const int passes[] = { 'A', 'B' };
	for (int s = 0; s < d->n; s++)
		for (int p = 0; p < NUM_PHASES; p++) {
			struct choice_iter i = choices_of(d, s, (enum phase)p, PHASE_ALL);
			int next = choices_next(&i);
			for (int c = 0; c < d->num_choices; c++) {
				char text[MAX_CHOICE_TEXT];
				int found = 0;
				config_text(text, sizeof text, &d->choice[c].config,
					    d->choice[c].kernel->space);
				for (int k = 0; k < 2 * NUM_PASSES; k++) {
					const int phase = k < 2 ? p : PHASE_ALL;
					const struct added *is = newest_of(
					    v, n, d->v[s].batch_text, phase, passes[k % 2], text);
					const struct cell *cell = data_cell_in(
					    d, (enum pass)(k % 2), s, (enum phase)phase, c);
					assert_int_equal(is != NULL, cell != NULL);
					assert_true(!is || is->us == cell->median_us);
					found |= is != NULL;
					if (next && i.choice == c)
						assert_ptr_equal(i.cells[k / 2].of[k % 2], cell);
				}
				assert_int_equal(found, next && i.choice == c);
				next = found ? choices_next(&i) : next;
			}
			assert_false(next);
		}
}

/* ids: whether cells carry ids, as rows of a database do, which then identify them. */
static void lookups_find_what_was_added(int ids, unsigned long long seed)
{
	enum { CELLS = 600 };
	static const char *const batches[] = { "4q1s4k", "q512_4q1s1k", "q2k", "64q1s1k",
					       "2q1s64" };
	static const int rows[] = { 8, 16, 32, 64, 128 }, warps[] = { 1, 2, 4, 8 };
	struct added v[CELLS];
	char choices[COUNT(rows) * COUNT(warps)][MAX_CHOICE_TEXT];
	struct data *d = begin();
	for (size_t i = 0; i < COUNT(choices); i++) {
		char set[60];
		snprintf(set, sizeof set, "BLOCK_M=%d NUM_WARPS=%d", rows[i % COUNT(rows)],
			 warps[i / COUNT(rows)]);
		snprintf(choices[i], MAX_CHOICE_TEXT, "%s", with("qblock", set));
	}
	int n = 0;
	for (int i = 0; i < CELLS; i++) {
		const unsigned b = next_random(&seed) % COUNT(batches);
		const unsigned c = next_random(&seed) % COUNT(choices);
		v[n] = (struct added){ .batch = batches[b],
				       .choice = choices[c],
				       .phase = (int)(next_random(&seed) % NUM_PHASES),
				       .pass = next_random(&seed) % 3 ? 'A' : 'B',
				       .us = 1 + (double)(next_random(&seed) % 1000) };
		struct store_cell cell =
		    cell_like(v[n].batch, phase_name(v[n].phase), "qblock", v[n].choice, v[n].us);
		cell.pass = v[n].pass;
		cell.scenario_id = ids ? 1 + (long long)b * 7 : 0;
		cell.variant_id = ids ? 1 + (long long)c * 3 : 0;
		const int ignored = d->ignored;
		assert_true(data_add(d, &cell));
		n += d->ignored == ignored;
	}
	assert_true(n > CELLS / 2);
	assert_true(data_finish(d));
	same_cells(d, v, n);
	for (int c = 0; c < d->num_choices; c++)
		assert_int_equal(data_find(d, &d->choice[c]), c);
	data_free(d);
}

static void test_lookups_find_what_was_added(void **state)
{
	(void)state;
	for (unsigned long long seed = 1; seed <= 4; seed++) {
		lookups_find_what_was_added(0, seed);
		lookups_find_what_was_added(1, seed);
	}
}

/* In a walk over all cells of both phases, and in the tables that are found once. */
static void test_least_times_are_those_of_all_cells(void **state)
{
	struct data *d = synthetic_data(3);
	(void)state;
	for (int s = 0; s < d->n; s++)
		for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++) {
			double least = INFINITY;
			int best = -1, choice;
			for (int c = 0; c < d->num_choices; c++)
				if (data_part_time(d, s, p, c) < least)
					least = data_part_time(d, s, p, c), best = c;
			assert_true(data_best(d, s, p, &choice) == least);
			assert_int_equal(choice, best);
			assert_true(data_oracle(d, s) <= data_serial(d, s));
		}
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lookups_find_what_was_added),
		cmocka_unit_test(test_least_times_are_those_of_all_cells),
		cmocka_unit_test(test_what_does_not_belong_is_refused),
		cmocka_unit_test(test_scenarios_differ_by_any_of_their_keys),
		cmocka_unit_test(test_splits_of_the_data_are_known),
		cmocka_unit_test(test_trees_learn_from_pass_a_and_pass_b_decides),
		cmocka_unit_test(test_one_launch_is_confirmed_by_its_own_pass_b),
		cmocka_unit_test(test_an_old_pass_b_decides_nothing),
		cmocka_unit_test(test_a_part_is_lost_with_its_fastest_kernel),
		cmocka_unit_test(test_order_of_insertion_leaves_no_trace),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
