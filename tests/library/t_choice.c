/* SPDX-License-Identifier: Apache-2.0 */
/* t_choice.c - choices as text, and what the launch of a choice refuses. */
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "kernels/device/device.h"
#include "kernels/select/selector.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void all_defaults_survive_as_text(void **state)
{
	(void)state;
	for (const struct kernel *k = attune_kernels; k->name; k++) {
		struct choice c = { .kernel = k }, back;
		char text[MAX_CHOICE_TEXT], again[MAX_CHOICE_TEXT], error[200];
		if (!k->selectable)
			continue;
		config_default(&c.config, k->space);
		const int n = choice_text(text, sizeof text, &c);
		assert_int_equal(n, strlen(text));
		if (!choice_parse(&back, k->backend, text, error, sizeof error))
			fail_msg("%s: %s", text, error);
		assert_ptr_equal(back.kernel, k);
		choice_text(again, sizeof again, &back);
		assert_string_equal(again, text);
	}
}

static struct choice a_choice(char text[MAX_CHOICE_TEXT])
{
	struct choice c = { .kernel = kernel_find(BACKEND_CPU, "segmented") };
	assert_non_null(c.kernel);
	config_default(&c.config, c.kernel->space);
	choice_text(text, MAX_CHOICE_TEXT, &c);
	return c;
}

