/* SPDX-License-Identifier: Apache-2.0 */
/* t_plugin_kernel.c - a registered plug-in as a kernel of the table: its choices as text, what
 * refuses() is asked, its flags. */
#include "sound_plugin.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"

static const struct kernel *mine(void)
{
	const struct kernel *k = kernel_find(BACKEND_CPU, "mine");
	assert_non_null(k);
	return k;
}

static void a_sound_one_is_a_kernel(void **state)
{
	const int before = num_kernels();
	(void)state;
	assert_null(kernel_find(BACKEND_CPU, "mine"));
	if (plugin_register(&sound))
		fail_msg("%s", attune_last_error());
	assert_int_equal(num_kernels(), before + 1);
	assert_ptr_equal(mine()->plugin, &sound);
	assert_true(mine()->selectable);
	assert_string_equal(mine()->about, "one of mine");
	assert_null(kernel_find(BACKEND_GPU, "mine"));
	refuse("the same again", &sound, "plug-in \"mine\": a kernel has this name");
}

static void its_choices_survive_as_text(void **state)
{
	static const char *const texts[] = { "mine SPLITS=0 DEPTH=-2", "mine SPLITS=16 DEPTH=-1" };
	char text[MAX_PART_TEXT], error[300];
	struct choice c;
	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++) {
		if (!choice_parse(&c, BACKEND_CPU, texts[i], error, sizeof error))
			fail_msg("%s: %s", texts[i], error);
		assert_int_equal(choice_text(text, sizeof text, &c), strlen(texts[i]));
		assert_string_equal(text, texts[i]);
	}
	assert_false(choice_parse(&c, BACKEND_CPU, "mine SPLITS=4 DEPTH=-1", error, sizeof error));
	assert_non_null(strstr(error, "given once, and of: 0 8 16"));
	c.kernel = mine();
	config_default(&c.config, c.kernel->space);
	choice_text(text, sizeof text, &c);
	assert_string_equal(text, "mine SPLITS=16 DEPTH=-1");
}

static void a_sweep_has_all_its_values(void **state)
{
	const struct space *s = mine()->space;
	struct config c;
	int n = 1;
	(void)state;
	for (config_first(&c, s, 16); config_next(&c, s, 16) && n < 100;)
		n++;
	assert_int_equal(n, 3 * 2);
}

/* ---- refuses() --------------------------------------------------------------------------- */

static struct device_info cpu = {
	.backend = BACKEND_CPU, .arch = "avx512", .units = 6, .lanes = 16
};

static const char *why_illegal(const struct kernel *k, int splits, const struct part *p)
{
	const struct config c = { { splits, -1 } };
	memset(&told, 0, sizeof told);
	return k->space->why_illegal(&c, &a_llama, p, &cpu);
}

static void refuses_is_asked(void **state)
{
	static const int32_t start[] = { 0, 1, 4, 54 }, lens[] = { 100, 200, 50 };
	const attune_batch batch = { sizeof(attune_batch), 3, start, lens };
	struct part part;
	(void)state;
	assert_null(why_illegal(mine(), 16, NULL));
	assert_string_equal(why_illegal(mine(), 8, NULL), "not 8");
	assert_int_equal(told.calls, 1);
	assert_int_equal(told.value, 8);
	assert_false(told.has_part);
	assert_memory_equal(&told.shape, &a_llama, sizeof a_llama);
	assert_string_equal(told.device.backend, "cpu");
	assert_string_equal(told.device.arch, "avx512");
	assert_int_equal(told.device.units, 6);

	assert_true(part_make(&part, PHASE_DECODE, &a_llama, &batch, &cpu));
	assert_null(why_illegal(mine(), 0, &part));
	assert_true(told.has_part);
	assert_int_equal(told.part.num_seqs, 2);
	assert_int_equal(told.part.min_query, 1);
	assert_int_equal(told.part.max_query, 3);
	assert_int_equal(told.part.query_tokens, 4);
	assert_int_equal(told.part.kv_tokens, 300);
	assert_int_equal(told.part.max_seq, 200);
	assert_string_equal(why_illegal(mine(), 8, &part), "not 8");
}

static void sequences_that_do_not_follow_one_another_are_refused(void **state)
{
	static const struct {
		const char *label;
		int32_t start[4];
		enum phase phase;
		int runs;
	} rows[] = {
		{ "decodes, a prefill", { 0, 1, 2, 52 }, PHASE_DECODE, 1 },
		{ "decode, prefill, decode", { 0, 1, 51, 52 }, PHASE_DECODE, 0 },
		{ "the prefill between them", { 0, 1, 51, 52 }, PHASE_PREFILL, 1 },
		{ "all of them", { 0, 1, 51, 52 }, PHASE_ALL, 1 },
		{ "decode, no query, decode", { 0, 1, 1, 2 }, PHASE_DECODE, 0 },
		{ "decodes, no query", { 0, 1, 2, 2 }, PHASE_DECODE, 1 },
	};
	static const int32_t lens[] = { 100, 200, 60 };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const attune_batch batch = { sizeof(attune_batch), 3, rows[i].start, lens };
		struct part part;
		assert_true(part_make(&part, rows[i].phase, &a_llama, &batch, &cpu));
		const char *why = why_illegal(mine(), 0, &part);
		if ((why == NULL) != rows[i].runs || told.calls != rows[i].runs)
			fail_msg("%s: %s", rows[i].label, why ? why : "not refused");
		if (why)
			assert_string_equal(why,
					    "a plug-in takes sequences that follow one another");
	}
}

