/* SPDX-License-Identifier: Apache-2.0 */
/* t_fitted_choices.c - choices of SEGMENTS=fitted in the tuner: as text, as names in a header,
 * where they may run, and in `attune show`. */
#include "harness/base/base.h"
#include "harness/measure/measure.h"
#include "harness/scenario/scenario.h"
#include "harness/store/store.h"
#include "tuner/commands.h"
#include "tuner/data/data.h"
#include "tuner/emit/emit.h"
#include "tuner/forest/forest.h"
#include "tuner/induce/induce.h"
#include "tuner/tree/tree.h"
#include "tests/support/synthetic.h"
#include "tuner/policy/policy.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "tests/support/commands.h"

/* ---- as text ------------------------------------------------------------------------------- */
/* The default choice of a kernel with the text of one tunable replaced. */
static int takes(const struct kernel *k, const char *axis, const char *value, struct choice *c,
		 char error[500])
{
	char text[MAX_CHOICE_TEXT], changed[MAX_CHOICE_TEXT + 80], name[40];
	struct choice dflt = { .kernel = k };
	config_default(&dflt.config, k->space);
	choice_text(text, sizeof text, &dflt);
	snprintf(name, sizeof name, " %s=", axis);
	const char *at = strstr(text, name), *end = at ? strchr(at + 1, ' ') : NULL;
	if (!at)
		fail_msg("%s has no %s", text, axis);
	snprintf(changed, sizeof changed, "%.*s%s%s%s", (int)(at - text), text, name, value,
		 end ? end : "");
	return choice_parse(c, k->backend, changed, error, 500);
}

static void fitted_is_a_value(void **state)
{
	int kernels = 0;
	(void)state;
	for (const struct kernel *k = attune_kernels; k->name; k++) {
		const struct space *s = k->space;
		struct choice c;
		char text[MAX_CHOICE_TEXT], error[500];
		/* an option is silent at its default, so that there is nothing to replace */
		if (!k->selectable || s->formula_axis < 0 || s->axis[s->formula_axis].is_option)
			continue;
		assert_true(takes(k, s->axis[s->formula_axis].name, "fitted", &c, error));
		assert_true(config_is_fitted(&c.config, s) && !config_is_formula(&c.config, s));
		choice_text(text, sizeof text, &c);
		assert_non_null(strstr(text, "SEGMENTS=fitted"));
		assert_false(takes(k, s->axis[s->formula_axis].name, "0", &c, error));
		assert_false(takes(k, s->axis[s->formula_axis].name, "fittedly", &c, error));
		assert_false(takes(k, s->axis[s->formula_axis].name, "fit", &c, error));
		assert_false(takes(k, "TILE_SIZE", "fitted", &c, error));
		assert_false(
		    takes(k, s->axis[s->formula_axis].name, "balance(9,9,9,9)", &c, error));
		assert_non_null(strstr(error, "and of: fitted balance("));
		kernels++;
	}
	assert_true(kernels >= 3);
}

/* ---- where it may run ------------------------------------------------------------------------ */
static struct choice cut_choice(const char *set)
{
	struct choice c = { .kernel = kernel_find(BACKEND_GPU, "segmented") };
	const char *where;
	assert_true(config_parse(&c.config, c.kernel->space, with("segmented", set), &where));
	return c;
}

/* A forest of one choice, which all decodes run. */
static void make_one(struct forest *f, const struct selector_costs *costs, int n)
{
	*f = (struct forest){ .gpu = "h200", .num_choices = 1, .num_costs = n };
	f->choice[0] = cut_choice("BLOCK_M=16 TILE_SIZE=64 SEGMENTS=0");
	memcpy(f->costs, costs, sizeof *costs * (size_t)n);
	for (int i = 0; i < NUM_DECISIONS; i++)
		assert_true(tree_constant(&f->tree[i], i == DECIDE_DECODE ? 0 : -1));
}

/* Slots decide how many segments 32 blocks are cut into on 132 SMs: as many as run at a time. */
static void costs_are_of_the_head_size(void **state)
{
	static const struct {
		int size[2], slots[2];
		int head_size, segments; /* 0: it may not run */
	} rows[] = {
		{ { 0, 0 }, { 0, 0 }, 128, 0 },
		{ { 128, 0 }, { 2, 0 }, 128, 8 },
		{ { 128, 0 }, { 1, 0 }, 128, 4 },
		{ { 64, 128 }, { 1, 2 }, 128, 8 },
		{ { 64, 256 }, { 1, 2 }, 128, 8 }, /* the next larger one's */
		{ { 256, 64 }, { 1, 2 }, 128, 4 },
		{ { 64, 96 }, { 1, 2 }, 128, 8 }, /* else the largest one's */
		{ { 64, 256 }, { 1, 2 }, 64, 4 },
	};
	struct data *d = synthetic_data(0);
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct selector_costs costs[2];
		struct forest f;
		struct measured m;
		struct choice c;
		attune_shape shape = llama;
		int n = 0;
		for (; n < 2 && rows[i].size[n]; n++)
			costs[n] = (struct selector_costs){
				0, rows[i].size[n], { rows[i].slots[n], 96, 1000, 0, 0, 0 }
			};
		shape.head_size = rows[i].head_size;
		make_one(&f, costs, n);
		assert_true(measured_make(&m, d, "m", &shape, "4q1s4k"));
		const int runs = action_choice(d, &f, PHASE_DECODE, 0, &m, &c);
		assert_int_equal(runs, rows[i].segments > 0);
		if (runs)
			assert_int_equal(config_value(&c.config, c.kernel->space, "SEGMENTS", 0),
					 rows[i].segments);
		assert_false(action_choice(d, &f, PHASE_DECODE, -1, &m, &c));
		measured_free(&m);
		forest_free(&f);
	}
	data_free(d);
}

