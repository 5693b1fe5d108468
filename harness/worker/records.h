/* records.h - what a worker and its parent say to each other: records of one size over a
 * socket. Both are the same program, so they are plain structs. */
#ifndef HARNESS_WORKER_RECORDS_H
#define HARNESS_WORKER_RECORDS_H

#include "worker.h"
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/measure/measure.h"
#include "harness/search/search.h"
#include "kernels/device/device.h"
#include <limits.h>

struct life;
struct part_of_call;

enum word {
	SAYS_HELLO,
	SAYS_STAGE,  /* begins something that may not come back */
	SAYS_PASSED, /* the corner batches */
	SAYS_RESULT,
	SAYS_CONTROL, /* of the contender `index` */
	SAYS_DONE,
	SAYS_CANNOT /* this problem */
};

struct said {
	unsigned bytes; /* sizeof (struct said) */
	enum word word;
	int index; /* of the order's contenders; -1: of none */
	union {
		struct hello hello;
		double patience_s; /* of SAYS_STAGE */
		struct {
			int failed_gate;
			struct measurement m;
		} result;
		struct control control;    /* of: not the contender's number */
		char text[200];            /* of SAYS_CANNOT */
		double spent_s[NUM_SPENT]; /* of SAYS_DONE */
	};
};
_Static_assert(sizeof(struct said) <= PIPE_BUF, "a record must be written in one piece");

/* Followed by `n` entries, and by the code of `codes` binaries that this worker does not have. */
struct task {
	unsigned bytes; /* sizeof (struct task) */
	int n, codes, fixed_rounds, with_control;
	double seconds;
	unsigned long long seed;
};
struct entry {
	int index;
	struct contender contender;
};

/* Followed by its bytes, its path and its entry, of so many bytes each. Both ends are the same
 * program, so that `cell` is the same function in both. */
struct code_record {
	int built;
	size_t size, path, entry;
	void (*cell)(const struct attune_args *, int x, int y, int z);
};

/* ---- pipe.c ---- */
/* One more than the largest number of a binary that choices have. */
int worker_binaries(const struct problems *);
/* All or nothing; 0: the other end is gone. */
int work_send(int socket, const void *bytes, size_t n);
int work_receive(int socket, void *bytes, size_t n);

/* ---- inside a worker ---- */

/* A contender under way: one choice over one phase, or a plan of a prefill and a decode choice. */
struct launcher {
	struct life *life;
	int index, checked; /* checked: on this workload */
	int parts, set;     /* set: of pages, of the call under way */
	enum attune_how how;
	size_t at[2]; /* where a part's workspace begins */
	struct part_of_call {
		struct choice choice;
		const struct loaded *loaded;
		enum phase phase;
		int built_choice;
	} part[2];
};

struct life {
	const struct worker_setup *setup;
	int socket;
	struct device dev;
	double dram_gbps, fma_tflops; /* the best seen, or a data sheet's; 0: not known */
	struct loaded *loaded;        /* by binary; code NULL: not yet */
	struct blob *code;            /* by binary: what the parent sent */
	int num_codes;
	char *passed; /* [binary][phase]: the corner batches */
	struct pool *pool, *check_pool;
	struct workload workload;
	int made; /* its scenario, -1: none */
	void *workspace;
	size_t workspace_bytes;
	/* of the task under way */
	const struct scenario *scenario;
	struct launcher *launcher;
	struct timed_call *timed_call;
	int num_racers;
	double spent_s[NUM_SPENT];
};

/* ---- worker_report.c: words to the parent ---- */
void work_say(const struct life *, struct said *);
void work_stage(const struct life *, int index, double seconds);
void work_result(const struct life *, int index, const struct measurement *, int failed_gate);
void work_failed(const struct life *, int index, enum outcome, const char *text);
/* After a device error nothing that this process measures can be trusted. */
void work_die(const struct life *, int index, const char *text);

/* ---- worker_call.c ---- */
/* A call of a runner, as struct contender has it. */
enum attune_status work_call(void *launcher, int set);
/* Of a call over this part of the scenario: KV bytes that it reads, and operations. */
double work_call_bytes(const struct life *, enum phase);
double work_call_flops(const struct life *, enum phase);
/* Seconds that even a very slow kernel needs no more than. */
double work_slow_call_s(const struct life *);

/* ---- worker_check.c ---- */
/* 0: it is wrong. work_judge says so to the parent; so does the gate, but not
 * work_pass_workload. has_passed: before now, or in another process. */
int work_judge(struct life *, int index, const struct verdict *, const char *batch);
int work_pass_gate(struct life *, const struct launcher *, int has_passed);
int work_pass_workload(struct life *, struct launcher *, struct verdict *);

/* ---- worker_main.c ---- */
/* The life of a worker; its parent's end of the socket is closed. */
void work(const struct worker_setup *, int socket) __attribute__((noreturn));

#endif
