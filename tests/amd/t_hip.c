/* SPDX-License-Identifier: Apache-2.0 */
/* t_hip.c - opens AMD GPUs on the stand-in of tests/hip: the facts of each chip, and the
 * messages where none can be used. t_hip_runs.c tests what they run. */
#include "harness/machine/sensors.h"
#include "tests/hip/stand_in_here.h"
#include <sys/stat.h>

static void each_chip_says_what_it_is(void **state)
{
	static const struct {
		const char *chip, *fault, *gpu, *arch, *driver;
		int units, dies, lds, clock_mhz;
		size_t last_cache_mib, memory_gib;
	} rows[] = {
		// clang-format off
		{ "MI250X", "",    "mi250",  "gfx90a", "HIP 7.2", 110, 1, 65536,  1700, 8, 64 },
		{ "MI250X", "old", "mi250",  "gfx90a", "HIP 5.2", 110, 1, 65536,  1700, 8, 64 },
		{ "MI300X", "",    "mi300",  "gfx942", "HIP 7.2", 304, 8, 65536,  2100, 256, 192 },
		{ "MI300X", "old", "mi300",  "gfx942", "HIP 5.2", 304, 8, 65536,  2100, 256, 192 },
		{ "MI300A", "",    "mi300a", "gfx942", "HIP 7.2", 228, 6, 65536,  2100, 256, 128 },
		{ "MI300A", "old", "mi300a", "gfx942", "HIP 5.2", 228, 6, 65536,  2100, 256, 128 },
		{ "MI355X", "",    "mi355",  "gfx950", "HIP 7.2", 256, 8, 163840, 2400, 256, 288 },
		{ "MI355X", "old", "mi355",  "gfx950", "HIP 5.2", 256, 8, 163840, 2400, 256, 288 },
		{ "die",    "old", "mi300",  "gfx942", "HIP 5.2", 38,  1, 65536,  2100, 256, 24 },
		{ "MI100",  "old", "mi100",  "gfx9.0", "HIP 5.2", 120, 0, 65536,  1502, 8, 32 },
		{ "unnamed", "",   "mi300",  "gfx942", "HIP 7.2", 304, 8, 65536,  2100, 256, 192 },
		// clang-format on
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct device dev;
		ok(open_as(&dev, rows[i].chip, rows[i].fault, "hip"));
		const struct device_info *d = &dev.info;
		assert_string_equal(d->gpu, rows[i].gpu);
		assert_string_equal(d->arch, rows[i].arch);
		assert_non_null(strstr(d->driver, rows[i].driver));
		assert_true(*d->name);
		assert_int_equal(d->backend, BACKEND_GPU);
		assert_int_equal(d->units, rows[i].units);
		assert_int_equal(d->dies, rows[i].dies);
		assert_int_equal(d->lanes, 64);
		assert_int_equal(d->smem_per_block, rows[i].lds);
		assert_int_equal(d->smem_per_unit, rows[i].lds);
		assert_int_equal(d->clock_mhz, rows[i].clock_mhz);
		assert_int_equal(d->l2_bytes, rows[i].last_cache_mib << 20);
		assert_int_equal(d->memory_bytes, rows[i].memory_gib << 30);
		device_close(&dev);
	}
}

static void no_device_is_one_line(void **state)
{
	static const struct {
		const char *fault, *which, *words;
		enum attune_status status;
	} rows[] = {
		{ "no device", "hip", "the runtime finds no GPU", ATTUNE_NO_DEVICE },
		{ "invalid device", "hip", "the runtime finds no GPU", ATTUNE_NO_DEVICE },
		{ "none counted", "hip:0", "the runtime finds no GPU", ATTUNE_NO_DEVICE },
		{ "", "hip:2", "hip:2: GPUs 0 to 1 are here", ATTUNE_NO_DEVICE },
		{ "", "hip:x", "hip:x: GPUs 0 to 1 are here", ATTUNE_NO_DEVICE },
		{ "", "hips", "\"hip:<n>\" is expected", ATTUNE_INVALID },
		{ "event 2", "hip", "streams and events: out of memory", ATTUNE_NO_MEMORY },
		{ "event 9", "hip", "streams and events: out of memory", ATTUNE_NO_MEMORY },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct device dev;
		assert_int_equal(open_as(&dev, "MI300X", rows[i].fault, rows[i].which),
				 rows[i].status);
		assert_line(rows[i].words);
	}
}

