/* SPDX-License-Identifier: Apache-2.0 */
/* t_hip_library.c - the library on an AMD GPU, by the stand-in of tests/hip: it loads the code
 * objects that it carries, and captured plans of an unmeasured GPU give right results. Skips
 * itself where no compiler made them. */
#include <stdio.h>
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "kernels/launch/run.h"
#include "tests/hip/stand_in_here.h"

#define PLAN_ROWS (1 << 20)
#include "tests/support/run_plan.h"

static const char *const batches[] = {
	"q1s700",
	"q1s1_q1s40_q3s9_q1s200",
	"q40_q9s65",
	"q1s33_q18_q1s70_q0s9",
};

static void plans_run_right(void **state)
{
	run_planned(&dev, *state);
	assert_string_equal(misuse(), "");
}

static int is_carried(void)
{
	for (int i = 0; i < attune_num_shipped; i++)
		if (!strcmp(attune_shipped[i].arch, dev.info.arch))
			return 1;
	return 0;
}

int main(void)
{
	static struct CMUnitTest tests[COUNT(batches)];
	if (!find_stand_in())
		return 1;
	if (open_as(&dev, "small", "", "hip")) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	if (!is_carried()) {
		printf("1..0 # SKIP the library carries no code for %s: no compiler made it\n",
		       dev.info.arch);
		return 0;
	}
	for (size_t i = 0; i < COUNT(batches); i++)
		tests[i] = (struct CMUnitTest){ batches[i], plans_run_right, NULL, NULL,
						(void *)(uintptr_t)batches[i] };
	const int bad = _cmocka_run_group_tests("hip library", tests, COUNT(tests), NULL, NULL);
	pool_free(&dev, pool);
	device_close(&dev);
	return bad || live();
}
