/* sweep.h - a sweep: its stages, its budget, what it stores and says.
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

/* ---- sweep_device.c ------------------------------------------------------------- */
/* What several sweeps took together. */
struct sweep_sum {
	double spent_s[NUM_SPENT];
	long long measured, failed[NUM_OUTCOMES], races;
};
struct sweep_options {
	const char *gpu;    /* "h200", "cpu"; NULL: what is here */
	const char *arch;   /* of a GPU that is not in the table, to compile for; else NULL */
	const char *device; /* "cuda:1", or several: "cuda:0,cuda:1"; NULL: the first of that GPU */
	const char *db;     /* NULL: results/<gpu>.sqlite */
	const char *kernels, *phases, *command;
	enum preset preset;
	double budget_s;
	int shard, shards; /* this one of so many, from 0 */
	int exhaustive, again, dry_run, steady, survey, early;
	int anyway;         /* measures on a busy machine, too */
	int wall;           /* the budget counts waiting for compilers, too */
	const char *replay; /* a database to replay; NULL: a device is measured */
	enum format format;
	unsigned long long seed;
	/* Of a survey: it learns from the races of another GPU, and measures these choices as well. */
	const char *prior_db, *prior_gpu;
	const struct choice *also;
	int num_also;
	struct sweep_sum
	    *sum; /* NULL; or what this sweep took is added, and no report is printed */
};
enum { MOST_DEVICES = 16, DEVICE_NAME = 24 };
/* The device that these ask for, as device_open takes it. */
const char *sweep_device_name(const struct sweep_options *);
/* Asks the device of o->gpu who it is, in a process of its own; an exit code, and when not
 * done it has said why. Ceilings are left to device_ready. */
int sweep_device(const struct sweep_options *, struct hello *);

/* ---- ready.c -------------------------------------------------------------------- */
/* Before anything is measured: takes the device's lock, waits for a quiet machine, measures the
 * ceilings into *hello. Does all three once a process and device; the process keeps the lock. An
 * exit code, and when not done it has said why. */
int device_ready(const struct sweep_options *, struct hello *);
/* The same without ceilings: of a device that this process has open, or that another opens. */
int device_ready_open(struct device *, const char *command, int anyway);
int device_ready_named(const char *device, const char *command, int anyway);
/* Looks once more, and waits so long at most. An exit code; EXIT_DONE also with o->anyway. */
int device_quiet(const struct sweep_options *, const struct hello *, double seconds);

/* ---- session.c ----------------------------------------------------------------- */
/* What a stage has taken, and brought. */
struct tally {
	long long races, scenarios, cells, failed, noisy, controls;
	double device_s; /* of the device's time, as far as plays are timed */
};
/* What runs the races of a session: its worker, or a simulation of one. */
struct race_runner {
	void *arg;
	enum race_end (*race)(void *arg, const struct order *, const struct listener *);
	double (*seconds)(const void *arg); /* that it took so far; NULL: the clock says it */
	void (*free)(void *arg);            /* or NULL */
	int is_simulated;                   /* needs no code, no quiet machine and no clock */
};
struct sweep_session {
	const struct sweep_options *o;
	struct hello hello;
	struct protocol protocol;
	struct binaries binaries;
	struct problems problems;
	char *passed;   /* [choice][phase]: has passed the corner batches */
	char *excluded; /* [choice][shape]: enum outcome, OUTCOME_OK: not excluded */
	char db[256];
	struct store *store; /* NULL: nothing is kept */
	long long run;
	struct worker_setup setup;
	struct worker *worker; /* NULL: none yet, or races are simulated */
	struct race_runner runner;
	const struct survey *survey; /* NULL: all stages are run */
	double began, limit_s;       /* of the stage under way, since `began` */
	enum stage stage;
	int stage_done, stage_problems; /* problems */
	int skipped;                    /* problems that cannot be run here */
	int ran_out;                    /* of time: something was due and not begun */
	struct tally tally[NUM_STAGES];
	long long failed[NUM_OUTCOMES];
	double spent_s[NUM_SPENT];
	struct contender *noisy_plan; /* in this command, and not measured better since */
	int num_noisy_plans;
	int refused;             /* exit code of device_ready */
	int bad_controls;        /* races in a row with a control that is not believed */
	double worst_control;    /* of these, by what share */
	long long believed_race; /* id of the newest race until the last good control */
};
/* Problems, and what is known of choices; the device and the protocol are there. */
void session_make(struct sweep_session *, const struct scenario_list *);
/* After the problems are complete, or have grown. */
int session_remember(struct sweep_session *);
/* After problems_recall: what has a time by today's sources and this device has passed the
 * corner batches before that. */
