/* SPDX-License-Identifier: Apache-2.0 */
/* t_hip_on_cuda_kernels.c - runs the GPU's kernels through the host code for AMD's GPUs on an
 * NVIDIA GPU (tests/hip_on_cuda), over all corner batches and phases, against the definition;
 * then the library's own binaries, with plans in captured graphs. It has fewer points a kernel
 * than t_gpu_kernels. Skips itself without such a GPU. Arguments: only these kernels. */
#include <stdio.h>
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "kernels/launch/run.h"
#include "tests/hip_on_cuda/here.h"
#include "tests/support/gpu_rows.h"
#include "tests/support/corner_rows.h"
#define PLAN_ROWS MOST_ROWS
#include "tests/support/run_plan.h"

/* The defaults on two shapes, the first formula, and a random point. */
static void add_some_points(const struct kernel *k)
{
	const struct choice c = default_choice(k), random = random_choice(k);
	add_point(&c, 2);
	if (k->space->num_formulas)
		add_value(&c, k->space->formula_axis, -1, 1);
	add_point(&random, 1);
}

/* ---- what is carried ---------------------------------------------------------------------- */

static const char *const batches[] = {
	"q1s700", "q1s1_q1s40_q3s9_q1s200", "16q1s3k", "q40_q9s65", "q600s2k_20q1s1k",
};

/* The device with an architecture's name that the library finds CUDA's code by: PTX for any GPU. HIP
 * launches no clusters and makes no maps, which are planned for sm_90 and newer. */
static struct device named_by_cuda(void)
{
	struct device nvidia = dev;
	snprintf(nvidia.info.arch, sizeof nvidia.info.arch, "sm_80");
	return nvidia;
}

/* Where no CUDA compiler was, there is none, or a zero. */
static int is_carried(void)
{
	const struct device nvidia = named_by_cuda();
	for (int i = 0; i < attune_num_shipped; i++) {
		const struct shipped *s = &attune_shipped[i];
		s = s->backend == BACKEND_GPU ? shipped_find(&nvidia.info, s->kernel, s->flags)
					      : NULL;
		if (s)
			return *(const unsigned char *)s->blob.data != 0;
	}
	return 0;
}

static void plans_run_right(void **state)
{
	const struct device nvidia = named_by_cuda();
	run_planned(&nvidia, *state);
}

static int end_row(void **state)
{
	(void)state;
	return end_capture(&dev);
}

/* ---- rows --------------------------------------------------------------------------------- */

static size_t add_tests(struct CMUnitTest *tests, int argc, char **argv)
{
	size_t n = 0;
	for (size_t i = 0; i < COUNT(shapes); i++)
		shapes[i].s.has_new_kv = 1;
	for (const struct kernel *k = attune_kernels; k->name; k++)
		if (k->backend == BACKEND_GPU && k->selectable &&
		    is_asked(k->name, argc - 1, argv + 1))
			add_some_points(k);
	for (; n < num_rows; n++)
		tests[n] =
		    (struct CMUnitTest){ rows[n].name, passes_the_corners, NULL, NULL, &rows[n] };
	for (size_t i = 0; argc == 1 && is_carried() && i < COUNT(batches); i++)
		tests[n++] = (struct CMUnitTest){ batches[i], plans_run_right, NULL, end_row,
						  (void *)(uintptr_t)batches[i] };
	return n;
}

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[MAX_TESTS + COUNT(batches)];
	int status;
	if (!has_gpu(&status))
		return status;
	if (!find_runtime())
		return 1;
	if (device_open(&dev, "hip")) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	const size_t n = add_tests(tests, argc, argv);
	const int bad = _cmocka_run_group_tests("hip on cuda kernels", tests, n, NULL, NULL);
	pool_free(&dev, pool);
	device_close(&dev);
	return !leave_folder() || bad;
}
