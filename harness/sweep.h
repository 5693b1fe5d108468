/* sweep.h - between the files of a sweep:
 *
 *   candidates.c    which choices of a kernel are tried on a shape
 *   binaries.c      their code, each binary once
 *   builders.c      processes that compile it, ahead of the races
 *   heats.c         (scenario, phase) pairs, and who may run in each
 *   spread.c        their order
 *   select.c        who is worth running there, by what is known of neighbours
 *   recall.c        what a database knows of them
 *   store_cell.c    which stage and scenario a row of a database is of
 *   portfolio.c     the few choices that are worth knowing everywhere
 *   contender.c     what one lane of a race runs
 *   plans.c         which plans of two parts are worth a race
 *   worker.c        runs a race in a process that can be lost
 *   sweep_device.c  the device that options ask for
 *   ready.c         its lock, a quiet machine, its ceilings
 *   campaign.c      races against the clock: what they cost, what is kept of them
 *   stages.c        race, complete, cold, audit: what is raced when
 *   survey.c        the same portfolio on scenarios that were never raced
 *   sweep.c         beginning and end of a sweep that fills a database
 *   sweep_report.c  what it took, and what its audit and its controls say
 *   sweep_wishes.c  exact cells, for those who know what they want
 *   sweep_replay.c  the same stages on a database instead of a device */
#ifndef SWEEP_H
#define SWEEP_H

#include "../kernels/gpu_names.h"
#include "harness.h"

/* ---- store_cell.c --------------------------------------------------------------- */
/* Why a cell was measured; what the database calls it is stage_names[]. */
enum stage {
	STAGE_NONE,
	STAGE_RACE,
	STAGE_COMPLETE,
	STAGE_COLD,
	STAGE_REFINE,
	STAGE_AUDIT,
	STAGE_B,
	STAGE_EARLY,
	NUM_STAGES
};
extern const char *const stage_names[NUM_STAGES];

/* Whether a row is of that scenario. */
int cell_is_of(const struct store_cell *, const struct scenario *);

/* ---- binaries.c ----------------------------------------------------------------- */
/* USES_SCRATCH: built, but on an AMD GPU it would keep registers in memory, which is never
 * worth a measurement. */
enum { BUILT, REFUSED_BY_COMPILER, NO_COMPILER, NOT_BUILT, USES_SCRATCH };

struct built {
	const struct kernel *kernel;
	const char *root; /* a kernels folder other than today's, else NULL */
	char flags[MAX_FLAGS];
	struct binary binary;
	int status;
	char asked, tries; /* of builders.c: it is in the queue; builders that died over it */
};
struct binaries {
	const char *arch;
	struct built *v;
	int n, room;
	int spare_cpu;             /* builders leave one CPU to the process that drives the GPU */
	int compiled;              /* not from the cache */
	double seconds;            /* that somebody waited for them */
	double budget_s;           /* the same by budget_now */
	double until;              /* of budget_now: nobody waits longer; 0: no limit */
	struct builders *builders; /* NULL: none runs */
	int found;                 /* the one that was asked for last */
};
/* Where the binary of a choice for a shape is, or will be; -1: no memory. */
int binaries_add(struct binaries *, const struct choice *, const attune_shape *);
/* The same of the helpers that it takes; -1 of the others. 0 without memory. */
int binaries_add_helpers(struct binaries *, const struct choice *, const attune_shape *,
			 int helper[NUM_HELPERS]);
/* The same of the kernel's source below `root`, NULL: today's, with these flags. */
int binaries_add_source(struct binaries *, const struct kernel *, const char *root,
			const char *flags);
/* Compiles all that are not yet, in several processes (builders.h); what takes more than two
 * minutes is refused. 0 when there is no compiler or the user interrupted. */
int binaries_compile(struct binaries *);
void binaries_free(struct binaries *);

/* ---- candidates.c --------------------------------------------------------------- */
enum origin { FROM_DEFAULT, FROM_BASELINE, FROM_NEIGHBOUR, FROM_SAMPLE, FROM_ALL };

/* Finds items of an array by their choice: [hash] has the last one of a chain, + 1, and each item's `next`
 * that before it, + 1. Zeros are an empty one. */
enum { NUM_CHAINS = 4096 };
struct chains {
	int last[NUM_CHAINS];
};
unsigned choice_chain(const struct choice *); /* below NUM_CHAINS */

