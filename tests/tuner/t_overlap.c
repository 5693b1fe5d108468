/* SPDX-License-Identifier: Apache-2.0 */
/* t_overlap.c - the overlap decision: ratios within a race, what a leaf must not name, the tree that
 * follows, and how headers and files hold it. */
#include "mixed_batches.h"
#include "tuner/data/runs.h"

/* With 2 to 8 decodes it pays, with more it does not. */
static struct data *two_sides(struct forest *f)
{
	struct data *d = begin();
	for (int n = 2; n <= 128; n *= 2)
		for (int k = 0; k < 3; k++) {
			char batch[40];
			snprintf(batch, sizeof batch, "q%d_%dq1s4k", 512 << k, n);
			add_mixed(d, batch, n <= 8 ? 0.8 : 1.1, 1);
		}
	induce(d, f);
	return d;
}

static void it_pays_where_it_was_seen_to(void **state)
{
	struct forest f;
	struct data *d = two_sides(&f);
	(void)state;
	for (int s = 0; s < d->n; s++) {
		struct pick p;
		forest_pick(d, &f, s, &p);
		const int few = d->v[s].part[PHASE_DECODE].f.num_seqs <= 8;
		assert_int_equal(p.how, few ? ATTUNE_STREAMS : ATTUNE_SERIAL);
		assert_int_equal(pick_way(d, &p), few ? SAYS_STREAMS : SAYS_SERIAL);
		assert_float_equal(data_plan_time(d, s, &p), few ? 160 : 200, 1e-6);
		assert_float_equal(data_oracle(d, s), few ? 160 : 200, 1e-6);
		assert_float_equal(data_serial(d, s), 200, 1e-6);
	}
	forest_free(&f);
	data_free(d);
}

/* With 2 to 8 decodes the prefill's choice runs these too in less time, with more it does not. */
static void one_launch_where_it_takes_least(void **state)
{
	struct data *d = begin();
	struct forest f;
	(void)state;
	for (int n = 2; n <= 128; n *= 2)
		for (int k = 0; k < 3; k++) {
			char batch[40];
			snprintf(batch, sizeof batch, "q%d_%dq1s4k", 512 << k, n);
			add_ways(d, batch, n <= 8 ? 150 : 300, 1.1, 1);
		}
	induce(d, &f);
	header_holds(&f, d, ") return h200_one_launch; /* ");
	for (int s = 0; s < d->n; s++) {
		struct pick p;
		forest_pick(d, &f, s, &p);
		const int few = d->v[s].part[PHASE_DECODE].f.num_seqs <= 8;
		assert_int_equal(p.how, ATTUNE_SERIAL);
		assert_int_equal(p.join, !few);
		assert_float_equal(data_plan_time(d, s, &p), few ? 150 : 200, 1e-6);
	}
	forest_free(&f);
	data_free(d);
}

/* One scenario that takes half as long again forbids a choice for all scenarios that no feature
 * separates; a small loss of one counts against the others' gains. */
static void nothing_may_lose_much(void **state)
{
	static const struct {
		double odd;
		int says;
	} rows[] = { { 1.03, SAYS_STREAMS }, { 1.6, SAYS_SERIAL } };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct data *d = begin();
		struct forest f;
		char batch[40];
		for (int n = 1; n <= 6; n++) {
			snprintf(batch, sizeof batch, "q512_%dq1s4k", n);
			add_mixed(d, batch, n == 3 ? rows[i].odd : 0.95, 1);
		}
		induce(d, &f);
		const struct tree *t = &f.tree[DECIDE_OVERLAP];
		for (int s = 0; s < d->n; s++) {
			const struct attune_features *x = &d->v[s].part[PHASE_ALL].f;
			if (x->decode_seqs == 3)
				assert_int_equal(t->v[tree_leaf(t, x)].action, rows[i].says);
		}
		forest_free(&f);
		data_free(d);
	}
}

static void what_was_not_measured_is_serial(void **state)
{
	struct data *d = begin();
	struct forest f;
	(void)state;
	add_mixed(d, "q512_4q1s4k", 0, 1);
	add_mixed(d, "q1k_4q1s4k", 0, 1);
	induce(d, &f);
	assert_int_equal(f.tree[DECIDE_OVERLAP].n, 1);
	assert_int_equal(f.tree[DECIDE_OVERLAP].v[0].action, SAYS_SERIAL);
	forest_free(&f);
	data_free(d);
}

