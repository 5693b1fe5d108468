/* SPDX-License-Identifier: Apache-2.0 */
/* t_roofline.c - the launches of bench --roofline on the emulated GPUs: each byte is read once
 * and by the right warp, by the sums that each warp leaves, in several orders of turns; and
 * launches follow their arguments. */
#include "harness/compile/compile.h"
#include "kernels/gpu/ceilings/roofline.h"
#include "harness/ceilings/suite.h"
#include "kernels/spec/space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/simt/objects.h"
#include "tests/simt/simt_device.h"

enum { PAGES = 11, SEEDS = 3, UNITS = 4, MOST_ROWS = 64, MOST_WARPS = 32 };
enum { BYTES = PAGES * ROOFLINE_PAGE, WORDS = BYTES / 4 };

static struct row {
	char name[GPU_NAME + 64];
	enum simt_gpu gpu;
	struct read_pattern ask;
	struct code *code;
} rows[MOST_ROWS];
static int num_rows;

static const struct {
	int blocks, items, in_order, units;
} reads[] = {
	{ 4, PAGES *ROOFLINE_ITEMS, 0, 0 },
	{ 3, 2 * PAGES *ROOFLINE_ITEMS + 5, 0, 0 }, /* over and over */
	{ 4, 61, 1, 0 },
	{ 1, 1, 1, 0 },
	{ 4, PAGES *ROOFLINE_ITEMS, 0, 3 }, /* by the first units alone */
	{ 4, 62, 1, 1 },
};

static struct device dev;
static unsigned host[WORDS];
static int pages[PAGES];
static void *memory, *order, *sums;
static char text[600];

static void ok(enum attune_status status)
{
	if (status)
		fail_msg("%s", attune_last_error());
}

/* ---- reads --------------------------------------------------------------------------------- */

static unsigned sum_of_item(int item, int in_order, int piece)
{
	const int at = item / ROOFLINE_ITEMS % PAGES, page = in_order ? at : pages[at];
	unsigned sum = 0;
	for (int i = 0; i < ROOFLINE_ITEM; i += 4) {
		const int byte = page * ROOFLINE_PAGE + item % ROOFLINE_ITEMS * piece +
				 i / piece * ROOFLINE_ITEMS * piece + i % piece;
		sum += host[byte / 4];
	}
	return sum;
}

/* 0: wrong, or it does not run; text has the reason. */
static int adds_up(const struct row *r, size_t which)
{
	unsigned got[UNITS * MOST_WARPS];
	const int blocks = reads[which].blocks, contenders = r->gpu == SIMT_H200 ? 32 : 64;
	const int units = r->gpu == SIMT_H200 ? reads[which].units : 0;
	const int in_order = reads[which].in_order, all = (units ? units : blocks) * r->ask.warps;
	const struct roofline_args args = { .from = memory,
					    .pages = in_order ? NULL : order,
					    .sums = sums,
					    .num_pages = PAGES,
					    .num_items = reads[which].items,
					    .asks = 1,
					    .units = units };
	const struct geometry g = { .x = (unsigned)blocks,
				    .y = 1,
				    .z = 1,
				    .threads = (unsigned)(r->ask.warps * contenders),
				    .smem = pattern_smem(&r->ask, &dev.info) };
	ok(dev.ops->fill(&dev, sums, 0xff, sizeof got));
	if (dev.ops->launch(&dev, r->code, &g, &args, sizeof args, NULL)) {
		snprintf(text, sizeof text, "read %zu: %s", which, attune_last_error());
		return 0;
	}
	ok(dev.ops->get(&dev, got, sums, (size_t)all * sizeof *got));
	for (int warp = 0; warp < all; warp++) {
		unsigned want = 0;
		for (int i = warp; i < reads[which].items; i += all)
			want += sum_of_item(i, in_order, r->ask.piece);
		if (got[warp] == want)
			continue;
		snprintf(text, sizeof text, "read %zu: warp %d of %d has %#x, %#x is right", which,
			 warp, all, got[warp], want);
		return 0;
	}
	return 1;
}

