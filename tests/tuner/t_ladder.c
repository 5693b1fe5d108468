/* t_ladder.c - the rungs of the ladder picture: the batches that they are for, what each runs, and
 * the report of their times. */
#include "tuner/forest/forest.h"
#include "tuner/induce/induce.h"
#include "tests/support/synthetic.h"
#include "tuner/compare/ladder.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

// clang-format off
static const struct shape_of_batch {
	const char *name, *batch;
	int uniform, share, seqs, length, in_figures;
} batches[] = {
	/*                                        uniform share seqs length figures */
	{ "decodes",           "16q1s4k",              1, 100, 16, 4096, 1 },
	{ "one decode",        "q1s300",               1, 100,  1,  300, 1 },
	{ "prompts",           "4q1k",                 1,   0,  4, 1024, 1 },
	{ "as many of both",   "q1s2k_q2k",            1,  50,  2, 2048, 1 },
	{ "neither few nor many", "5q1s4k",            1, 100,  5, 4096, 0 },
	{ "other lengths",     "q1s4k_q1s5k",          0,   0,  0,    0, 0 },
	{ "a chunk",           "q512s4k",              0,   0,  0,    0, 0 },
	{ "more decodes",      "3q1s1k_q1k",           0,   0,  0,    0, 0 },
	{ "drafts",            "8q4s1k",               0,   0,  0,    0, 0 },
};

/* The differences from the default choices, for a rung in a batch; NULL: nothing runs. */
static const struct expected {
	const char *name, *batch;
	int rung, join;
	const char *prefill, *decode;
} expected[] = {
	{ "naive, short",          "q1s128",     0, 1, NULL, "naive NUM_WARPS=4" },
	{ "Q block, decodes",      "16q1s4k",    1, 1, NULL, "qblock BLOCK_M=16 TILE_SIZE=32 NUM_WARPS=2 NUM_STAGES=3" },
	{ "Q block, mixed",        "8q1s1k_8q1k", 1, 0, "qblock BLOCK_M=16 TILE_SIZE=32 NUM_WARPS=2 NUM_STAGES=3", NULL },
	{ "parallel, decodes",     "q1s4k",      2, 1, NULL, "segmented BLOCK_M=16 TILE_SIZE=32 NUM_WARPS=2 NUM_STAGES=3 SEGMENTS=16" },
	{ "parallel, too short",   "q1s128",     2, 1, NULL, "segmented BLOCK_M=16 TILE_SIZE=32 NUM_WARPS=2 NUM_STAGES=3 SEGMENTS=6" },
	{ "parallel, mixed",       "q1s4k_q4k",  2, 1, "qblock BLOCK_M=16 TILE_SIZE=32 NUM_WARPS=2 NUM_STAGES=3",
	  "segmented BLOCK_M=16 TILE_SIZE=32 NUM_WARPS=2 NUM_STAGES=3 SEGMENTS=16" },
};
// clang-format on

static void batch_is_told(void **arg)
{
	const struct shape_of_batch *row = *arg;
	struct uniform u = { 0 };
	char error[100];
	struct batch *b = batch_parse(row->batch, error, sizeof error);
	assert_non_null(b);
	assert_int_equal(batch_uniform(&b->view, &u), row->uniform);
	if (row->uniform) {
		assert_int_equal(u.share, row->share);
		assert_int_equal(u.seqs, row->seqs);
		assert_int_equal(u.length, row->length);
		assert_int_equal(in_figures(&u), row->in_figures);
	}
	batch_free(b);
}

static struct data *data;
static struct forest forest;
static struct ladder ladder;

static void is_choice(const struct choice *c, const char *want)
{
	char text[MAX_CHOICE_TEXT];
	if (!want) {
		assert_null(c->kernel);
		return;
	}
	assert_non_null(c->kernel);
	choice_text(text, sizeof text, c);
	assert_string_equal(text, want);
}

static void rung_runs(void **arg)
{
	const struct expected *row = *arg;
	struct measured m;
	struct decided made;
	assert_true(measured_make(&m, data, "llama3.1-8b@1", &llama, row->batch));
	assert_true(rung_made(&ladder, row->rung, &m, &made));
	assert_int_equal(made.join, row->join);
	is_choice(&made.prefill, row->prefill);
	is_choice(&made.decode, row->decode);
	measured_free(&m);
}

/* A kernel that reads every key for every query is not for long prompts. */
static void naive_is_absent(void **state)
{
	struct measured m;
	struct decided made;
	(void)state;
	assert_true(measured_make(&m, data, "llama3.1-8b@1", &llama, "16q1k"));
	assert_false(rung_made(&ladder, 0, &m, &made));
	measured_free(&m);
}

