/* usable.h - how many CPUs this process may use. */
#ifndef KERNELS_DEVICE_CPU_USABLE_H
#define KERNELS_DEVICE_CPU_USABLE_H

#include <sched.h>
#include <stddef.h>
#include <sys/types.h>

/* The CPUs that the thread may run on, or fewer where a quota of a control group is smaller: a
 * container or taskset may lend fewer than are online. 1 or more. */
int cpu_usable(void);

/* CPUs in the set that `get` fills, as sched_getaffinity does; 0: it fails. */
int affinity_cpus(int (*get)(pid_t pid, size_t size, cpu_set_t *set));

/* Whole CPUs, 1 or more, that the smallest quota allows on the way from the process's control group
 * to the root; 0: there is none. root: a folder like /sys/fs/cgroup, of version 2 or 1; self: a file
 * like /proc/self/cgroup. */
int quota_cpus(const char *root, const char *self);

#endif
