/* sweep.h - between the files of a sweep:
 *
 *   candidates.c  which choices of a kernel are tried on a shape
 *   binaries.c    their code, compiled in parallel before any device time
 *   heats.c       (scenario, phase) pairs: their order, who runs in each, who won
 *   worker.c      runs a heat in a process that can be lost
 *   sweep.c       options, and the loop over heats that fills the database */
#ifndef SWEEP_H
#define SWEEP_H

#include "harness.h"

/* ---- binaries.c ----------------------------------------------------------------- */
enum { BUILT, REFUSED_BY_COMPILER, NO_COMPILER, NOT_BUILT };

struct built {
	const struct kernel *kernel;
	char flags[MAX_FLAGS];
	struct binary binary;
	int status;
};
struct binaries {
	const char *arch;
	struct built *v;
	int n, room;
};
/* Where the binary of a choice for a shape is, or will be; -1: no memory. */
int binaries_add(struct binaries *, const struct choice *, const attune_shape *);
/* Compiles all that are not yet, on several threads. 0 when there is no compiler or
 * the user interrupted. */
int binaries_compile(struct binaries *);
void binaries_free(struct binaries *);

/* ---- candidates.c --------------------------------------------------------------- */
enum origin { FROM_DEFAULT, FROM_BASELINE, FROM_NEIGHBOUR, FROM_SAMPLE, FROM_ALL };