struct candidate {
	struct choice choice;
	enum origin origin;
	int next; /* of its chain */
};
struct candidates {
	struct candidate *v;
	int n, room;
	struct chains by_choice;
};
enum preset { PRESET_SMOKE, PRESET_QUICK, PRESET_FULL, NUM_PRESETS };
extern const char *const preset_names[NUM_PRESETS + 1]; /* ends with NULL */
/* Adds the choices of a kernel for a shape, each once; what is legal may still not be
 * so for a batch. 0: no memory. */
int candidates_add(struct candidates *, const struct kernel *, const attune_shape *,
		   const struct device_info *, enum preset, unsigned long long seed);
/* The legal point nearest to `from` for the shape, and the part unless NULL; 0: none. */
int nearest_legal(struct config *out, const struct kernel *, const struct config *from,
		  const attune_shape *, const struct part *, const struct device_info *);
/* The same for the constants of vLLM's kernel, which some kernels can be given. */
int baseline_nearest(struct config *out, const struct kernel *, const attune_shape *,
		     const struct part *, const struct device_info *);

/* ---- heats.c -------------------------------------------------------------------- */
/* A choice with its code. Shapes that compile to the same binary share it. */
struct entrant {
	struct choice choice;
	enum origin origin;
	int family; /* one number for all that differ in the formula axis alone */
	int built, helper[NUM_HELPERS]; /* of the sweep's binaries; helper: -1 where none */
	const struct blob *blob, *helping[NUM_HELPERS]; /* these, once compiled; helping: or NULL */
	const char *flags;
	int registers, spill_bytes; /* as the compiler said; -1: it did not */
	int next;                   /* of its chain */
};

enum { HEAT_FEATURES = 8 };

/* One scenario and phase, and who may run in it: legal points only. */
struct heat {
	int scenario, shape; /* shape: of struct heats */
	enum phase phase;
	struct part part;
	double feature[HEAT_FEATURES];
	double bytes, flops; /* that any choice must move and do */
	int n;
	int top;      /* the largest of: */
	int *entrant; /* [0]: the reference */
	char *near;   /* 2: what some formula gives; 1: within a factor of 2 of that; else 0 */
	char *stored; /* the database has it */
	char *noisy;  /* it was measured, and its time is not data: not stored, unless earlier */
	char *stage;  /* enum stage of the row that `us` is of */
	double *us;   /* median; INFINITY: failed; NaN: not measured */
	int best;     /* the place with the least us; -1: none yet */
	int finished; /* all that was to be raced was raced */
	/* of a mixed batch as a whole: */
	int planned;     /* plans were raced with it */
	int noisy_plans; /* of these, how many times are not data */
};
struct heats {
	const struct scenario *scenarios;
	struct device_info device;
	double dram_gbps, tflops; /* no time can beat them; 0: not known */
	struct heat *v;           /* those of a scenario side by side, scenarios spread out */
	int n, room;
	struct entrant *entrant;
	int num_entrants, entrant_room;
	struct chains by_choice; /* entrants */
	struct choice *family;   /* the formula axis: first value */
	int num_families, family_room;
	struct shape_field *field; /* distinct shapes and their candidates */
	int num_shapes;
};
struct field { /* what to fill heats with */
	const struct device_info *device;
	enum preset preset;
	const char *kernels; /* "qblock,segmented"; NULL: all */
	const char *phases;  /* "prefill,all"; NULL: all */
	unsigned long long seed;
	/* Whether a candidate takes part; NULL: all do. */
	int (*keep)(const void *keep_arg, const struct candidate *);
	const void *keep_arg;
};
/* Heats of scenario `index`, unless none of our kernels can run it. 0: no memory. */
int heats_add(struct heats *, struct binaries *, int index, const struct field *);
/* A cell's time: INFINITY where it failed. */
void heats_note(struct heat *, int place, double us, enum stage);
/* Place of a choice in a heat; -1: it is not legal there. */
int heats_place(const struct heats *, const struct heat *, const struct choice *);
/* The entrant of this choice for this shape, made when new; -1: no memory. */
int heats_entrant(struct heats *, struct binaries *, const struct candidate *,
		  const attune_shape *);
/* The heat of a wish: as heats_add, with no candidates. NULL: that phase of the scenario
 * is empty, or no memory. */
