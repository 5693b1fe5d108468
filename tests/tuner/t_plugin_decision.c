/* t_plugin_decision.c - where the rules name a plug-in: on hand-made times of decodes, where it is
 * faster for long sequences alone; and what comes out of a header and goes back in. */
#include "tests/support/synthetic.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "tests/support/heard.h"
#include "tests/plugin/never_runs.h"
#include "tuner/emit/emit.h"
#include "tuner/forest/forest.h"
#include "tuner/induce/plugin_decision.h"

static const char *refuses(const attune_shape *s, const int *values, const attune_plugin_part *p,
			   const attune_plugin_device *d)
{
	(void)s, (void)values, (void)p, (void)d;
	return NULL;
}

static int register_it(void **state)
{
	static const int splits[] = { 0, 8 };
	static const attune_plugin_axis axis = { "SPLITS", "", splits, 2, 0 };
	static const attune_plugin fa9 = { .abi = ATTUNE_PLUGIN_ABI,
					   .name = "fa9",
					   .version = "1 of May",
					   .backend = "cuda",
					   .axes = &axis,
					   .num_axes = 1,
					   .refuses = refuses,
					   .prepare = never_prepares,
					   .plan = never_plans,
					   .launch = never_launches,
					   .free_plan = frees_no_plan,
					   .free_op = frees_no_op };
	(void)state;
	return attune_register_plugin(&fa9) != ATTUNE_OK;
}

static void add_cell(struct data *d, const char *batch, const char *kernel, const char *choice,
		     double us)
{
	struct store_cell c = cell_like(batch, "decode", kernel, choice, us);
	if (us <= 0) {
		c.outcome = "wrong";
		c.median_us = c.min_us = NAN;
	}
	assert_true(data_add(d, &c));
}

/* Decodes of 1k to 64k keys, one to 16 sequences each. Ours take 100 us. us(row, keys): the time of
 * fa9 SPLITS=0; 0: it is wrong there; -1: not measured. */
enum { LENGTHS = 7, COUNTS = 4 };
static struct data *decodes(double (*us)(int count, int kilo_keys))
{
	static char batch[LENGTHS * COUNTS][24];
	struct data *d = data_new("h200", &h200_run);
	assert_non_null(d);
	for (int i = 0; i < LENGTHS * COUNTS; i++) {
		const int kilo = 1 << i % LENGTHS, count = 1 << i / LENGTHS;
		const double its = us(count, kilo);
		snprintf(batch[i], sizeof batch[i], "%dq1s%dk", 2 * count, kilo);
		add_cell(d, batch[i], "segmented", with("segmented", "SEGMENTS=16"), 100);
		if (its >= 0)
			add_cell(d, batch[i], "fa9", "SPLITS=0", its);
	}
	assert_true(data_finish(d));
	return d;
}

/* A forest that has segmented for all. */
static void ours(struct forest *f, const struct data *d)
{
	*f = (struct forest){ .gpu = "h200", .num_choices = 1 };
	for (int c = 0; c < d->num_choices; c++)
		if (!d->choice[c].kernel->plugin)
			f->choice[0] = d->choice[c];
	for (int t = 0; t < NUM_DECISIONS; t++)
		assert_true(tree_constant(&f->tree[t], t < DECIDE_OVERLAP ? 0 : -1));
}

/* What the decode tree says of a scenario: "fa9 SPLITS=0", or "ours". */
static const char *says(const struct forest *f, const struct measured *m)
{
	static char text[MAX_CHOICE_TEXT];
	const struct tree *t = &f->tree[DECIDE_DECODE_PLUGIN];
	const int row = f->num_plugins ? t->v[tree_leaf(t, &m->part[PHASE_DECODE].f)].action : -1;
	if (row < 0)
		return "ours";
	choice_words(&f->plugin[row], text);
	return text;
}

static long long keys_of(const struct measured *m)
{
	return m->part[PHASE_DECODE].f.max_seq;
}

static double faster_when_long(int count, int kilo)
{
	(void)count;
	return kilo >= 8 ? 60 : 150;
}

static void it_is_named_where_it_is_faster(void **state)
{
	struct data *d = decodes(faster_when_long);
	struct forest f;
	(void)state;
	ours(&f, d);
	assert_true(fit_plugins(&f, d, &default_limits));
	assert_int_equal(f.num_plugins, 1);
	for (int s = 0; s < d->n; s++)
		assert_string_equal(says(&f, &d->v[s]),
				    keys_of(&d->v[s]) >= 8 << 10 ? "fa9 SPLITS=0" : "ours");
	/* There are no prefills and no mixed batches. */
	assert_int_equal(f.tree[DECIDE_PREFILL_PLUGIN].v[0].action, SAYS_OURS);
	assert_int_equal(f.tree[DECIDE_MIXED_PLUGIN].v[0].action, SAYS_OURS);
	forest_free(&f);
	data_free(d);
}

static double hardly_faster(int count, int kilo)
{
	(void)count, (void)kilo;
	return 99.7;
}

