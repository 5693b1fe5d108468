/* SPDX-License-Identifier: Apache-2.0 */
/* t_overlap_spares.c - two streams with units left to the decodes in the overlap decision: which
 * numbers leaves name, and the plans and times that follow. */
#include "mixed_batches.h"
#include "kernels/spec/space.h"

/* A time of the plan of a prefill and of segmented, in the same race as the others. */
static void add_pair(struct data *d, const char *batch, const char *kernel, const char *prefill,
		     enum attune_how how, double us)
{
	char text[2 * MAX_PART_TEXT + 32], part[2][MAX_PART_TEXT];
	snprintf(part[0], MAX_PART_TEXT, "%s %s", kernel, with(kernel, prefill));
	snprintf(part[1], MAX_PART_TEXT, "segmented %s", with("segmented", ""));
	parts_text(text, sizeof text, part[0], part[1], how);
	add(d, batch, "plan", text, us, us / 300);
}

/* A mixed batch whose parts take 200 us one after the other. Times of two streams, of those with 32
 * and with 64 units left to the decodes; 0: not measured. */
struct spares {
	double streams, sparing32, sparing64;
};

static void add_spares(struct data *d, const char *batch, const char *kernel,
		       const struct spares *us)
{
	struct store_cell c = cell_like(batch, "prefill", kernel, with(kernel, ""), 100);
	c.ratio = 1. / 3;
	c.stage = "race";
	assert_true(data_add(d, &c));
	add(d, batch, "decode", with("segmented", ""), 100, 1. / 3);
	add_pair(d, batch, kernel, "", ATTUNE_SERIAL, 200);
	add_pair(d, batch, kernel, "", ATTUNE_STREAMS, us->streams);
	if (us->sparing32 > 0)
		add_pair(d, batch, kernel, "SPARE_UNITS=32", ATTUNE_STREAMS, us->sparing32);
	if (us->sparing64 > 0)
		add_pair(d, batch, kernel, "SPARE_UNITS=64", ATTUNE_STREAMS, us->sparing64);
}

/* By the number of decodes: 2 to 8, and more. */
static struct data *two_kinds(const char *kernel, const struct spares *few,
			      const struct spares *many)
{
	struct data *d = begin();
	for (int n = 2; n <= 128; n *= 2)
		for (int k = 0; k < 3; k++) {
			char batch[40];
			snprintf(batch, sizeof batch, "q%d_%dq1s4k", 512 << k, n);
			add_spares(d, batch, kernel, n <= 8 ? few : many);
		}
	return d;
}

static const struct {
	const char *name, *kernel;
	struct spares few, many;
	int says[2]; /* with few decodes, and with many */
} rows[] = {
	{ "where it pays",
	  "warpgroup",
	  { 180, 150, 170 },
	  { 150, 190, 230 },
	  { SAYS_SPARING16 - 1, SAYS_STREAMS } },
	{ "the number that pays",
	  "warpgroup",
	  { 180, 170, 140 },
	  { 220, 150, 230 },
	  { SAYS_SPARING16 - 3, SAYS_SPARING16 - 1 } },
	{ "not where it has no time",
	  "warpgroup",
	  { 180, 140, 0 },
	  { 190, 0, 150 },
	  { SAYS_SPARING16 - 1, SAYS_SPARING16 - 3 } },
	{ "nor where it takes long",
	  "warpgroup",
	  { 180, 150, 0 },
	  { 180, 400, 0 },
	  { SAYS_SPARING16 - 1, SAYS_STREAMS } },
	{ "serial where that is faster",
	  "warpgroup",
	  { 220, 210, 205 },
	  { 150, 180, 0 },
	  { SAYS_SERIAL, SAYS_STREAMS } },
};

static void leaves_name_the_number_that_pays(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct data *d = two_kinds(rows[i].kernel, &rows[i].few, &rows[i].many);
		struct forest f;
		induce(d, &f);
		for (int s = 0; s < d->n; s++) {
			const int many = d->v[s].part[PHASE_DECODE].f.num_seqs > 8;
			const struct spares *us = many ? &rows[i].many : &rows[i].few;
			const int says = rows[i].says[many], units = says_spares(says);
			struct pick p;
			forest_pick(d, &f, s, &p);
			if (pick_way(d, &p) != says)
				fail_msg("%s: %s: %d", rows[i].name, d->v[s].batch_text,
					 pick_way(d, &p));
			assert_int_equal(choice_spares(&d->choice[p.prefill]), units);
			assert_float_equal(data_plan_time(d, s, &p),
					   says == SAYS_SERIAL    ? 200
					   : says == SAYS_STREAMS ? us->streams
					   : units == 32          ? us->sparing32
								  : us->sparing64,
					   1e-6);
		}
		forest_free(&f);
		data_free(d);
	}
}