/* `from` of the text is replaced by `to`; the error must name `found` and `right`. */
static void refuse(const char *from, const char *to, const char *found, const char *right)
{
	char text[MAX_CHOICE_TEXT], wrong[2 * MAX_CHOICE_TEXT], error[300];
	struct choice c = a_choice(text);
	const char *at = strstr(text, from);
	assert_non_null(at);
	snprintf(wrong, sizeof wrong, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
	assert_false(choice_parse(&c, BACKEND_CPU, wrong, error, sizeof error));
	if (!strstr(error, found) || !strstr(error, right))
		fail_msg("\"%s\": %s", wrong, error);
	assert_null(strchr(error, '\n'));
}

static void errors_say_what_would_be_right(void **state)
{
	(void)state;
	refuse("segmented", "segmentet", "no kernel \"segmentet\"", "qblock segmented");
	refuse("segmented", "reduce", "no kernel \"reduce\"", "qblock segmented");
	refuse("segmented", "", "no kernel \"TILE_SIZE=", "qblock segmented");
	refuse("TILE_SIZE=", "TILE_SIZE=7", "\"TILE_SIZE=7", "of: 32 64 128");
	refuse("TILE_SIZE=", "TILE=", "\"TILE=", "each once: TILE_SIZE=");
	refuse(" SEGMENTS=1", "", "missing in \"segmented\"", " SEGMENTS=");
	refuse(" SEGMENTS=1", " SEGMENTS=1 SEGMENTS=2", "\"SEGMENTS=2\"", "given once");
	refuse(" SEGMENTS=1", " SEGMENTS=x", "\"SEGMENTS=x\"", "of: 1 2 4");
}

static void blanks_do_not_matter(void **state)
{
	char text[MAX_CHOICE_TEXT], wide[MAX_CHOICE_TEXT + 2], error[200];
	struct choice c = a_choice(text);
	(void)state;
	snprintf(wide, sizeof wide, "  %s", text);
	assert_true(choice_parse(&c, BACKEND_CPU, wide, error, sizeof error));
}

static void a_short_buffer_is_no_overrun(void **state)
{
	char text[MAX_CHOICE_TEXT], little[12] = "...........";
	struct choice c = a_choice(text);
	(void)state;
	choice_text(little, 10, &c);
	assert_string_equal(little, "segmented");
	assert_int_equal(little[10], '.');
}

static const attune_shape shape = { .size = sizeof(attune_shape),
				    .num_query_heads = 8,
				    .num_kv_heads = 2,
				    .head_size = 64,
				    .page_size = 16,
				    .causal = 1 };

static void workspaces(void **state)
{
	char text[MAX_CHOICE_TEXT], error[200];
	struct choice c = a_choice(text);
	struct device cpu;
	struct scenario s = { .shape = shape };
	size_t bytes = 1;
	(void)state;
	assert_int_equal(device_open(&cpu, "cpu"), ATTUNE_OK);
	cpu.info.units = 2; /* which two segments are legal for */
	s.batch = batch_parse("q1s8k_q100", error, sizeof error);
	assert_int_equal(choice_workspace(&cpu, &c, &s, PHASE_DECODE, &bytes), ATTUNE_OK);
	assert_int_equal(bytes, 0);
	for (int i = 0; i < c.kernel->space->num_axes; i++)
		if (!strcmp(c.kernel->space->axis[i].name, "SEGMENTS"))
			c.config.v[i] = 2;
	assert_int_equal(choice_workspace(&cpu, &c, &s, PHASE_DECODE, &bytes), ATTUNE_OK);
	assert_int_equal(bytes, 1 * 8 * 2 * (64 + 2) * sizeof(float));
	batch_free(s.batch);
	s.batch = batch_parse("q100", error, sizeof error);
	assert_int_equal(choice_workspace(&cpu, &c, &s, PHASE_DECODE, &bytes), ATTUNE_OK);
	assert_int_equal(bytes, 0); /* no decode: nothing is launched */
	s.shape.head_size = 20;
	assert_int_equal(choice_workspace(&cpu, &c, &s, PHASE_PREFILL, &bytes), ATTUNE_INVALID);
	assert_non_null(strstr(attune_last_error(), "segmented: head_size"));
	batch_free(s.batch);
	device_close(&cpu);
}

static void binaries_are_those_that_shapes_reach(void **state)
{
	static const struct selector_shapes shapes[] = { { "64", "BF16 F16/E4M3" },
							 { "128 256", "BF16" } };
	static const struct selector_row choices[] = {
		{ "ring", "BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=2 COMBINE=1 SEGMENTS=1" },
		{ "naive", "NUM_WARPS=4" },
		{ "ring", "BLOCK_M=16 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=2 COMBINE=1 SEGMENTS=1" },
		{ "warpgroup", /* no decode runs it, but a stand-in has a binary all the same */
		  "BLOCK_M=64 TILE_SIZE=64 NUM_STAGES=2 BLOCKS_PER_SM=1 TURNS=0 PERSISTENT=1 "
		  "HEADS=8 SEGMENTS=1" },
	};
	static const struct attune_list lists[] = { { 2, { 0, 2 } }, { 2, { 1, 3 } } };
	/* Prefills: the defaults. Decodes: ring at head size 64, naive at 128, else the defaults. */
	static const struct selector_node nodes[] = {
		{ -1, 0, SAYS_DEFAULTS },
		{ ATTUNE_FEATURE_head_size, 3, 64 },
		{ -1, 0, 0 },
		{ ATTUNE_FEATURE_head_size, 5, 128 },
		{ -1, 0, 1 },
		{ -1, 0, SAYS_DEFAULTS },
	};
	static const char *const want[][2] = {
		{ "ring", "-DHEAD_SIZE=64 -DDTYPE=BF16 -DBLOCK_M=8" },
		{ "ring", "-DHEAD_SIZE=64 -DDTYPE=BF16 -DBLOCK_M=16" },
		{ "reduce", "-DHEAD_SIZE=64 -DDTYPE=BF16 -DNUM_WARPS=4" },
		{ "ring", "-DHEAD_SIZE=64 -DDTYPE=F16 -DKV_DTYPE=E4M3 -DBLOCK_M=8" },
		{ "ring", "-DHEAD_SIZE=64 -DDTYPE=F16 -DKV_DTYPE=E4M3 -DBLOCK_M=16" },
		{ "reduce", "-DHEAD_SIZE=64 -DDTYPE=F16 -DNUM_WARPS=4" },
		{ "naive", "-DHEAD_SIZE=128 -DDTYPE=BF16 -DNUM_WARPS=4" },
		{ "warpgroup", "-DHEAD_SIZE=128 -DDTYPE=BF16 -DBLOCK_M=64 -DTILE_SIZE=64" },
		{ "reduce", "-DHEAD_SIZE=128 -DDTYPE=BF16 -DNUM_WARPS=4" },
		{ "reduce", "-DHEAD_SIZE=256 -DDTYPE=BF16 -DNUM_WARPS=4" },
	};
	const struct selector h = { .gpu = "h200",
				    .arch = "sm_90",
				    .shapes = shapes,
				    .num_shapes = COUNT(shapes),
				    .choices = choices,
				    .num_choices = COUNT(choices),
				    .lists = lists,
				    .num_lists = COUNT(lists),
				    .nodes = nodes,
				    .num_nodes = COUNT(nodes),
				    .root = { 0, 1, 0, 0 } };
	struct binary_walk w = { 0 };
	size_t n = 0;
	(void)state;
	for (; selector_next_binary(&h, &w); n++) {
		assert_in_range(n, 0, COUNT(want) - 1);
		assert_string_equal(w.kernel, want[n][0]);
		w.flags[strlen(want[n][1])] = '\0';
		assert_string_equal(w.flags, want[n][1]);
	}
	assert_int_equal(n, COUNT(want));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_defaults_survive_as_text),
		cmocka_unit_test(errors_say_what_would_be_right),
		cmocka_unit_test(blanks_do_not_matter),
		cmocka_unit_test(a_short_buffer_is_no_overrun),
		cmocka_unit_test(workspaces),
		cmocka_unit_test(binaries_are_those_that_shapes_reach),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("choice", tests, NULL, NULL);
}
