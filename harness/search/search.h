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

/* ---- scenario_order.c ------------------------------------------------------------------- */
/* Puts scenarios first that are far from all before them, heavy ones rather than
 * light ones, so that each later one has neighbours and an early end loses little. */
void heats_spread(struct heats *);
/* After heats_recall: scenarios that have times by older sources alone come first, else in the
 * order that they are in. */
void heats_stale_first(struct heats *);
double heats_apart(const struct heat *, const struct heat *);

/* ---- resume.c ------------------------------------------------------------------- */
/* What the database knows by this protocol: of cells by today's sources `stored`, of all
 * `us`. */
int heats_recall(struct heats *, struct store *, const char *gpu, const char *protocol);
/* Adds the scenarios that a database has cells of. 0: it failed, or no memory. */
int recall_scenarios(struct scenario_list *, struct store *, const char *gpu);

/* ---- shortlist.c ------------------------------------------------------------------- */
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

#endif
