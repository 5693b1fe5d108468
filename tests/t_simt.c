/* t_simt.c - the emulated GPU itself: what the dialect's words mean, by order of turns; the
 * lanes' places in matrices, by the PTX manual; and that wrong code does not get away. */
#include "../harness/harness.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "simt/dialect_args.h"
#include "simt/simt.h"
#include "simt/simt_device.h"

enum { SEEDS = 4, BYTES = DIALECT_INTS * sizeof(int) };

#define BOTH (1u << SIMT_H200 | 1u << SIMT_MI300X)
#define NVIDIA (1u << SIMT_H200)
#define AMD (1u << SIMT_MI300X)

static const struct row {
	const char *name;
	int mode;
	unsigned gpus;
	const char *dies; /* a part of what is said; NULL: it does not */
	const char *place;
} rows[] = {
	{ "shuffles and votes", SHUFFLES, BOTH, NULL, NULL },
	{ "rows of lanes", LANE_ROWS, AMD, NULL, NULL },
	{ "numbers", NUMBERS, AMD, NULL, NULL },
	{ "barriers", BARRIERS, BOTH, NULL, NULL },
	{ "tickets", TICKETS, BOTH, NULL, NULL },
	{ "the last block sees all", LAST_BLOCK, BOTH, NULL, NULL },
	{ "static and dynamic shared memory", SHARED, BOTH, NULL, NULL },
	{ "named barriers", GROUPS, NVIDIA, NULL, NULL },
	{ "a copy is not there before it is waited for", COPIES, NVIDIA, NULL, NULL },
	{ "matrix step", MATRIX_STEP, BOTH, NULL, NULL },
	{ "matrix step of 32", MATRIX_STEP_32, AMD, NULL, NULL },
	{ "loads of matrices", MATRIX_LOADS, NVIDIA, NULL, NULL },
	{ "a barrier is missing", NO_BARRIER, BOTH, "seen[next] == next", NULL },
	{ "lanes part ways", PARTS_WAYS, NVIDIA, "lanes part ways", " at dialect_nvidia.h:" },
	{ "lanes of 64 part ways", PARTS_WAYS, AMD, "lanes part ways", " < dialect_amd.h:" },
	{ "deadlock", NEVER_MEETS, NVIDIA, "nobody can go on", "barrier 5" },
	{ "deadlock of a wave", NEVER_MEETS, AMD, "nobody can go on", "thread 1 in barrier 0" },
	{ "a write behind shared memory", WRITES_BEHIND, BOTH, "17 bytes behind its 4096", NULL },
	{ "a read behind an allocation", READS_BEHIND, BOTH, "no memory of the device",
	  "dialect.cu:" },
	{ "endless loop", SPINS, BOTH, "still running", NULL },
};

static struct device dev;
static struct code *code[2][2]; /* of each GPU F16, BF16 */
static enum simt_gpu gpu;
static struct dialect_args args;

static void ok(enum attune_status status)
{
	if (status)
		fail_msg("%s", attune_last_error());
}

/* All of a test's memory: it ends with the page. */
static void make_args(int *host, int mode)
{
	void *memory;
	ok(dev.ops->alloc(&dev, &memory, BYTES));
	int *at = memory;
	args = (struct dialect_args){ .mode = mode,
				      .counter = at,
				      .out = at + 1,
				      .source = at + 4, /* 16 bytes, aligned */
				      .tickets = at + 16,
				      .by_block = at + 100,
				      .a = (unsigned short *)(at + 200),
				      .b = (unsigned short *)(at + 400),
				      .c = (float *)(at + 1000),
				      .d = (float *)(at + 2100) };
	memset(host, 0, BYTES);
	for (int i = 0; i < 4; i++)
		host[4 + i] = 10 + i;
}

static enum attune_status launch(int bf16)
{
	const struct geometry g = { .x = DIALECT_BLOCKS,
				    .y = 1,
				    .z = 1,
				    .threads = DIALECT_THREADS,
				    .smem = DIALECT_SMEM };
	return dev.ops->launch(&dev, code[gpu][bf16], &g, &args, sizeof args, NULL);
}

static void is_counted(const int *host, int mode)
{
	int busy = 0;
	for (int i = 0; mode == TICKETS && i < DIALECT_TICKETS; i++)
		assert_int_equal(host[16 + i], 1);
	for (int i = 0; i < DIALECT_BLOCKS; i++)
		busy += host[100 + i] > 0;
	assert_true(mode != TICKETS || busy > 2);
	assert_true(mode != LAST_BLOCK || host[1] == 45);
}

/* Small integers, whose products and sums are exact in any order. */
static unsigned short bits_of(int bf16, int value)
{
	return bf16 ? simt_to_bfloat((float)value) : simt_to_half((float)value);
}

static int value_at(int i)
{
	return i * 37 % 23 - 11;
}

static void fill_matrices(int *host, int bf16)
{
	unsigned short *a = (unsigned short *)(host + 200), *b = (unsigned short *)(host + 400);
	float *c = (float *)(host + 1000);
	for (int i = 0; i < 256; i++) {
		a[i] = bits_of(bf16, value_at(i));
		b[i] = bits_of(bf16, value_at(i + 300));
	}
	for (int i = 0; i < 1024; i++)
		c[i] = (float)value_at(i + 500);
}

static void is_product(const int *host, int rows_of_a, int columns, int depth)
{
	const float *d = (const float *)(host + 2100);
	for (int i = 0; i < rows_of_a; i++)
		for (int j = 0; j < columns; j++) {
			int sum = value_at(i * columns + j + 500);
			for (int k = 0; k < depth; k++)
				sum += value_at(i * depth + k) * value_at(k * columns + j + 300);
			assert_true(d[i * columns + j] == (float)sum);
		}
}

