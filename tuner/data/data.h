/* data.h - what a database says of one GPU: cells, times, costs of a decision.
 * Includes harness/store and harness/scenario. */
#ifndef TUNER_DATA_DATA_H
#define TUNER_DATA_DATA_H

#include "harness/base/base.h"
#include "harness/store/store.h"
#include "kernels/select/selector.h"
#include <stdint.h>

struct batch;
struct family;
struct fastest;
struct pace;
struct scaffold;

/* ---- data.c: what a database says of one GPU ---------------------------------- */
enum { NUM_PHASES = 3 }; /* of enum phase */

/* Pass A is what trees learn from, pass B a session of its own that measured again
 * what they pick and its rivals: by it they are judged, since the fastest of many
 * times is fast by luck too. */
enum pass { PASS_A, PASS_B, NUM_PASSES };

/* Whose power the sensor told: nobody's; of what ran around a burst, a second of many races;
 * of a steady race, in which all take turns; of the choice, which ran alone. See power_source.c. */
enum power_of { POWER_UNKNOWN, POWER_AROUND, POWER_RACE, POWER_ALONE };

struct cell {
	double us; /* what costs are made of: see times.c */
	double median_us, min_us, ci_us, gbps, tflops, joules;
	double ratio; /* to the reference of its race; NaN: not known */
	int race;     /* of a scenario and phase: which one it was in */
	enum outcome outcome : 8;
	enum power_of power_of : 8; /* whose power joules are by */
	unsigned censored : 1;      /* given up early: known to be slow, not how slow */
	unsigned on_clock : 1;      /* us is by the clock of its scenario and phase (clock.c) */
	unsigned translated : 1;    /* measured on the prior GPU, not here (transfer.c) */
};

/* A scenario as measured. part[phase] is valid where has[phase]. */
struct measured {
	char *model, *set, *split, *batch_text, *layout;
	char *key; /* private: what orders them */
	attune_shape shape;
	unsigned long long seed;
	int lost_best; /* a part's fastest time is stale, and its kernel has no other: not learned from */
	int is_translated; /* every cell is (transfer.c) */
	double weight;
	struct batch *batch;
	struct part part[NUM_PHASES];
	int has[NUM_PHASES];
};

/* A prefill and a decode choice, measured as one run. */
struct composed {
	int scenario, prefill, decode;
	enum attune_how how;
	enum pass pass;
	struct cell cell;
	int is_outdone; /* of pass A: pass B has it, too */
};

enum { NOISE_BANDS = 3 }; /* of a time: below 20 us, below 200 us, above */

/* What a user of the data has found once and keeps with them. */
struct found {
	void *v;
	void (*free)(void *); /* frees v */
};

/* A part by a choice that begins early, or by the same in turn, in one race: rows of pass E, as
 * `attune sweep --early` makes them. */
struct paced {
	int scenario, choice, value; /* choice: the same in turn; value: of its early axis */
	enum phase phase;
	struct cell cell;
};

