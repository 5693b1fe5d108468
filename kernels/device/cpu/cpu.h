/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h - the state and functions that the files of the CPU device share. */
#ifndef KERNELS_DEVICE_CPU_CPU_H
#define KERNELS_DEVICE_CPU_CPU_H

#include "kernels/device/device.h"
#include <sys/types.h>
#include <time.h>

struct pool;
struct stacks;

/* The state of an open CPU. */
struct cpu {
	struct pool *pool;
	struct stacks *stacks; /* on which calling threads run cells */
	pid_t process;         /* that opened it: a forked child has no threads of the pool */
	int threads;
	clockid_t *worker_clock; /* [num_workers] CPU time of the pool's threads that compute */
	int num_workers;         /* threads - 1, or fewer: the caller works too */
	struct graph *recording; /* between graph_begin and graph_end */
	double last_share;       /* of the last graph_play */
};

/* info.c: names and sizes of the machine. */
enum isa { ISA_AVX512, ISA_AVX2, ISA_NEON, ISA_SCALAR, NUM_ISAS };
extern const char *const isa_names[NUM_ISAS];
int isa_lanes(enum isa isa);
int isa_present(enum isa isa);
void cpu_describe(struct device_info *info, enum isa isa, int threads);
double cpu_clock_mhz(const char *file);   /* of the first CPU: "cpuinfo_max_freq" */
double cpu_read_number(const char *path); /* 0: not readable */

/* threads.c. From ATTUNE_THREADS, else the CPUs that the process may use. */
enum attune_status cpu_thread_count(int *threads);
/* Fills cpu->worker_clock and num_workers; the pool runs. */
enum attune_status cpu_find_worker_clocks(struct cpu *cpu);
/* Seconds that body(arg) took; *share: see cpu_last_play_share. */
double cpu_timed(struct cpu *cpu, void (*body)(struct cpu *, void *arg), void *arg, double *share);

#endif