static double much_faster_or_wrong(int count, int kilo)
{
	return kilo >= 8 && count == 4 ? 0 : kilo >= 8 ? 60 : 150;
}

/* A gain below noise: the header is that of before. */
static void it_is_named_nowhere_without_a_gain(void **state)
{
	struct data *d = decodes(hardly_faster);
	struct forest f;
	(void)state;
	ours(&f, d);
	char *before = forest_emit(&f, d);
	assert_true(fit_plugins(&f, d, &default_limits));
	char *after = forest_emit(&f, d);
	assert_int_equal(f.num_plugins, 0);
	assert_string_equal(before, after);
	free(before);
	free(after);
	forest_free(&f);
	data_free(d);
}

static void no_leaf_has_it_where_it_was_wrong(void **state)
{
	struct data *d = decodes(much_faster_or_wrong);
	struct forest f;
	int named = 0;
	(void)state;
	ours(&f, d);
	assert_true(fit_plugins(&f, d, &default_limits));
	for (int s = 0; s < d->n; s++) {
		const int is_wrong =
		    keys_of(&d->v[s]) >= 8 << 10 && d->v[s].part[PHASE_DECODE].f.num_seqs == 8;
		named += *says(&f, &d->v[s]) == 'f';
		if (is_wrong)
			assert_string_equal(says(&f, &d->v[s]), "ours");
	}
	assert_true(named > 0);
	forest_free(&f);
	data_free(d);
}

static double unmeasured_when_short(int count, int kilo)
{
	(void)count;
	return kilo >= 8 ? 60 : -1;
}

/* Scenarios without a time of it count for nothing; where the leaf then covers them, `refuses` of
 * the plug-in decides. */
static void only_scenarios_with_its_times_count(void **state)
{
	struct data *d = decodes(unmeasured_when_short);
	struct forest f;
	int rows = 0;
	(void)state;
	ours(&f, d);
	assert_true(fit_plugins(&f, d, &default_limits));
	assert_int_equal(f.num_plugins, 1);
	for (int i = 0; i < f.tree[DECIDE_DECODE_PLUGIN].n; i++)
		rows += f.tree[DECIDE_DECODE_PLUGIN].v[i].feature < 0
			    ? f.tree[DECIDE_DECODE_PLUGIN].v[i].support
			    : 0;
	assert_int_equal(rows, 4 * COUNTS); /* 8k to 64k */
	forest_free(&f);
	data_free(d);
}

/* ---- the header -------------------------------------------------------------------------- */

static void the_header_reads_back(void **state)
{
	struct data *d = decodes(faster_when_long);
	struct forest f, back;
	(void)state;
	ours(&f, d);
	assert_true(fit_plugins(&f, d, &default_limits));
	char *text = forest_emit(&f, d);
	assert_non_null(strstr(text, "PLUGIN( 0, fa9, fa9, \"1_of_May\", \"SPLITS=0\")"));
	assert_true(forest_parse(&back, text, "a header"));
	assert_int_equal(back.num_plugins, 1);
	assert_true(choice_same(&back.plugin[0], &f.plugin[0]));
	for (int s = 0; s < d->n; s++) {
		char first[MAX_CHOICE_TEXT];
		snprintf(first, sizeof first, "%s", says(&f, &d->v[s]));
		assert_string_equal(first, says(&back, &d->v[s]));
	}
	forest_free(&back);

	/* Of another version, or of one that is not loaded: only its name is kept. */
	char *at = strstr(text, "1_of_May");
	at[0] = '2';
	assert_true(forest_parse(&back, text, "a header"));
	assert_int_equal(back.num_plugins, 0);
	assert_string_equal(back.left_out, "fa9");
	forest_free(&back);
	at[0] = '1';
	at = strstr(text, "\"SPLITS=0\"");
	at[8] = '5';
	assert_false(forest_parse(&back, text, "a header"));
	free(text);
	forest_free(&f);
	data_free(d);
}

static void the_plan_with_it_is_what_the_library_runs(void **state)
{
	struct data *d = decodes(faster_when_long);
	struct forest f;
	(void)state;
	ours(&f, d);
	assert_true(fit_plugins(&f, d, &default_limits));
	for (int s = 0; s < d->n; s++) {
		struct decided made;
		struct pick pick;
		forest_make_with(d, &f, &d->v[s], &made);
		decided_pick(d, &made, &pick);
		assert_true(data_plan_time(d, s, &pick) ==
			    (keys_of(&d->v[s]) >= 8 << 10 ? 60 : 100));
	}
	forest_free(&f);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_named_where_it_is_faster),
		cmocka_unit_test(it_is_named_nowhere_without_a_gain),
		cmocka_unit_test(no_leaf_has_it_where_it_was_wrong),
		cmocka_unit_test(only_scenarios_with_its_times_count),
		cmocka_unit_test(the_header_reads_back),
		cmocka_unit_test(the_plan_with_it_is_what_the_library_runs),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, register_it, NULL);
}
