/* SPDX-License-Identifier: Apache-2.0 */
/* t_candidates.c - candidates of a kernel: each preset's sample, the baselines, and the nearest legal
 * choice. */
#include "llama_on_devices.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"

/* ---- candidates ----------------------------------------------------------------------- */

static int count_legal(const struct kernel *k, const attune_shape *s, const struct device_info *d)
{
	struct config c;
	int n = 0;
	config_first(&c, k->space, 32);
	do
		n += !choice_spares(&(struct choice){ k, c }) &&
		     !choice_early(&(struct choice){ k, c }) &&
		     !k->space->why_illegal(&c, s, NULL, d);
	while (config_next(&c, k->space, 32));
	return n;
}

static void expect_sound(const struct candidates *list, const attune_shape *s,
			 const struct device_info *d)
{
	for (int i = 0; i < list->n; i++) {
		const struct choice *c = &list->v[i].choice;
		assert_null(c->kernel->space->why_illegal(&c->config, s, NULL, d));
		for (int j = 0; j < i; j++)
			assert_true(
			    c->kernel != list->v[j].choice.kernel ||
			    memcmp(&c->config, &list->v[j].choice.config, sizeof c->config));
	}
}

/* Candidates with defaults on all axes that no sweep varies. */
static int count_plain(const struct candidates *list, const struct device_info *d)
{
	int n = 0;
	for (int i = 0; i < list->n; i++) {
		const struct choice *c = &list->v[i].choice;
		int plain = 1;
		for (int a = 0; a < c->kernel->space->num_axes; a++)
			plain &= axis_is_swept(&c->kernel->space->axis[a], d->lanes) ||
				 c->config.v[a] == c->kernel->space->axis[a].dflt;
		n += plain;
	}
	return n;
}

static void presets_grow(void **state)
{
	(void)state;
	for (const struct kernel *k = attune_kernels; k->name; k++) {
		const struct device_info *d = k->backend == BACKEND_GPU ? &gpu : &cpu;
		attune_shape s = llama;
		int last = 0;
		if (!k->selectable)
			continue;
		s.kv_layout = (enum attune_kv_layout)k->space->kv_layout;
		for (enum preset p = 0; p < NUM_PRESETS; p++) {
			struct candidates list = { 0 };
			assert_true(candidates_add(&list, k, &s, d, p, 1));
			expect_sound(&list, &s, d);
			assert_true(list.n >= last);
			assert_int_equal(list.v[0].origin, FROM_DEFAULT);
			last = list.n;
			if (p == PRESET_SMOKE)
				assert_true(list.n <= 4);
			if (p == PRESET_FULL)
				assert_int_equal(count_plain(&list, d), count_legal(k, &s, d));
			free(list.v);
		}
	}
}

static void the_same_seed_gives_the_same(void **state)
{
	struct candidates a = { 0 }, b = { 0 };
	const struct kernel *k = kernel_find(BACKEND_CPU, "segmented");
	(void)state;
	assert_true(candidates_add(&a, k, &llama, &cpu, PRESET_QUICK, 5));
	assert_true(candidates_add(&b, k, &llama, &cpu, PRESET_QUICK, 5));
	assert_int_equal(a.n, b.n);
	for (int i = 0; i < a.n; i++)
		assert_memory_equal(&a.v[i].choice.config, &b.v[i].choice.config,
				    sizeof a.v[i].choice.config);
	free(a.v);
	free(b.v);
}

/* Of each axis some choice has every legal value. */
static void a_sample_covers_all_values(void **state)
{
	struct candidates list = { 0 };
	const struct kernel *k = kernel_find(BACKEND_CPU, "segmented");
	(void)state;
	assert_true(candidates_add(&list, k, &llama, &cpu, PRESET_QUICK, 1));
	for (int i = 0; i < k->space->num_axes; i++)
		for (int j = 0; j < k->space->axis[i].num_values; j++) {
			int found = 0;
			for (int n = 0; n < list.n; n++)
				found |=
				    list.v[n].choice.config.v[i] == k->space->axis[i].values[j];
			assert_true(found);
		}
	free(list.v);
}

static void baselines_are_vllms(void **state)
{
	struct config c;
	attune_shape s = llama;
	const struct kernel *k = kernel_find(BACKEND_GPU, "qblock");
	(void)state;
	assert_true(baseline_nearest(&c, k, &s, NULL, &gpu));
	assert_int_equal(config_value(&c, k->space, "BLOCK_M", 0), 16);
	assert_int_equal(config_value(&c, k->space, "TILE_SIZE", 0), 32);
	assert_null(k->space->why_illegal(&c, &s, NULL, &gpu));
	s.num_query_heads = 40; /* group 20 */
	s.num_kv_heads = 2;
	assert_true(baseline_nearest(&c, k, &s, NULL, &gpu));
	assert_int_equal(config_value(&c, k->space, "BLOCK_M", 0), 32);
	assert_false(baseline_nearest(&c, kernel_find(BACKEND_CPU, "qblock"), &s, NULL, &cpu));
}

static void the_nearest_legal_is_itself_when_legal(void **state)
{
	(void)state;
	for (const struct kernel *k = attune_kernels; k->name; k++) {
		const struct device_info *d = k->backend == BACKEND_GPU ? &gpu : &cpu;
		struct config c, near;
		config_first(&c, k->space, 32);
		do {
			if (k->space->why_illegal(&c, &llama, NULL, d))
				continue;
			assert_true(nearest_legal(&near, k, &c, &llama, NULL, d));
			assert_memory_equal(&near, &c, sizeof c);
		} while (config_next(&c, k->space, 32));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(presets_grow),
		cmocka_unit_test(the_same_seed_gives_the_same),
		cmocka_unit_test(a_sample_covers_all_values),
		cmocka_unit_test(baselines_are_vllms),
		cmocka_unit_test(the_nearest_legal_is_itself_when_legal),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