struct heat *heats_add_empty(struct heats *, int index, enum phase, const struct device_info *);
/* Adds an entrant; its place, or -1: no memory. */
int heat_enter(struct heat *, int entrant);
/* Of a scenario's heats the one of that phase, or NULL. */
struct heat *heats_find(const struct heats *, int scenario, enum phase);
void heats_free(struct heats *);

/* ---- spread.c ------------------------------------------------------------------- */
/* Puts scenarios first that are far from all before them, heavy ones rather than
 * light ones, so that each later one has neighbours and an early end loses little. */
void heats_spread(struct heats *);
/* After heats_recall: scenarios that have times by older sources alone come first, else in the
 * order that they are in. */
void heats_stale_first(struct heats *);
double heats_apart(const struct heat *, const struct heat *);

/* ---- recall.c ------------------------------------------------------------------- */
/* What the database knows by this protocol: of cells by today's sources `stored`, of all
 * `us`. */
int heats_recall(struct heats *, struct store *, const char *gpu, const char *protocol);
/* Adds the scenarios that a database has cells of. 0: it failed, or no memory. */
int recall_scenarios(struct scenario_list *, struct store *, const char *gpu);

/* ---- select.c ------------------------------------------------------------------- */
/* Who is worth racing, the most promising first: all while few heats of the phase are
 * finished or `everyone`; then the reference, defaults, baselines, who won or nearly won
 * the nearest finished heats, who won anywhere twice, and a few others by chance; of
 * these none that the machine's ceilings rule out. Places, to `out`; how many. */
int heats_select(const struct heats *, const struct heat *, int everyone, int *out);
/* Places of what the phase's portfolio means in this heat: of a family with a formula
 * axis what its formulas resolve to. */
int heats_meant(const struct heats *, const struct heat *, const char *family, int *out);
/* How many choices that were as good as the best in a heat nearby nobody has tried here. */
int heats_overlooked(const struct heats *, const struct heat *);
/* A heat whose finished neighbours cannot agree on a family. */
int heats_disputed(const struct heats *, const struct heat *);
/* Microseconds that the machine's ceilings ask for; 0: not known. */
double heats_roofline(const struct heats *, const struct heat *);
/* The same of a choice that may leave units idle. */
double heats_bound(const struct heats *, const struct heat *, const struct choice *);

/* ---- portfolio.c ---------------------------------------------------------------- */
/* Marks in family[num_families] those of a phase, `most` or fewer, that all its heats
 * should know. 0: no memory. */
int heats_portfolio(const struct heats *, enum phase, int most, char *family);
/* The same, as large as the stage complete measures it. */
int stages_portfolio(const struct heats *, enum phase, char *family);

/* ---- contender.c ---------------------------------------------------------------- */
/* One runner of a race: an entrant of a heat, or of two, a composed plan: those of the
 * prefill and of the decode heat of a scenario. */
struct lane {
	int heat[2], place[2]; /* heat[1]: -1 where there is one only */
	char gated;            /* has passed the corner batches; plans need not */
	enum attune_how how;   /* of a plan */
	int spare;             /* SPARE_UNITS of a plan's prefill part; 0: the entrant's own */
};
enum { MAX_PLAN_TEXT = 2 * MAX_PART_TEXT + 32 };
/* What a lane runs: the whole, or of a plan one of its parts. */
struct choice lane_choice(const struct heats *, const struct lane *, int part);
/* "prefill: qblock ... | decode: segmented ...", by parts_text. */
void plan_text(char text[MAX_PLAN_TEXT], const struct heats *, const struct lane *);

/* ---- plans.c -------------------------------------------------------------------- */
enum { MAX_PLANS = 12 };
/* Lanes of the plans of a mixed scenario that are worth a race; plans.c says which. 0: there
 * are none. */
int plans_pick(const struct heats *, int scenario, struct lane lane[MAX_PLANS]);