/* The times of the first scenario's ways, in the first pass. */
static struct runs runs_of(struct data *d)
{
	struct runs runs;
	assert_true(data_finish(d));
	assert_true(runs_find(d, 0, PASS_A, &runs));
	return runs;
}

/* The device was slower while the plan side by side ran: in rounds it was ahead. */
static void ratios_are_paired(void **state)
{
	static const struct pick other = { -1, -1, 1, ATTUNE_SERIAL };
	struct data *d = begin();
	(void)state;
	add_mixed(d, "q512_4q1s4k", 0.9, 1.3);
	const struct runs runs = runs_of(d);
	assert_float_equal(runs_streams(&runs, SAYS_STREAMS, &other), 0.9, 1e-9);
	free(runs.v);
	data_free(d);
}

/* A race eliminates serial plans where another overlap is ahead. */
static void what_was_beaten_counts(void **state)
{
	struct data *d = begin();
	char text[2 * MAX_PART_TEXT + 32], part[2][MAX_PART_TEXT];
	struct choice fused;
	char error[160];
	(void)state;
	snprintf(part[0], MAX_PART_TEXT, "qblock %s", with("qblock", "TILE_SIZE=32"));
	snprintf(part[1], MAX_PART_TEXT, "segmented %s", with("segmented", ""));
	parts_text(text, sizeof text, part[0], part[1], ATTUNE_SERIAL);
	add_mixed(d, "q512_4q1s4k", 0, 1); /* a serial plan of 200 us */
	add_fused(d, "q512_4q1s4k", "", 180);
	struct store_cell beaten = cell_like("q512_4q1s4k", "plan", "plan", text, 190);
	beaten.ratio = 190. / 300;
	beaten.stage = "race";
	beaten.stopped = "beaten";
	assert_true(data_add(d, &beaten));
	const struct runs runs = runs_of(d);
	snprintf(text, sizeof text, "warpgroup_mixed %s", with("warpgroup_mixed", ""));
	assert_true(choice_parse(&fused, BACKEND_GPU, text, error, sizeof error));
	assert_float_equal(runs_fused(&runs, data_find(d, &fused)), 180. / 190, 1e-9);
	free(runs.v);
	data_free(d);
}

/* Slow parts are slow with or without overlap. They show how much two streams gain for other
 * parts, and not how long those take. */
static void slow_pairs_say_only_what_streams_gain(void **state)
{
	static const struct {
		enum attune_how how;
		double us;
	} rows[] = { { ATTUNE_SERIAL, 1000 }, { ATTUNE_STREAMS, 900 } };
	struct data *d = begin();
	struct forest f;
	struct pick p;
	char text[2 * MAX_PART_TEXT + 32], part[2][MAX_PART_TEXT];
	(void)state;
	snprintf(part[0], MAX_PART_TEXT, "qblock %s", with("qblock", "TILE_SIZE=32"));
	snprintf(part[1], MAX_PART_TEXT, "segmented %s", with("segmented", ""));
	add_mixed(d, "q512_4q1s4k", 0, 1);
	for (size_t i = 0; i < COUNT(rows); i++) {
		parts_text(text, sizeof text, part[0], part[1], rows[i].how);
		struct store_cell slow = cell_like("q512_4q1s4k", "plan", "plan", text, rows[i].us);
		slow.ratio = rows[i].us / 300;
		slow.stage = "race";
		assert_true(data_add(d, &slow));
	}
	induce(d, &f);
	assert_int_equal(f.tree[DECIDE_OVERLAP].v[0].action, SAYS_STREAMS);
	forest_pick(d, &f, 0, &p);
	assert_int_equal(pick_way(d, &p), SAYS_STREAMS);
	forest_free(&f);
	data_free(d);
}

