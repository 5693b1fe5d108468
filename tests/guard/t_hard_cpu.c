/* SPDX-License-Identifier: Apache-2.0 */
/* t_hard_cpu.c - the CPU's kernels on the batches of hard_rows.h, on the widest instruction set
 * of this machine. */
#include "harness/check/check.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>
#include "hard_rows.h"

enum { PAGE = 4096, MOST_MAPPINGS = 64 };

static struct {
	void *map;
	size_t bytes;
} mapping[MOST_MAPPINGS];
static int num_mappings;

static void *guarded(size_t bytes)
{
	const size_t used = (bytes + PAGE - 1) / PAGE * PAGE;
	char *map = mmap(NULL, used + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(num_mappings < MOST_MAPPINGS);
	if (map == MAP_FAILED || (used && mprotect(map, used, PROT_READ | PROT_WRITE)))
		return NULL;
	mapping[num_mappings].map = map;
	mapping[num_mappings++].bytes = used + PAGE;
	return map + used - bytes;
}

static void release_guarded(void)
{
	while (num_mappings) {
		num_mappings--;
		munmap(mapping[num_mappings].map, mapping[num_mappings].bytes);
	}
}

static enum attune_status load_code(struct code **code, const struct kernel *k, const char *flags)
{
	struct binary b;
	if (jit_compile(&b, k, flags, dev.info.arch))
		fail_msg("%s %s: %s", k->name, flags, b.log ? b.log : "no compiler");
	const enum attune_status status = dev.ops->load(&dev, code, &b.blob);
	jit_free(&b);
	return status;
}

static void pose_for(const struct hard_row *r)
{
	(void)r;
}

int main(void)
{
	static const char *const choices[] = { "segmented", "qblock",
					       "segmented SEGMENTS=4 TILE_SIZE=32 WHOLE_PAGES=1",
					       "qblock BLOCK_M=48 TILE_SIZE=128" };
	if (device_open(&dev, "cpu")) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	for (size_t i = 0; i < COUNT(choices); i++)
		add_hard_rows(choices[i], BACKEND_CPU, 0);
	const int failed = run_hard_rows("hard_cpu");
	device_close(&dev);
	return failed;
}