/* ---- worker.c ------------------------------------------------------------------- */
/* All that a worker must know; it is forked, so these must not change afterwards. */
struct worker_setup {
	const char *device; /* as in device_open */
	const struct heats *heats;
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
	const struct lane *lane; /* lane[0] is the reference; all of one scenario */
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
/* Told while the race runs, of lane i. At most one result of each; none when the budget
 * ended before it. */
struct listener {
	void *arg;
	/* failed_gate: it must not run on this shape again. 0: stop. */
	int (*result)(void *arg, const struct order *, int i, const struct measurement *,
		      int failed_gate);
	void (*passed)(void *arg, const struct order *, int i);
	/* After the results: lane `of` ran twice. 0: stop. */
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
	HEARD_NOTHING,     /* this heat cannot be run here; worker_text says why */
	HEARD_STOP         /* a listener said so */
};

/* Nothing is started before it is needed; NULL: no memory. */
struct worker *worker_new(const struct worker_setup *);
/* Starts the worker unless it runs. 0 when interrupted. */
int worker_hello(struct worker *, struct hello *);
/* Restarts the worker as often as entrants take it down; each such entrant gets
 * OUTCOME_CRASH or OUTCOME_TIMEOUT and the others go on. */
enum heard worker_race(struct worker *, const struct order *, const struct listener *);
const char *worker_text(const struct worker *);
void worker_free(struct worker *);

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

/* ---- campaign.c ----------------------------------------------------------------- */
/* What a stage has taken, and brought. */
struct tally {
	long long races, scenarios, cells, failed, noisy, controls;
	double device_s; /* of the device's time, as far as plays are timed */
};
/* What runs the races of a campaign: its worker, or a simulation of one. */
struct race_runner {
	void *arg;
	enum heard (*race)(void *arg, const struct order *, const struct listener *);
	double (*seconds)(const void *arg); /* that it took so far; NULL: the clock says it */
	void (*free)(void *arg);            /* or NULL */
	int is_simulated;                   /* needs no code, no quiet machine and no clock */
};
struct campaign {
	const struct sweep_options *o;
	struct hello hello;
	struct protocol protocol;
	struct binaries binaries;
	struct heats heats;
	char *gated;  /* [entrant][phase]: has passed the corner batches */
	char *barred; /* [entrant][shape]: enum outcome, OUTCOME_OK: not barred */
	char db[256];
	struct store *store; /* NULL: nothing is kept */
	long long run;
	struct worker_setup setup;
	struct worker *worker; /* NULL: none yet, or races are simulated */
	struct race_runner runner;
	const struct survey *survey; /* NULL: all stages are run */
	double began, limit_s;       /* of the stage under way, since `began` */
	enum stage stage;
	int stage_done, stage_heats; /* heats */
	int skipped;                 /* heats that cannot be run here */
	int ran_out;                 /* of time: something was due and not begun */
	struct tally tally[NUM_STAGES];
	long long failed[NUM_OUTCOMES];
	double spent_s[NUM_SPENT];
	struct lane *noisy_plan; /* in this command, and not measured better since */
	int num_noisy_plans;
	int refused;             /* exit code of device_ready */
	int bad_controls;        /* races in a row with a control that is not believed */
	double worst_control;    /* of these, by what share */
	long long believed_race; /* id of the newest race until the last good control */
};
/* Heats, and what is known of entrants; the device and the protocol are there. */
void campaign_make(struct campaign *, const struct scenario_list *);
/* After the heats are complete, or have grown. */
int campaign_remember(struct campaign *);
/* After heats_recall: what has a time by today's sources and this device has passed the
 * corner batches before that. */
void campaign_trust(struct campaign *);
/* This entrant has passed the corner batches of a phase. */
void campaign_pass(struct campaign *, int entrant, enum phase);
/* Adds what it took, once. */
void campaign_sum(struct campaign *, struct sweep_sum *);
void campaign_free(struct campaign *);
/* Seconds since it began without those of waiting for compilers; or what the runner says. */
double campaign_seconds(const struct campaign *);
/* Begins a run of the database unless there is one, after device_ready. 0: c->refused is an exit
 * code, or else the database failed. */
int campaign_begin_run(struct campaign *);
/* From here on a worker runs its races; heats must be complete. 0: no memory. */
int campaign_worker(struct campaign *);
/* Waits until the machine is quiet, to race noisy cells again. 0: it is not, or it is too late. */
int campaign_quiet_again(const struct campaign *);
enum { NOISY_RETRIES = 2 /* more races for cells whose time is not data, in one command */ };
/* Whether this plan's newest time in this command is not data; cells of heats say it themselves. */
int campaign_is_noisy(const struct campaign *, const struct lane *plan);
/* Cells and plans whose newest time is not data. */
int campaign_noisy(const struct campaign *);
struct entries {
	const int *place; /* of the heat; the reference is added */
	int n;
	int again;        /* also what is stored */
	int only_these;   /* the reference is the first of them */
	int fixed_rounds; /* as of struct race */
	int with_plans;
	const struct lane *plan; /* these plans, or those that promise most */
	int num_plans;
};
/* Lets builders begin with the code of what is to be raced later; how many binaries that are. */
int campaign_ask(struct campaign *, const struct heat *, const struct entries *);
/* One race of some of a heat, and what it takes and brings kept. `seconds`: at most. */
enum heard campaign_race(struct campaign *, struct heat *, const struct entries *, double seconds);
/* Seconds that a race may take which is this part (up to 1) of the work that is left. */
double campaign_share(const struct campaign *, double part);
/* A line on a heat that could not be run; goes on with the others. */
enum heard campaign_excuse(struct campaign *, const struct heat *, enum heard);
int campaign_code(const struct campaign *, enum heard);

/* ---- stages.c ------------------------------------------------------------------- */
/* Which of the stages there is something left for. */
int stages_left(struct campaign *);
/* Stages from `from` to `to`, within the budget. */
enum heard stages_run(struct campaign *, enum stage from, enum stage to);
/* Whether a scenario's heats are measured exhaustively, to audit the others. */
int stages_audits(const struct campaign *, const struct heat *);

/* ---- survey.c ------------------------------------------------------------------- */
struct survey {
	struct scenario_list list; /* that the database knows */
	struct heats heats;        /* of these */
	struct binaries binaries;
	char *family[3];           /* by phase, of heats.family: in the portfolio */
	const struct choice *also; /* choices whose families are wanted in every phase */
	int num_also;
	int races; /* finished */
};
/* From the finished races of the campaign's database. 0 after a complaint, also when there
 * are none. */
int survey_learn(struct survey *, const struct campaign *);
void survey_free(struct survey *);
/* Whether the choice's family is in the portfolio of that phase. */
int survey_wants(const struct survey *, enum phase, const struct choice *);
/* As `keep` of struct field: keeps defaults, baselines, and what is in any portfolio. */
int survey_keeps(const void *survey, const struct candidate *);
/* What the database has a time of has passed the corner batches before. 0: no memory. */
int survey_trust(const struct survey *, struct campaign *);

/* ---- sweep_report.c ------------------------------------------------------------- */
/* Device seconds by stage, the share of what all legal cells would have taken, and what
 * the audit and the controls say. 0: the controls of the database are not believed. */
int sweep_report(const struct campaign *);
/* Seconds that `rounds` samples of every legal cell take; a cell without a time takes the
 * median of its heat. */
double exhaustive_seconds(const struct campaign *, int rounds);
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

/* ---- sweep_wishes.c ------------------------------------------------------------- */
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

/* ---- sweep_early.c -------------------------------------------------------------- */
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

/* ---- sweep_replay.c ------------------------------------------------------------- */
/* The stages on the recorded times of o->replay. An exit code. */
int sweep_replay(const struct sweep_options *);

/* ---- gpu_models.c --------------------------------------------------------------- */
/* What each unit of an architecture has; NULL: kernels do not compile for it. */
struct arch_limits {
	const char *arch;
	int smem_per_block, smem_per_unit; /* 0: the chip's, of AMD */
	int threads_per_unit, blocks_per_unit;
};
const struct arch_limits *arch_limits(const char *arch);
extern const char arch_names[]; /* for messages: "sm_80, sm_86, ..." */
/* A GPU as it would be found here. */
void gpu_describe(struct device_info *, const struct gpu_model *);
/* A row of the table by its name; else, named `gpu`, what the table has of that architecture; with
 * neither 0 + complain. */
int gpu_imagine(struct device_info *, const char *gpu, const char *arch);

/* ---- resident.c ----------------------------------------------------------------- */
struct resident { /* on one unit, at a time */
	int blocks;
	int waves;    /* on AMD GPUs: of a SIMD, of at most 8; else 0 */
	double share; /* of the threads that it could hold */
};
void gpu_resident(struct resident *, const struct arch_limits *, const struct binary *,
		  const struct geometry *);
/* On a SIMD of AMD's, as far as registers tell. */
int waves_by_registers(int vgprs, int sgprs);

/* ---- compile_only.c ------------------------------------------------------------- */
/* Prints what each binary of the scenarios' candidates takes, and keeps it in o->db, else in
 * compiled_<gpu>.sqlite beside the cache: never where times are. An exit code. */
int compile_only(const struct sweep_options *, const struct scenario_list *);

#endif
