/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - the process that opens the device and runs races; a crash there loses no results.
 * Includes check, measure, search. */
#ifndef HARNESS_WORKER_WORKER_H
#define HARNESS_WORKER_WORKER_H

#include "harness/measure/measure.h"
#include "harness/machine/sensors.h"

struct problems;
struct contender;
struct worker;

/* ---- worker.c ------------------------------------------------------------------- */
/* A worker's inputs. It gets them by fork, so they must not change afterwards. */
struct worker_setup {
	const char *device; /* as in device_open */
	const struct problems *problems;
	struct protocol protocol;
	double gate_s, sample_s; /* allowed beyond the expected time of a stage */
	int no_ceilings;         /* hello does not measure them and returns these: */
	double dram_gbps, fma_tflops;
	/* Files of what was settled (kernels/attune_settle.h): MEMORY_SETTLING adds to the first, and
	 * MEMORY_CARRIED plans by the second. NULL: none. */
	const char *settle, *settled;
	double settle_ms; /* most_ms of attune_settle_how */
	/* Called at least 20 times a second while a race runs; or NULL. */
	void (*idle)(void *arg);
	void *idle_arg;
};
struct worker;
/* The device's properties, or why it could not be opened. */
struct hello {
	enum attune_status status;
	char text[200];
	struct device_info info;
	double dram_gbps, fma_tflops; /* 0: not known */
	struct device_use use;        /* when it was opened */
};

/* The list that every race is made from: what to time, of one scenario. */
struct order {
	struct contender *v; /* v[0] is the reference */
	int n;
	int fixed_rounds; /* as of struct race */
	int with_control; /* one of them runs twice, as an A/A control */
	double seconds;
	unsigned long long seed;
};
/* Called while the race runs, for contender i. Each contender has at most one result, and none
 * if the budget ends first. */
struct listener {
	void *arg;
	/* failed_gate: i must not run on this shape again. Returns 0 to stop the race. */
	int (*result)(void *arg, const struct order *, int i, const struct measurement *,
		      int failed_gate);
	void (*passed)(void *arg, const struct order *, int i);
	/* Before its result, if contender i is the library; or NULL. */
	void (*planned)(void *arg, const struct order *, int i, const char *plan);
	/* After the results, if contender `of` ran twice. Returns 0 to stop. */
	int (*control)(void *arg, const struct order *, const struct control *);
	void (*beat)(void *arg); /* on each message of the worker */
};
enum race_end {
	RACE_ENDED,
	RACE_INTERRUPTED,
	RACE_NO_DEVICE,   /* it opened before and no longer does */
	RACE_NO_COMPILER, /* already complained */
	RACE_TOO_LATE,    /* the budget ends before its code is compiled */
	RACE_IMPOSSIBLE,  /* the problem cannot run here; worker_text: why */
	RACE_STOPPED      /* by the listener */
};

/* Starts no process yet. NULL: no memory. */
struct worker *worker_new(const struct worker_setup *);
/* Starts the worker unless it runs. 0 when interrupted. */
int worker_hello(struct worker *, struct hello *);
/* Replaces the worker when a contender takes it down. That contender gets OUTCOME_CRASH or
 * OUTCOME_TIMEOUT and the others go on. */
enum race_end worker_race(struct worker *, const struct order *, const struct listener *);
const char *worker_text(const struct worker *);
void worker_free(struct worker *);

#endif