void session_trust(struct sweep_session *);
/* This choice has passed the corner batches of a phase. */
void session_pass(struct sweep_session *, int built_choice, enum phase);
/* Adds what it took, once. */
void session_sum(struct sweep_session *, struct sweep_sum *);
void session_free(struct sweep_session *);
/* Seconds since it began without those of waiting for compilers; or what the runner says. */
double session_seconds(const struct sweep_session *);
/* Begins a run of the database unless there is one, after device_ready. 0: c->refused is an exit
 * code, or else the database failed. */
int session_begin_run(struct sweep_session *);
/* From here on a worker runs its races; problems must be complete. 0: no memory. */
int session_worker(struct sweep_session *);
/* Waits until the machine is quiet, to race noisy cells again. 0: it is not, or it is too late. */
int session_quiet_again(const struct sweep_session *);
enum { NOISY_RETRIES = 2 /* more races for cells whose time is not data, in one command */ };
/* Whether this plan's newest time in this command is not data; cells of problems say it themselves. */
int session_is_noisy(const struct sweep_session *, const struct contender *plan);
/* Cells and plans whose newest time is not data. */
int session_noisy(const struct sweep_session *);
struct entries {
	const int *place; /* of the problem; the reference is added */
	int n;
	int again;        /* also what is stored */
	int only_these;   /* the reference is the first of them */
	int fixed_rounds; /* as of struct race */
	int with_plans;
	const struct contender *plan; /* these plans, or those that promise most */
	int num_plans;
};
/* Lets builders begin with the code of what is to be raced later; how many binaries that are. */
int session_ask(struct sweep_session *, const struct problem *, const struct entries *);
/* One race of some of a problem, and what it takes and brings kept. `seconds`: at most. */
enum race_end session_race(struct sweep_session *, struct problem *, const struct entries *,
			   double seconds);
/* Seconds that a race may take which is this part (up to 1) of the work that is left. */
double session_share(const struct sweep_session *, double part);
/* A line on a problem that could not be run; goes on with the others. */
enum race_end session_skip(struct sweep_session *, const struct problem *, enum race_end);
int session_exit_code(const struct sweep_session *, enum race_end);

/* ---- stages.c ------------------------------------------------------------------- */
/* Which of the stages there is something left for. */
int stages_left(struct sweep_session *);
/* Stages from `from` to `to`, within the budget. */
enum race_end stages_run(struct sweep_session *, enum stage from, enum stage to);
/* Whether a scenario's problems are measured exhaustively, to audit the others. */
int stages_audits(const struct sweep_session *, const struct problem *);

/* ---- survey.c ------------------------------------------------------------------- */
struct survey {
	struct scenario_list list; /* that the database knows */
	struct problems problems;  /* of these */
	struct binaries binaries;
	char *family[3];           /* by phase, of problems.family: in the portfolio */
	const struct choice *also; /* choices whose families are wanted in every phase */
	int num_also;
	int races; /* finished */
};
/* From the finished races of the session's database. 0 after a complaint, also when there
 * are none. */
int survey_learn(struct survey *, const struct sweep_session *);
void survey_free(struct survey *);
/* Whether the choice's family is in the portfolio of that phase. */
int survey_wants(const struct survey *, enum phase, const struct choice *);
/* As `keep` of struct field: keeps defaults, baselines, and what is in any portfolio. */
int survey_keeps(const void *survey, const struct candidate *);
/* What the database has a time of has passed the corner batches before. 0: no memory. */
int survey_trust(const struct survey *, struct sweep_session *);