static void reads_it_all(void **state)
{
	const struct row *r = *state;
	simt_pose(&dev, r->gpu);
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		simt_set(&dev, UNITS, seed);
		for (size_t i = 0; i < COUNT(reads); i++)
			if (!adds_up(r, i))
				fail_msg("seed %u, %s", seed, text);
	}
}

/* The least, the most and one between; of all ways that the GPU has. */
static void add_rows(enum simt_gpu gpu)
{
	struct read_pattern a;
	char flags[128];
	simt_pose(&dev, gpu);
	for (int i = 0; pattern_nth(&a, &dev.info, i); i++) {
		struct row *r = &rows[num_rows];
		if (a.kib != 16 && a.kib != 48 && a.kib != 96 && a.kib != 192)
			continue;
		*r = (struct row){ .gpu = gpu, .ask = a };
		r->ask.keep = a.kib == 48;
		snprintf(r->name, sizeof r->name, "%s: %s, %d KiB under way", dev.info.gpu, a.name,
			 a.kib);
		pattern_flags(flags, sizeof flags, &r->ask);
		ok(simt_load(&dev, &r->code, "gpu/ceilings/roofline.cu", flags));
		num_rows++;
	}
}

static void ways_of(void **state)
{
	struct read_pattern a;
	struct device_info d;
	(void)state;
	simt_pose(&dev, SIMT_H200);
	d = dev.info;
	assert_int_equal(pattern_nth(&a, &d, 27), 1);
	assert_string_equal(a.name, "bulk4k");
	assert_int_equal(a.kib, 192);
	assert_int_equal(a.blocks, d.units);
	assert_int_equal(pattern_nth(&a, &d, 28), 0);
	assert_int_equal(pattern_smem(&a, &d), 192 * 1024 + 48 * 8);
	strcpy(d.arch, "sm_86"); /* no bulk copies, and little shared memory */
	d.smem_per_block = 101376;
	d.smem_per_unit = 102400;
	assert_int_equal(pattern_nth(&a, &d, 11), 1);
	assert_string_equal(a.name, "async");
	assert_int_equal(a.kib, 96);
	assert_int_equal(pattern_nth(&a, &d, 12), 0);
	assert_int_equal(pattern_nth(&a, &d, 0), 1);
	assert_int_equal(pattern_smem(&a, &d), 52224);
	simt_pose(&dev, SIMT_MI300X);
	assert_int_equal(pattern_nth(&a, &dev.info, 6), 1);
	assert_int_equal(pattern_nth(&a, &dev.info, 7), 0);
}

/* ---- mistakes, which the sums must tell -------------------------------------------------- */

static struct mistake {
	const char *name, *text, *instead, *way;
} mistakes[] = {
	{ "a copy is not waited for", "copies_wait<STAGES - 1>();", "copies_wait<STAGES>();",
	  "async" },
	{ "a bulk copy is not waited for", "copies_arrive(barrier, (k / STAGES - 1) % 2);", ";",
	  "bulk256" },
	{ "the other phase is waited for", "(k / STAGES - 1) % 2", "k / STAGES % 2", "bulk4k" },
	{ "a barrier expects too little", "copies_expect(barrier, ROOFLINE_ITEM)",
	  "copies_expect(barrier, ROOFLINE_ITEM / 2)", "bulk256" },
};

static void with_mistake(const struct mistake *m, const char *name)
{
	char path[SIMT_PATH];
	snprintf(path, sizeof path, "%s/gpu/ceilings/roofline.cu", simt_folder());
	char *source = source_text(path), *at = source ? strstr(source, m->text) : NULL;
	if (!at)
		fail_msg("%s has no more \"%s\"", path, m->text);
	snprintf(path, sizeof path, "%s/%s", simt_folder(), name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "%.*s%s%s", (int)(at - source), source, m->instead, at + strlen(m->text));
	assert_int_equal(fclose(f), 0);
	free(source);
}

static int is_noticed_at(struct row *r, unsigned seed)
{
	int wrong = 0;
	simt_set(&dev, UNITS, seed);
	for (size_t i = 0; i < COUNT(reads) && !wrong; i++)
		wrong = !adds_up(r, i);
	return wrong;
}

