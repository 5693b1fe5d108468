/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_names.c - names of GPUs, and the table of known ones. */
#include "gpu_names.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Slugs are of the names that drivers report; memory is as drivers report it, in GiB. Rates are
 * from data sheets, with the faster accumulator if there are two. */
// clang-format off
const struct gpu_model gpu_models[] = {
/*	  slug                                                 gpu                    arch   SMs GiB  L2   GB/s TFLOP/s */
	{ "t4",                                                "t4",                  "sm_75",  40,  16,   4,  320,   65 },
	{ "a100_sxm4_80gb",                                    "a100",                "sm_80", 108,  80,  40, 2039,  312 },
	{ "a100_sxm4_40gb",                                    "a100_sxm4_40gb",      "sm_80", 108,  40,  40, 1555,  312 },
	{ "a100_80gb_pcie",                                    "a100_pcie_80gb",      "sm_80", 108,  80,  40, 1935,  312 },
	{ "a100_pcie_40gb",                                    "a100_pcie_40gb",      "sm_80", 108,  40,  40, 1555,  312 },
	{ "a800_sxm4_80gb",                                    "a800",                "sm_80", 108,  80,  40, 2039,  312 },
	{ "a30",                                               "a30",                 "sm_80",  56,  24,  24,  933,  165 },
	{ "a40",                                               "a40",                 "sm_86",  84,  48,   6,  696,  150 },
	{ "a10",                                               "a10",                 "sm_86",  72,  24,   6,  600,  125 },
	{ "a10g",                                              "a10g",                "sm_86",  80,  24,   6,  600,  140 },
	{ "rtx_a6000",                                         "rtx_a6000",           "sm_86",  84,  48,   6,  768,  155 },
	{ "rtx_a5000",                                         "rtx_a5000",           "sm_86",  64,  24,   6,  768,  111 },
	{ "rtx3090",                                           "rtx3090",             "sm_86",  82,  24,   6,  936,  142 },
	{ "rtx3090_ti",                                        "rtx3090_ti",          "sm_86",  84,  24,   6, 1008,  160 },
	{ "rtx3080",                                           "rtx3080",             "sm_86",  68,  10,   5,  760,  119 },
	{ "rtx3060",                                           "rtx3060",             "sm_86",  28,  12,   3,  360,   51 },
	{ "orin",                                              "orin",                "sm_87",  16,  64,   4,  205,   43 },
	{ "l4",                                                "l4",                  "sm_89",  58,  24,  48,  300,  121 },
	{ "l40",                                               "l40",                 "sm_89", 142,  48,  96,  864,  181 },
	{ "l40s",                                              "l40s",                "sm_89", 142,  48,  96,  864,  362 },
	{ "l20",                                               "l20",                 "sm_89",  92,  48,  96,  864,  120 },
	{ "rtx6000_ada_generation",                            "rtx6000_ada",         "sm_89", 142,  48,  96,  960,  364 },
	{ "rtx4090",                                           "rtx4090",             "sm_89", 128,  24,  72, 1008,  330 },
	{ "rtx4090_d",                                         "rtx4090_d",           "sm_89", 114,  24,  72, 1008,  294 },
	{ "rtx4080",                                           "rtx4080",             "sm_89",  76,  16,  64,  717,  195 },
	{ "rtx4060_ti",                                        "rtx4060_ti",          "sm_89",  34,   8,  32,  288,   88 },
	{ "h100_80gb_hbm3",                                    "h100",                "sm_90", 132,  80,  50, 3350,  989 },
	{ "h100_pcie",                                         "h100_pcie",           "sm_90", 114,  80,  50, 2039,  756 },
	{ "h100_nvl",                                          "h100_nvl",            "sm_90", 132,  94,  50, 3938,  835 },
	{ "h800",                                              "h800",                "sm_90", 132,  80,  50, 3350,  989 },
	{ "h800_pcie",                                         "h800_pcie",           "sm_90", 114,  80,  50, 2039,  756 },
	{ "h200",                                              "h200",                "sm_90", 132, 140,  50, 4800,  989 },
	{ "h200_nvl",                                          "h200_nvl",            "sm_90", 132, 140,  50, 4800,  835 },
	{ "h20",                                               "h20",                 "sm_90",  78,  96,  60, 4000,  148 },
	{ "h20_3e",                                            "h20_3e",              "sm_90",  78, 140,  60, 4800,  148 },
	/* The GB of these two names are the CPU's. */
	{ "gh200_480gb",                                       "gh200",               "sm_90", 132,  96,  50, 4000,  989 },
	{ "gh200_120gb",                                       "gh200",               "sm_90", 132,  96,  50, 4000,  989 },
	{ "gh200_144g_hbm3e",                                  "gh200_144g",          "sm_90", 132, 142,  50, 4900,  989 },
	{ "b200",                                              "b200",                "sm_100", 148, 180, 126, 8000, 2250 },
	{ "gb200",                                             "gb200",               "sm_100", 152, 185, 126, 8000, 2500 },
	{ "b300_sxm6_ac",                                      "b300",                "sm_103", 148, 269, 126, 8000, 2250 },
	{ "gb300",                                             "gb300",               "sm_103", 152, 277, 126, 8000, 2500 },
	{ "thor",                                              "thor",                "sm_110", 20, 128,  32,  273,  258 },
	{ "rtx5090",                                           "rtx5090",             "sm_120", 170,  32,  96, 1792,  419 },
	{ "rtx5080",                                           "rtx5080",             "sm_120",  84,  16,  64,  960,  225 },
	{ "rtx5060_ti",                                        "rtx5060_ti",          "sm_120",  36,  16,  32,  448,   95 },
	{ "rtx_pro_6000_blackwell_workstation_edition",        "rtx_pro_6000",        "sm_120", 188,  96, 128, 1792,  504 },
	{ "rtx_pro_6000_blackwell_server_edition",             "rtx_pro_6000_server", "sm_120", 188,  96, 128, 1597,  504 },
	{ "rtx_pro_6000_blackwell_max_q_workstation_edition",  "rtx_pro_6000_max_q",  "sm_120", 188,  96, 128, 1792,  439 },
	{ "gb10",                                              "gb10",                "sm_121",  48, 120,  24,  273,  125 },
/*	                                                                                     CUs, of a die where each is a device */
	{ "mi100",                                             "mi100",               "gfx908", 120,  32,   8, 1229,  185 },
	{ "mi210",                                             "mi210",               "gfx90a", 104,  64,   8, 1638,  181 },
	{ "mi250x_mi250",                                      "mi250",               "gfx90a", 110,  64,   8, 1638,  192 },
	{ "mi250x",                                            "mi250",               "gfx90a", 110,  64,   8, 1638,  192 },
	{ "mi250",                                             "mi250",               "gfx90a", 110,  64,   8, 1638,  192 },
	{ "mi300x",                                            "mi300",               "gfx942", 304, 192,   0, 5300, 1307 },
	{ "mi300a",                                            "mi300a",              "gfx942", 228, 128,   0, 5300,  981 },
	/* 80 CUs of an MI300X's rate: its own clock is lower, and nothing is faster than this. */
	{ "mi308x",                                            "mi308",               "gfx942",  80, 192,   0, 5300,  344 },
	{ "mi325x",                                            "mi325",               "gfx942", 304, 256,   0, 6000, 1307 },
	{ "mi350x",                                            "mi350",               "gfx950", 256, 288,   0, 8000, 2307 },
	{ "mi355x",                                            "mi355",               "gfx950", 256, 288,   0, 8000, 2517 },
	/* Published are its memory's size and rate. */
	{ "mi455x",                                            "mi455",               "gfx1250", 0, 432,   0, 19600,   0 },
	/* HIP counts pairs of its 64 CUs. */
	{ "radeon_rx_9070_xt",                                 "rx9070_xt",           "gfx1201", 32, 16,   8,  640,  195 },
	{ .gpu = NULL },
};
// clang-format on