/* Decodes in front of all prefills, behind them, and among them; counted from the part's first. */
static void refuses_knows_where_prefills_and_decodes_lie(void **state)
{
	static const struct {
		const char *label, *batch;
		enum phase phase;
		attune_span prefills, decodes;
	} rows[] = {
		{ "decodes in front",
		  "2q1s9_q3s9_q20",
		  PHASE_ALL,
		  { 3, 1, 20, 20, 20 },
		  { 0, 3, 1, 3, 5 } },
		{ "behind", "q20_q30_q1s9", PHASE_ALL, { 0, 2, 20, 30, 50 }, { 2, 1, 1, 1, 1 } },
		{ "among them",
		  "q1s9_q20_q1s9_q9",
		  PHASE_ALL,
		  { 1, 3, 9, 20, 30 },
		  { 0, 3, 1, 1, 22 } },
		{ "behind a sequence without a query",
		  "q0_q20_q1s9",
		  PHASE_ALL,
		  { 0, 1, 20, 20, 20 },
		  { 1, 1, 1, 1, 1 } },
		{ "the decodes alone",
		  "q20_q1s9_q8s9",
		  PHASE_DECODE,
		  { .seq_count = 0 },
		  { 0, 2, 1, 8, 9 } },
		{ "the prefills alone",
		  "q1s9_q20",
		  PHASE_PREFILL,
		  { 0, 1, 20, 20, 20 },
		  { .seq_count = 0 } },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		char error[128];
		struct part part;
		struct batch *b = batch_parse(rows[i].batch, error, sizeof error);
		assert_non_null(b);
		assert_true(part_make(&part, rows[i].phase, &a_llama, &b->view, &cpu));
		assert_null(why_illegal(mine(), 0, &part));
		if (memcmp(&told.part.prefills, &rows[i].prefills, sizeof(attune_span)) ||
		    memcmp(&told.part.decodes, &rows[i].decodes, sizeof(attune_span)))
			fail_msg("%s: %d + %d, %d + %d", rows[i].label,
				 told.part.prefills.seq_begin, told.part.prefills.seq_count,
				 told.part.decodes.seq_begin, told.part.decodes.seq_count);
		batch_free(b);
	}
}

/* Of GPUs there are two kinds, and one backend. */
static void other_devices_are_refused_without_asking(void **state)
{
	static const struct {
		const char *label, *backend;
		struct device_info device;
		int runs;
	} rows[] = {
		{ "CUDA's there", "cuda", { .backend = BACKEND_GPU, .arch = "sm_90" }, 1 },
		{ "CUDA's on an AMD GPU", "cuda", { .backend = BACKEND_GPU, .arch = "gfx942" }, 0 },
		{ "HIP's there", "hip", { .backend = BACKEND_GPU, .arch = "gfx942" }, 1 },
		{ "HIP's on an NVIDIA GPU", "hip", { .backend = BACKEND_GPU, .arch = "sm_90" }, 0 },
	};
	static attune_plugin plugin[COUNT(rows)];
	static char name[COUNT(rows)][8];
	const struct config c = { { 0, -1 } };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		plugin[i] = sound;
		snprintf(name[i], sizeof name[i], "gpu%d", (int)i);
		plugin[i].name = name[i];
		plugin[i].backend = rows[i].backend;
		if (plugin_register(&plugin[i]))
			fail_msg("%s", attune_last_error());
		const struct kernel *k = kernel_find(BACKEND_GPU, name[i]);
		assert_non_null(k);
		memset(&told, 0, sizeof told);
		const char *why = k->space->why_illegal(&c, &a_llama, NULL, &rows[i].device);
		if ((why == NULL) != rows[i].runs || told.calls != rows[i].runs)
			fail_msg("%s: %s", rows[i].label, why ? why : "not refused");
		if (why)
			assert_string_equal(why, "it is a plug-in for another kind of device");
		else
			assert_string_equal(told.device.backend, rows[i].backend);
	}
}

/* ---- flags ------------------------------------------------------------------------------- */

