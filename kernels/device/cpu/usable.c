/* SPDX-License-Identifier: Apache-2.0 */
/* usable.c - how many CPUs this process may use: its affinity, and the quotas of its control
 * groups.
 *
 * A line of /proc/self/cgroup is "0::/path" for version 2 and "4:cpu,cpuacct:/path" for version 1.
 * Within a container the path may be that of the host, while only the container's own group is
 * there to be read: a folder that is missing has no quota. */
#include "usable.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FEWEST = 1024, MOST = 1 << 20 };

int affinity_cpus(int (*get)(pid_t pid, size_t size, cpu_set_t *set))
{
	for (int room = FEWEST; room <= MOST; room *= 2) {
		cpu_set_t *set = CPU_ALLOC(room);
		const size_t size = CPU_ALLOC_SIZE(room);
		if (!set)
			return 0;
		const int failed = get(0, size, set), error = errno;
		const int cpus = failed ? 0 : CPU_COUNT_S(size, set);
		CPU_FREE(set);
		if (!failed || error != EINVAL) /* EINVAL: the kernel's set is larger */
			return cpus;
	}
	return 0;
}

/* The first line of a file in a folder; 0: there is none. */
static int read_line(const char *folder, const char *name, char *line, size_t size)
{
	char path[PATH_MAX];
	if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
		return 0;
	FILE *f = fopen(path, "re");
	const int ok = f && fgets(line, (int)size, f);
	if (f)
		fclose(f);
	return ok;
}

/* Microseconds of CPU time in a period; 0: no quota. */
static int read_quota(const char *folder, long long *quota, long long *period)
{
	char line[64];
	if (read_line(folder, "cpu.max", line, sizeof line))
		return sscanf(line, "%lld %lld", quota, period) == 2;
	return read_line(folder, "cpu.cfs_quota_us", line, sizeof line) &&
	       sscanf(line, "%lld", quota) == 1 &&
	       read_line(folder, "cpu.cfs_period_us", line, sizeof line) &&
	       sscanf(line, "%lld", period) == 1;
}

/* The smallest quota of the folders from root/mount/path up to root/mount, in CPUs; `least` where
 * that is smaller or no folder has a quota. */
static int quota_below(const char *root, const char *mount, const char *path, int least)
{
	char folder[PATH_MAX];
	const int top = snprintf(folder, sizeof folder, "%s%s", root, mount);
	if (top >= (int)sizeof folder ||
	    top + snprintf(folder + top, sizeof folder - (size_t)top, "%s", path) >=
		(int)sizeof folder)
		return least;
	for (;;) {
		long long quota, period;
		if (read_quota(folder, &quota, &period) && quota > 0 && period > 0) {
			long long cpus = quota < period ? 1 : quota / period;
			cpus = cpus < MOST ? cpus : MOST;
			least = !least || cpus < least ? (int)cpus : least;
		}
		char *last = strrchr(folder + top, '/');
		if (!last)
			return least;
		*last = '\0';
	}
}

/* Whether a list of words, separated by commas, has the word "cpu". */
static int has_cpu(const char *list)
{
	for (; *list; list += strcspn(list, ","), list += *list == ',')
		if (!strncmp(list, "cpu", 3) && (list[3] == ',' || !list[3]))
			return 1;
	return 0;
}

int quota_cpus(const char *root, const char *self)
{
	char line[PATH_MAX], mount[PATH_MAX];
	FILE *f = fopen(self, "re");
	int least = 0;
	while (f && fgets(line, sizeof line, f)) {
		char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		list++;
		path[strcspn(path, "\n")] = '\0';
		if (!*list) {
			least = quota_below(root, "", path, least);
			least = quota_below(root, "/unified", path, least);
		} else if (has_cpu(list)) {
			snprintf(mount, sizeof mount, "/%s", list);
			least = quota_below(root, mount, path, least);
			least = quota_below(root, "/cpu", path, least);
		}
	}
	if (f)
		fclose(f);
	return least;
}

int cpu_usable(void)
{
	const long online = sysconf(_SC_NPROCESSORS_ONLN);
	const int quota = quota_cpus("/sys/fs/cgroup", "/proc/self/cgroup");
	int cpus = affinity_cpus(sched_getaffinity);
	if (!cpus)
		cpus = online > 0 ? (int)online : 1;
	return quota && quota < cpus ? quota : cpus;
}
