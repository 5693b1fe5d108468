/* worker.h - the process that opens the device and runs races, where a crash loses nothing.
 * Includes check, measure, search. */
#ifndef HARNESS_WORKER_WORKER_H
#define HARNESS_WORKER_WORKER_H

#include "harness/measure/measure.h"
#include "kernels/device/device.h"

struct problems;
struct contender;
struct worker;

/* ---- worker.c ------------------------------------------------------------------- */
/* All that a worker must know; it is forked, so these must not change afterwards. */
struct worker_setup {
	const char *device; /* as in device_open */
	const struct problems *problems;
	struct protocol protocol;
	double gate_s, sample_s; /* patience beyond what a stage is expected to take */
	int no_ceilings;         /* hello does not measure them, and says what is known: */
	double dram_gbps, fma_tflops;
	/* Called some twenty times a second while a race runs; or NULL. */
	void (*idle)(void *arg);
	void *idle_arg;
};
struct worker;
/* What the device said of itself, or why it could not be opened. */
struct hello {
	enum attune_status status;
	char text[200];
	struct device_info info;
	double dram_gbps, fma_tflops; /* 0: not known */
	struct device_use use;        /* when it was opened */
};

struct order {
	const struct contender *contender; /* contender[0] is the reference; all of one scenario */
	int n;
	int fixed_rounds; /* as of struct race */
	int with_control; /* one of them runs twice */
	double seconds;
	unsigned long long seed;
};
/* What the wall time of measuring goes to. */
enum spent {
	SPENT_COMPILING, /* races wait for builders */
	SPENT_CHECKING,  /* against the reference */
	SPENT_UPLOADING, /* buffers, references, code */
	SPENT_RACING,    /* of that the device runs for SPENT_DEVICE */
	SPENT_DEVICE,
	NUM_SPENT
};
/* Told while the race runs, of contender i. At most one result of each; none when the budget
 * ended before it. */
struct listener {
	void *arg;
	/* failed_gate: it must not run on this shape again. 0: stop. */
	int (*result)(void *arg, const struct order *, int i, const struct measurement *,
		      int failed_gate);
	void (*passed)(void *arg, const struct order *, int i);
	/* After the results: contender `of` ran twice. 0: stop. */
	int (*control)(void *arg, const struct order *, const struct control *);
	void (*beat)(void *arg); /* with each word of the worker */
	void (*spent)(void *arg, const double seconds[NUM_SPENT]); /* at the end; or NULL */
};
enum heard {
	HEARD_ALL,
	HEARD_INTERRUPT,
	HEARD_NO_DEVICE,   /* it opened once and does no more */
	HEARD_NO_COMPILER, /* that was said */
	HEARD_TOO_LATE,    /* the time is over before its code is compiled */
	HEARD_NOTHING,     /* this problem cannot be run here; worker_text says why */
	HEARD_STOP         /* a listener said so */
};

/* Nothing is started before it is needed; NULL: no memory. */
struct worker *worker_new(const struct worker_setup *);
/* Starts the worker unless it runs. 0 when interrupted. */
int worker_hello(struct worker *, struct hello *);
/* Restarts the worker as often as choices take it down; each such choice gets
 * OUTCOME_CRASH or OUTCOME_TIMEOUT and the others go on. */
enum heard worker_race(struct worker *, const struct order *, const struct listener *);
const char *worker_text(const struct worker *);
void worker_free(struct worker *);

#endif
