/* search.h - which choices are raced on which scenarios: candidates, problems, short lists, plans.
 * Includes base, scenario, compile, store. */
#ifndef HARNESS_SEARCH_SEARCH_H
#define HARNESS_SEARCH_SEARCH_H

#include "harness/store/store.h"
#include "kernels/kernel.h"
#include "kernels/spec/device_info.h"

struct binaries;
struct blob;
struct scenario;
struct scenario_list;
struct shape_field;

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

/* ---- problems.c -------------------------------------------------------------------- */
/* A choice with its code. Shapes that compile to the same binary share it. */
struct built_choice {
	struct choice choice;
	enum origin origin;
	int family; /* one number for all that differ in the formula axis alone */
	int built, helper[NUM_HELPERS]; /* of the sweep's binaries; helper: -1 where none */
	const struct blob *blob, *helping[NUM_HELPERS]; /* these, once compiled; helping: or NULL */
	const char *flags;
	int registers, spill_bytes; /* as the compiler said; -1: it did not */
	int next;                   /* of its chain */
};

enum { PROBLEM_FEATURES = 8 };

/* One scenario and phase, and who may run in it: legal points only. */
struct problem {
	int scenario, shape; /* shape: of struct problems */
	enum phase phase;
	struct part part;
	double feature[PROBLEM_FEATURES];
	double bytes, flops; /* that any choice must move and do */
	int n;
	int top;           /* the largest of: */
	int *built_choice; /* [0]: the reference */
	char *near;        /* 2: what some formula gives; 1: within a factor of 2 of that; else 0 */
	char *stored;      /* the database has it */
	char *noisy;  /* it was measured, and its time is not data: not stored, unless earlier */
	char *stage;  /* enum stage of the row that `us` is of */
	double *us;   /* median; INFINITY: failed; NaN: not measured */
	int best;     /* the place with the least us; -1: none yet */
	int finished; /* all that was to be raced was raced */
	/* of a mixed batch as a whole: */
	int planned;     /* plans were raced with it */
	int noisy_plans; /* of these, how many times are not data */
};
struct problems {
	const struct scenario *scenarios;
	struct device_info device;
	double dram_gbps, tflops; /* no time can beat them; 0: not known */
	struct problem *v;        /* those of a scenario side by side, scenarios spread out */
	int n, room;
	struct built_choice *built_choice;
	int num_built_choices, built_choice_room;
	struct chains by_choice; /* choices */
	struct choice *family;   /* the formula axis: first value */
	int num_families, family_room;
	struct shape_field *field; /* distinct shapes and their candidates */
	int num_shapes;
};
struct field { /* what to fill problems with */
	const struct device_info *device;
	enum preset preset;
	const char *kernels; /* "qblock,segmented"; NULL: all */
	const char *phases;  /* "prefill,all"; NULL: all */
	unsigned long long seed;
	/* Whether a candidate takes part; NULL: all do. */
	int (*keep)(const void *keep_arg, const struct candidate *);
	const void *keep_arg;
};
/* Problems of scenario `index`, unless none of our kernels can run it. 0: no memory. */
int problems_add(struct problems *, struct binaries *, int index, const struct field *);
/* A cell's time: INFINITY where it failed. */
void problems_note(struct problem *, int place, double us, enum stage);
/* Place of a choice in a problem; -1: it is not legal there. */
int problems_place(const struct problems *, const struct problem *, const struct choice *);
/* The choice of this choice for this shape, made when new; -1: no memory. */
int problems_entrant(struct problems *, struct binaries *, const struct candidate *,
		     const attune_shape *);
/* The problem of a wish: as problems_add, with no candidates. NULL: that phase of the scenario
 * is empty, or no memory. */
struct problem *problems_add_empty(struct problems *, int index, enum phase,
				   const struct device_info *);
/* Adds an choice; its place, or -1: no memory. */
int problem_enter(struct problem *, int built_choice);
/* Of a scenario's problems the one of that phase, or NULL. */
struct problem *problems_find(const struct problems *, int scenario, enum phase);
void problems_free(struct problems *);

/* ---- scenario_order.c ------------------------------------------------------------------- */
/* Puts scenarios first that are far from all before them, heavy ones rather than
 * light ones, so that each later one has neighbours and an early end loses little. */
void problems_spread(struct problems *);
/* After problems_recall: scenarios that have times by older sources alone come first, else in the
 * order that they are in. */
void problems_stale_first(struct problems *);
double problems_apart(const struct problem *, const struct problem *);

/* ---- resume.c ------------------------------------------------------------------- */
/* What the database knows by this protocol: of cells by today's sources `stored`, of all
 * `us`. */
int problems_recall(struct problems *, struct store *, const char *gpu, const char *protocol);
/* Adds the scenarios that a database has cells of. 0: it failed, or no memory. */
int recall_scenarios(struct scenario_list *, struct store *, const char *gpu);

/* ---- shortlist.c ------------------------------------------------------------------- */
/* Who is worth racing, the most promising first: all while few problems of the phase are
 * finished or `everyone`; then the reference, defaults, baselines, who won or nearly won
 * the nearest finished problems, who won anywhere twice, and a few others by chance; of
 * these none that the machine's ceilings rule out. Places, to `out`; how many. */
int problems_select(const struct problems *, const struct problem *, int everyone, int *out);
/* Places of what the phase's portfolio means in this problem: of a family with a formula
 * axis what its formulas resolve to. */
int problems_meant(const struct problems *, const struct problem *, const char *family, int *out);
/* How many choices that were as good as the best in a problem nearby nobody has tried here. */
int problems_overlooked(const struct problems *, const struct problem *);
/* A problem whose finished neighbours cannot agree on a family. */
int problems_disputed(const struct problems *, const struct problem *);
/* Microseconds that the machine's ceilings ask for; 0: not known. */
double problems_roofline(const struct problems *, const struct problem *);
/* The same of a choice that may leave units idle. */
double problems_bound(const struct problems *, const struct problem *, const struct choice *);

/* ---- portfolio.c ---------------------------------------------------------------- */
/* Marks in family[num_families] those of a phase, `most` or fewer, that all its problems
 * should know. 0: no memory. */
int problems_portfolio(const struct problems *, enum phase, int most, char *family);
/* The same, as large as the stage complete measures it. */
int stages_portfolio(const struct problems *, enum phase, char *family);

/* ---- contender.c ---------------------------------------------------------------- */
/* One runner of a race: an choice of a problem, or of two, a composed plan: those of the
 * prefill and of the decode problem of a scenario. */
struct contender {
	int problem[2], place[2]; /* problem[1]: -1 where there is one only */
	char passed;               /* has passed the corner batches; plans need not */
	enum attune_how how;      /* of a plan */
	int spare;                /* SPARE_UNITS of a plan's prefill part; 0: the choice's own */
};
enum { MAX_PLAN_TEXT = 2 * MAX_PART_TEXT + 32 };
/* What a contender runs: the whole, or of a plan one of its parts. */
struct choice contender_choice(const struct problems *, const struct contender *, int part);
/* "prefill: qblock ... | decode: segmented ...", by parts_text. */
void plan_text(char text[MAX_PLAN_TEXT], const struct problems *, const struct contender *);

/* ---- plans.c -------------------------------------------------------------------- */
enum { MAX_PLANS = 12 };
/* Lanes of the plans of a mixed scenario that are worth a race; plans.c says which. 0: there
 * are none. */
int plans_pick(const struct problems *, int scenario, struct contender contender[MAX_PLANS]);

#endif
