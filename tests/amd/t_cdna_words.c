/* SPDX-License-Identifier: Apache-2.0 */
/* t_cdna_words.c - tests the interpreter of code objects itself: the words of AMD's dialect,
 * compiled for each chip, give the answers of t_simt.c, and wrong code is caught. */
#include "harness/compile/compile.h"
#include "kernels/spec/space.h"
#include <stdio.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/cdna/cdna_device.h"
#include "tests/dialect/dialect_host.h"
#include "tests/simt/simt_device.h"

enum { SEEDS = 4, BYTES = DIALECT_INTS * sizeof(int) };

static const struct row {
	const char *name;
	int mode;
	const char *dies; /* a part of the message; NULL: no message */
} rows[] = {
	{ "shuffles and votes", SHUFFLES, NULL },
	{ "rows of lanes", LANE_ROWS, NULL },
	{ "numbers", NUMBERS, NULL },
	{ "barriers", BARRIERS, NULL },
	{ "tickets", TICKETS, NULL },
	{ "the last block sees all", LAST_BLOCK, NULL },
	{ "matrix step", MATRIX_STEP, NULL },
	{ "matrix step of 32", MATRIX_STEP_32, NULL },
	{ "a barrier is missing", NO_BARRIER, "gives up" },
	{ "a write behind LDS", WRITES_BEHIND, "takes 1 bytes at" },
	{ "a read behind an allocation", READS_BEHIND, "no memory of the device" },
	{ "endless loop", SPINS, "still running" },
};

static struct device dev;
static const char *const gpus[] = { "mi300", "mi250", "mi350" };
static struct code *code[2]; /* F16, BF16 */

static void ok(enum attune_status status)
{
	if (status)
		fail_msg("%s", attune_last_error());
}

static void answers(const struct row *r, int bf16)
{
	static int host[DIALECT_INTS];
	const struct geometry g = { .x = DIALECT_BLOCKS,
				    .y = 1,
				    .z = 1,
				    .threads = DIALECT_THREADS,
				    .smem = DIALECT_SMEM };
	void *memory;
	ok(dev.ops->alloc(&dev, &memory, BYTES));
	const struct dialect_args args = dialect_lay(host, memory, r->mode, bf16);
	ok(dev.ops->put(&dev, memory, host, BYTES));
	const enum attune_status status =
	    dev.ops->launch(&dev, code[bf16], &g, &args, sizeof args, NULL);
	ok(dev.ops->get(&dev, host, memory, BYTES));
	dev.ops->release(&dev, memory);
	if (r->dies) {
		assert_int_equal(status, ATTUNE_DEVICE_ERROR);
		if (!strstr(attune_last_error(), r->dies))
			fail_msg("%s", attune_last_error());
		return;
	}
	ok(status);
	is_counted(host, r->mode);
	if (r->mode == MATRIX_STEP)
		is_product(host, 16, 16, 16);
	if (r->mode == MATRIX_STEP_32)
		is_product(host, 32, 32, 8);
}

static void in_each_order(const struct row *r)
{
	for (unsigned seed = 0; seed < (r->mode == SPINS ? 1 : SEEDS); seed++)
		for (int bf16 = 0; bf16 < 2; bf16++) {
			simt_set(&dev, 4, seed);
			answers(r, bf16);
		}
}

static void load(struct code **to, const char *flags)
{
	char source[PATH_MAX];
	snprintf(source, sizeof source, "%s/../tests/cdna/words.cu",
		 source_root() ? source_root() : "kernels");
	ok(cdna_load_source(to, dev.info.arch, source, flags));
}

static void on_each_gpu(void **state)
{
	for (size_t i = 0; i < COUNT(gpus); i++) {
		gpu_describe(&dev.info, gpu_model(gpus[i]));
		if (cdna_why_not(dev.info.arch))
			continue;
		load(&code[0], "-DDTYPE=F16");
		load(&code[1], "-DDTYPE=BF16");
		in_each_order(*state);
		dev.ops->unload(&dev, code[0]);
		dev.ops->unload(&dev, code[1]);
	}
}

int main(void)
{
	static struct CMUnitTest tests[COUNT(rows)];
	const char *why_not = cdna_why_not(gpu_model(gpus[0])->arch);
	if (why_not) {
		printf("1..0 # SKIP %s\n", why_not);
		return 0;
	}
	if (simt_open(&dev, 4, 0)) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	simt_give_up_after(&dev, 1);
	for (size_t i = 0; i < COUNT(rows); i++)
		tests[i] = (struct CMUnitTest){ rows[i].name, on_each_gpu, NULL, NULL,
						(void *)(uintptr_t)&rows[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = _cmocka_run_group_tests("cdna_words", tests, COUNT(tests), NULL, NULL);
	device_close(&dev);
	return failed;
}
