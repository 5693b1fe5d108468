/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h - a sweep: its session, stages, budget, stored results and report.
 * Includes search, worker, store, machine. */
#ifndef HARNESS_SWEEP_SWEEP_H
#define HARNESS_SWEEP_SWEEP_H

#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/measure/measure.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/store.h"
#include "harness/worker/worker.h"

struct survey;

/* ---- ready.c: which device -------------------------------------------------------- */
/* The cost of several sweeps together. */
struct sweep_sum {
	double device_s; /* of timed samples */
	long long measured, failed[NUM_OUTCOMES], races;
	int ran_out;               /* of time, with races left */
	double spent_s[NUM_SPENT]; /* of a child process (many_devices.c) */
};
struct sweep_options {
	const char *gpu;    /* "h200", "cpu"; NULL: of this machine */
	const char *arch;   /* to compile for a GPU that is not in the table; else NULL */
	const char *device; /* "cuda:1", or several: "cuda:0,cuda:1"; NULL: the first of that GPU */
	const char *db;     /* NULL: results/<gpu>.sqlite */
	const char *settle, *settled; /* these three as of struct worker_setup */
	double settle_ms;
	const char *kernels, *phases, *command;
	const char *retry; /* see struct problems */
	enum preset preset;
	double budget_s;
	int shard, shards; /* this shard, from 0, and how many */
	int again, dry_run, steady, survey, early;
	int anyway; /* measure on a busy machine, too */
	int wall;   /* the budget includes waiting for compilers */
	enum format format;
	unsigned long long seed;
	const struct choice *also; /* a survey also measures these */
	int num_also;
	struct sweep_sum
	    *sum; /* if not NULL, this sweep's cost is added and no report is printed */
};
enum { MOST_DEVICES = 16, DEVICE_NAME = 24 };
/* The name for device_open of the device that the options select. */
const char *sweep_device_name(const struct sweep_options *);
/* Opens a device in another process, since this one must not open it; a driver that crashes ends only
 * that process. 0: it cannot be opened; hello->text says why. */
int device_ask(const char *device, int ceilings, struct hello *);
/* Reads the properties of o->gpu's device, in a process of its own, without ceilings. An exit
 * code, after a complaint unless EXIT_DONE. */
int sweep_device(const struct sweep_options *, struct hello *);

/* ---- ready.c -------------------------------------------------------------------- */
/* Before measuring: takes the device's lock, waits for a quiet machine, and measures the ceilings
 * into *hello. Each happens once per process and device; the process keeps the lock. An exit code,
 * after a complaint unless EXIT_DONE. */
int device_ready(const struct sweep_options *, struct hello *);
/* The same without ceilings, for a device that this process has open. */
int device_ready_open(struct device *, const char *command, int anyway);
/* Waits again for a quiet machine, at most so long. An exit code; EXIT_DONE also with o->anyway. */
int device_quiet(const struct sweep_options *, const struct hello *, double seconds);

/* ---- session.c ----------------------------------------------------------------- */
/* The cost and results of a stage. */
struct tally {
	long long races, scenarios, cells, failed, noisy, controls;
	double device_s; /* device time of the timed samples */
};
struct sweep_session {
	const struct sweep_options *o;
	struct hello hello;
	struct protocol protocol;
	struct binaries binaries;
	struct problems problems;
	char *passed;   /* [choice][phase]: passed the corner batches */
	char *excluded; /* [choice][shape]: the enum outcome that excludes it; OUTCOME_OK: none */
	char db[PATH_TEXT];
	struct store *store; /* NULL: results are not stored */
	long long run;
	struct worker_setup setup;
	struct worker *worker; /* NULL: none yet */
	/* Takes each result in place of the database; NULL: results are rows of measurement. 0: failed.
	 * plan: the contender's text, or what the library planned. */
	int (*take)(void *take_arg, const struct contender *, const char *plan,
		    const struct measurement *);
	void *take_arg;
	const struct survey *survey; /* NULL: all stages are run */
	double began, limit_s;       /* of the current stage; since `began` */
	enum stage stage;
	int stage_done, stage_problems; /* problems */
	int skipped;                    /* problems that cannot run here */
	int ran_out;                    /* of time, with work left */
	struct tally tally[NUM_STAGES];
	long long failed[NUM_OUTCOMES];
	int refused;             /* exit code of device_ready */
	int bad_controls;        /* races in a row with a failed control */
	double worst_control;    /* their largest difference, as a share */
	long long believed_race; /* id of the newest race up to the last good control */
};
/* Sets the protocol, the database's path and the device of an otherwise empty session. */
void session_make(struct sweep_session *, const struct scenario_list *);
/* Allocates `passed` and `excluded`, once the problems are complete. 0: no memory. */
int session_alloc(struct sweep_session *);
/* After problems_recall: choices with a stored time by today's sources on this device have passed
 * the corner batches. */
void session_trust(struct sweep_session *);
/* Notes that a choice has passed the corner batches of a phase. */
void session_pass(struct sweep_session *, int built_choice, enum phase);
/* Adds the session's cost; call once. */
void session_sum(struct sweep_session *, struct sweep_sum *);
void session_free(struct sweep_session *);
/* Seconds since the start without waiting for compilers. */
double session_seconds(const struct sweep_session *);
/* Calls device_ready and inserts a run row, unless the session has one. 0: c->refused is an exit
 * code, or else the database failed. */
int session_begin_run(struct sweep_session *);
/* Begins the run, creates the worker that runs the races, and starts the clock. Problems must be
 * complete. 0: failed. */