/* The header's pick, from a grid that the device decides; for a static pick, the pick itself. */
static void a_static_grid_has_the_same_values(void **state)
{
	struct measured m;
	struct decided tuned, static_pick;
	(void)state;
	assert_true(measured_make(&m, data, "llama3.1-8b@1", &llama, "16q1s4k"));
	assert_true(rung_made(&ladder, 4, &m, &tuned));
	assert_true(rung_made(&ladder, 5, &m, &static_pick));
	const struct space *a = tuned.decode.kernel->space, *b = static_pick.decode.kernel->space;
	assert_non_null(strstr(static_pick.decode.kernel->name, "_static"));
	for (int i = 0; i < a->num_axes; i++)
		assert_int_equal(config_value(&static_pick.decode.config, b, a->axis[i].name, -1),
				 tuned.decode.config.v[i]);
	assert_null(b->why_illegal(&static_pick.decode.config, &m.shape, &m.part[PHASE_DECODE],
				   &data->run.device));
	assert_true(config_value(&static_pick.decode.config, b, "BLOCKS_PER_SM", 0) > 1);
	assert_int_equal(config_value(&static_pick.decode.config, b, "SPARE_UNITS", 0), 0);
	measured_free(&m);
}

static int scenario_of(const struct data *d, const char *batch)
{
	for (int s = 0; s < d->n; s++)
		if (!strcmp(d->v[s].batch_text, batch))
			return s;
	fail_msg("%s is not there", batch);
	return -1;
}

static void add(struct data *d, const char *batch, const char *phase, const char *kernel,
		const char *set, double us, double ratio, long long run)
{
	struct store_cell c = cell_like(batch, phase, kernel, with(kernel, set), us);
	c.ratio = ratio;
	c.run = run;
	assert_true(data_add(d, &c));
}

/* The one setting for all has the least mean; here it is not the best of either batch. A ratio
 * is paired where both are of one race, whatever their medians. */
static void climb_says(void **state)
{
	struct data *d = data_new("h200", &h200_run);
	struct ladder l;
	struct climb c;
	(void)state;
	const char *const sets[] = { "BLOCK_M=16 TILE_SIZE=32 NUM_WARPS=2 NUM_STAGES=3",
				     "BLOCK_M=64 TILE_SIZE=64", "BLOCK_M=64 TILE_SIZE=128",
				     "BLOCK_M=128 TILE_SIZE=64 NUM_WARPS=8" };
	const double us[2][4] = { { 100, 50, 25, 30 }, { 100, 20, 60, 30 } };
	static const char *const prompts[] = { "q1k", "q4k" };
	for (int s = 0; s < 2; s++)
		for (int k = 0; k < 4; k++)
			add(d, prompts[s], "prefill", "qblock", sets[k], us[s][k],
			    s ? us[s][k] / (k ? 110 : 100) : NAN, 1);
	assert_true(data_finish(d));
	ladder_make(&l, d, &forest, "llama3.1-8b@1");
	ladder_climb(&l, scenario_of(d, "q1k"), &c);
	is_choice(&c.made[3].prefill, "qblock BLOCK_M=128 TILE_SIZE=64 NUM_WARPS=8 NUM_STAGES=2");
	assert_true(fabs(c.us[3] - 30) < 1e-9);
	assert_true(fabs(c.ratio[3] - 100. / 30) < 1e-9);
	assert_true(isnan(c.us[0]) && isnan(c.ratio[0]));
	ladder_climb(&l, scenario_of(d, "q4k"), &c);
	assert_true(fabs(c.ratio[3] - 110. / 30) < 1e-9);
	data_free(d);
}

static int begin(void **state)
{
	(void)state;
	data = synthetic_data(0);
	if (!forest_induce(&forest, data, &default_limits))
		return -1;
	ladder_make(&ladder, data, &forest, "llama3.1-8b@1");
	return 0;
}

static int end(void **state)
{
	(void)state;
	forest_free(&forest);
	data_free(data);
	return 0;
}

int main(void)
{
	static struct CMUnitTest tests[COUNT(batches) + COUNT(expected) + 3];
	size_t n = 0;
	for (size_t i = 0; i < COUNT(batches); i++)
		tests[n++] = (struct CMUnitTest){ batches[i].name, batch_is_told, NULL, NULL,
						  (void *)&batches[i] };
	for (size_t i = 0; i < COUNT(expected); i++)
		tests[n++] = (struct CMUnitTest){ expected[i].name, rung_runs, NULL, NULL,
						  (void *)&expected[i] };
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(naive_is_absent);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_static_grid_has_the_same_values);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(climb_says);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("ladder", tests, n, begin, end);
}