struct data {
	/* gpu: as it was asked for; hash: empty until data_hash */
	char gpu[GPU_NAME], hash[33], protocol[32];
	char prior[GPU_NAME], prior_hash[33]; /* of data_transfer: the other GPU; "": none */
	struct run_info run;
	struct measured *v; /* by model, page size, dtypes, layout, batch */
	int n;
	/* By kernel, then by values: num_choices that were measured, and then, up to
	 * num_columns, those with a formula. */
	struct choice *choice;
	int num_choices, num_columns;
	/* By scenario: those of scenario s are plan[plan_at[s]] up to plan[plan_at[s + 1]]. */
	struct composed *plan;
	int num_plans, *plan_at;
	struct paced *paced; /* by scenario and phase: what begins early */
	int num_paced;
	int ignored; /* cells whose choice today's .def tables do not list */
	int stale;   /* cells of older sources that no bridge carries to today's */
	int noisy;   /* cells with too few clean samples */
	int bridged; /* of those read: of older sources, carried by a bridge */
	int lost;    /* scenarios that would be learned from but for lost_best */
	struct noise noise;
	int powered[POWER_ALONE + 1]; /* cells by whose power they have */
	/* Whose times are asked for. PASS_B, as data_finish leaves it: where a scenario
	 * has times of that pass they alone count, in others those of pass A. */
	enum pass pass;
	/* private. The cells by scenario, phase, choice and pass. Those of a row, which is
	 * NUM_PHASES * scenario + phase, are cell[row[r]] up to cell[row[r + 1]]. */
	struct scaffold *scaffold;
	struct cell *cell;
	int num_cells, *row;
	int *key;                /* [num_cells] NUM_PASSES * choice + pass */
	double *shift;           /* [n] median of B / A over cells that have both; 1 */
	signed char *again;      /* [n][NUM_PHASES] whether pass B has a right result, and judges */
	struct fastest *fastest; /* see fastest.c */
	struct family *family;
	int num_families;
	int *family_of;     /* [num_columns], -1: of none */
	signed char *value; /* [num_columns] which member of its family it is, -1: none */
	signed char *means; /* [n][NUM_PHASES][num_columns - num_choices] see segment_families.c */
	struct found *basics; /* what baselines learn, kept here by baseline_matrices.c */
	char *notes;          /* lines for the comment of a header, or NULL; freed with the data */
};

void data_free(struct data *);
/* The steps of data_load, for tests. data_add copies what it keeps; 0 and a
 * complaint when the cell does not belong (other GPU, other protocol, bad text). */
struct data *data_new(const char *gpu, const struct run_info *);
int data_add(struct data *, const struct store_cell *);
const char *phase_name(int phase); /* "all" "prefill" "decode"; NUM_PHASES: "plan" */

/* ---- data_finish.c: data in their final order ------------------------------------------------ */
int data_finish(struct data *);

/* ---- load.c: a database read into data ------------------------------------------------ */
/* NULL and a complaint when the database cannot be read, mixes protocols or was made on an
 * emulated device, which tests alone read (ATTUNE_EMULATED=1); one without scenarios, and a
 * complaint, when it holds nothing of the GPU. Of "h200" caches of 16 and 32 bits, of "h200_e4m3"
 * those of E4M3 on an H200. */
struct data *data_load(const char *db_path, const char *gpu);
/* With times of older sources. */
struct data *data_load_stale(const char *db_path, const char *gpu);
/* data_load() with other layouts of the cache and with what gives the LSE, too, which no feature
 * tells apart: a heuristic is of strided ones without LSE, and so are its scores. */
struct data *data_load_all(const char *db_path, const char *gpu);
/* What both of these give, read once. 0 and neither on failure. */
int data_load_both(const char *db_path, const char *gpu, struct data **, struct data **all);
/* As data_load_all, but with the cells of one model's batch alone (in its canonical text, see
 * batch_format); all other scenarios are there without cells. What needs times of others
 * (estimates, trees) needs data_load_all. add_choices, unless NULL, is called for that batch's
 * scenarios and adds the choices that are columns, measured there or not; it returns 0 on
 * failure. */
struct data *data_load_one(const char *db_path, const char *gpu, const struct store_filter *,
			   int (*add_choices)(struct data *, int scenario, const void *arg),
			   const void *arg);
/* Finds data.hash, of all rows of the GPU in that database, which takes longer than all else of
 * loading. 0 + complain. */
int data_hash(struct data *, const char *db_path);
/* One line on stderr for each kind of rows that were read and do not count. */
void data_say_left_out(const struct data *, const char *db_path);
void data_say_noisy(const struct data *, const char *db_path); /* of these, noisy ones alone */

/* ---- segment_families.c: choices that say how to work out a value ----------------------- */
enum { MAX_MEMBERS = 24 };
/* Choices that differ in the axis of their kernel's formulas only. */
struct family {
	int member[MAX_MEMBERS]; /* [value of the axis] index into data.choice, or -1 */
	int num_members;
};
/* Adds choices with a formula behind the others, and what they mean. 0 without memory. */
int formulas_add(struct data *);
/* The choice of numbers that runs where `choice` is asked for, and that is itself
 * unless it has a formula; -1: none is legal, or it was never measured anywhere. */