static void answers(const struct row *r, int bf16)
{
	static int host[DIALECT_INTS];
	make_args(host, r->mode);
	fill_matrices(host, bf16);
	ok(dev.ops->put(&dev, args.counter, host, BYTES));
	const enum attune_status status = launch(bf16);
	ok(dev.ops->get(&dev, host, args.counter, BYTES));
	dev.ops->release(&dev, args.counter);
	if (r->dies) {
		assert_int_equal(status, ATTUNE_DEVICE_ERROR);
		if (!strstr(attune_last_error(), r->dies) ||
		    (r->place && !strstr(attune_last_error(), r->place)))
			fail_msg("%s", attune_last_error());
		return;
	}
	ok(status);
	is_counted(host, r->mode);
	if (r->mode == MATRIX_STEP)
		is_product(host, 16, gpu == SIMT_H200 ? 8 : 16, 16);
	if (r->mode == MATRIX_STEP_32)
		is_product(host, 32, 32, 8);
}

static int depends_on_type(int mode)
{
	return mode == MATRIX_STEP || mode == MATRIX_STEP_32 || mode == NUMBERS;
}

static void in_each_order(const struct row *r)
{
	for (unsigned seed = 0; seed < (r->mode == SPINS ? 1 : SEEDS); seed++)
		for (int bf16 = 0; bf16 < (depends_on_type(r->mode) ? 2 : 1); bf16++) {
			simt_set(&dev, 4, seed);
			answers(r, bf16);
		}
}

static void on_each_gpu(void **state)
{
	const struct row *r = *state;
	for (gpu = SIMT_H200; gpu <= SIMT_MI300X; gpu++) {
		simt_pose(&dev, gpu);
		if (r->gpus >> gpu & 1)
			in_each_order(r);
	}
	gpu = SIMT_H200;
}

/* Between begin and end nothing runs; what is played has the arguments of then. */
static void tapes_wait(void **state)
{
	static int host[DIALECT_INTS];
	struct tape *tape;
	double ns;
	(void)state;
	simt_set(&dev, 4, 0);
	make_args(host, LAST_BLOCK);
	ok(dev.ops->put(&dev, args.counter, host, BYTES));
	assert_false(dev.ops->capturing(&dev, NULL));
	ok(dev.ops->tape_begin(&dev));
	assert_true(dev.ops->capturing(&dev, NULL));
	ok(dev.ops->clear(&dev, args.counter, 2 * sizeof(int), NULL));
	ok(launch(0));
	args.mode = SPINS;
	assert_int_equal(dev.ops->get(&dev, host, args.counter, BYTES), ATTUNE_INVALID);
	ok(dev.ops->tape_end(&dev, &tape));
	ok(dev.ops->get(&dev, host, args.counter, BYTES));
	assert_int_equal(host[1], 0);
	for (int times = 0; times < 2; times++) {
		ok(dev.ops->tape_play(&dev, tape, &ns));
		ok(dev.ops->get(&dev, host, args.counter, BYTES));
		assert_int_equal(host[1], 45);
	}
	dev.ops->tape_free(&dev, tape);
	dev.ops->release(&dev, args.counter);
}

/* All halves there and back; floats between two of them go to the even one. */
static void halves_round(void **state)
{
	(void)state;
	for (unsigned h = 0; h < 0x7c00; h++) {
		const float f = simt_from_half((uint16_t)h), g = simt_from_half((uint16_t)(h + 1));
		assert_int_equal(simt_to_half(f), h);
		assert_int_equal(simt_to_half(-f), h | 0x8000);
		assert_true(h == 0x7bff || f < g);
		if (h < 0x7bff) {
			assert_int_equal(simt_to_half((f + g) / 2), h + h % 2);
			assert_int_equal(simt_to_half(f + (g - f) * 0.75f), h + 1);
		}
	}
	assert_true(simt_from_half(1) == 0x1p-24f && simt_from_half(0x3c00) == 1 &&
		    simt_from_half(0x7bff) == 65504);
	assert_int_equal(simt_to_half(65519), 0x7bff);
	assert_int_equal(simt_to_half(65520), 0x7c00);
	assert_int_equal(simt_to_bfloat(1.00390625f), 0x3f80);
	assert_int_equal(simt_to_bfloat(1.01171875f), 0x3f82);
}

static enum attune_status load_all(const char *source)
{
	static const char *const flags[] = { "-DDTYPE=F16", "-DDTYPE=BF16" };
	for (enum simt_gpu g = SIMT_H200; g <= SIMT_MI300X; g++) {
		simt_pose(&dev, g);
		for (int i = 0; i < 2; i++)
			if (simt_load(&dev, &code[g][i], source, flags[i]))
				return ATTUNE_NO_MEMORY;
	}
	simt_pose(&dev, SIMT_H200);
	return simt_compile(&code[0][0], 4);
}

int main(void)
{
	static struct CMUnitTest tests[COUNT(rows) + 2];
	char source[1000];
	size_t n = 0;
	snprintf(source, sizeof source, "%s/../tests/simt/dialect.cu",
		 source_root() ? source_root() : "kernels");
	if (simt_open(&dev, 4, 0) || load_all(source)) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	simt_give_up_after(&dev, 1);
	for (size_t i = 0; i < COUNT(rows); i++)
		tests[n++] = (struct CMUnitTest){ rows[i].name, on_each_gpu, NULL, NULL,
						  (void *)(uintptr_t)&rows[i] };
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(tapes_wait);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(halves_round);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = _cmocka_run_group_tests("simt", tests, n, NULL, NULL);
	for (int i = 0; i < 4; i++)
		dev.ops->unload(&dev, code[i / 2][i % 2]);
	device_close(&dev);
	return failed;
}