const struct gpu_model *gpu_model(const char *gpu)
{
	for (const struct gpu_model *m = gpu_models; m->gpu; m++)
		if (!strcmp(m->gpu, gpu))
			return m;
	return NULL;
}

static const struct gpu_model *model_of_slug(const char *slug)
{
	for (const struct gpu_model *m = gpu_models; m->gpu; m++)
		if (!strcmp(m->slug, slug))
			return m;
	return NULL;
}

/* What gpu_name writes after the name of a whole GPU: "_mig_1g_18gb", "_38cu", "_38cu_24gb". */
static int is_suffix(const char *text)
{
	int number, length;
	char unit[3];
	if (!strncmp(text, "_mig_", 5))
		return 1;
	for (; *text; text += length)
		if (sscanf(text, "_%d%2[a-z]%n", &number, unit, &length) != 2 ||
		    (strcmp(unit, "sm") && strcmp(unit, "cu") && strcmp(unit, "gb")))
			return 0;
	return 1;
}

/* The row with the longest name that `gpu` begins with; a suffix may follow. */
const struct gpu_model *gpu_whole(const char *gpu)
{
	const struct gpu_model *best = NULL;
	size_t most = 0;
	for (const struct gpu_model *m = gpu_models; m->gpu; m++) {
		const size_t n = strlen(m->gpu);
		if (n > most && !strncmp(gpu, m->gpu, n) && is_suffix(gpu + n)) {
			best = m;
			most = n;
		}
	}
	return best;
}