/* Which of the numbers pays changes from batch to batch, as no feature tells. Whatever tree the
 * times suggest, the next batches would lose by it. */
static void what_only_chance_tells_is_not_named(void **state)
{
	unsigned long long seed = 5;
	struct data *d = begin();
	struct forest f;
	(void)state;
	for (int n = 1; n <= 120; n++) {
		const int pays = (int)(next_random(&seed) % 4);
		const struct spares us = { 165, pays == 1 ? 140 : 175, pays == 2 ? 140 : 175 };
		char batch[40];
		snprintf(batch, sizeof batch, "q%d_%dq1s%d", 256 + 8 * n,
			 1 + (int)(next_random(&seed) % 64), 512 + 32 * n);
		add_spares(d, batch, "warpgroup", &us);
	}
	induce(d, &f);
	for (int s = 0; s < d->n; s++) {
		struct pick p;
		forest_pick(d, &f, s, &p);
		assert_int_equal(pick_way(d, &p), SAYS_STREAMS);
	}
	forest_free(&f);
	data_free(d);
}

static void headers_hold_the_number(void **state)
{
	struct data *d = two_kinds("warpgroup", &rows[0].few, &rows[0].many);
	struct forest f;
	(void)state;
	induce(d, &f);
	header_holds(&f, d, ") return h200_streams_sparing32; /* ");
	forest_free(&f);
	data_free(d);
}

/* A choice that cannot leave units runs on plain streams, so no number is named for it. */
static void choices_that_cannot_run_on_plain_streams(void **state)
{
	static const struct spares times = { 180, 0, 0 };
	struct data *d = two_kinds("qblock", &times, &times);
	struct forest f;
	(void)state;
	induce(d, &f);
	for (int s = 0; s < d->n; s++) {
		struct decided made;
		forest_make_serial(d, &f, &d->v[s], &made);
		overlap_made(d, &f, SAYS_SPARING16, &d->v[s], &made);
		assert_int_equal(made.how, ATTUNE_STREAMS);
		assert_int_equal(choice_spares(&made.prefill), 0);
	}
	assert_int_equal(f.tree[DECIDE_OVERLAP].n, 1);
	assert_int_equal(f.tree[DECIDE_OVERLAP].v[0].action, SAYS_STREAMS);
	forest_free(&f);
	data_free(d);
}

/* A plan without a time takes what others that leave as many units take, and may lose as they do. */
static void a_plan_without_a_time_takes_what_others_do(void **state)
{
	static const struct {
		double streams, sparing, us;
	} times[] = { { 180, 150, 150 }, { 180, 400, 400 }, { 180, 0, 180 }, { 220, 0, 200 } };
	(void)state;
	for (size_t i = 0; i < COUNT(times); i++) {
		const struct spares us = { times[i].streams, times[i].sparing, 0 };
		struct data *d = begin();
		struct pick p = { .join = 1, .how = ATTUNE_STREAMS };
		struct choice c;
		char error[160], text[MAX_CHOICE_TEXT];
		add_spares(d, "q512_4q1s4k", "warpgroup", &us);
		/* another prefill, as fast alone */
		for (int k = 0; k < 2; k++) {
			struct store_cell other = cell_like(
			    k ? "q1k_4q1s4k" : "q512_4q1s4k", "prefill", "warpgroup",
			    with("warpgroup", k ? "HEADS=8 SPARE_UNITS=32" : "HEADS=8"), 100);
			assert_true(data_add(d, &other));
		}
		assert_true(data_finish(d));
		snprintf(text, sizeof text, "warpgroup %s",
			 with("warpgroup", "HEADS=8 SPARE_UNITS=32"));
		assert_true(choice_parse(&c, BACKEND_GPU, text, error, sizeof error));
		p.prefill = data_find(d, &c);
		snprintf(text, sizeof text, "segmented %s", with("segmented", ""));
		assert_true(choice_parse(&c, BACKEND_GPU, text, error, sizeof error));
		p.decode = data_find(d, &c);
		assert_true(p.prefill >= 0 && p.decode >= 0);
		assert_float_equal(data_plan_time(d, 0, &p), fmax(times[i].us, data_oracle(d, 0)),
				   1e-6);
		data_free(d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leaves_name_the_number_that_pays),
		cmocka_unit_test(what_only_chance_tells_is_not_named),
		cmocka_unit_test(headers_hold_the_number),
		cmocka_unit_test(choices_that_cannot_run_on_plain_streams),
		cmocka_unit_test(a_plan_without_a_time_takes_what_others_do),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("overlap_spares", tests, NULL, NULL);
}
