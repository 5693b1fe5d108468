/* SPDX-License-Identifier: Apache-2.0 */
/* t_gpu_names.c - names of real GPUs, and the header that the library selects on each. */
#include "harness/compile/compile.h"
#include "kernels/select/selector.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const struct selector list[] = {
	{ .gpu = "h100", .arch = "sm_90" },     { .gpu = "h200_e4m3", .arch = "sm_90" },
	{ .gpu = "cpu", .arch = "avx2" },       { .gpu = "h200", .arch = "sm_90" },
	{ .gpu = "a100", .arch = "sm_80" },     { .gpu = "l40s", .arch = "sm_89" },
	{ .gpu = "l4", .arch = "sm_89" },       { .gpu = "b200", .arch = "sm_100" },
	{ .gpu = "rtx5090", .arch = "sm_120" }, { .gpu = "mi300", .arch = "gfx942" },
	{ .gpu = "mi300a", .arch = "gfx942" },  { .gpu = "mi350", .arch = "gfx950" },
};

/* As the driver or the runtime reports them: memory in MiB. "": the defaults. */
static const struct row {
	const char *name, *arch;
	int units, memory_mib;
	const char *gpu, *header;
} rows[] = {
	// clang-format off
	{ "NVIDIA H200",                      "sm_90",  132, 143771, "h200",               "h200" },
	{ "NVIDIA H200 NVL",                  "sm_90",  132, 143771, "h200_nvl",           "h200" },
	{ "NVIDIA H200 MIG 1g.18gb",          "sm_90",  16,  16384,  "h200_mig_1g_18gb",   "h200" },
	{ "NVIDIA H200 MIG 1g.18gb+me",       "sm_90",  16,  16384,  "h200_mig_1g_18gb_me", "h200" },
	{ "NVIDIA H200",                      "sm_90",  66,  143771, "h200_66sm",          "h200" },
	{ "NVIDIA H100 80GB HBM3",            "sm_90",  132, 81559,  "h100",               "h100" },
	{ "NVIDIA H100",                      "sm_90",  132, 81559,  "h100",               "h100" },
	{ "NVIDIA H100",                      "sm_90",  114, 81559,  "h100_114sm",         "h100" },
	{ "NVIDIA H100",                      "sm_90",  132, 97871,  "h100_96gb",          "h100" },
	{ "NVIDIA H100",                      "sm_90",  132, 65247,  "h100_64gb",          "h100" },
	{ "NVIDIA H100",                      "sm_90",  114, 97871,  "h100_114sm_96gb",    "h100" },
	{ "NVIDIA H100 MIG 1g.12gb",          "sm_90",  16,  11008,  "h100_mig_1g_12gb",   "h100" },
	{ "NVIDIA H100 80GB HBM3",            "sm_90",  114, 81559,  "h100_114sm",         "h100" },
	{ "NVIDIA H100 64GB HBM2",            "sm_90",  132, 65247,  "h100_64gb_hbm2",     "h100" },
	{ "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "sm_90", 16,  9984,   "h100_mig_1g_10gb",   "h100" },
	{ "NVIDIA H100 PCIe",                 "sm_90",  114, 81559,  "h100_pcie",          "h100" },
	{ "NVIDIA H100 NVL",                  "sm_90",  132, 95830,  "h100_nvl",           "h100" },
	{ "NVIDIA H800",                      "sm_90",  132, 81559,  "h800",               "h100" },
	{ "NVIDIA H800 PCIe",                 "sm_90",  114, 81559,  "h800_pcie",          "h100" },
	{ "NVIDIA H20",                       "sm_90",  78,  97871,  "h20",                "h100" },
	{ "NVIDIA H20",                       "sm_90",  78,  143771, "h20_140gb",          "h100" },
	{ "NVIDIA H20-3e",                    "sm_90",  78,  143771, "h20_3e",             "h200" },
	{ "NVIDIA GH200 480GB",               "sm_90",  132, 97871,  "gh200",              "h100" },
	{ "NVIDIA GH200 120GB",               "sm_90",  132, 97871,  "gh200",              "h100" },
	{ "NVIDIA GH200 144G HBM3e",          "sm_90",  132, 145920, "gh200_144g",         "h200" },
	{ "NVIDIA B200",                      "sm_100", 148, 183359, "b200",               "b200" },
	{ "NVIDIA GB200",                     "sm_100", 152, 189471, "gb200",              "b200" },
	{ "NVIDIA B300 SXM6 AC",              "sm_103", 148, 275040, "b300",               "b200" },
	{ "NVIDIA GB300",                     "sm_103", 152, 284208, "gb300",              "b200" },
	{ "NVIDIA GB10",                      "sm_121", 48,  122572, "gb10",               "rtx5090" },
	{ "NVIDIA Thor",                      "sm_110", 20,  125772, "thor",               "" },
	{ "NVIDIA A100-SXM4-80GB",            "sm_80",  108, 81920,  "a100",               "a100" },
	{ "A100-SXM4-40GB",                   "sm_80",  108, 40536,  "a100_sxm4_40gb",     "a100" },
	{ "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "sm_80",  14,  4864,   "a100_sxm4_40gb_mig_1g_5gb", "a100" },
	{ "NVIDIA A100",                      "sm_80",  108, 81920,  "a100",               "a100" },
	{ "NVIDIA A100",                      "sm_80",  108, 40536,  "a100_40gb",          "a100" },
	{ "NVIDIA A100-SXM4-80GB",            "sm_80",  108, 40536,  "a100_40gb",          "a100" },
	{ "NVIDIA A100-SXM4-80GB MIG 3g.40gb", "sm_80", 42,  40320,  "a100_mig_3g_40gb",   "a100" },
	{ "NVIDIA A100-SXM-64GB",             "sm_80",  124, 65247,  "a100_sxm_64gb",      "a100" },
	{ "NVIDIA A800-SXM4-80GB",            "sm_80",  108, 81920,  "a800",               "a100" },
	{ "NVIDIA A800",                      "sm_80",  108, 40960,  "a800_40gb",          "a100" },
	{ "NVIDIA A2",                        "sm_86",  10,  15356,  "a2",                 "a100" },
	{ "NVIDIA A16",                       "sm_86",  10,  15356,  "a16",                "a100" },
	{ "NVIDIA RTX A5000",                 "sm_86",  64,  24564,  "rtx_a5000",          "a100" },
	{ "NVIDIA A100-PCIE-40GB",            "sm_80",  108, 40960,  "a100_pcie_40gb",     "a100" },
	{ "NVIDIA A100 80GB PCIe",            "sm_80",  108, 81920,  "a100_pcie_80gb",     "a100" },
	{ "NVIDIA A30",                       "sm_80",  56,  24576,  "a30",                "a100" },
	{ "NVIDIA A10G",                      "sm_86",  80,  23028,  "a10g",               "a100" },
	{ "NVIDIA A10",                       "sm_86",  72,  23028,  "a10",                "a100" },
	{ "NVIDIA A40",                       "sm_86",  84,  46068,  "a40",                "a100" },
	{ "NVIDIA RTX A6000",                 "sm_86",  84,  49140,  "rtx_a6000",          "a100" },
	{ "GeForce RTX 3090",                 "sm_86",  82,  24576,  "rtx3090",            "a100" },
	{ "NVIDIA GeForce RTX 3080",          "sm_86",  68,  10240,  "rtx3080",            "a100" },
	{ "NVIDIA GeForce RTX 3080",          "sm_86",  70,  12288,  "rtx3080_70sm_12gb",  "a100" },
	{ "NVIDIA GeForce RTX 3060",          "sm_86",  28,  8192,   "rtx3060_8gb",        "a100" },
	{ "Orin",                             "sm_87",  16,  62800,  "orin",               "" },
	{ "Orin",                             "sm_87",  14,  31300,  "orin_14sm_31gb",     "" },
	{ "NVIDIA L4",                        "sm_89",  58,  23034,  "l4",                 "l4" },
	{ "NVIDIA L40S",                      "sm_89",  142, 46068,  "l40s",               "l40s" },
	{ "NVIDIA L40",                       "sm_89",  142, 46068,  "l40",                "l40s" },
	{ "NVIDIA L20",                       "sm_89",  92,  46068,  "l20",                "l4" },
	{ "NVIDIA GeForce RTX 4090",          "sm_89",  128, 24564,  "rtx4090",            "l40s" },
	{ "NVIDIA GeForce RTX 4090 D",        "sm_89",  114, 24564,  "rtx4090_d",          "l40s" },
	{ "NVIDIA RTX 6000 Ada Generation",   "sm_89",  142, 49140,  "rtx6000_ada",        "l40s" },
	{ "NVIDIA GeForce RTX 4080",          "sm_89",  76,  16376,  "rtx4080",            "l40s" },
	{ "NVIDIA GeForce RTX 4060 Ti",       "sm_89",  34,  8188,   "rtx4060_ti",         "l4" },
	{ "NVIDIA GeForce RTX 4060 Ti",       "sm_89",  34,  16380,  "rtx4060_ti_16gb",    "l4" },
	{ "NVIDIA RTX 2000 Ada Generation",   "sm_89",  22,  16380,  "rtx2000_ada_generation", "l4" },
	{ "NVIDIA GeForce RTX 4060 Laptop GPU", "sm_89", 24, 8188,   "rtx4060_laptop_gpu", "l4" },
	{ "NVIDIA GeForce RTX 5090",          "sm_120", 170, 32607,  "rtx5090",            "rtx5090" },
	{ "NVIDIA GeForce RTX 5080",          "sm_120", 84,  16303,  "rtx5080",            "rtx5090" },
	{ "NVIDIA GeForce RTX 5060 Ti",       "sm_120", 36,  16311,  "rtx5060_ti",         "rtx5090" },
	{ "NVIDIA GeForce RTX 5060 Ti",       "sm_120", 36,  8151,   "rtx5060_ti_8gb",     "rtx5090" },
	{ "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "sm_120", 188, 97887, "rtx_pro_6000", "rtx5090" },
	{ "NVIDIA RTX PRO 6000 Blackwell Server Edition", "sm_120", 188, 97887, "rtx_pro_6000_server", "rtx5090" },
	{ "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "sm_120", 188, 97887, "rtx_pro_6000_max_q", "rtx5090" },
	{ "Tesla T4",                         "sm_75",  40,  15102,  "t4",                 "" },
	{ "Quadro RTX 8000",                  "sm_75",  72,  46080,  "quadro_rtx8000",     "" },
	{ "Tesla V100-SXM2-32GB",             "sm_70",  80,  32768,  "v100_sxm2_32gb",     "" },
	{ "AMD Instinct MI300X",              "gfx942", 304, 196592, "mi300",              "mi300" },
	{ "AMD Instinct MI300",               "gfx942", 228, 131072, "mi300_228cu_128gb",  "mi300" },
	{ "AMD Instinct MI300X VF",           "gfx942", 304, 196288, "mi300",              "mi300" },
	{ "AMD Instinct MI300X HF",           "gfx942", 304, 196592, "mi300x_hf",          "mi300" },
	{ "AMD Instinct MI300X",              "gfx942", 38,  196592, "mi300_38cu",         "mi300" },
	{ "AMD Instinct MI300X",              "gfx942", 38,  24574,  "mi300_38cu_24gb",    "mi300" },
	{ "AMD Instinct MI300X",              "gfx942", 152, 98296,  "mi300_152cu_96gb",   "mi300" },
	{ "AMD Instinct MI300A",              "gfx942", 228, 131072, "mi300a",             "mi300a" },
	{ "AMD Instinct MI300A",              "gfx942", 38,  131072, "mi300a_38cu",        "mi300a" },
	{ "AMD Instinct MI308X",              "gfx942", 80,  196592, "mi308",              "mi300a" },
	{ "AMD Instinct MI325X",              "gfx942", 304, 262128, "mi325",              "mi300" },
	{ "AMD Instinct MI350X",              "gfx950", 256, 294896, "mi350",              "mi350" },
	{ "AMD Instinct MI355X",              "gfx950", 256, 294896, "mi355",              "mi350" },
	{ "AMD Instinct MI355X",              "gfx950", 32,  294896, "mi355_32cu",         "mi350" },
	{ "AMD Instinct MI250X / MI250",      "gfx90a", 110, 65520,  "mi250",              "" },
	{ "AMD Instinct MI250X/MI250",        "gfx90a", 104, 65520,  "mi250_104cu",        "" },
	{ "AMD Instinct MI210",               "gfx90a", 104, 65520,  "mi210",              "" },
	{ "AMD Instinct MI100",               "gfx908", 120, 32752,  "mi100",              "" },
	{ "AMD Instinct MI455X",              "gfx1250", 256, 442000, "mi455",             "" },
	{ "AMD Radeon RX 9070 XT",            "gfx1201", 32, 16304,  "rx9070_xt",          "" },
	{ "AMD Radeon PRO W7900",             "gfx11.0", 48, 49136,  "radeon_pro_w7900",   "" },
	// clang-format on
};

static struct device_info device_of(const struct row *r)
{
	struct device_info d = { .backend = BACKEND_GPU,
				 .units = r->units,
				 .memory_bytes = (size_t)r->memory_mib << 20 };
	snprintf(d.name, sizeof d.name, "%s", r->name);
	snprintf(d.arch, sizeof d.arch, "%s", r->arch);
	gpu_name(&d);
	return d;
}

static void each_gpu_has_its_name(void **state)
{
	(void)state;
	_Static_assert(COUNT(rows) >= 60, "fewer GPUs than promised");
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct device_info d = device_of(&rows[i]);
		assert_string_equal(d.gpu, rows[i].gpu);
		assert_true(gpu_name_is_valid(d.gpu));
		assert_string_equal(device_for(d.gpu),
				    strncmp(rows[i].arch, "gfx", 3) ? "cuda" : "hip");
	}
	assert_string_equal(device_for("cpu"), "cpu");
	assert_null(device_for(NULL));
}

/* The same name means the same architecture, units and memory, except memory that drivers and
 * hypervisors keep. */
static void one_name_is_one_gpu(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++)
		for (size_t k = 0; k < i; k++) {
			if (strcmp(rows[i].gpu, rows[k].gpu))
				continue;
			assert_string_equal(rows[i].arch, rows[k].arch);
			assert_int_equal(rows[i].units, rows[k].units);
			assert_in_range(rows[i].memory_mib, rows[k].memory_mib * 9 / 10,
					rows[k].memory_mib * 11 / 10);
		}
}

/* Its own, that of the whole GPU, or the nearest that can run there. */
static void each_gpu_has_its_header(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct device_info d = device_of(&rows[i]);
		const struct selector *h = selector_among(list, (int)COUNT(list), &d, ATTUNE_BF16);
		if (strcmp(h ? h->gpu : "", rows[i].header))
			fail_msg("%s (%s): %s instead of %s", d.name, d.gpu, h ? h->gpu : "none",
				 rows[i].header);
	}
}

static void without_an_h100_hopper_borrows_the_h200s(void **state)
{
	static const char *const gpus[] = { "h100", "h100_pcie", "h100_mig_1g_10gb", "h20",
					    "gh200" };
	(void)state;
	for (size_t i = 0; i < COUNT(gpus); i++) {
		struct device_info d = { .units = 114, .arch = "sm_90" };
		snprintf(d.gpu, sizeof d.gpu, "%s", gpus[i]);
		const struct selector *h =
		    selector_among(list + 1, (int)COUNT(list) - 1, &d, ATTUNE_BF16);
		assert_non_null(h);
		assert_string_equal(h->gpu, "h200");
		h = selector_among(list, (int)COUNT(list), &d, ATTUNE_E4M3);
		assert_string_equal(h->gpu, "h200_e4m3");
	}
}

static void why_is_one_line(void **state)
{
	static const struct {
		const char *gpu, *arch, *why;
		int units;
	} r[] = {
		{ "h200", "sm_90", "measured on h200", 132 },
		{ "h100_pcie", "sm_90",
		  "borrowed from h100 (132 SMs; here 114): the nearest of those for sm_90", 114 },
		{ "h200_mig_1g_18gb", "sm_90",
		  "borrowed from h200 (132 SMs; here 16), of which this is a part", 16 },
		{ "h100_114sm", "sm_90",
		  "borrowed from h100 (132 SMs; here 114), of which this is a part", 114 },
		{ "h100_96gb", "sm_90",
		  "borrowed from h100 (132 SMs; here 132), of which this is a variant", 132 },
		{ "b300", "sm_103",
		  "borrowed from b200 (148 SMs; here 148): sm_103 runs binaries for sm_100", 148 },
		{ "mi308", "gfx942",
		  "borrowed from mi300a (228 CUs; here 80): the nearest of those for gfx942", 80 },
		{ "mi250", "gfx90a", "the defaults, untimed: no header is for gfx90a", 110 },
		{ "t4", "sm_75",
		  "refused: no kernel is for sm_75; kernels are for NVIDIA GPUs from sm_80 on, and "
		  "AMD's gfx90a, gfx942 and gfx950",
		  40 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(r); i++) {
		struct device_info d = { .backend = BACKEND_GPU, .units = r[i].units };
		char text[SELECTOR_WHY], cut[20];
		snprintf(d.gpu, sizeof d.gpu, "%s", r[i].gpu);
		snprintf(d.arch, sizeof d.arch, "%s", r[i].arch);
		selector_why(text, sizeof text, list, (int)COUNT(list), &d);
		assert_string_equal(text, r[i].why);
		selector_why(cut, sizeof cut, list, (int)COUNT(list), &d);
		assert_true(strlen(cut) < sizeof cut);
		assert_memory_equal(cut, text, strlen(cut) < 16 ? strlen(cut) : 16);
	}
}

/* Every NVIDIA GPU from sm_80 on has rules; what others get is said. */
static void each_gpu_is_served_as_it_says(void **state)
{
	static const struct selector of[] = {
		{ .gpu = PORTABLE_GPU, .arch = "sm_80", .device = "NVIDIA H200, sm_90, 132 SMs" },
		{ .gpu = "h200", .arch = "sm_90" },
	};
	static const struct {
		const char *gpu, *arch, *header, *gets, *why;
	} r[] = {
		{ "h200", "sm_90", "h200", "own", "measured on h200" },
		{ "h20", "sm_90", "h200", "nearest", "the nearest of those for sm_90" },
		{ "a100", "sm_80", "portable", "portable",
		  "learned on NVIDIA H200, sm_90, 132 SMs, from choices that all NVIDIA GPUs from "
		  "sm_80 on run; no time is of sm_80" },
		{ "l40s", "sm_89", "portable", "portable", "no time is of sm_89" },
		{ "rtx4090", "sm_89", "portable", "portable", "of sm_89" },
		{ "orin", "sm_87", "portable", "portable", "no time is of sm_87" },
		{ "b200", "sm_100", "portable", "portable", "no time is of sm_100" },
		{ "thor", "sm_110", "portable", "portable", "no time is of sm_110" },
		{ "mi455", "gfx1250", "", "refused", "no kernel is for gfx1250" },
		{ "rx9070_xt", "gfx1201", "", "refused", "no kernel is for gfx1201" },
		{ "mi300", "gfx942", "", "defaults", "the defaults, untimed" },
		{ "mi100", "gfx908", "", "refused", "no kernel is for gfx908" },
		{ "t4", "sm_75", "", "refused", "no kernel is for sm_75" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(r); i++) {
		struct device_info d = { .backend = BACKEND_GPU, .units = 100 };
		const enum attune_dtype types[] = { ATTUNE_BF16, ATTUNE_E4M3 };
		char text[SELECTOR_WHY];
		snprintf(d.gpu, sizeof d.gpu, "%s", r[i].gpu);
		snprintf(d.arch, sizeof d.arch, "%s", r[i].arch);
		for (size_t t = 0; t < COUNT(types); t++) {
			const struct selector *h = selector_among(of, 2, &d, types[t]);
			assert_string_equal(h ? h->gpu : "", r[i].header);
		}
		assert_string_equal(selector_gets(of, 2, &d), r[i].gets);
		selector_why(text, sizeof text, of, 2, &d);
		if (!strstr(text, r[i].why))
			fail_msg("%s: \"%s\" lacks \"%s\"", r[i].gpu, text, r[i].why);
	}
}

/* Names are parts of file names and of identifiers in C, and of some endings and of "cpu" the
 * meaning is taken. */
static void odd_names_become_valid(void **state)
{
	static const struct {
		const char *name, *gpu;
	} r[] = {
		{ "", "gpu" },
		{ "NVIDIA", "gpu" },
		{ "CPU", "cpu_gpu" },
		{ "NVIDIA Thing Steady", "thing_steady_gpu" },
		{ "NVIDIA Thing Peers", "thing_peers_gpu" },
		{ "NVIDIA H200 E4M3", "h200_e4m3_gpu" },
		{ "NVIDIA 1000", "gpu_1000" },
		{ "../../tmp/x", "tmp_x" },
		{ "NVIDIA(R) L4(TM)", "l4_16gb" },
		{ "AMD Instinct MI300X (emulated)", "mi300" },
		{ "NVIDIA\tX\x1b[2J\xc3\xa9", "x_2j" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(r); i++) {
		struct device_info d = { .units = 58, .memory_bytes = (size_t)1 << 34 };
		snprintf(d.name, sizeof d.name, "%s", r[i].name);
		gpu_name(&d);
		assert_string_equal(d.gpu, r[i].gpu);
		assert_true(gpu_name_is_valid(d.gpu));
	}
}

static void long_names_differ(void **state)
{
	struct device_info a = { 0 }, b = { 0 };
	(void)state;
	memset(a.name, 'x', sizeof a.name - 1);
	memset(b.name, 'x', sizeof b.name - 1);
	b.name[sizeof b.name - 2] = 'y';
	gpu_name(&a);
	gpu_name(&b);
	assert_true(gpu_name_is_valid(a.gpu) && gpu_name_is_valid(b.gpu));
	assert_string_not_equal(a.gpu, b.gpu);
	assert_true(strlen(a.gpu) + strlen("_steady") < GPU_NAME);
}

static void a_chip_without_a_name_is_known_by_units_and_memory(void **state)
{
	static const struct {
		int units, gib;
		const char *gpu;
	} r[] = { { 304, 192, "mi300" },
		  { 304, 256, "mi325" },
		  { 228, 128, "mi300a" },
		  { 80, 192, "mi308" },
		  { 38, 24, "mi300_38cu_24gb" } };
	(void)state;
	for (size_t i = 0; i < COUNT(r); i++) {
		struct device_info d = { .arch = "gfx942",
					 .units = r[i].units,
					 .memory_bytes = (size_t)r[i].gib << 30 };
		gpu_name_by_chip(&d, "mi300");
		assert_string_equal(d.gpu, r[i].gpu);
	}
}

static void parts_know_their_whole(void **state)
{
	static const struct {
		const char *gpu, *whole; /* "": the table has none */
	} r[] = { { "h200", "h200" },
		  { "h200_nvl", "h200_nvl" },
		  { "h200_mig_1g_18gb", "h200" },
		  { "h200_nvl_mig_1g_18gb", "h200_nvl" },
		  { "mi300_38cu_24gb", "mi300" },
		  { "mi300a_38cu", "mi300a" },
		  { "rtx3080_70sm_12gb", "rtx3080" },
		  { "a100_sxm4_40gb", "a100_sxm4_40gb" },
		  { "h100_64gb_hbm2", "" }, /* a GPU of its own */
		  { "mi300x_hf", "" },
		  { "h2000", "" },
		  { "h200_", "" } };
	(void)state;
	for (size_t i = 0; i < COUNT(r); i++) {
		const struct gpu_model *m = gpu_whole(r[i].gpu);
		assert_string_equal(m ? m->gpu : "", r[i].whole);
	}
}

static void names_have_a_form(void **state)
{
	static const struct {
		const char *name;
		int is_valid;
	} r[] = { { "h200", 1 },
		  { "a100_pcie_40gb", 1 },
		  { "", 0 },
		  { "H200", 0 },
		  { "../../tmp/x", 0 },
		  { "h200;", 0 },
		  { "h 200", 0 },
		  { "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 1 },
		  { "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0 } };
	(void)state;
	for (size_t i = 0; i < COUNT(r); i++)
		assert_int_equal(gpu_name_is_valid(r[i].name), r[i].is_valid);
}

/* Each row of the table is found by its driver's name and can be compiled for, where kernels can. */
static void known_gpus_are_whole(void **state)
{
	(void)state;
	for (const struct gpu_model *m = gpu_models; m->gpu; m++) {
		struct device_info d = { .units = m->units,
					 .memory_bytes = (size_t)m->memory_gib << 30 };
		snprintf(d.name, sizeof d.name, "%s", m->slug);
		gpu_name(&d);
		assert_string_equal(d.gpu, m->gpu);
		assert_true(gpu_model(m->gpu)->units == m->units);
		assert_true(m->dram_gbps > 0 && m->tflops >= 0);
		if (arch_limits(m->arch))
			assert_true(gpu_imagine(&d, m->gpu, NULL) && d.units == m->units);
	}
}

/* The cache whose contents a cold measurement must drive out: an MI300X's last level, not its L2. */
static void the_last_cache_counts(void **state)
{
	static const struct {
		const char *gpu;
		size_t mib;
	} r[] = { { "h200", 50 }, { "mi300", 256 }, { "mi250", 8 } };
	struct device_info d;
	(void)state;
	for (size_t i = 0; i < COUNT(r); i++) {
		assert_true(gpu_imagine(&d, r[i].gpu, NULL));
		assert_int_equal(d.l2_bytes, r[i].mib << 20);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_gpu_has_its_name),
		cmocka_unit_test(one_name_is_one_gpu),
		cmocka_unit_test(each_gpu_has_its_header),
		cmocka_unit_test(without_an_h100_hopper_borrows_the_h200s),
		cmocka_unit_test(each_gpu_is_served_as_it_says),
		cmocka_unit_test(why_is_one_line),
		cmocka_unit_test(odd_names_become_valid),
		cmocka_unit_test(long_names_differ),
		cmocka_unit_test(a_chip_without_a_name_is_known_by_units_and_memory),
		cmocka_unit_test(parts_know_their_whole),
		cmocka_unit_test(names_have_a_form),
		cmocka_unit_test(known_gpus_are_whole),
		cmocka_unit_test(the_last_cache_counts),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("gpu names", tests, NULL, NULL);
}
