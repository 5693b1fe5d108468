/* quiet.h - whether other programs use the machine that is about to be measured. */
#ifndef HARNESS_MACHINE_QUIET_H
#define HARNESS_MACHINE_QUIET_H

#include <sys/types.h>

struct busiest;
struct device_info;
struct device_use;

/* What other processes used of the CPUs that this one may run on. */
struct cpu_use {
	int cpus;
	double others; /* of these, in CPUs; seen or not */
	double seen;   /* the part of it that belongs to processes which are listed */
	struct busiest {
		int pid; /* 0: none */
		char command[32];
		double cpus;
	} busiest;
};
/* CPU times of all processes, from a folder like /proc; NULL: it cannot be read, or no memory. */
struct cpu_times;
struct cpu_times *cpu_times_read(const char *root);
void cpu_times_free(struct cpu_times *);
/* Between two readings. `self` and its descendants do not count. */
void cpu_use_between(struct cpu_use *, const struct cpu_times *before,
		     const struct cpu_times *after, pid_t self);

/* What is in the way of measuring on that device, to `text`; 0: nothing. `use` may be NULL. */
int quiet_obstacle(char *text, size_t size, const struct device_info *, const struct cpu_use *,
		   const struct device_use *use);

struct quiet {
	const struct device_info *device;
	double patience_s;
	int anyway; /* says what is in the way, and does not wait */
	void *arg;
	/* Looks, which takes a moment; `use` stays as it is where it is not known. 0: it cannot. */
	int (*look)(void *arg, struct cpu_use *, struct device_use *use);
};
/* EXIT_DONE: quiet, or anyway; EXIT_BUSY: it has said who uses the machine; EXIT_INTERRUPTED. */
int quiet_wait(const struct quiet *);
/* A look at /proc, or $ATTUNE_PROC, for half a second. */
int quiet_look_cpu(struct cpu_use *);

#endif
