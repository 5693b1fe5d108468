/* SPDX-License-Identifier: Apache-2.0 */
/* search.h - selects which choices race on which scenarios: candidates, problems, short lists,
 * portfolios and plans.
 * Includes base, scenario, compile, store. */
#ifndef HARNESS_SEARCH_SEARCH_H
#define HARNESS_SEARCH_SEARCH_H

#include "harness/store/store.h"
#include "kernels/spec/choice.h"
#include "kernels/spec/device_info.h"

struct binaries;
struct blob;
struct scenario;
struct scenario_list;
struct shape_candidates;

/* ---- candidates.c --------------------------------------------------------------- */
enum origin { FROM_DEFAULT, FROM_BASELINE, FROM_NEIGHBOUR, FROM_SAMPLE, FROM_ALL };

/* A hash table of array items by choice: [hash] is 1 + the index of a chain's last item, and each
 * item's `next` is 1 + the index of the one before it. All zeros is empty. */
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
/* Reads --preset, or ends the program with a message. */
void preset_option(enum preset *, const char *arg, struct argp_state *);
/* Adds the choices of a kernel that are legal for a shape, each once. They may still be illegal for
 * a batch. 0: no memory. */
int candidates_add(struct candidates *, const struct kernel *, const attune_shape *,
		   const struct device_info *, enum preset, unsigned long long seed);
/* Adds the choices that differ from `of` in one axis and are legal for the shape and the part (NULL:
 * any). 0: no memory. */
int candidates_add_neighbours(struct candidates *, const struct kernel *, const struct config *of,
			      const attune_shape *, const struct part *,
			      const struct device_info *);
/* The nearest choice to `from` that is legal for the shape and the part (NULL: any); 0: none. */
int nearest_legal(struct config *out, const struct kernel *, const struct config *from,
		  const attune_shape *, const struct part *, const struct device_info *);
/* The same for the constants of vLLM's kernel, if this kernel has such a baseline. */
int baseline_nearest(struct config *out, const struct kernel *, const attune_shape *,
		     const struct part *, const struct device_info *);

/* ---- problems.c -------------------------------------------------------------------- */
/* A choice with its code. Shapes that compile to the same binary share it. */
struct built_choice {
	struct choice choice;
	enum origin origin;
	int family;                     /* equal for choices that differ only in the formula axis */
	int built, helper[NUM_HELPERS]; /* indices of binaries; helper: -1: none */
	const struct blob *blob,
	    *helping[NUM_HELPERS]; /* their code, once compiled; helping: or NULL */
	const char *flags;
	int registers, spill_bytes; /* by the compiler; -1: not known */
	int next;                   /* of its chain */
};

enum { PROBLEM_FEATURES = 8 };

/* One scenario and phase with its legal candidates. Arrays are by place. */
struct problem {
	int scenario, shape; /* shape: index in struct problems */
	enum phase phase;
	struct part part;
	double feature[PROBLEM_FEATURES];
	double bytes, flops; /* that any choice must move and compute */
	int n;
	int top;           /* the largest built_choice */
	int *built_choice; /* [0]: the reference */
	char *near;   /* 2: a formula gives this choice; 1: within a factor of 2 of one; else 0 */
	char *stored; /* the database has it */
	char *noisy;  /* its newest time is noisy; `stored` if an earlier one is not */
	char *stage;  /* enum stage of the time in `us` */
	double *us;   /* median; INFINITY: failed; NaN: not measured */
	int best;     /* the place with the least us; -1: none yet */
	int finished; /* its race is complete */
	/* of the whole of a mixed batch: */
	int planned;                    /* plans were raced with it */
	int noisy_plans;                /* plans with noisy times */
	unsigned long long *today_plan; /* hashes of plans' texts that the database has of today */
	int num_today_plans, today_plan_room;
};
struct problems {
	const struct scenario *scenarios;
	struct device_info device;
	double dram_gbps, tflops; /* upper bounds of any speed; 0: not known */
	const char *retry; /* "resources,crash": stored outcomes that do not count; NULL: none */
	struct problem *v; /* a scenario's problems are consecutive */
	int n, room;
	struct built_choice *built_choice;
	int num_built_choices, built_choice_room;
	struct chains by_choice; /* choices */
	struct choice *family;   /* the formula axis: first value */
	int num_families, family_room;
	struct shape_candidates *shapes; /* distinct shapes and their candidates */
	int num_shapes;
};
struct candidate_options { /* selects the candidates of problems */
	const struct device_info *device;
	enum preset preset;
	const char *kernels; /* "qblock,segmented"; NULL: all */
	const char *phases;  /* "prefill,all"; NULL: all */
	unsigned long long seed;
	/* Whether to keep a candidate; NULL: keep all. */
	int (*keep)(const void *keep_arg, const struct candidate *);
	const void *keep_arg;
};
/* Adds the problems of scenario `index`, unless no kernel can run it. 0: no memory. */
int problems_add(struct problems *, struct binaries *, int index, const struct candidate_options *);
/* Notes a cell's time; INFINITY: it failed. */
void problems_note(struct problem *, int place, double us, enum stage);
/* Whether a choice of a plug-in has a time of another version, and none of today's. */
int problem_has_other_version(const struct problems *, const struct problem *, int place);
/* Place of a choice in a problem; -1: it is not legal there. */
int problems_place(const struct problems *, const struct problem *, const struct choice *);
/* Index of the built choice for this choice and shape, which is added if new; -1: no memory. */
int problems_add_choice(struct problems *, struct binaries *, const struct candidate *,
			const attune_shape *);
