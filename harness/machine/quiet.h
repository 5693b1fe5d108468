/* quiet.h - detects other programs on the machine before a measurement, and waits for them. */
#ifndef HARNESS_MACHINE_QUIET_H
#define HARNESS_MACHINE_QUIET_H

#include <sys/types.h>

struct busiest;
struct device_info;
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

#endif
