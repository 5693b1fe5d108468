/* t_layouts.c - one batch on two layouts of the cache, and with its LSE, in one database: what is
 * learned and judged is of strided caches without LSE alone, and people see all. */
#include "store_fixture.h"
#include "../harness/sweep.h"
#include "../tuner/tuner.h"

static void enter(struct store *s, long long run, enum layout layout, int lse, const char *kernel)
{
	struct scenario sc = scenario_of("4q1s1k");
	const struct measurement m = measured(10);
	const struct choice c = choice_at(kernel, 0);
	char flags[MAX_FLAGS];
	sc.layout = layout;
	sc.shape.kv_layout = layout_kv(layout);
	sc.shape.has_lse = lse;
	model_name(sc.model, "llama3.1-8b@1", lse);
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
	enter(s, run, LAYOUT_NHD, 0, "qblock");
	enter(s, run, LAYOUT_CLASSIC, 0, "classic_v1");
	enter(s, run, LAYOUT_NHD, 1, "ring");
	store_close(s);
	return 0;
}

static void heuristics_are_of_strided_caches_without_lse(void **state)
{
	(void)state;
	struct data *d = data_load(in_folder("layouts.sqlite"), "h200");
	assert_non_null(d);
	assert_int_equal(d->n, 1);
	assert_int_equal(d->v[0].shape.kv_layout, ATTUNE_KV_STRIDED);
	assert_false(d->v[0].shape.has_lse);
	assert_int_equal(d->num_choices, 1);
	data_free(d);
}

static void people_see_all(void **state)
{
	int classic = 0, lse = 0;
	(void)state;
	struct data *d = data_load_all(in_folder("layouts.sqlite"), "h200");
	assert_non_null(d);
	assert_int_equal(d->n, 3);
	for (int s = 0; s < d->n; s++) {
		const int is = layout_of(d->v[s].layout) == LAYOUT_CLASSIC;
		assert_int_equal(d->v[s].shape.kv_layout == ATTUNE_KV_CLASSIC, is);
		assert_int_equal(d->v[s].shape.has_lse,
				 !strcmp(d->v[s].model, "llama3.1-8b@1+lse"));
		classic += is;
		lse += d->v[s].shape.has_lse;
	}
	assert_true(classic == 1 && lse == 1);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heuristics_are_of_strided_caches_without_lse),
		cmocka_unit_test(people_see_all),
		cmocka_unit_test(recalled),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("layouts", tests, make_database, remove_folder);
}