void device_text(char text[DEVICE_TEXT], const struct device_info *d)
{
	const char *one =
	    strcmp(d->gpu, "cpu") ? strncmp(d->arch, "gfx", 3) ? "SM" : "CU" : "thread";
	snprintf(text, DEVICE_TEXT, "%s, %s, %d %s%s", d->name, d->arch, d->units, one,
		 d->units == 1 ? "" : "s");
}

int device_is_emulated(const struct device_info *info)
{
	return strstr(info->name, "(emulated)") != NULL;
}

/* ---- slugs ---------------------------------------------------------------------------- */

/* Words without meaning, which depend on the age of the driver. */
static int is_idle_word(const char *word, int is_first)
{
	static const char *const anywhere[] = { "nvidia", "amd", "tm", "r", "emulated" };
	static const char *const in_front[] = { "geforce", "tesla", "instinct" };
	for (size_t i = 0; i < COUNT(anywhere); i++)
		if (!strcmp(word, anywhere[i]))
			return 1;
	for (size_t i = 0; is_first && i < COUNT(in_front); i++)
		if (!strcmp(word, in_front[i]))
			return 1;
	return 0;
}

enum { MOST_LETTERS = sizeof((struct device_info *)0)->name };

/* The next word of letters and digits in lower case; NULL: there is none. */
static const char *next_word(const char *at, char word[MOST_LETTERS])
{
	int n = 0;
	while (*at && !isalnum((unsigned char)*at))
		at++;
	for (; isalnum((unsigned char)*at); at++)
		if (n < MOST_LETTERS - 1)
			word[n++] = (char)tolower((unsigned char)*at);
	word[n] = '\0';
	return n ? at : NULL;
}

enum { MOST_SLUG = 2 * MOST_LETTERS };

/* "RTX 5090" -> "rtx5090", as people write it. */
static void slug_of(char slug[MOST_SLUG], const char *name)
{
	char word[MOST_LETTERS];
	size_t n = 0;
	*slug = '\0';
	for (const char *at = name; (at = next_word(at, word)) != NULL;) {
		const int joins = n >= 3 && !strcmp(slug + n - 3, "rtx") && isdigit(*word);
		if (is_idle_word(word, !n))
			continue;
		n +=
		    (size_t)snprintf(slug + n, MOST_SLUG - n, "%s%s", n && !joins ? "_" : "", word);
	}
	if (n > 3 && !strcmp(slug + n - 3, "_vf")) /* a virtual function is the whole GPU */
		slug[n - 3] = '\0';
}

/* ---- names ---------------------------------------------------------------------------- */

static int ends_with(const char *text, const char *end)
{
	const size_t n = strlen(text), m = strlen(end);
	return n >= m && !strcmp(text + n - m, end);
}

/* Names are parts of C identifiers and of file names; some endings and the name "cpu" are reserved.
 * A name leaves room for these endings: a longer text is cut and gets a hash of the whole. */