/* To one launch of 180 us the fastest parts are 160 us ahead, but a pick's own may take 200. */
static void it_saves_what_own_parts_lose(void **state)
{
	static const struct {
		const char *prefill;
		int gains;
	} rows[] = { { "", 1 }, { "TILE_SIZE=32", 0 } };
	static const struct mixed_rates own = { 0 };
	enum { BATCHES = 3 };
	struct data *d = begin();
	struct choice c = { 0 };
	char error[160];
	(void)state;
	for (int b = 0; b < BATCHES; b++) {
		char batch[40];
		snprintf(batch, sizeof batch, "q512_%dq1s4k", 4 << b);
		add_mixed(d, batch, 0, 1);
		add(d, batch, "prefill", with("qblock", "TILE_SIZE=32"), 60, 0.6);
		add_fused(d, batch, "", 180);
	}
	assert_true(data_finish(d));
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct pick picks[BATCHES];
		char text[2][MAX_PART_TEXT];
		int at[2];
		snprintf(text[0], sizeof text[0], "qblock %s", with("qblock", rows[i].prefill));
		snprintf(text[1], sizeof text[1], "segmented %s", with("segmented", ""));
		for (int k = 0; k < 2; k++) {
			assert_true(choice_parse(&c, BACKEND_GPU, text[k], error, sizeof error));
			at[k] = data_find(d, &c);
		}
		for (int b = 0; b < BATCHES; b++)
			picks[b] = (struct pick){ at[0], at[1], 1, ATTUNE_SERIAL };
		struct matrix *m = matrix_overlap(d, picks, picks, &own);
		assert_non_null(m);
		assert_int_equal(m->rows, BATCHES);
		int fused = 0;
		while (fused < m->cols && (m->choice[fused] < 0 ||
					   !d->choice[m->choice[fused]].kernel->space->is_fused))
			fused++;
		assert_in_range(fused, 1, m->cols - 1);
		assert_int_equal(m->cost[0] > 0, rows[i].gains);
		assert_int_equal(m->cost[fused] == 0, rows[i].gains);
		matrix_free(m);
	}
	data_free(d);
}

static void headers_hold_it(void **state)
{
	struct forest f;
	struct data *d = two_sides(&f);
	(void)state;
	header_holds(&f, d, ") return h200_streams; /* ");
	forest_free(&f);
	data_free(d);
}

static void the_library_reads_it(void **state)
{
	struct device_info h200 = h200_run.device;
	char path[] = "/tmp/t_overlap.XXXXXX";
	struct forest f;
	struct data *d = two_sides(&f);
	char *text = forest_emit(&f, d);
	struct override *o;
	(void)state;
	assert_non_null(text);
	const int file = mkstemp(path);
	assert_int_equal(write(file, text, strlen(text)), strlen(text));
	close(file);
	if (override_open(&o, path, &h200))
		fail_msg("%s", attune_last_error());
	const struct selector *h = override_selector(o);
	assert_true(h->overlaps);
	for (int s = 0; s < d->n; s++) {
		const struct attune_features *x = &d->v[s].part[PHASE_ALL].f;
		assert_int_equal(selector_says(h, DECIDE_OVERLAP, x),
				 x->decode_seqs <= 8 ? SAYS_STREAMS : SAYS_SERIAL);
	}
	override_close(o);
	unlink(path);
	free(text);
	forest_free(&f);
	data_free(d);
}

/* Two streams, one launch, parts in turn: each where it takes least. */
static void test_the_fastest_plan_is_the_one_that_takes_least(void **state)
{
	static const struct {
		double beside, fused;
		enum attune_how how;
		int join;
	} rows[] = { { 0.8, 170, ATTUNE_STREAMS, 1 },
		     { 0.8, 150, ATTUNE_SERIAL, 0 },
		     { 1.1, 210, ATTUNE_SERIAL, 1 } };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct data *d = begin();
		struct pick pick;
		add_mixed(d, "q512s4k_16q1s4k", rows[i].beside, 1);
		add_fused(d, "q512s4k_16q1s4k", "", rows[i].fused);
		assert_true(data_finish(d));
		const struct decided made = data_fastest_plan(d, 0);
		decided_pick(d, &made, &pick);
		assert_int_equal(made.join, rows[i].join);
		assert_int_equal(made.how, rows[i].how);
		assert_true(data_plan_time(d, 0, &pick) == data_oracle(d, 0));
		data_free(d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_fastest_plan_is_the_one_that_takes_least),
		cmocka_unit_test(it_pays_where_it_was_seen_to),
		cmocka_unit_test(one_launch_where_it_takes_least),
		cmocka_unit_test(nothing_may_lose_much),
		cmocka_unit_test(what_was_not_measured_is_serial),
		cmocka_unit_test(ratios_are_paired),
		cmocka_unit_test(what_was_beaten_counts),
		cmocka_unit_test(slow_pairs_say_only_what_streams_gain),
		cmocka_unit_test(it_saves_what_own_parts_lose),
		cmocka_unit_test(headers_hold_it),
		cmocka_unit_test(the_library_reads_it),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("overlap", tests, NULL, NULL);
}
