/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h - this machine before it measures: its CPU as databases name it, the lock of a device,
 * other programs; and a device that need not be here. */
#ifndef HARNESS_MACHINE_MACHINE_H
#define HARNESS_MACHINE_MACHINE_H

#include "kernels/device/device.h"
#include "kernels/spec/device_info.h"
#include <sys/types.h>

/* ---- this_cpu.c: the CPU of this machine, as rows of a database name it ------------------ */
enum { MACHINE_ID = 17 };
/* A hash of the bytes: equal bytes have equal ids, and an id reveals nothing else. */
void anonymous_id(char id[MACHINE_ID], const void *bytes, size_t n);
/* Identifies this machine; "" if the system has no machine id. */
void machine_id(char id[MACHINE_ID]);
/* Describes this machine's CPU. 0: it cannot be used, such as if ATTUNE_THREADS is no number. */
int this_cpu(struct device_info *);
/* Whether this machine's CPU has this name, these instruction sets and this number of threads. */
int is_this_cpu(const char *name, const char *arch, int units);

/* ---- device_lock.c: one command at a time measures on a device, of any user -------------- */
struct device_lock {
	int fd; /* -1: not held */
};
/* Waits for the lock, at most patience_s. EXIT_DONE: held until lock_free or the end of the
 * process. EXIT_BUSY: another process holds it; complains with its pid and start. */
int lock_take(struct device_lock *, const struct device_info *, const char *command,
	      double patience_s);
void lock_free(struct device_lock *);

/* ---- quiet.c: other programs before a measurement ---------------------------------------- */
struct busiest;
struct device_use;

/* CPU time of other processes on the CPUs that this one may run on. */
struct cpu_use {
	int cpus;
	double others; /* in CPUs, including processes that are not listed */
	double seen;   /* the part of listed processes */
	struct busiest {
		int pid; /* 0: none */
		char command[32];
		double cpus;
	} busiest;
};
/* CPU times of all processes, from a folder like /proc; NULL: unreadable, or no memory. */
struct cpu_times;
struct cpu_times *cpu_times_read(const char *root);
void cpu_times_free(struct cpu_times *);
/* Between two readings. `self` and its descendants do not count. */
void cpu_use_between(struct cpu_use *, const struct cpu_times *before,
		     const struct cpu_times *after, pid_t self);

/* Writes to `text` what prevents measuring on the device; 0: nothing. `use` may be NULL. */
int quiet_obstacle(char *text, size_t size, const struct device_info *, const struct cpu_use *,
		   const struct device_use *use);

struct quiet {
	const struct device_info *device;
	double patience_s;
	int anyway; /* complains, but does not wait */
	void *arg;
	/* Observes the machine for a moment. Leaves `use` unchanged if it is not known. 0: failed. */
	int (*look)(void *arg, struct cpu_use *, struct device_use *use);
};
/* EXIT_DONE: quiet, or anyway; EXIT_BUSY: complains about the busiest process. */
int quiet_wait(const struct quiet *);
/* Observes /proc, or $ATTUNE_PROC, for half a second. */
int quiet_look_cpu(struct cpu_use *);

/* ---- planning_device.c ------------------------------------------------------------------- */
/* Stands for a device that need not be here. The library plans for it (attune_adopt) with the
 * binaries that a library built with all compilers carries. Nothing runs on it. */
void planning_device(struct device *, const struct device_info *);

#endif
