/* SPDX-License-Identifier: Apache-2.0 */
/* usable.h - how many CPUs this process may use. */
#ifndef KERNELS_DEVICE_CPU_USABLE_H
#define KERNELS_DEVICE_CPU_USABLE_H

#include <sched.h>
#include <stddef.h>
#include <sys/types.h>

/* How many CPUs the thread may run on, or the quota of its control groups where that is smaller: a
 * container or taskset may allow fewer than are online. 1 or more. */
int cpu_usable(void);

/* CPUs in the set that `get` fills, as sched_getaffinity does; 0: it fails. */
int affinity_cpus(int (*get)(pid_t pid, size_t size, cpu_set_t *set));

/* The smallest quota from the process's control group up to the root, in whole CPUs, 1 or more; 0:
 * no group has a quota. root: a folder like /sys/fs/cgroup, of version 2 or 1; self: a file like
 * /proc/self/cgroup. */
int quota_cpus(const char *root, const char *self);

#endif
