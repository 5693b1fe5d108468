/* SPDX-License-Identifier: Apache-2.0 */
/* t_problem_fill.c - the candidates of a part for which the shape's own are illegal. */
#include "llama_on_devices.h"
#include "kernels/spec/space.h"

static struct scenario drafts = { .model = "llama@1", .set = "t", .split = "train", .weight = 1 };

/* The default of warpgroup has blocks of 128 rows, and what lies around it too: none of it runs
 * drafts. */
static void what_replaces_a_default_has_neighbours(void **state)
{
	const struct candidate_options options = { .device = &gpu,
						   .preset = *(const enum preset *)*state,
						   .kernels = "warpgroup",
						   .seed = 1 };
	struct problems problems = { .scenarios = &drafts, .device = gpu };
	struct binaries binaries = { 0 };
	int segments[65] = { 0 }, kinds = 0;
	char error[128];
	drafts.shape = llama;
	drafts.batch = batch_parse("10q6s3400", error, sizeof error);
	assert_non_null(drafts.batch);
	assert_true(problems_add(&problems, &binaries, 0, &options));
	assert_int_equal(problems.n, 1);
	const struct problem *problem = problems.v;
	for (int k = 0; k < problem->n; k++) {
		const struct choice *c = &problems.built_choice[problem->built_choice[k]].choice;
		segments[c->config.v[c->kernel->space->formula_axis]] = 1;
		assert_null(
		    c->kernel->space->why_illegal(&c->config, &drafts.shape, &problem->part, &gpu));
	}
	for (int i = 0; i <= 64; i++)
		kinds += segments[i];
	if (options.preset == PRESET_SMOKE)
		assert_in_range(problem->n, 1, 4);
	else
		assert_true(problem->n >= 16 && kinds >= 8);
	problems_free(&problems);
	binaries_free(&binaries);
	batch_free(drafts.batch);
}

int main(void)
{
	static enum preset smoke = PRESET_SMOKE, quick = PRESET_QUICK;
	const struct CMUnitTest tests[] = {
		{ "smoke: few candidates", what_replaces_a_default_has_neighbours, NULL, NULL,
		  &smoke },
		{ "quick: the neighbours, too", what_replaces_a_default_has_neighbours, NULL, NULL,
		  &quick },
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