static void take_name(struct device_info *d, const char *name)
{
	static const char *const taken[] = { "_e4m3", "_peers", "_steady" };
	enum { MOST = GPU_NAME - sizeof "_steady" };
	const char *front = isdigit((unsigned char)*name) ? "gpu_" : "", *end = "";
	char text[MOST_SLUG + 8];
	unsigned hash = 2166136261u;
	for (size_t i = 0; i < COUNT(taken); i++)
		if (ends_with(name, taken[i]))
			end = "_gpu";
	if (!strcmp(name, "cpu"))
		end = "_gpu";
	const int n = snprintf(text, sizeof text, "%s%s%s", front, name, end);
	for (const char *at = text; *at; at++)
		hash = (hash ^ (unsigned char)*at) * 16777619u;
	if (n <= MOST)
		snprintf(d->gpu, sizeof d->gpu, "%.*s", MOST, text);
	else
		snprintf(d->gpu, sizeof d->gpu, "%.*s_%08x", MOST - 9, text, hash);
}

/* Drivers reserve some memory, and error correction of GDDR takes some: at most an eighth. */
static int has_memory(const struct device_info *d, int gib)
{
	const double has = (double)d->memory_bytes / 0x1p30;
	return has > 0.875 * gib && has < 1.125 * gib;
}

static void name_like(struct device_info *d, const struct gpu_model *m)
{
	char name[sizeof d->gpu + 40], units[20] = "", memory[24] = "";
	if (m->units && d->units != m->units)
		snprintf(units, sizeof units, "_%d%s", d->units,
			 strncmp(m->arch, "gfx", 3) ? "sm" : "cu");
	if (!has_memory(d, m->memory_gib))
		snprintf(memory, sizeof memory, "_%.0fgb", (double)d->memory_bytes / 0x1p30);
	if (device_is_emulated(d)) /* has the whole GPU's name, whatever its sizes */
		*units = *memory = '\0';
	snprintf(name, sizeof name, "%s%s%s", m->gpu, units, memory);
	take_name(d, name);
}

void gpu_name(struct device_info *d)
{
	char slug[MOST_SLUG], name[MOST_SLUG];
	slug_of(slug, d->name);
	char *mig = strstr(slug, "_mig_");
	if (mig)
		*mig = '\0';
	const struct gpu_model *m = model_of_slug(slug);
	if (!m) /* "NVIDIA H100" alone: the name is taken only with that row's units and memory */
		m = gpu_model(slug);
	if (mig) {
		snprintf(name, sizeof name, "%.79s_mig_%.60s", m ? m->gpu : slug, mig + 5);
		take_name(d, name);
	} else if (m) {
		name_like(d, m);
	} else {
		take_name(d, *slug ? slug : "gpu");
	}
}

/* The row of the architecture that has the same units and memory, else the chip's. */
void gpu_name_by_chip(struct device_info *d, const char *chip)
{
	const struct gpu_model *like = gpu_model(chip);
	for (const struct gpu_model *m = gpu_models; m->gpu; m++)
		if (!strcmp(m->arch, d->arch) && m->units == d->units &&
		    has_memory(d, m->memory_gib)) {
			like = m;
			break;
		}
	if (like)
		name_like(d, like);
	else
		take_name(d, chip);
}

int gpu_name_is_valid(const char *gpu)
{
	const size_t n = strspn(gpu, "abcdefghijklmnopqrstuvwxyz0123456789_");
	return n && n < GPU_NAME && !gpu[n];
}

/* ---- architectures -------------------------------------------------------------------- */

/* sm_87 is a Tegra: it runs only its own binaries, and no other runs them. */
int arch_runs(const char *arch, const char *code)
{
	int has, needs;
	if (!strcmp(arch, code))
		return 1;
	if (sscanf(arch, "sm_%d", &has) != 1 || sscanf(code, "sm_%d", &needs) != 1)
		return 0;
	return has / 10 == needs / 10 && needs < has && has != 87 && needs != 87;
}

const char *device_for(const char *gpu)
{
	const struct gpu_model *m = gpu ? gpu_whole(gpu) : NULL;
	if (!gpu || !strcmp(gpu, "cpu"))
		return gpu;
	if (m)
		return strncmp(m->arch, "gfx", 3) ? "cuda" : "hip";
	return !strncmp(gpu, "mi", 2) || !strncmp(gpu, "radeon", 6) || !strncmp(gpu, "gfx", 3)
		   ? "hip"
		   : "cuda";
}
