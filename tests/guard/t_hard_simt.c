/* SPDX-License-Identifier: Apache-2.0 */
/* t_hard_simt.c - the GPU's kernels on the batches of hard_rows.h, on the emulated GPU in both
 * dialects. */
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "tests/support/all_rows.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "hard_rows.h"
#include "tests/simt/simt_device.h"

enum { UNITS = 4, SEED = 1, MOST_ALLOCATIONS = 64 };

static void *allocation[MOST_ALLOCATIONS];
static int num_allocations;

/* Memory of this device ends at a page, by pieces of 16 bytes. */
static void *guarded(size_t bytes)
{
	const size_t whole = (bytes + 15) / 16 * 16;
	void *memory;
	assert_true(num_allocations < MOST_ALLOCATIONS);
	if (dev.ops->alloc(&dev, &memory, whole ? whole : 16))
		return NULL;
	allocation[num_allocations++] = memory;
	return (char *)memory + (whole ? whole : 16) - bytes;
}

static void release_guarded(void)
{
	while (num_allocations)
		dev.ops->release(&dev, allocation[--num_allocations]);
}

static enum attune_status load_code(struct code **code, const struct kernel *k, const char *flags)
{
	return simt_load(&dev, code, k->source, flags);
}

static void pose_for(const struct hard_row *r)
{
	simt_pose(&dev, (enum simt_gpu)r->gpu);
	simt_set(&dev, UNITS, SEED);
}

static void compile_all(void)
{
	struct code *v[HARD_MOST_ROWS];
	for (int i = 0; i < num_hard_rows; i++) {
		pose_for(&hard_rows[i]);
		load_hard(&v[i], hard_rows[i].choice.kernel, &hard_rows[i].choice.config,
			  &hard_rows[i].of->s);
	}
	(void)simt_compile(v, num_hard_rows);
	for (int i = 0; i < num_hard_rows; i++)
		dev.ops->unload(&dev, v[i]);
}

/* Every third row; rows of a kernel are consecutive. */
static void thin_out(void)
{
	int n = 0;
	if (all_rows_asked())
		return;
	for (int i = 0; i < num_hard_rows; i += 3)
		hard_rows[n++] = hard_rows[i];
	num_hard_rows = n;
}

int main(void)
{
	if (simt_open(&dev, UNITS, SEED)) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	for (enum simt_gpu gpu = SIMT_H200; gpu <= SIMT_MI300X; gpu++) {
		simt_pose(&dev, gpu);
		simt_set(&dev, UNITS, SEED);
		for (size_t i = 0; i < COUNT(gpu_choices); i++)
			add_hard_rows(gpu_choices[i], BACKEND_GPU, (int)gpu);
	}
	thin_out();
	compile_all();
	const int failed = run_hard_rows("hard_simt");
	device_close(&dev);
	return failed;
}