int session_start(struct sweep_session *);
/* Waits until the machine is quiet, to race noisy cells again. 0: it is not, or time is up. */
int session_wait_quiet(const struct sweep_session *);
enum { NOISY_RETRIES = 2 /* more races for noisy cells, in one command */ };
/* The number of cells and plans whose newest time is noisy. */
int session_noisy(const struct sweep_session *);
/* Lets builders begin with the code of later races. */
void session_ask(struct sweep_session *, const struct order *);
/* Runs a race and keeps cost and results. A contender that cannot run moves behind the order's end,
 * and its outcome is stored. */
enum race_end session_race(struct sweep_session *, struct order *);
/* Seconds for a race with this share (up to 1) of the remaining work. */
double session_share(const struct sweep_session *, double part);
/* If the race was impossible: complains, counts it as skipped, and returns RACE_ENDED. */
enum race_end session_skip(struct sweep_session *, int scenario, enum race_end);
int session_exit_code(const struct sweep_session *, enum race_end);

/* ---- stages.c ------------------------------------------------------------------- */
/* The number of races left in all stages. */
int stages_left(struct sweep_session *);
/* Stages from `from` to `to`, within the budget. all: each may use all of it. */
enum race_end stages_run(struct sweep_session *, enum stage from, enum stage to, int all);

/* ---- survey.c ------------------------------------------------------------------- */
struct survey {
	struct scenario_list list; /* of the database */
	struct problems problems;  /* of these */
	struct binaries binaries;
	char *family[3];           /* [phase][problems.family]: in the portfolio */
	const struct choice *also; /* choices whose families are wanted in every phase */
	int num_also;
	int races; /* finished */
};
/* Learns from the finished races of a database. 0 after a complaint, also if it has none. */
int survey_learn(struct survey *, const struct sweep_session *);
void survey_free(struct survey *);
/* Whether the choice's family is in the portfolio of that phase. */
int survey_wants(const struct survey *, enum phase, const struct choice *);
/* The `keep` of struct candidate_options: defaults, baselines, and members of any portfolio. */
int survey_keeps(const void *survey, const struct candidate *);
/* Notes choices with a stored time as passed (session_pass). 0: no memory. */
int survey_trust(const struct survey *, struct sweep_session *);

/* ---- report.c ------------------------------------------------------------- */
/* Prints device seconds by stage, and the results of the audit and of the controls. 0: the database's
 * controls show a busy machine. */
int sweep_report(const struct sweep_session *);
struct json_out;
void noise_json(struct json_out *, const struct noise *);

/* ---- provenance.c --------------------------------------------------------------- */
/* The commit of the checkout that the sources are in, with "-dirty" if modified; "": none. */
void provenance_commit(char commit[48]);
/* Looks for the commit of each run that has hashes of its sources and no commit yet. It is the newest
 * ancestor of HEAD with these hashes; if there is none, the run becomes `modified`. Without git
 * nothing changes. 0 + complain. */
int provenance_find(struct store *);
/* A new run of the database; 0: it failed. */
long long provenance_run(struct store *, const struct hello *, const struct protocol *,
			 const char *command);
/* Whether the newest measurement of a GPU of this short name is of this device and protocol. */
int provenance_same(struct store *, const struct device_info *, const struct protocol *);
/* 0 + complain if the database holds times of such a device by another protocol, which are not
 * comparable. */
int provenance_fits(struct store *, const char *db, const struct device_info *,
		    const struct protocol *);

/* ---- sweep.c -------------------------------------------------------------------- */
/* An exit code. */
int sweep(const struct sweep_options *, const struct hello *, const struct scenario_list *);
/* Which scenarios a sweep of this preset measures: take[i] is 1 or 0. Smoke takes the lightest few of
 * each split, and those that the user named; the others take all. 0 after a complaint. */
int sweep_takes(const struct scenario_list *, enum preset, char *take);

/* The work left for a sweep. An exit code. */
struct sweep_forecast {
	int parts, races, binaries; /* parts of scenarios; binaries that are not in the cache */
	long long cells;
};
int sweep_foresee(const struct sweep_options *, const struct hello *, const struct scenario_list *,
		  struct sweep_forecast *);

/* ---- requested_cells.c ------------------------------------------------------------- */
/* Measures requested cells and plans in a run of their own, stored under that stage ("b": pass B).
 * Choices that are formulas are refused. The requests of a part of a batch, or of the whole, are one
 * race of fixed rounds without elimination, with an A/A control. Unless asked for again, by the
 * request or by o->again, a cell is skipped that has a row of that pass by today's sources and this
 * device. An exit code. */
int sweep_wishes(const struct sweep_options *, const struct hello *, const struct scenario_list *,
		 const struct contender *, int n, const char *stage);

/* ---- early_launch.c -------------------------------------------------------------- */
/* Measures the fastest choices that can begin early, in order and early. An exit code. */
int sweep_early(const struct sweep_options *, const struct hello *, const struct scenario_list *);

/* ---- many_devices.c ------------------------------------------------------------- */
/* Lists the devices of this machine that are that GPU, "cuda:0" ... How many; 0 for a CPU. */
int devices_find(const char *gpu, char device[MOST_DEVICES][DEVICE_NAME]);
/* Runs a measuring command on every device of o->device ("cuda:0,cuda:1"), each in a process of
 * its own with its shard. `first`: the hello of the first device. An exit code. */
int on_each_device(const struct sweep_options *o, const struct hello *first,
		   int (*run)(const struct sweep_options *, const struct hello *, void *),
		   void *arg);

/* ---- compile_only.c ------------------------------------------------------------- */
/* Prints the resources of each binary of the scenarios' candidates, and stores them in o->db, or
 * else in compiled_<gpu>.sqlite next to the cache; never with times. An exit code. */
int compile_only(const struct sweep_options *, const struct scenario_list *);

#endif