/* With costs it is legal wherever one of its values is; without costs nowhere, and its leaf has
 * a remark. */
static void without_costs_it_is_guarded(void **state)
{
	const struct selector_costs costs = { 0, 128, { 2, 96, 1000, 0, 0, 0 } };
	struct data *d = synthetic_data(0);
	struct forest f;
	(void)state;
	make_one(&f, &costs, 1);
	assert_true(forest_prove(&f, d));
	assert_null(f.tree[DECIDE_DECODE].v[0].guarded);
	forest_free(&f);
	make_one(&f, &costs, 0);
	assert_true(forest_prove(&f, d));
	const char *guarded = f.tree[DECIDE_DECODE].v[0].guarded;
	assert_true(guarded && strstr(guarded, "costs of its segments"));
	forest_free(&f);
	data_free(d);
}

/* ---- in a header ------------------------------------------------------------------------------- */
static void names_tell_it_apart(void **state)
{
	static const char *const sets[] = { "BLOCK_M=16 TILE_SIZE=64 SEGMENTS=0",
					    "BLOCK_M=16 TILE_SIZE=64 SEGMENTS=16",
					    "BLOCK_M=16 TILE_SIZE=64 SEGMENTS=-2",
					    "BLOCK_M=32 TILE_SIZE=64 SEGMENTS=0" };
	static const char *const names[] = {
		"CHOICE( 0, segmented_16x64_segments_fitted, ",
		"CHOICE( 1, segmented_16x64_segments16,     ",
		"CHOICE( 2, segmented_16x64_segments_rule2,  ",
		"CHOICE( 3, segmented_32x64,                 ",
		"SEGMENTS(h200_segmented_16x64_segments_fitted, 128,  2, ",
		"SEGMENTS(h200_segmented_32x64,                  64,  3, "
	};
	static const struct selector_costs costs[] = { { 0, 128, { 2, 96, 1000, 0, 0, 0 } },
						       { 3, 64, { 3, 96, 1000, 0, 0, 0 } } };
	struct data *d = synthetic_data(0);
	struct forest f, back;
	(void)state;
	make_one(&f, costs, COUNT(costs));
	for (f.num_choices = 0; f.num_choices < (int)COUNT(sets); f.num_choices++)
		f.choice[f.num_choices] = cut_choice(sets[f.num_choices]);
	char *text = forest_emit(&f, d);
	for (size_t i = 0; i < COUNT(names); i++)
		if (!strstr(text, names[i]))
			fail_msg("%s: %s", names[i], text);
	assert_true(forest_parse(&back, text, "text"));
	assert_memory_equal(back.choice, f.choice, sizeof *f.choice * COUNT(sets));
	assert_memory_equal(back.costs, f.costs, sizeof costs);
	free(text);
	forest_free(&back);
	forest_free(&f);
	data_free(d);
}

/* ---- show ---------------------------------------------------------------------------------------- */
/* 8 segments were measured, and they are picked. */
static void show_says_what_it_comes_to(void **state)
{
	static const struct synthetic cells[] = { { "4q1s4k", "decode", "train", 1, 20 },
						  { "4q1s4k", "decode", "train", 5, 10 } };
	const struct selector_costs costs = { 0, 128, { 2, 96, 1000, 0, 0, 0 } };
	const char *db = in_folder("fitted.sqlite"), *header = in_folder("fitted.h");
	struct store *st = store_open(db, 0);
	struct forest f;
	size_t i;
	int fitted = 0, picked = 0;
	(void)state;
	const long long run = store_begin_run(st, &h200_run);
	for (i = 0; i < COUNT(cells); i++)
		put(st, run, &cells[i]);
	store_close(st);
	struct data *d = data_load(db, "h200");
	make_one(&f, &costs, 1);
	char *text = forest_emit(&f, d);
	FILE *out = fopen(header, "w");
	assert_true(text && out && fputs(text, out) >= 0 && !fclose(out));
	assert_int_equal(run_command(cmd_show, words("--gpu h200 --db %s --header %s --model "
						     "llama3.1-8b@1 --batch 4q1s4k --why "
						     "--format json",
						     db, header)),
			 EXIT_DONE);
	json_t *o = json_loads(printed, 0, NULL), *row;
	json_array_foreach(o, i, row)
	{
		const char *what = json_string_value(member(row, "what"));
		const char *is = json_string_value(member(row, "is"));
		fitted += !strcmp(what, "row") && strstr(is, "SEGMENTS=fitted");
		if (!strcmp(what, "picked") && strstr(is, "segmented")) {
			assert_non_null(strstr(is, "SEGMENTS=8"));
			assert_float_equal(json_number_value(member(row, "median_us")), 10, 1e-3);
			picked++;
		}
	}
	assert_int_equal(fitted, 1);
	assert_int_equal(picked, 1);
	json_decref(o);
	free(text);
	forest_free(&f);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fitted_is_a_value),
		cmocka_unit_test(costs_are_of_the_head_size),
		cmocka_unit_test(without_costs_it_is_guarded),
		cmocka_unit_test(names_tell_it_apart),
		cmocka_unit_test(show_says_what_it_comes_to),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("fitted", tests, make_folder, remove_folder);
}