static void is_noticed(void **state)
{
	const struct mistake *m = *state;
	const char *name = "gpu/ceilings/roofline_mistake.cu";
	struct row r = { .gpu = SIMT_H200 };
	char flags[128];
	int noticed = 0;
	simt_pose(&dev, SIMT_H200);
	for (int i = 0; !r.ask.kib || strcmp(r.ask.name, m->way) || r.ask.kib != 48; i++)
		assert_int_equal(pattern_nth(&r.ask, &dev.info, i), 1);
	with_mistake(m, name);
	pattern_flags(flags, sizeof flags, &r.ask);
	ok(simt_load(&dev, &r.code, name, flags));
	ok(simt_compile(&r.code, 1));
	simt_give_up_after(&dev, 2); /* a barrier may never end */
	for (unsigned seed = 0; seed < SEEDS && !noticed; seed++)
		noticed = is_noticed_at(&r, seed);
	dev.ops->unload(&dev, r.code);
	simt_give_up_after(&dev, 60);
	if (!noticed)
		fail_msg("\"%s\" for \"%s\" goes unnoticed", m->instead, m->text);
}

/* ---- launches ------------------------------------------------------------------------------ */

static void launches(void **state)
{
	(void)state;
	simt_set(&dev, UNITS, 0);
	for (enum simt_gpu gpu = SIMT_H200; gpu <= SIMT_MI300X; gpu++)
		for (int early = 0; early < (gpu == SIMT_H200 ? 3 : 1); early++)
			for (int idle = 0; idle < 2; idle++) {
				struct code *code;
				char flags[16];
				int words[2] = { 0, 0 };
				const struct launch_args args = { .runs = idle ? sums : NULL,
								  .to = (int *)sums + 1 };
				const struct geometry g = {
					.x = 3, .y = 1, .z = 1, .threads = LAUNCH_THREADS
				};
				simt_pose(&dev, gpu);
				snprintf(flags, sizeof flags, "-DEARLY=%d", early);
				ok(simt_load(&dev, &code, "gpu/ceilings/launch.cu", flags));
				ok(dev.ops->put(&dev, sums, words, sizeof words));
				ok(dev.ops->launch(&dev, code, &g, &args, sizeof args, NULL));
				ok(dev.ops->get(&dev, words, sums, sizeof words));
				assert_int_equal(words[1], !idle);
				dev.ops->unload(&dev, code);
			}
}

int main(void)
{
	static struct CMUnitTest tests[MOST_ROWS + COUNT(mistakes) + 2];
	static struct code *codes[MOST_ROWS];
	unsigned state = 7;
	size_t n = 0;
	for (int i = 0; i < WORDS; i++)
		host[i] = state = state * 1664525u + 1013904223u;
	for (int i = 0; i < PAGES; i++)
		pages[i] = i * 4 % PAGES;
	if (simt_open(&dev, UNITS, 0)) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	ok(dev.ops->alloc(&dev, &memory, BYTES));
	ok(dev.ops->alloc(&dev, &order, sizeof pages));
	ok(dev.ops->alloc(&dev, &sums, UNITS * MOST_WARPS * sizeof(unsigned)));
	ok(dev.ops->put(&dev, memory, host, BYTES));
	ok(dev.ops->put(&dev, order, pages, sizeof pages));
	for (enum simt_gpu gpu = SIMT_H200; gpu <= SIMT_MI300X; gpu++)
		add_rows(gpu);
	for (int i = 0; i < num_rows; i++) {
		codes[i] = rows[i].code;
		tests[n++] =
		    (struct CMUnitTest){ rows[i].name, reads_it_all, NULL, NULL, &rows[i] };
	}
	for (size_t i = 0; i < COUNT(mistakes); i++)
		tests[n++] =
		    (struct CMUnitTest){ mistakes[i].name, is_noticed, NULL, NULL, &mistakes[i] };
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(ways_of);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(launches);
	(void)simt_compile(codes, num_rows); /* a row reports its own compilation error */
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = _cmocka_run_group_tests("roofline", tests, n, NULL, NULL);
	for (int i = 0; i < num_rows; i++)
		dev.ops->unload(&dev, codes[i]);
	dev.ops->release(&dev, memory);
	dev.ops->release(&dev, order);
	dev.ops->release(&dev, sums);
	device_close(&dev);
	return failed;
}