static void no_library_is_one_line(void **state)
{
	static const struct {
		const char *library, *words;
	} rows[] = {
		{ "/nowhere/libamdhip64.so", "hip: ATTUNE_HIP_LIBRARY: /nowhere/libamdhip64.so" },
		{ "libm.so.6", "hip: the runtime lacks hipGetDeviceCount; ROCm 5 or newer" },
	};
	char kept[PATH_MAX];
	struct device dev;
	(void)state;
	snprintf(kept, sizeof kept, "%s", getenv("ATTUNE_HIP_LIBRARY"));
	for (size_t i = 0; i < COUNT(rows); i++) {
		setenv("ATTUNE_HIP_LIBRARY", rows[i].library, 1);
		assert_int_equal(device_open(&dev, "hip"), ATTUNE_NO_DEVICE);
		assert_line(rows[i].words);
	}
	setenv("ATTUNE_HIP_LIBRARY", kept, 1);
}

/* An NVIDIA GPU, where there is one, comes first. */
static void it_is_taken_before_the_cpu(void **state)
{
	static const struct {
		const char *fault, *which, *taken;
	} rows[] = { { "", "hip", "hip" }, { "", NULL, "hip" }, { "no device", NULL, "cpu" } };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct device dev;
		ok(open_as(&dev, "MI300X", rows[i].fault, rows[i].which));
		if (strcmp(dev.ops->name, "cuda"))
			assert_string_equal(dev.ops->name, rows[i].taken);
		device_close(&dev);
	}
}

static void a_library_without_code_says_so(void **state)
{
	static const attune_shape shape = { .size = sizeof(attune_shape),
					    .num_query_heads = 8,
					    .num_kv_heads = 2,
					    .head_size = 128,
					    .page_size = 16,
					    .dtype = ATTUNE_BF16,
					    .kv_dtype = ATTUNE_BF16,
					    .causal = 1 };
	attune_context *ctx;
	attune_op *op;
	(void)state;
	setenv("STAND_IN_CHIP", "MI100", 1); /* no binaries are made for it */
	setenv("STAND_IN_FAULT", "", 1);
	ok(attune_open(&ctx, "hip"));
	assert_string_equal(attune_device_name(ctx),
			    "AMD Instinct MI100 (emulated) (gfx9.0, 120 CUs)");
	assert_int_equal(attune_prepare(ctx, &shape, &op), ATTUNE_UNSUPPORTED);
	assert_line("no kernel is carried for gfx9.0 (AMD Instinct MI100 (emulated))");
	assert_null(op);
	attune_close(ctx);
}

/* Without a header of its own a GPU gets the defaults, segments enough for two blocks a CU. */
static void an_unmeasured_gpu_takes_the_defaults(void **state)
{
	static const struct {
		const char *chip, *plan;
		int heads, seqs, keys;
	} rows[] = {
		// clang-format off
		{ "MI300X", "segmented BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=2 SEGMENTS=24", 8, 1,   16384 },
		{ "MI300X", "segmented BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=2 SEGMENTS=8",  8, 8,   16384 },
		{ "MI300X", "segmented BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=2 SEGMENTS=4",  8, 128, 16384 },
		{ "MI300X", "segmented BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=2 SEGMENTS=1",  8, 1,   64 },
		{ "MI250X", "segmented BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=2 SEGMENTS=24", 8, 1,   16384 },
		{ "MI355X", "segmented BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=2 SEGMENTS=24", 8, 1,   16384 },
		// clang-format on
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		int32_t query_start[129], seq_lens[128];
		const attune_shape shape = { .size = sizeof(attune_shape),
					     .num_query_heads = 4 * rows[i].heads,
					     .num_kv_heads = rows[i].heads,
					     .head_size = 128,
					     .page_size = 16,
					     .dtype = ATTUNE_BF16,
					     .kv_dtype = ATTUNE_BF16,
					     .causal = 1 };
		const attune_batch batch = { sizeof(attune_batch), rows[i].seqs, query_start,
					     seq_lens };
		char text[300];
		attune_context *ctx;
		attune_op *op;
		attune_plan plan = { .size = sizeof plan };
		for (int s = 0; s <= rows[i].seqs; s++)
			query_start[s] = s;
		for (int s = 0; s < rows[i].seqs; s++)
			seq_lens[s] = rows[i].keys;
		setenv("STAND_IN_CHIP", rows[i].chip, 1);
		setenv("STAND_IN_FAULT", "", 1);
		ok(attune_open(&ctx, "hip"));
		assert_string_equal(attune_heuristic(ctx), "untuned");
		ok(attune_prepare(ctx, &shape, &op));
		ok(attune_plan_batch(op, &batch, &plan));
		ok(attune_plan_text(op, &plan, text, sizeof text));
		assert_string_equal(text, rows[i].plan);
		attune_release(op);
		attune_close(ctx);
	}
}