/* ---- report.c ------------------------------------------------------------- */
/* Device seconds by stage, the share of what all legal cells would have taken, and what
 * the audit and the controls say. 0: the controls of the database are not believed. */
int sweep_report(const struct sweep_session *);
/* Seconds that `rounds` samples of every legal cell take; a cell without a time takes the
 * median of its problem. */
double exhaustive_seconds(const struct sweep_session *, int rounds);
enum { EXHAUSTIVE_ROUNDS = 20 };
/* [0], selection: what racing picked before the audit, by the audit's own times against the
 * best that had been tried; [1], exploration: that against the best of all. */
struct audit {
	int n, near[2]; /* scenarios and phases; those within 2 % */
	double logs[2], worst[2];
};
/* Over all audits of the device and protocol of that run. */
struct audit audit_of(struct store *, long long run);
double audit_geomean(const struct audit *, int which); /* 1 when n is 0 */
struct json_out;
void noise_json(struct json_out *, const struct noise *);

/* ---- provenance.c --------------------------------------------------------------- */
/* The commit of the working directory, "-dirty" behind it where it is modified; "": no git. */
void provenance_commit(char commit[48]);
/* A new run of the database; 0: it failed. */
long long provenance_run(struct store *, const struct hello *, const struct protocol *,
			 const char *command);
/* Whether the newest measurement of a device of this short name is of this very device
 * and protocol. */
int provenance_same(struct store *, const struct device_info *, const struct protocol *);
/* 0 + complain where the database holds times of such a device by another protocol: the
 * two cannot be compared. */
int provenance_fits(struct store *, const char *db, const struct device_info *,
		    const struct protocol *);

/* ---- sweep.c -------------------------------------------------------------------- */
/* An exit code. */
int sweep(const struct sweep_options *, const struct hello *, const struct scenario_list *);

/* What a sweep would have to do. An exit code. */
struct sweep_forecast {
	int parts, races, binaries; /* parts of scenarios; binaries that are not in the cache */
	long long cells;
};
int sweep_foresee(const struct sweep_options *, const struct hello *, const struct scenario_list *,
		  struct sweep_forecast *);

/* ---- requested_cells.c ------------------------------------------------------------- */
/* An exact wish: that choice in that scenario, whatever it promises. Choices are concrete
 * (kernels/kernel.h: config_resolve); a wish with a formula is refused. */
struct wish {
	int scenario; /* of the list */
	enum phase phase;
	int is_plan;                  /* choice: the prefill part's; phase does not count */
	struct choice choice, decode; /* decode: of a plan, the other part's */
	enum attune_how how;          /* of a plan */
};
/* Measures wishes in a run of its own, its rows in that stage ("b": pass B). The wishes
 * of a scenario and phase are one race of fixed rounds without elimination, with one of them
 * entered twice as an A/A control; plans are in the race of the whole batch in one launch. Skipped, unless o->again, is what has a
 * row of that pass by today's sources and this device. An exit code. */
int sweep_wishes(const struct sweep_options *, const struct hello *, const struct scenario_list *,
		 const struct wish *, int n, const char *stage);

/* ---- early_launch.c -------------------------------------------------------------- */
/* The fastest choices that can begin early, in turn and early. An exit code. */
int sweep_early(const struct sweep_options *, const struct hello *, const struct scenario_list *);

/* ---- many_devices.c ------------------------------------------------------------- */
/* The devices of this machine that are that GPU, "cuda:0" ...; how many, 0 of a CPU. */
int devices_find(const char *gpu, char device[MOST_DEVICES][DEVICE_NAME]);
/* Runs a measuring command on every device that o->device names ("cuda:0,cuda:1"), each in a
 * process of its own with its shard. `first`: what the first of them said. An exit code. */
int on_each_device(const struct sweep_options *o, const struct hello *first,
		   int (*run)(const struct sweep_options *, const struct hello *, void *),
		   void *arg);

/* ---- compile_only.c ------------------------------------------------------------- */
/* Prints what each binary of the scenarios' candidates takes, and keeps it in o->db, else in
 * compiled_<gpu>.sqlite beside the cache: never where times are. An exit code. */
int compile_only(const struct sweep_options *, const struct scenario_list *);

#endif
