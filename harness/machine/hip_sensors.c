/* SPDX-License-Identifier: Apache-2.0 */
/* hip_sensors.c - reads clock, power and temperature from files of the kernel driver:
 *
 *   pp_dpm_sclk                   "1: 2100Mhz *": the star marks the current clock
 *   hwmon/hwmon<n>/freq1_input    the same in Hz, where the driver is new enough
 *   hwmon/hwmon<n>/power1_average, or power1_input where it has no average; microwatts
 *   hwmon/hwmon<n>/power1_cap
 *   hwmon/hwmon<n>/temp2_input    of the hottest spot; temp1_input: at the edge; millidegrees
 *   gpu_busy_percent              of the last moment
 *
 * In a package with two devices one has the power of both and the other none. */
#include "sensors.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first hwmon<n>; there is one. */
static void find_hwmon(struct hip_sensors *s)
{
	char path[160];
	snprintf(path, sizeof path, "%s/hwmon", s->folder);
	DIR *dir = opendir(path);
	if (!dir)
		return;
	for (const struct dirent *e; !*s->hwmon && (e = readdir(dir));)
		if (!strncmp(e->d_name, "hwmon", 5) && strlen(e->d_name) < 16)
			snprintf(s->hwmon, sizeof s->hwmon, "%s/%.16s", path, e->d_name);
	closedir(dir);
}

void hip_sensors_open(struct hip_sensors *s, const char *folder)
{
	memset(s, 0, sizeof *s);
	snprintf(s->folder, sizeof s->folder, "%s", folder);
	find_hwmon(s);
}

static double number(const struct hip_sensors *s, const char *name)
{
	char path[256];
	double value = 0;
	snprintf(path, sizeof path, "%s/%s", s->hwmon, name);
	FILE *f = *s->hwmon ? fopen(path, "re") : NULL;
	if (!f)
		return 0;
	if (fscanf(f, "%lf", &value) != 1)
		value = 0;
	fclose(f);
	return value;
}

/* The value of the first of two files that is above 0. */
static double either(const struct hip_sensors *s, const char *first, const char *second)
{
	const double value = number(s, first);
	return value > 0 ? value : number(s, second);
}

static double clock_of_star(const struct hip_sensors *s)
{
	char path[160], line[80];
	double mhz = 0;
	snprintf(path, sizeof path, "%s/pp_dpm_sclk", s->folder);
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof line, f)) {
		const char *colon = strchr(line, ':');
		if (colon && strchr(colon, '*'))
			mhz = strtod(colon + 1, NULL);
	}
	fclose(f);
	return mhz;
}

double hip_power_limit(const struct hip_sensors *s)
{
	return number(s, "power1_cap") / 1e6;
}

void hip_sensors_read(const struct hip_sensors *s, struct conditions *now)
{
	*now = (struct conditions){ 0 };
	now->sm_mhz = number(s, "freq1_input") / 1e6;
	if (now->sm_mhz <= 0)
		now->sm_mhz = clock_of_star(s);
	now->power_w = either(s, "power1_average", "power1_input") / 1e6;
}

/* No file lists the processes that use it. */
void hip_sensors_read_use(const struct hip_sensors *s, struct device_use *use)
{
	char path[160];
	double percent;
	*use = (struct device_use){ 0 };
	snprintf(path, sizeof path, "%s/gpu_busy_percent", s->folder);
	FILE *f = fopen(path, "re");
	if (!f)
		return;
	if (fscanf(f, "%lf", &percent) == 1)
		use->busy = percent / 1e2;
	fclose(f);
}
