/* SPDX-License-Identifier: Apache-2.0 */
/* t_layouts.c - one batch in two layouts of the cache, with its LSE, and of E4M3, in one
 * database: the tuner learns from strided caches without LSE alone, and separately from E4M3;
 * `show` lists all. Also the header for each device and cache. */
#include "kernels/spec/kernel.h"
#include <stdio.h>
#include "tests/store/store_fixture.h"
#include "harness/base/base.h"
#include "harness/measure/measure.h"
#include "harness/scenario/scenario.h"
#include "harness/store/store.h"
#include "tuner/data/data.h"
#include "kernels/select/selector.h"

static void enter(struct store *s, long long run, enum layout layout, int lse,
		  enum attune_dtype kv_dtype, const char *kernel)
{
	struct scenario sc = scenario_of("4q1s1k");
	const struct measurement m = measured(10);
	const struct choice c = choice_at(kernel, 0);
	char flags[MAX_FLAGS];
	sc.layout = layout;
	sc.shape.kv_layout = layout_kv(layout);
	sc.shape.has_lse = lse;
	sc.shape.kv_dtype = kv_dtype;
	model_name(sc.model, "llama3.1-8b@1", lse, layout);
	binary_flags(flags, sizeof flags, c.kernel, &c.config, &sc.shape);
	assert_int_equal(store_measurement(s, run, &sc, PHASE_DECODE, &c, flags, &m, 64, 0), 1);
	scenario_done(&sc);
}

static int make_database(void **state)
{
	if (make_folder(state))
		return 1;
	struct store *s = fresh("layouts.sqlite");
	const long long run = store_begin_run(s, &h200);
	assert_true(run > 0);
	enter(s, run, LAYOUT_NHD, 0, ATTUNE_BF16, "qblock");
	enter(s, run, LAYOUT_CLASSIC, 0, ATTUNE_BF16, "classic_v1");
	enter(s, run, LAYOUT_NHD, 1, ATTUNE_BF16, "ring");
	enter(s, run, LAYOUT_NHD, 0, ATTUNE_E4M3, "ring");
	enter(s, run, LAYOUT_PACKED, 0, ATTUNE_BF16, "qblock");
	store_close(s);
	return 0;
}

static void heuristics_are_of_strided_caches_without_lse(void **state)
{
	static const struct {
		const char *gpu;
		enum attune_dtype kv_dtype;
		int n;
	} rows[] = { { "h200", ATTUNE_BF16, 2 }, { "h200_e4m3", ATTUNE_E4M3, 1 } };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct data *d = data_load(in_folder("layouts.sqlite"), rows[i].gpu);
		assert_non_null(d);
		assert_string_equal(d->gpu, rows[i].gpu);
		assert_int_equal(d->n, rows[i].n);
		assert_int_equal(d->v[0].shape.kv_layout, ATTUNE_KV_STRIDED);
		assert_int_equal(d->v[0].shape.kv_dtype, rows[i].kv_dtype);
		assert_false(d->v[0].shape.has_lse);
		assert_int_equal(d->num_choices, 1);
		data_free(d);
	}
}

static void people_see_all(void **state)
{
	int classic = 0, lse = 0, e4m3 = 0, packed = 0;
	(void)state;
	struct data *d =
	    data_load_as(in_folder("layouts.sqlite"), "h200", (struct which_rows){ .all = 1 });
	assert_non_null(d);
	assert_int_equal(d->n, 5);
	for (int s = 0; s < d->n; s++) {
		const int is = layout_of(d->v[s].layout) == LAYOUT_CLASSIC;
		assert_int_equal(d->v[s].shape.kv_layout == ATTUNE_KV_CLASSIC, is);
		assert_int_equal(d->v[s].shape.has_lse,
				 !strcmp(d->v[s].model, "llama3.1-8b@1+lse"));
		classic += is;
		packed += layout_of(d->v[s].layout) == LAYOUT_PACKED &&
			  !strcmp(d->v[s].model, "llama3.1-8b@1+packed");
		lse += d->v[s].shape.has_lse;
		e4m3 += d->v[s].shape.kv_dtype == ATTUNE_E4M3;
	}
	assert_true(classic == 1 && lse == 1 && e4m3 == 1 && packed == 1);
	data_free(d);
}

/* A scenario from the database is the one that went in: a sweep recalls it so. */
static void recalled(void **state)
{
	struct scenario sc = scenario_of("4q1s1k");
	struct store_cell c = { .layout = "CLASSIC", .model = sc.model, .batch = sc.batch_text };
	(void)state;
	c.shape = sc.shape;
	c.page_size = sc.shape.page_size;
	c.seed = sc.seed;
	assert_false(cell_is_of(&c, &sc));
	sc.layout = LAYOUT_CLASSIC;
	assert_true(cell_is_of(&c, &sc));
	scenario_done(&sc);
}

/* A device's own header comes first, then one of the same architecture. A header learned from
 * E4M3 is for that alone, and preferred there. */
static void each_cache_has_its_header(void **state)
{
	static const struct selector list[] = { { .gpu = "h100", .arch = "sm_90" },
						{ .gpu = "h200_e4m3", .arch = "sm_90" },
						{ .gpu = "h200", .arch = "sm_90" },
						{ .gpu = "a100", .arch = "sm_80" } };
	static const struct {
		const char *gpu, *arch;
		enum attune_dtype kv_dtype;
		int want; /* -1: none */
	} rows[] = {
		{ "h200", "sm_90", ATTUNE_BF16, 2 },   { "h200", "sm_90", ATTUNE_E4M3, 1 },
		{ "h100", "sm_90", ATTUNE_F16, 0 },    { "h100", "sm_90", ATTUNE_E4M3, 1 },
		{ "h20", "sm_90", ATTUNE_BF16, 0 },    { "a100", "sm_80", ATTUNE_E4M3, 3 },
		{ "b200", "sm_100", ATTUNE_E4M3, -1 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct device_info d = { 0 };
		snprintf(d.gpu, sizeof d.gpu, "%s", rows[i].gpu);
		snprintf(d.arch, sizeof d.arch, "%s", rows[i].arch);
		const struct selector *h =
		    selector_among(list, (int)COUNT(list), &d, rows[i].kv_dtype);
		if (h != (rows[i].want < 0 ? NULL : &list[rows[i].want]))
			fail_msg("row %zu: %s", i, h ? h->gpu : "none");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heuristics_are_of_strided_caches_without_lse),
		cmocka_unit_test(people_see_all),
		cmocka_unit_test(recalled),
		cmocka_unit_test(each_cache_has_its_header),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("layouts", tests, make_database, remove_folder);
}