/* Adds a problem without candidates, for requested cells. NULL: the scenario has nothing in this
 * phase, or no memory. */
struct problem *problems_add_empty(struct problems *, int index, enum phase,
				   const struct device_info *);
/* The problem of that scenario and phase, or NULL. */
struct problem *problems_find(const struct problems *, int scenario, enum phase);
void problems_free(struct problems *);

/* Adds a choice; returns its place, or -1: no memory. */
int problem_add_candidate(struct problem *, int built_choice);

/* ---- scenario_order.c ------------------------------------------------------------------- */
/* Sorts scenarios so that each is far from all before it, preferring heavy ones. Then later
 * scenarios have neighbours, and little is lost if the sweep ends early. */
void problems_spread(struct problems *);
/* After problems_recall: moves scenarios that have only times by older sources to the front; else
 * keeps the order. */
void problems_stale_first(struct problems *);
double problems_apart(const struct problem *, const struct problem *);

/* ---- resume.c ------------------------------------------------------------------- */
/* Loads the database's times by this protocol: `us` of all cells, and `stored` of those by today's
 * sources. */
int problems_recall(struct problems *, struct store *, const char *gpu, const char *protocol);
/* Adds the scenarios that have cells in a database. 0: failed, or no memory. */
int recall_scenarios(struct scenario_list *, struct store *, const char *gpu);

/* ---- shortlist.c ------------------------------------------------------------------- */
/* Lists the places of the candidates to race, the most promising first. While few problems of the
 * phase are finished, or if `everyone`: all. Later: the reference, defaults, baselines, those at or
 * near the best of the nearest finished problems, those that won twice anywhere, and a few random
 * ones. Leaves out those that the machine's ceilings rule out. How many. */
int problems_shortlist(const struct problems *, const struct problem *, int everyone, int *out);
/* Lists the places of a portfolio's families in this problem: of a family with a formula axis the
 * choices that its formulas give. How many. */
int problems_resolve(const struct problems *, const struct problem *, const char *family, int *out);
/* The number of choices that equalled the best in a neighbour and were not tried here. */
int problems_overlooked(const struct problems *, const struct problem *);
/* Whether the problem's finished neighbours have different best families. */
int problems_disputed(const struct problems *, const struct problem *);
/* Lower bound in microseconds by the machine's ceilings; 0: not known. */
double problems_roofline(const struct problems *, const struct problem *);
/* The same for a choice, which may leave units idle. */
double problems_bound(const struct problems *, const struct problem *, const struct choice *);

/* ---- portfolio.c ---------------------------------------------------------------- */
/* Marks in family[num_families] the portfolio of a phase, which the stage complete measures. 0: no
 * memory. */
int stages_portfolio(const struct problems *, enum phase, char *family);

/* ---- contender.c ---------------------------------------------------------------- */
/* What the library remembers when it plans. */
enum library_memory {
	MEMORY_NONE,
	MEMORY_MEMBER,   /* nothing: it runs the plan `nth` of attune_plan_alternatives */
	MEMORY_SETTLING, /* it settles the batch, and what that took is its time */
	MEMORY_SETTLED,  /* what it settled this batch to */
	MEMORY_CARRIED /* the text of an earlier session, of it what is faster by `nth` per cent */
};
/* What is timed: one choice; or a plan, which has a choice for each part of a mixed batch; or
 * whatever the library itself plans. Whoever asks for a time fills this struct, and the worker
 * launches from it. */
struct contender {
	int scenario;     /* of the list */
	enum phase phase; /* that `choice` runs; else only requested_cells.c reads it, to sort */
	int is_plan, is_library;
	/* Concrete (kernels/spec/choice.h: config_resolve). Of a plan `choice` runs the prefill part, maybe
	 * with SPARE_UNITS, and `decode` the other. */
	struct choice choice, decode;
	enum attune_how how;
	int bounds; /* of the library: it plans for so many times the longest sequence; 0: exactly */
	enum library_memory memory; /* of the library */
	int nth;
	/* Of a request: measure it even if it is stored; and the name under which the result is a row
	 * of table bench, NULL: of measurement. One name in all requests of a list, or in none. */
	int again;
	const char *policy;
	/* Where it is a candidate, by part; set when it enters a race. */
	int problem[2], place[2];
	char wanted; /* its time is a result; else others are compared with it */
	char passed; /* the corner batches; plans need not */
	char noisy;  /* its newest time */
	int index;   /* in the race, for the worker */
};
enum { MAX_PLAN_TEXT = 2 * MAX_PART_TEXT + 32 };
/* How many choices it has: 0 of the library. */
int contender_parts(const struct contender *);
const struct choice *contender_choice(const struct contender *, int part);
enum phase contender_phase(const struct contender *, int part);
/* The candidate of a problem. */
struct contender contender_at(const struct problems *, const struct problem *, int place);
/* The code of a part. */
struct built_choice *contender_built(const struct problems *, const struct contender *, int part);
/* Whether they run the same. */
int contender_same(const struct contender *, const struct contender *);
/* "segmented BLOCK_M=16 ..."; of a plan "prefill: qblock ... | decode: segmented ...", by
 * parts_text. */
void contender_text(char text[MAX_PLAN_TEXT], const struct contender *);

enum { MAX_PLANS = 12 };
/* Selects the plans of a mixed scenario to race (see contender.c). How many. */
int plans_pick(const struct problems *, int scenario, struct contender contender[MAX_PLANS]);

#endif