static void write_text(const char *folder, const char *name, const char *text)
{
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* Files as drivers of different age leave them, one after the other in the same folder. */
static void sensors_are_files(void **state)
{
	static const struct {
		const char *name, *text;
		double mhz, watts, limit;
	} rows[] = {
		{ "pp_dpm_sclk", "0: 132Mhz\n1: 1305Mhz *\n2: 2100Mhz\n", 1305, 0, 0 },
		{ "hwmon/hwmon3/power1_input", "621000000\n", 1305, 621, 0 },
		{ "hwmon/hwmon3/power1_average", "0\n", 1305, 621, 0 },
		{ "hwmon/hwmon3/power1_cap", "750000000\n", 1305, 621, 750 },
		{ "hwmon/hwmon3/freq1_input", "2094000000\n", 2094, 621, 750 },
		{ "hwmon/hwmon3/freq1_input", "busy\n", 1305, 621, 750 },
	};
	char folder[] = "/tmp/attune_sensors_XXXXXX", path[80];
	struct hip_sensors s;
	struct conditions now;
	(void)state;
	assert_non_null(mkdtemp(folder));
	hip_sensors_open(&s, folder);
	hip_sensors_read(&s, &now);
	assert_true(now.sm_mhz == 0 && now.power_w == 0 && hip_power_limit(&s) == 0);
	snprintf(path, sizeof path, "%s/hwmon", folder);
	assert_int_equal(mkdir(path, 0777), 0);
	snprintf(path, sizeof path, "%s/hwmon/hwmon3", folder);
	assert_int_equal(mkdir(path, 0777), 0);
	hip_sensors_open(&s, folder);
	for (size_t i = 0; i < COUNT(rows); i++) {
		write_text(folder, rows[i].name, rows[i].text);
		hip_sensors_read(&s, &now);
		assert_float_equal(now.sm_mhz, rows[i].mhz, 1e-3);
		assert_float_equal(now.power_w, rows[i].watts, 1e-3);
		assert_float_equal(hip_power_limit(&s), rows[i].limit, 1e-3);
	}
	for (size_t i = 0; i < COUNT(rows); i++) {
		snprintf(path, sizeof path, "%s/%s", folder, rows[i].name);
		unlink(path);
	}
	static const char *const folders[] = { "/hwmon/hwmon3", "/hwmon", "" };
	for (size_t i = 0; i < COUNT(folders); i++) {
		snprintf(path, sizeof path, "%s%s", folder, folders[i]);
		assert_int_equal(rmdir(path), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HIP_ROW(each_chip_says_what_it_is),
		HIP_ROW(no_device_is_one_line),
		HIP_ROW(no_library_is_one_line),
		HIP_ROW(it_is_taken_before_the_cpu),
		HIP_ROW(a_library_without_code_says_so),
		HIP_ROW(an_unmeasured_gpu_takes_the_defaults),
		HIP_ROW(sensors_are_files),
	};
	return HIP_ROWS("hip", tests);
}