static void flags_have_the_version(void **state)
{
	static const struct {
		const char *version, *flag;
	} rows[] = {
		{ "617264c1 2026-08-06", "-DPLUGIN=617264c1_2026-08-06 " },
		{ "v2.8.3+cu12-1", "-DPLUGIN=v2.8.3+cu12-1 " },
		{ "a=b -DX \"q\"", "-DPLUGIN=a_b_-DX__q_ " },
		{ VERSION_48, "-DPLUGIN=" VERSION_48 " " },
	};
	static attune_plugin plugin[COUNT(rows)];
	static char name[COUNT(rows)][8];
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		char flags[MAX_FLAGS];
		struct config c;
		plugin[i] = sound;
		snprintf(name[i], sizeof name[i], "v%d", (int)i);
		plugin[i].name = name[i];
		plugin[i].version = rows[i].version;
		if (plugin_register(&plugin[i]))
			fail_msg("%s: %s", rows[i].version, attune_last_error());
		const struct kernel *k = kernel_find(BACKEND_CPU, name[i]);
		config_default(&c, k->space);
		const int n = binary_flags(flags, sizeof flags, k, &c, &a_llama);
		assert_int_equal(n, strlen(flags));
		if (strncmp(flags, rows[i].flag, strlen(rows[i].flag)))
			fail_msg("%s: %s", rows[i].version, flags);
		assert_non_null(strstr(flags, " -DHEADS=32 -DKV_HEADS=8 -DHEAD_SIZE=128 "));
		assert_non_null(strstr(flags, " -DSPLITS=16 -DDEPTH=-1"));
	}
}

static const attune_plugin_axis longest[] = { SEVEN_LONG_AXES, LONG_AXIS("H") };

/* The longest axes and version with the longest shape are neither cut as flags nor as a choice. */
static void the_longest_texts_fit(void **state)
{
	attune_shape shape = { .size = sizeof(attune_shape),
			       .num_query_heads = 65535,
			       .num_kv_heads = 65535,
			       .head_size = 512,
			       .page_size = 65536,
			       .causal = 1,
			       .window = 2147483647,
			       .dtype = ATTUNE_BF16,
			       .kv_dtype = ATTUNE_E4M3,
			       .scale = 1.23456e-38f,
			       .softcap = 0.000123456f,
			       .has_sinks = 1,
			       .has_alibi = 1,
			       .has_lse = 1 };
	static attune_plugin p;
	char flags[MAX_FLAGS], text[MAX_PART_TEXT], error[300];
	struct choice c, back;
	(void)state;
	p = sound;
	p.name = LETTERS_31;
	p.version = VERSION_48;
	p.axes = longest;
	p.num_axes = COUNT(longest);
	p.needs = ATTUNE_PLUGIN_E4M3_MATH;
	if (plugin_register(&p))
		fail_msg("%s", attune_last_error());
	c.kernel = kernel_find(BACKEND_CPU, LETTERS_31);
	config_default(&c.config, c.kernel->space);
	assert_in_range(binary_flags(flags, sizeof flags, c.kernel, &c.config, &shape), 1,
			MAX_FLAGS - 1);
	assert_non_null(strstr(flags, " -DHAAAAAAAAAA=-2147483647"));
	assert_non_null(strstr(flags, " -DE4M3_MATH=1 "));
	shape.kv_dtype = ATTUNE_BF16; /* there nothing is rounded */
	binary_flags(flags, sizeof flags, c.kernel, &c.config, &shape);
	assert_null(strstr(flags, "E4M3_MATH"));
	assert_in_range(choice_text(text, sizeof text, &c), 1, MAX_CHOICE_TEXT - 1);
	if (!choice_parse(&back, BACKEND_CPU, text, error, sizeof error))
		fail_msg("%s", error);
	assert_true(choice_same(&c, &back));
}

/* A plug-in may have nothing to tune. */
static void one_without_axes_is_a_choice(void **state)
{
	static attune_plugin p;
	char text[MAX_PART_TEXT], error[300];
	struct choice c, back;
	(void)state;
	p = sound;
	p.name = "plain";
	p.axes = NULL;
	p.num_axes = 0;
	if (plugin_register(&p))
		fail_msg("%s", attune_last_error());
	c.kernel = kernel_find(BACKEND_CPU, "plain");
	config_first(&c.config, c.kernel->space, 16);
	assert_false(config_next(&c.config, c.kernel->space, 16));
	choice_text(text, sizeof text, &c);
	assert_string_equal(text, "plain");
	if (!choice_parse(&back, BACKEND_CPU, text, error, sizeof error))
		fail_msg("%s", error);
	assert_true(choice_same(&c, &back));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sound_one_is_a_kernel),
		cmocka_unit_test(its_choices_survive_as_text),
		cmocka_unit_test(a_sweep_has_all_its_values),
		cmocka_unit_test(refuses_is_asked),
		cmocka_unit_test(refuses_knows_where_prefills_and_decodes_lie),
		cmocka_unit_test(sequences_that_do_not_follow_one_another_are_refused),
		cmocka_unit_test(other_devices_are_refused_without_asking),
		cmocka_unit_test(flags_have_the_version),
		cmocka_unit_test(the_longest_texts_fit),
		cmocka_unit_test(one_without_axes_is_a_choice),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
