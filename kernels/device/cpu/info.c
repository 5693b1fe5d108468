/* SPDX-License-Identifier: Apache-2.0 */
/* info.c - the machine's instruction sets, names, caches and clocks, read from files of the kernel.
 * Values that are missing are 0. */
#include "cpu.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#define X86 1
#else
#define X86 0
#endif

const char *const isa_names[NUM_ISAS] = { "avx512", "avx2", "neon", "scalar" };

int isa_lanes(enum isa isa)
{
	static const int lanes[NUM_ISAS] = { 16, 8, 4, 4 };
	return lanes[isa];
}

#if X86
static int has_f16c(void)
{
	unsigned a, b, c, d;
	return __get_cpuid(1, &a, &b, &c, &d) && c >> 29 & 1;
}

static int has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static int has_avx512(void)
{
	return has_avx2() && __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512vl");
}
#else
static int has_avx2(void)
{
	return 0;
}

static int has_avx512(void)
{
	return 0;
}
#endif

int isa_present(enum isa isa)
{
	switch (isa) {
	case ISA_AVX512: return has_avx512();
	case ISA_AVX2: return has_avx2();
#ifdef __aarch64__
	case ISA_NEON: return 1;
#endif
	case ISA_SCALAR: return 1;
	default: return 0;
	}
}

/* First line of a small file without its newline; 0 when there is none. */
static int read_line(const char *path, char *line, size_t size)
{
	FILE *f = fopen(path, "re");
	int ok = f && fgets(line, (int)size, f);
	if (f)
		fclose(f);
	if (ok)
		line[strcspn(line, "\n")] = '\0';
	return ok;
}

double cpu_read_number(const char *path)
{
	char line[64];
	return read_line(path, line, sizeof line) ? strtod(line, NULL) : 0;
}

/* The text after "key : " in the first line of /proc/cpuinfo that begins with
 * key; 0 when there is none. */
static int cpuinfo(const char *key, char *value, size_t size)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256];
	int found = 0;
	while (f && !found && fgets(line, sizeof line, f)) {
		const char *colon = strchr(line, ':');
		if (!colon || strncmp(line, key, strlen(key)))
			continue;
		colon += 1 + (colon[1] == ' ');
		snprintf(value, size, "%.*s", (int)strcspn(colon, "\n"), colon);
		found = 1;
	}
	if (f)
		fclose(f);
	return found;
}

/* "32K", "36608K", "4M" */
static size_t cache_size(const char *text)
{
	char *unit;
	size_t n = strtoul(text, &unit, 10);
	return *unit == 'K' ? n << 10 : *unit == 'M' ? n << 20 : n;
}

/* The cache of the highest level that CPU `cpu` reaches, if `cpu` is the first
 * of the CPUs that share it; else 0. */
static size_t last_cache(int cpu)
{
	char path[96], text[128];
	double best_level = 0;
	size_t best = 0;
	for (int i = 0; i < 8; i++) {
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/level",
			 cpu, i);
		double level = cpu_read_number(path);
		if (level <= best_level)
			continue;
		best_level = level;
		snprintf(path, sizeof path,
			 "/sys/devices/system/cpu/cpu%d/cache/index%d/shared_cpu_list", cpu, i);
		int first = read_line(path, text, sizeof text) && atoi(text) == cpu;
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/size", cpu,
			 i);
		best = first && read_line(path, text, sizeof text) ? cache_size(text) : 0;
	}
	return best;
}

/* Sum over all last-level caches. */
static size_t last_level_bytes(void)
{
	size_t sum = 0;
	long n = sysconf(_SC_NPROCESSORS_CONF);
	for (int cpu = 0; cpu < n; cpu++)
		sum += last_cache(cpu);
	return sum;
}

double cpu_clock_mhz(const char *file)
{
	char path[96], text[64];
	snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cpufreq/%s", file);
	double khz = cpu_read_number(path);
	if (khz > 0)
		return khz / 1e3;
	return cpuinfo("cpu MHz", text, sizeof text) ? strtod(text, NULL) : 0;
}

void cpu_describe(struct device_info *info, enum isa isa, int threads)
{
	struct utsname os;
	struct sysinfo mem;
	memset(info, 0, sizeof *info);
	snprintf(info->gpu, sizeof info->gpu, "cpu");
	snprintf(info->arch, sizeof info->arch, "%s", isa_names[isa]);
	if (!uname(&os))
		snprintf(info->driver, sizeof info->driver, "Linux %.40s", os.release);
	if (!cpuinfo("model name", info->name, sizeof info->name))
		snprintf(info->name, sizeof info->name, "%.60s CPU", os.machine);
	info->backend = BACKEND_CPU;
	info->units = threads;
	info->lanes = isa_lanes(isa);
	info->l2_bytes = last_level_bytes();
	if (!sysinfo(&mem))
		info->memory_bytes = (size_t)mem.totalram * mem.mem_unit;
	info->clock_mhz = (int)cpu_clock_mhz("cpuinfo_max_freq");
}
