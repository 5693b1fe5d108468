/* SPDX-License-Identifier: Apache-2.0 */
/* t_plans.c - the composed plans that a sweep races, and plans as text. */
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/store.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#undef fail

static const struct device_info cpu = { .backend = BACKEND_CPU, .gpu = "cpu", .units = 4 };
static const struct device_info gpu = { .backend = BACKEND_GPU,
					.gpu = "h200",
					.units = 132,
					.lanes = 32,
					.smem_per_block = 227 << 10,
					.smem_per_unit = 228 << 10 };

/* ---- texts ------------------------------------------------------------------------------ */

static void texts_come_back(void **state)
{
	static const char *const texts[] = { "prefill: qblock A=1 | decode: segmented B=2",
					     "prefill: qblock A=1 || decode: segmented B=2",
					     "prefill: a | decode: b" };
	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++) {
		char part[2][MAX_PART_TEXT], text[MAX_PLAN_TEXT];
		enum attune_how how;
		assert_true(parts_parse(texts[i], part, &how));
		assert_int_equal(how, i == 1 ? ATTUNE_STREAMS : ATTUNE_SERIAL);
		assert_int_equal(parts_text(text, sizeof text, part[0], part[1], how),
				 strlen(texts[i]));
		assert_string_equal(text, texts[i]);
	}
}

static void other_texts_are_none(void **state)
{
	static const char *const texts[] = { "",
					     "qblock A=1",
					     "prefill: qblock A=1",
					     "decode: a | decode: b",
					     "prefill: a ||| decode: b",
					     "prefill: a | b",
					     "prefill: a| decode: b" };
	char part[2][MAX_PART_TEXT], text[2 * MAX_PART_TEXT + 40], one[MAX_PART_TEXT + 1];
	enum attune_how how;
	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++)
		assert_false(parts_parse(texts[i], part, &how));
	for (int n = MAX_PART_TEXT - 1; n <= MAX_PART_TEXT;
	     n++) { /* as long as can be, and longer */
		memset(one, 'x', sizeof one);
		one[n] = '\0';
		parts_text(text, sizeof text, one, "b", ATTUNE_STREAMS);
		assert_int_equal(parts_parse(text, part, &how), n < MAX_PART_TEXT);
		parts_text(text, sizeof text, "a", one, ATTUNE_STREAMS);
		assert_int_equal(parts_parse(text, part, &how), n < MAX_PART_TEXT);
	}
}

/* ---- contenders ------------------------------------------------------------------------------ */

static struct scenario scenario;
static struct problems problems;
static struct binaries binaries;

static int end(void **state)
{
	(void)state;
	batch_free(scenario.batch);
	free(scenario.batch_text);
	problems_free(&problems);
	binaries_free(&binaries);
	memset(&scenario, 0, sizeof scenario);
	return 0;
}

/* Every choice takes 100 us, and more for each place. */
static void begin(const struct device_info *d, const char *batch)
{
	const struct candidate_options options = { .device = d, .preset = PRESET_QUICK, .seed = 1 };
	char error[128];
	scenario = (struct scenario){ .model = "llama@1",
				      .batch = batch_parse(batch, error, sizeof error),
				      .batch_text = strdup(batch),
				      .shape = { .num_query_heads = 32,
						 .num_kv_heads = 8,
						 .head_size = 128,
						 .page_size = 16,
						 .dtype = ATTUNE_BF16,
						 .kv_dtype = ATTUNE_BF16,
						 .causal = 1 } };
	assert_non_null(scenario.batch);
	problems.scenarios = &scenario;
	problems.device = *d;
	assert_true(problems_add(&problems, &binaries, 0, &options));
	for (int i = 0; i < problems.n; i++)
		for (int k = 0; k < problems.v[i].n; k++)
			problems_note(&problems.v[i], k, 100 + k, STAGE_RACE);
}

static void best_of_each_part_are_paired(void **state)
{
	struct contender contender[MAX_PLANS];
	char text[MAX_PLAN_TEXT];
	(void)state;
	begin(&cpu, "2q512_4q1s1k");
	struct problem *prefill = problems_find(&problems, 0, PHASE_PREFILL);
	problems_note(prefill, prefill->n - 1, 50, STAGE_RACE);
	problems_note(prefill, 0, INFINITY, STAGE_RACE);
	assert_int_equal(plans_pick(&problems, 0, contender), 4);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(contender[i].place[0], i < 2 ? prefill->n - 1 : 1);
		assert_int_equal(contender[i].place[1], i % 2);
		assert_int_equal(contender[i].how, ATTUNE_SERIAL);
	}
	contender_text(text, &contender[0]);
	assert_non_null(strstr(text, " | decode: segmented "));
}

static void one_part_has_no_plans(void **state)
{
	struct contender contender[MAX_PLANS];
	(void)state;
	begin(&gpu, "4q1s1k");
	assert_int_equal(plans_pick(&problems, 0, contender), 0);
}

/* The spare units in a plan's text; 0: none. */
static int spares_in(const char *text)
{
	const char *at = strstr(text, "SPARE_UNITS=");
	return at ? atoi(at + strlen("SPARE_UNITS=")) : 0;
}

static int can_spare(void)
{
	for (const struct kernel *k = attune_kernels; k->name; k++)
		if (k->backend == BACKEND_GPU && k->selectable && space_spares(k->space) >= 0)
			return 1;
	return 0;
}

/* After the serial plans the best pair on two streams; then, where a kernel can spare units
 * to the decode part, that with more and more of them. */
static void on_a_gpu_parts_go_side_by_side(void **state)
{
	struct contender contender[MAX_PLANS];
	char text[MAX_PLAN_TEXT], best[MAX_PLAN_TEXT];
	int last = 0;
	(void)state;
	begin(&gpu, "2q2k_64q1s4k");
	const int n = plans_pick(&problems, 0, contender);
	assert_int_equal(n > 5, can_spare());
	contender_text(best, &contender[0]);
	contender_text(text, &contender[4]);
	assert_int_equal(contender[4].how, ATTUNE_STREAMS);
	assert_int_equal(strcspn(best, "|"), strcspn(text, "|"));
	assert_string_equal(strstr(best, "| decode"), strstr(text, "| decode"));
	for (int i = 5; i < n; i++) {
		const struct choice c = contender[i].choice;
		contender_text(text, &contender[i]);
		assert_int_equal(contender[i].how, ATTUNE_STREAMS);
		assert_true(spares_in(text) > last);
		assert_int_equal(choice_spares(&c), spares_in(text));
		assert_string_equal(strstr(best, "| decode"), strstr(text, "| decode"));
		last = spares_in(text);
	}
	for (int i = 0; i < problems.num_built_choices; i++) /* none of them is raced alone */
		assert_int_equal(choice_spares(&problems.built_choice[i].choice), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_come_back),
		cmocka_unit_test(other_texts_are_none),
		cmocka_unit_test_teardown(best_of_each_part_are_paired, end),
		cmocka_unit_test_teardown(one_part_has_no_plans, end),
		cmocka_unit_test_teardown(on_a_gpu_parts_go_side_by_side, end),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("plans", tests, NULL, NULL);
}
