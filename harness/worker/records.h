/* SPDX-License-Identifier: Apache-2.0 */
/* records.h - the messages between a worker and its parent, and the worker's own state. Both are
 * the same program, so messages are plain structs of one size, sent over a socket. */
#ifndef HARNESS_WORKER_RECORDS_H
#define HARNESS_WORKER_RECORDS_H

#include "worker.h"
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/measure/measure.h"
#include "harness/search/search.h"
#include "kernels/device/device.h"
#include <limits.h>

struct worker_state;

enum message_kind {
	MESSAGE_HELLO,
	MESSAGE_STAGE,   /* begins work that may hang or crash */
	MESSAGE_PASSED,  /* the contender passed the corner batches */
	MESSAGE_PLANNED, /* the library's plan */
	MESSAGE_RESULT,
	MESSAGE_CONTROL, /* of the contender `index` */
	MESSAGE_DONE,
	MESSAGE_IMPOSSIBLE /* the problem cannot run here */
};

struct message {
	unsigned bytes; /* sizeof (struct message) */
	enum message_kind kind;
	int index; /* of the order's contenders; -1: of none */
	union {
		struct hello hello;
		double patience_s; /* of MESSAGE_STAGE */
		struct {
			int failed_gate;
			struct measurement m;
		} result;
		struct control control;    /* its `of` is not valid here; `index` is */
		char text[MAX_PLAN_TEXT];  /* of MESSAGE_IMPOSSIBLE and MESSAGE_PLANNED */
		double spent_s[NUM_SPENT]; /* of MESSAGE_DONE */
	};
};
_Static_assert(sizeof(struct message) <= PIPE_BUF, "a record must be written in one piece");

/* Followed by the order's contenders, and by the code of `codes` binaries that this worker does not
 * have. */
struct task {
	unsigned bytes; /* sizeof (struct task) */
	int codes;
	struct order order;
};

/* Followed by its bytes, its path and its entry; the fields hold their lengths. `cell` is valid in
 * both processes because both are the same program. */
struct code_record {
	int built;
	size_t size, path, entry;
	void (*cell)(const struct attune_args *, int x, int y, int z);
};

/* ---- pipe.c ---- */
/* One more than the largest number of a binary that any choice uses. */
int worker_binaries(const struct problems *);
/* All or nothing; 0: the other end is gone. */
int pipe_send(int socket, const void *bytes, size_t n);
int pipe_receive(int socket, void *bytes, size_t n);

/* ---- inside a worker ---- */

/* What launches a contender. */
struct launcher {
	struct worker_state *state;
	const struct contender *contender;
	int checked;       /* its output on this workload was right */
	int parts, set;    /* parts: 0 of the library; set: the pages of the call under way */
	size_t at[2];      /* offset of each part's workspace */
	double plan_us[2]; /* of each part; 0: no plug-in, or not planned */
	struct loaded *loaded[2];
	attune_plan plan; /* of the library */
	int was_wrong;    /* as timed */
	/* Of the library: nothing is to race; and what settling took. */
	int is_over;
	double settled_ms;
};

/* The library in a worker. The op is of op_shape; the context remembers what `memory` says, settled
 * on `scenario`. */
struct library {
	attune_context *ctx; /* NULL: it has not run yet */
	attune_op *op;
	attune_shape op_shape;
	enum library_memory memory;
	int scenario;
	/* What setup->settle gets, and what setup->settled has; NULL: not opened yet. */
	attune_context *file, *carried;
};

struct worker_state {
	const struct worker_setup *setup;
	int socket;
	struct device dev;
	double dram_gbps, fma_tflops; /* the best seen, or a data sheet's; 0: not known */
	struct loaded *loaded;        /* by binary; code NULL: not yet */
	struct blob *code;            /* by binary: what the parent sent */
	char *compiled_again;         /* by binary: it did not load at first */
	int num_codes;
	char *passed; /* [binary][phase]: the corner batches */
	struct pool *pool, *check_pool;
	struct workload workload;
	int made; /* the workload's scenario; -1: none */
	void *workspace;
	size_t workspace_bytes;
	struct library library;
	/* the task under way */
	const struct scenario *scenario;
	struct launcher *launcher;
	struct timed_call *timed_call;
	int num_contenders;
	/* Contenders whose plan is also that of an earlier contender: they are not timed, and get
	 * its time. */
	struct alike {
		int index, of; /* of: of launcher[] */
	} * alike;
	int num_alike;
	double spent_s[NUM_SPENT];
};

/* ---- pipe.c: messages to the parent ---- */
void report_message(const struct worker_state *, struct message *);
void report_stage(const struct worker_state *, int index, double seconds);
void report_result(const struct worker_state *, int index, const struct measurement *,
		   int failed_gate);
void report_failure(const struct worker_state *, int index, enum outcome, const char *text);
/* Exits: after a device error no measurement of this process can be trusted. */
void report_crash(const struct worker_state *, int index, const char *text);

/* ---- worker_call.c ---- */
/* Runs the contender once: the `call` of struct timed_call. */
enum attune_status launcher_call(void *launcher, int set);
/* The KV bytes that a call over this part of the scenario reads, and its operations. */
double launcher_bytes(const struct worker_state *, enum phase);
double launcher_flops(const struct worker_state *, enum phase);
/* Upper bound on the seconds of a call, even by a very slow kernel. */
double launcher_slow_s(const struct worker_state *);

/* Makes the workspace at least this large. */
enum attune_status launcher_room(struct worker_state *, size_t bytes);

/* ---- worker_library.c ---- */
/* Plans the scenario by the library with what it is to remember, and reports the plan. */
enum attune_status library_plan(struct launcher *);
/* Whether the library's plan is not to race: there is none, it was to settle only, or the plan races
 * already. */
int library_is_over(struct worker_state *, const struct launcher *);
/* Gives these contenders the time of the earlier one with the same plan. */
void library_report_alike(const struct worker_state *);

/* ---- worker_call.c ---- */
/* 0: the contender is wrong. report_verdict and check_corner_batches report that to the parent,
 * check_timed_workload does not. */
int report_verdict(struct worker_state *, int index, const struct verdict *, const char *batch);
int check_corner_batches(struct worker_state *, const struct launcher *);
int check_timed_workload(struct worker_state *, struct launcher *, struct verdict *);

/* ---- worker_main.c ---- */
/* Runs the worker until its parent closes its end of the socket. */
void worker_main(const struct worker_setup *, int socket) __attribute__((noreturn));

#endif