int data_concrete(const struct data *, int scenario, enum phase, int choice);
/* Whether some value of a choice with a formula is legal there, measured or not. */
int formula_is_legal(const struct data *, int scenario, enum phase, int choice);
/* Which member of its family a choice is there, -1: none. */
int family_value(const struct data *, int scenario, enum phase, int choice);

/* ---- cells.c: where the cells are --------------------------------------------- */
/* Of the pass that is asked for, else of pass A; NULL when not measured. */
const struct cell *data_cell(const struct data *, int scenario, enum phase, int choice);
/* Of that pass alone; NULL when not measured. */
const struct cell *data_cell_in(const struct data *, enum pass, int scenario, enum phase,
				int choice);
/* The cells of a choice by pass, NULL where there is none. */
struct cells {
	const struct cell *of[NUM_PASSES];
};
struct cells data_cells(const struct data *, int scenario, enum phase, int choice);
/* That of the pass that is asked for, else of pass A. */
const struct cell *cells_of_pass(const struct data *, const struct cells *);
/* Goes through the choices that have a cell of the phase, or of either phase, in a scenario:
 *
 *   struct choice_iter i = choices_of(d, scenario, phase, PHASE_ALL);
 *   while (choices_next(&i)) ... i.choice, i.cells[0] of the phase, i.cells[1] of PHASE_ALL */
struct choice_iter {
	int choice; /* ascending */
	struct cells cells[2];
	const struct data *d;
	int at[2], end[2];
};
struct choice_iter choices_of(const struct data *, int scenario, enum phase, enum phase or_phase);
int choices_next(struct choice_iter *); /* 0 after the last */
/* Index of a choice, by choice_compare; -1 when never measured. */
int data_find(const struct data *, const struct choice *);

/* ---- times.c: what the cells say ----------------------------------------------- */
int data_legal(const struct data *, int scenario, enum phase, int choice);
/* Time of an `ok` cell; INFINITY for any other. In pass B a cell of pass A stands
 * for what it would have been there, by data.shift. */
double data_time(const struct data *, int scenario, enum phase, int choice);
/* Of a choice's cells in a scenario, by the pass that is asked for. */
double cells_time(const struct data *, int scenario, const struct cells *);
/* The same of its part, by its cells of the phase and of the whole. */
double cells_part_time(const struct data *, int scenario, const struct cells of[2]);
/* Whether that part's time is one of pass B. */
int cells_confirmed(const struct data *, int scenario, const struct cells of[2]);
/* Whether pass B judges there. */
int measured_again(const struct data *, int scenario, enum phase);
int noise_band(double us);
/* How much slower than `us` is no difference: a share, as measured by A/A pairs. */
double data_noise(const struct data *, double us);
/* The same for a part; of a batch of one phase the part is the whole, whichever
 * of the two names it was measured by. */
double data_part_time(const struct data *, int scenario, enum phase, int choice);
/* A cautious guess at the time of a choice that is legal and was not measured there,
 * by the members of its family that were; INFINITY when they do not say. */
double family_time(const struct data *, int scenario, enum phase, int choice);

/* ---- splits.c: who is learned from, and who judges -------------------------------- */
/* Not held out, and not one with lost_best. */
int data_is_training(const struct measured *);
/* What reports set side by side: 0 what was learned from, 1 the splits "heldout*", -1 neither. */
int data_side(const struct measured *);
/* "heldout": all splits that begin so; NULL: all; else that one. */
int in_split(const struct measured *, const char *split);
enum { MAX_SPLITS = 12 };
/* The splits that the scenarios name: train, peers, heldout (all of it), then by name. */
int data_splits(const struct data *, const char *splits[MAX_SPLITS]);
/* Whether scenarios may be of that split (NULL: of any); else says which there are. */
int split_known(const struct data *, const char *asked);

