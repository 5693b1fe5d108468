/* SPDX-License-Identifier: Apache-2.0 */
/* problem_set.h - scenarios of one model as problems of a sweep, and their end. */
#ifndef TESTS_SWEEP_PROBLEM_SET_H
#define TESTS_SWEEP_PROBLEM_SET_H

#include "llama_on_devices.h"

enum { MOST = 24 };
static struct scenario scenarios[MOST];
static struct problems problems;
static struct binaries binaries;

/* Adds scenario i, with the problems of its phases on the device. */
static void add_to_problems(int i, const char *text, enum attune_dtype kv_dtype, unsigned seed,
			    const struct device_info *device)
{
	char error[128];
	const struct candidate_options options = { .device = device,
						   .preset = PRESET_QUICK,
						   .seed = 1 };
	scenarios[i] = (struct scenario){ .model = "llama@1",
					  .set = "t",
					  .split = "train",
					  .weight = 1,
					  .seed = seed,
					  .shape = llama };
	scenarios[i].shape.kv_dtype = kv_dtype;
	scenarios[i].batch = batch_parse(text, error, sizeof error);
	scenarios[i].batch_text = strdup(text);
	assert_non_null(scenarios[i].batch);
	problems.scenarios = scenarios;
	assert_true(problems_add(&problems, &binaries, i, &options));
}

static int clear(void **state)
{
	(void)state;
	for (int i = 0; i < MOST; i++) {
		free(scenarios[i].batch_text);
		batch_free(scenarios[i].batch);
	}
	memset(scenarios, 0, sizeof scenarios);
	problems_free(&problems);
	binaries_free(&binaries);
	return 0;
}

#endif