struct candidate {
	struct choice choice;
	enum origin origin;
};
struct candidates {
	struct candidate *v;
	int n, room;
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
/* A choice with its code for one shape. */
struct entrant {
	struct choice choice;
	enum origin origin;
	int built, reduce;                 /* of the sweep's binaries; reduce: -1 where none */
	const struct blob *blob, *merging; /* these, once compiled; merging: or NULL */
	const char *flags;
	int registers, spill_bytes; /* as the compiler said; -1: it did not */
};

enum { HEAT_FEATURES = 8 };

/* One scenario and phase, and who may run in it. */
struct heat {
	int scenario, shape; /* shape: of struct heats */
	enum phase phase;
	struct part part;
	double feature[HEAT_FEATURES];
	int n;
	int *entrant; /* [0]: the reference */
	char *stored; /* the database has it */
	double *us;   /* median; INFINITY: failed; NaN: not measured */
	int finished; /* all that was to be run was run */
	/* of a mixed batch as a whole: */
	char *plan;  /* a composed plan that the database has; or NULL */
	int planned; /* plans were raced with it */
};
struct heats {
	const struct scenario *scenarios;
	struct heat *v; /* those of a scenario side by side, scenarios spread out */
	int n, room;
	struct entrant *entrant;
	int num_entrants, entrant_room;
	attune_shape *shape; /* distinct ones */
	int num_shapes;
};
struct field { /* what to fill heats with */
	const struct device_info *device;
	enum preset preset;
	const char *kernels; /* "qblock,segmented"; NULL: all */
	unsigned long long seed;
};
/* Heats of scenario `index`, unless none of our kernels can run it. 0: no memory. */
int heats_add(struct heats *, struct binaries *, int index, const struct field *);
/* Puts scenarios far from each other first, so that each later one has neighbours. */
void heats_spread(struct heats *);
/* What the database knows already: of cells by today's sources `stored`, of all `us`. */
int heats_recall(struct heats *, struct store *, const char *gpu);
/* Who is worth running: all while few heats of the phase are finished or `everyone`;
 * then the reference, defaults, baselines, who won or nearly won the nearest finished
 * heats, and a few others. Places in heat->entrant, to `out`; returns how many. */
int heats_select(const struct heats *, const struct heat *, int everyone, int *out);
/* Of a scenario's heats the one of that phase, or NULL. */
struct heat *heats_find(const struct heats *, int scenario, enum phase);
void heats_free(struct heats *);

/* ---- portfolio.c ---------------------------------------------------------------- */
/* Marks in entrant[num_entrants] the choices of a phase, about `most`, that all its
 * heats should know. 0: no memory. */
int heats_portfolio(const struct heats *, enum phase, int most, char *entrant);

/* One runner of a race: an entrant of a heat, or of two, a composed plan: those of the
 * prefill and of the decode heat of a scenario, one after the other. */
struct lane {
	int heat[2], place[2]; /* heat[1]: -1 where there is one only */
	char gated;            /* has passed the corner batches; plans need not */
};

/* ---- plans.c -------------------------------------------------------------------- */
enum { MAX_PLANS = 4, MAX_PLAN_TEXT = 2 * MAX_CHOICE_TEXT + 96 };
/* Lanes of the plans of a mixed scenario that are worth a race: pairs of the best choices
 * of each part. 0: there are none. */
int plans_pick(const struct heats *, int scenario, struct lane lane[MAX_PLANS]);
/* "prefill: qblock ... | decode: segmented ..." */
void plan_text(char text[MAX_PLAN_TEXT], const struct heats *, const struct lane *);

/* All that a worker must know; it is forked, so these must not change afterwards. */
struct worker_setup {
	const char *device; /* as in device_open */
	const struct heats *heats;
	struct protocol protocol;
	double gate_s, sample_s; /* patience beyond what a stage is expected to take */
};
struct worker;
/* What the device said of itself, or why it could not be opened. */
struct hello {
	enum attune_status status;
	char text[200];
	struct device_info info;
	double dram_gbps, fma_tflops; /* 0: not known */
};

struct order {
	const struct lane *lane; /* lane[0] is the reference; all of one scenario */
	int n;
	double seconds;
	unsigned long long seed;
};
/* Told while the race runs, of lane i. At most one result of each; none when the budget
 * ended before it. */
struct listener {
	void *arg;
	/* failed_gate: it must not run on this shape again. 0: stop. */
	int (*result)(void *arg, const struct order *, int i, const struct measurement *,
		      int failed_gate);
	void (*passed)(void *arg, const struct order *, int i);
	void (*beat)(void *arg); /* with each word of the worker */
};
enum heard {
	HEARD_ALL,
	HEARD_INTERRUPT,
	HEARD_NO_DEVICE, /* it opened once and does no more */
	HEARD_NOTHING,   /* this heat cannot be run here; worker_text says why */
	HEARD_STOP       /* a listener said so */
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

/* ---- provenance.c --------------------------------------------------------------- */
/* A new run of the database; 0: it failed. */
long long provenance_run(struct store *, const struct hello *, const struct protocol *,
			 const char *command);
/* Whether the newest measurement of a device of this short name is of this very device
 * and protocol. */
int provenance_same(struct store *, const struct device_info *, const struct protocol *);

/* ---- sweep.c -------------------------------------------------------------------- */
struct sweep_options {
	const char *gpu; /* "h200", "cpu"; NULL: what is here */
	const char *db;  /* NULL: results/<gpu>.sqlite */
	const char *kernels, *command;
	enum preset preset;
	double budget_s;
	int shard, shards; /* this one of so many, from 0 */
	int exhaustive, again, dry_run;
	enum format format;
	unsigned long long seed;
};
/* An exact wish: that choice in that scenario, whatever it promises. Choices are concrete
 * (kernels/kernel.h: config_resolve); a wish with a formula is refused. */
struct wish {
	int scenario; /* of the list */
	enum phase phase;
	int is_plan;                  /* choice: the prefill part's; phase does not count */
	struct choice choice, decode; /* decode: of a plan, the other part's */
};
/* Measures wishes in a run of its own, its rows in that stage ("b": pass B). The wishes
 * of a scenario and phase, or its plans, are one race of fixed rounds without elimination,
 * with one of them entered twice as an A/A control. Skipped, unless o->again, is what has a
 * row of that pass by today's sources and this device. An exit code. */
int sweep_wishes(const struct sweep_options *, const struct hello *, const struct scenario_list *,
		 const struct wish *, int n, const char *stage);
/* Asks the device of o->gpu who it is, in a process of its own; an exit code, and when not
 * done it has said why. */
int sweep_device(const struct sweep_options *, struct hello *);
/* What device_open is told for a GPU= name. */
const char *device_for(const char *gpu);
/* An exit code. */
int sweep(const struct sweep_options *, const struct hello *, const struct scenario_list *);

/* ---- compile_only.c ------------------------------------------------------------- */
/* What is known of a GPU without one at hand; NULL for a name that is not listed. */
struct gpu_model {
	const char *gpu, *arch;
	int units, smem_per_block, smem_per_unit, l2_mib, threads_per_unit, blocks_per_unit;
	double dram_gbps, tflops; /* of the data sheet: no time can beat them */
};
const struct gpu_model *gpu_model(const char *gpu);
/* Prints what each binary of the scenarios' candidates takes. An exit code. */
int compile_only(const struct sweep_options *, const struct scenario_list *);
extern const char gpu_names[]; /* for messages: "cpu, a100, h100 ..." */

#endif