/* ---- fastest.c: the least times of a scenario ------------------------------------- */
/* The fastest choice of a phase; INFINITY and -1 when none is. In pass B only of
 * those that it measured, where it measured any. */
double data_best(const struct data *, int scenario, enum phase, int *choice);
/* The least time of all measured ways to run the scenario; and of those where nothing
 * overlaps. */
double data_oracle(const struct data *, int scenario);
double data_serial(const struct data *, int scenario);

/* ---- defaults.c: the kernels' defaults, and decided plans --------------------------- */
/* Concrete choices; a part that the batch has not, or that nothing runs: kernel NULL.
 * join 0: the prefill choice runs the whole batch. */
struct decided {
	struct choice prefill, decode;
	int join;
	enum attune_how how; /* of a join of 1 */
	int by_default;      /* of a forest: some part is not by what its tree said */
};
/* What a policy picks for a scenario: indices into data.choice, -1: none. */
struct pick {
	int prefill, decode, join;
	enum attune_how how; /* of a join of 1 */
};
/* The measured choices that the plan stands for, -1: none. */
void decided_pick(const struct data *, const struct decided *, struct pick *out);
/* The kernels' default that the library uses for a part; -1: none measured. */
int default_choice(const struct data *, int scenario, enum phase);
/* The same made concrete for a batch; 0: none runs, out->kernel is NULL. */
int default_made(const struct data *, const struct measured *, enum phase, struct choice *out);
/* What c means for that part of the batch, a formula worked out; 0: it may not run. */
int decided_legal(const struct data *, const struct measured *, enum phase, const struct choice *c,
		  struct choice *out);
/* The choice made concrete for that part, where it is legal; else the library's default.
 * c: NULL for the default. 0: neither runs, out->kernel is NULL. */
int decided_or_default(const struct data *, const struct measured *, enum phase,
		       const struct choice *c, struct choice *out);

/* ---- overlap_times.c: what a way to overlap takes ------------------------------------ */
/* SAYS_SERIAL, SAYS_STREAMS or the index of a choice: the way that a pick goes. One launch of a
 * kernel that is not fused counts as serial. */
int pick_way(const struct data *, const struct pick *);
/* What a scenario takes in a way, to its fastest serial plan of the same race: of the pick's
 * own parts where they ran so, else (also with NULL) the least. INFINITY: not measured. */
double overlap_ratio(const struct data *, int scenario, int way, const struct pick *);
/* Of pairs that ran on two streams there the least time, to that of the same parts one after the
 * other; INFINITY: none did. */
double overlap_pairs(const struct data *, int scenario);

/* ---- plan_times.c: what a picked plan takes ----------------------------------------- */
/* Time of the picked plan in us; INFINITY when some part of it was not measured
 * or failed. */
double data_plan_time(const struct data *, int scenario, const struct pick *);
/* The cell of the picked plan, measured as a whole; NULL: it was not. */
const struct cell *data_pick_cell(const struct data *, int scenario, const struct pick *);
/* Of both parts in one plan, in that pass; NULL: it was not measured. */
const struct cell *data_plan_cell(const struct data *, enum pass, int scenario,
				  const struct pick *);
/* 0 when some part of the pick's time is of pass A though the scenario has pass B. */
int data_confirmed(const struct data *, int scenario, const struct pick *);

/* ---- early_times.c: what beginning early takes --------------------------------------- */
/* A part and a choice that have such times. */
struct pace {
	int scenario, choice;
	enum phase phase;
};
/* All of them in the order of their members; NULL without memory. The caller's to free. */
struct pace *paces_of(const struct data *, int *n);
/* What it takes with that value to what it takes in turn, both of one race; NaN: not known. */
double pace_ratio(const struct data *, const struct pace *, int value);
/* The geometric mean of those of a part; NaN: of none it is known. */
double early_ratio(const struct data *, int scenario, enum phase, int value);

