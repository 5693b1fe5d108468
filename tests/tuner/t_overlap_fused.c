/* SPDX-License-Identifier: Apache-2.0 */
/* t_overlap_fused.c - fused kernels in the overlap decision: which ones leaves name, and that those
 * divide a batch by estimate. */
#include "mixed_batches.h"

/* The choice with the largest gain comes first, then the one that gains elsewhere; none that
 * never gains. */
static void few_fused_ones_gain_nearly_all(void **state)
{
	static const struct {
		const char *values;
		double us[3]; /* by batch; 200: of the serial plan */
	} fused[] = { { "DECODE_SEGMENTS=1", { 150, 150, 240 } },
		      { "DECODE_SEGMENTS=2", { 145, 190, 230 } },
		      { "DECODE_SEGMENTS=4", { 260, 260, 180 } },
		      { "DECODE_SEGMENTS=8", { 250, 210, 205 } } };
	struct data *d = begin();
	int choice[4];
	(void)state;
	for (int b = 0; b < 3; b++) {
		char batch[40];
		snprintf(batch, sizeof batch, "q512_%dq1s4k", 4 << b);
		add_mixed(d, batch, 0, 1);
		for (size_t i = 0; i < COUNT(fused); i++) {
			struct store_cell c = cell_like(
			    batch, "all", "pod", with("pod", fused[i].values), fused[i].us[b]);
			c.ratio = fused[i].us[b] / 300;
			c.stage = "race";
			assert_true(data_add(d, &c));
		}
	}
	assert_true(data_finish(d));
	assert_int_equal(overlap_portfolio(d, choice, 4), 3);
	for (int i = 0; i < 3; i++) {
		static const int segments[] = { 1, 4, 2 };
		const struct choice *c = &d->choice[choice[i]];
		assert_int_equal(config_value(&c->config, c->kernel->space, "DECODE_SEGMENTS", 0),
				 segments[i]);
	}
	assert_int_equal(overlap_portfolio(d, choice, 1), 1);
	data_free(d);
}

/* The overlap tree is one leaf: the fused kernel with these values, or serial where `says` is NULL. */
static void only_leaf_names(const struct forest *f, const char *name, const char *says)
{
	const struct tree *t = &f->tree[DECIDE_OVERLAP];
	char text[MAX_CHOICE_TEXT], wanted[MAX_CHOICE_TEXT + 20];
	if (t->n != 1)
		fail_msg("%s: %d nodes", name, t->n);
	if (!says) {
		assert_int_equal(t->v[0].action, SAYS_SERIAL);
		return;
	}
	assert_in_range(t->v[0].action, 0, f->num_choices - 1);
	choice_text(text, sizeof text, &f->choice[t->v[0].action]);
	snprintf(wanted, sizeof wanted, "warpgroup_mixed %s", with("warpgroup_mixed", says));
	assert_string_equal(text, wanted);
}

static void nothing_named_has_numbers(const struct forest *f)
{
	for (int c = 0; c < f->num_choices; c++) {
		const struct choice *named = &f->choice[c];
		const struct space *s = named->kernel->space;
		assert_int_equal(config_value(&named->config, s, "DECODE_UNITS", 0), 0);
		assert_int_equal(
		    s->is_fused && config_value(&named->config, s, "PREFILL_SEGMENTS", 0), 0);
	}
}

/* Numbers that were best everywhere are still left to the kernel where it can compute them for
 * each batch; compiled numbers are always named. 200 us: one part after the other. */
static void fused_kernels_divide_by_estimate(void **state)
{
	static const struct {
		const char *name;
		struct {
			const char *values;
			double us;
		} fused[4];
		const char *says; /* NULL: serial */
	} rows[] = {
		{ "by estimate", { { "", 150 } }, "" },
		{ "numbers are faster",
		  { { "", 190 },
		    { "DECODE_UNITS=32", 140 },
		    { "PREFILL_SEGMENTS=2", 130 },
		    { "DECODE_UNITS=32 PREFILL_SEGMENTS=2", 120 } },
		  "" },
		{ "numbers alone",
		  { { "DECODE_UNITS=32", 140 },
		    { "PREFILL_SEGMENTS=2", 130 },
		    { "DECODE_UNITS=32 PREFILL_SEGMENTS=2", 120 } },
		  NULL },
		{ "compiled numbers",
		  { { "", 190 },
		    { "DECODE_WARPS=8", 150 },
		    { "DECODE_WARPS=8 DECODE_UNITS=32", 140 } },
		  "DECODE_WARPS=8" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct data *d = begin();
		struct forest f;
		for (int n = 2; n <= 64; n *= 2) {
			char batch[40];
			snprintf(batch, sizeof batch, "q512_%dq1s4k", n);
			add_mixed(d, batch, 0, 1);
			for (size_t k = 0; k < COUNT(rows[i].fused) && rows[i].fused[k].values; k++)
				add_fused(d, batch, rows[i].fused[k].values, rows[i].fused[k].us);
		}
		induce(d, &f);
		only_leaf_names(&f, rows[i].name, rows[i].says);
		nothing_named_has_numbers(&f);
		forest_free(&f);
		data_free(d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_fused_ones_gain_nearly_all),
		cmocka_unit_test(fused_kernels_divide_by_estimate),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("overlap_fused", tests, NULL, NULL);
}
