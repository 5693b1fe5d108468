/* SPDX-License-Identifier: Apache-2.0 */
/* t_gpu_kernels.c - the GPU's kernels against the definition, through the gate that a sweep
 * uses: all points of add_points(), over all corner batches and phases. Skips itself without a
 * GPU. Arguments: only these kernels. */
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/gpu_here.h"
#include "tests/support/gpu_rows.h"
#include "tests/support/corner_rows.h"

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[MAX_TESTS];
	int failed;
	if (gpu_open_real(&dev)) {
		printf("1..0 # SKIP %s\n", attune_last_error());
		return gpu_named() ? 1 : 0;
	}
	for (size_t i = 0; i < COUNT(shapes); i++)
		shapes[i].s.has_new_kv = 1;
	for (const struct kernel *k = attune_kernels; k->name; k++)
		if (k->backend == BACKEND_GPU && k->selectable &&
		    is_asked(k->name, argc - 1, argv + 1))
			add_points(k);
	for (size_t i = 0; i < num_rows; i++)
		tests[i] =
		    (struct CMUnitTest){ rows[i].name, passes_the_corners, NULL, NULL, &rows[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	failed = _cmocka_run_group_tests("gpu_kernels", tests, num_rows, NULL, NULL);
	pool_free(&dev, pool);
	device_close(&dev);
	return failed;
}