/* ---- compare_races.c: on what basis two times of one pass can be compared ------------------- */
enum basis {
	BASIS_NONE,
	BASIS_RACE,    /* one race, or several on one clock */
	BASIS_SESSIONS /* two sessions of the second pass: there is drift between them */
};
/* *ratio: a's time to b's; NaN: none. Both of one scenario and of one phase, or of plans and single
 * launches of a whole batch, which race each other. */
enum basis cells_compare(const struct cell *a, const struct cell *b, enum pass, double *ratio);
/* "tie" within the noise of a time of so many us, else "slower" and so on. */
const char *basis_words(const struct data *, enum basis, double ratio, double us);

/* ---- distance.c: how far apart two parts are ------------------------------------------- */
/* Sum of |log| of ratios over the features that say what work there is; where that is `most` or
 * more, any number that is. */
double part_distance(const struct attune_features *, const struct attune_features *, double most);

/* ---- matrix.c: what each choice would cost in each scenario -------------------- */
enum phase decision_phase(enum decision);

/* Costs in micro-nats: 1e6 x log(time / best time) of the whole plan. */
enum {
	COST_CAP = 4000000,         /* e^4: past that, worse is not told from worse */
	COST_MISSING = 100000,      /* added to the row's worst: never better than what was seen */
	COST_FORBIDDEN = INT32_MAX, /* illegal or failed: no leaf over this row may choose it */
	NOISE_FLOOR = 5000          /* 0.5 %: less than that is no difference */
};

struct matrix {
	int rows, cols;
	int *scenario;             /* [rows] index into data.v */
	int *choice;               /* [cols] index into data.choice, or what the matrix says */
	int32_t *cost;             /* [rows][cols] */
	int32_t *fallback;         /* [rows] cost of the kernels' default */
	int32_t *weight;           /* [rows] 1 or more */
	int32_t *block;            /* [rows][NUM_BLOCKINGS] group that is held out together */
	struct attune_features *f; /* [rows] */
};
enum { NUM_BLOCKINGS = 4 }; /* by batch size, by length, by model, each alone */

/* Training rows of the prefill or the decode decision. */
struct matrix *matrix_parts(const struct data *, enum decision);
/* Everything of a row but its costs. */
void matrix_describe_row(const struct data *, struct matrix *, int row, enum phase);
struct matrix *matrix_new(int rows, int cols);
struct matrix *matrix_copy(const struct matrix *);
/* All of as many rows but their costs. */
void matrix_copy_rows(struct matrix *, const struct matrix *from);
void matrix_free(struct matrix *);
/* Keeps `cols` columns: column c becomes to[c] <= c, or goes when that is -1. */
int matrix_keep(struct matrix *, const int *to, int cols);
/* The same as a matrix of its own; NULL without memory. */
struct matrix *matrix_columns(const struct matrix *, const int *to, int cols);
int32_t cost_of(double us, double best_us);
#define FORBIDDEN_SUM (1ll << 46)
/* weight x cost; a forbidden cell weighs more than all others together. */
static inline long long matrix_at(const struct matrix *m, int row, int col)
{
	const int32_t cost = m->cost[(size_t)row * (size_t)m->cols + (size_t)col];
	return cost == COST_FORBIDDEN ? FORBIDDEN_SUM : (long long)m->weight[row] * cost;
}

/* ---- portfolio.c: which choices are worth having ---------------------------------- */
enum { MAX_PORTFOLIO = 32 };
struct portfolio {
	int n;
	/* [k] slowdown with the best of the first k + 1: mean (geometric), and worst */
	double mean[MAX_PORTFOLIO], worst[MAX_PORTFOLIO];
};
/* Keeps at most `limit` columns, those whose row minima add up to the least, and among
 * them `given`, unless that is -1; how good they are goes to the last, or NULL. 0
 * without memory. */
int matrix_portfolio(struct matrix *, int limit, int given, struct portfolio *);

#endif
