/* SPDX-License-Identifier: Apache-2.0 */
/* data.h - the measurements of one GPU, loaded from a database: scenarios, choices, cells and the
 * times that follow from them. Includes harness/store. */
#ifndef TUNER_DATA_DATA_H
#define TUNER_DATA_DATA_H

#include "harness/base/base.h"
#include "harness/store/store.h"
#include "kernels/select/selector.h"
#include <stdint.h>

struct batch;
struct family;
struct fastest;
struct scaffold;

/* ---- data.c: the measurements of one GPU -------------------------------------- */
enum { NUM_PHASES = 3 }; /* of enum phase */

/* Trees learn from pass A. Pass B is a separate session that measures their picks and the close
 * rivals again. Scores use pass B, since the fastest of many times is partly fast by luck. Of pass B
 * a scenario has the times of one session (second_session.c). */
enum pass { PASS_A, PASS_B, NUM_PASSES };

/* What the power sensor averaged over: unknown; a second of many races around a short burst; one
 * long race, in which all contenders take turns; this choice alone. See power_of() in
 * data_add.c. */
enum power_of { POWER_UNKNOWN, POWER_AROUND, POWER_RACE, POWER_ALONE };

struct cell {
	double us; /* the time that costs are computed from: see times.c */
	double median_us, min_us, ci_us, gbps, tflops, joules;
	double ratio; /* to the reference of its race; NaN: not known */
	int race;     /* which race of its scenario and phase it was in */
	/* private: NUM_PHASES * scenario + phase; NUM_PASSES * choice + pass; order of arrival */
	int row, key, arrival;
	enum outcome outcome : 8;
	enum power_of power_of : 8; /* the power that joules are computed from */
	unsigned censored : 1;      /* given up early: at least this slow */
	unsigned on_clock : 1; /* us is on the clock of its scenario and phase (race_clock.c) */
};

/* A scenario as measured. part[phase] is valid where has[phase]. */
struct measured {
	char *model, *set, *split, *batch_text, *layout;
	char *key; /* private: the sort key */
	attune_shape shape;
	unsigned long long seed;
	/* The fastest time of a part is stale and its kernel has no fresh one: not learned from. */
	int lost_best;
	double weight;
	int session; /* the run of pass B that counts; -1: none (second_session.c) */
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
	int is_outdone; /* a plan of pass A that pass B also has */
};

enum { NOISE_FLOOR = 5000 }; /* micro-nats, 0.5 %: smaller differences count as none */
enum { NOISE_BANDS = 3 };    /* of a time: below 20 us, below 200 us, above */

/* A part run by a choice that begins early, or by the same choice in turn (after its predecessor);
 * both in one race. These are the rows of pass E, from `attune sweep --early`. */
struct early_launch {
	int scenario, choice, value; /* choice: the one in turn; value: of its early axis */
	enum phase phase;
	struct cell cell;
};

/* Settled batches of a phase that another member of the row won (settled_wins.c). */
struct settled_win {
	enum phase phase;
	struct choice first, winner;
	int batches;
	int last; /* private */
};

struct data {
	char gpu[GPU_NAME], hash[33],
	    protocol[32]; /* gpu: as requested; hash: "" until data_hash */
	int ours_only;    /* no plug-in takes part */
	struct run_info run;
	/* Of the device that was measured; run.device may have those of which_rows. */
	int units;
	char arch[sizeof((struct device_info *)0)->arch];
	int is_portable;    /* which_rows.portable */
	struct measured *v; /* sorted by model, page size, dtypes, layout, batch */
	int n;
	/* num_choices that were measured, sorted by kernel, then by values; then, up to
	 * num_columns, those with a formula. */
	struct choice *choice;
	int num_choices, num_columns;
	/* Plans of scenario s are plan[plan_at[s]] up to, without, plan[plan_at[s + 1]]. */
	struct composed *plan;
	int num_plans, *plan_at;
	struct early_launch *early_launch; /* sorted by scenario, phase and choice */
	int num_early;
	int ignored; /* cells whose choice today's .def tables do not list */
	int stale;   /* cells of older sources that no bridge carries to today's */
	int noisy;   /* cells with too few clean samples */
	int lost;    /* training scenarios that lost_best leaves out */
	struct noise noise;
	/* The pass that times are read from. With PASS_B, which data_finish sets, a scenario that
	 * has times of pass B uses these alone, and the others use those of pass A. */
	enum pass pass;
	/* private. Cells are sorted by row and key. Those of row r are cell[row[r]] up to, without,
	 * cell[row[r + 1]]. */
	struct scaffold *scaffold;
	struct cell *cell;
	int num_cells, *row;
	double *shift;           /* [n] median of B / A over cells that have both; 1 */
	signed char *again;      /* [n][NUM_PHASES] pass B has an ok result, so its times count */
	struct fastest *fastest; /* see fastest.c */
	struct family *family;
	int num_families;
	int *family_of;     /* [num_columns], -1: none */
	signed char *value; /* [num_columns] its number among the family's members, -1: none */
	signed char *means; /* [n][NUM_PHASES][num_columns - num_choices] see segment_families.c */
	struct settled_win *win;
	int num_wins, num_settled; /* num_settled: batches that were settled and count */
};

void data_free(struct data *);
struct data *data_new(const char *gpu, const struct run_info *);
const char *phase_name(int phase); /* "all" "prefill" "decode"; NUM_PHASES: "plan" */

/* ---- data_add.c: one row of a database ---------------------------------------------------- */
/* Copies what it keeps. 0 + complain: another GPU or protocol, or bad text. */
int data_add(struct data *, const struct store_cell *);

/* ---- data_finish.c: after the last row, sorts and derives times ---------------------------- */
int data_finish(struct data *);

/* ---- load.c: a database read into data ------------------------------------------------ */
/* gpu: "h200" loads caches of 16 and 32 bits, "h200_e4m3" those of E4M3 on an H200. NULL + complain
 * when the database cannot be read, mixes protocols or was made on an emulated device, which only
 * tests read (ATTUNE_EMULATED=1). Without rows of that GPU: no scenarios, and a complaint. */
struct data *data_load(const char *db_path, const char *gpu);
/* Which rows count beside those of data_load(). */
struct which_rows {
	int ours_only; /* no plug-in takes part; else all that are loaded do */
	int stale;     /* times of older sources */
	int units;     /* of the device that the choices are for; 0: of the one that was measured */
	/* Only choices that are legal on the smallest NVIDIA GPU from sm_80 on, for parts of any
	 * work; so are the rows of PORTABLE_GPU. run.device then has its architecture and shared memory. */
	int portable;
	/* Other cache layouts, and calls with LSE. No feature distinguishes these, so heuristics
	 * and scores use strided caches without LSE only. */
	int all;
	/* NULL: all rows are read. Else scenarios come without rows, and `ask` marks in wanted[n] those
	 * whose rows are read: first when all scenarios are known, then after each reading, until it
	 * returns 0. */
	int (*ask)(void *arg, const struct data *, char *wanted);
	void *arg;
};
struct data *data_load_as(const char *db_path, const char *gpu, struct which_rows);
/* Attaches a sound database, to be read in SQL, with a row (db, gpu, name, arch, units, machine) in table
 * `attached` of the device that data_load() would take. Of h200_e4m3 it is the H200. 0 + complain. */
struct scratch;
int data_attach(struct scratch *, const char *db_path, const char *as, const char *gpu);
/* Whether times of that kernel take part; those of our own do. */
int data_takes(const struct data *, const struct kernel *);
/* Sets data.hash, over all rows of the GPU in that database by today's or bridged sources. This
 * takes longer than loading does.
 * 0 + complain. */
int data_hash(struct data *, const char *db_path);
/* Prints one line on stderr for each kind of rows that were read and do not count. */
void data_say_left_out(const struct data *, const char *db_path);
void data_say_noisy(const struct data *, const char *db_path); /* the line of noisy ones only */
/* Whether the times are of another CPU than this machine's. */
int data_is_elsewhere(const struct data *);
/* Says what device the times are of, and, if it is another CPU, what this machine's is. */
void data_say_machine(const struct data *, const char *db_path);
/* Whether a row of the database counts. 0 + complain: none; the lines say why. */
int data_has_times(const struct data *, const char *db_path);

/* ---- settled_wins.c: what settled batches say of the order of rivals ------------------------ */
/* Reads the wins of the rows' GPU from a database. Batches of other caches, of changed kernels, and those
 * that repeat a held-out one do not count. 0 + complain. */
int settled_wins_read(struct data *, struct store *, const char *gpu, int e4m3);

/* ---- segment_families.c: choices with a formula, and the family of concrete ones --------- */
enum { MAX_MEMBERS = 24 };
/* Choices that differ only in the axis that their kernel has formulas for (SEGMENTS). */
struct family {
	int member[MAX_MEMBERS]; /* [value of the axis] index into data.choice, or -1 */
	int num_members;
};
/* Appends the choices with a formula, and the concrete choice of each per scenario. 0 without
 * memory. */
int formulas_add(struct data *);
/* The concrete choice that runs there: `choice` itself, or what its formula gives. -1: none is
 * legal, or it was never measured anywhere. */
int data_concrete(const struct data *, int scenario, enum phase, int choice);
/* The number of the family's member that a choice is there, measured or not; -1: none is legal. */
int family_value(const struct data *, int scenario, enum phase, int choice);

/* ---- cells.c: looking up cells ------------------------------------------------ */
/* The cell of data.pass, else of pass A; NULL when not measured. */
const struct cell *data_cell(const struct data *, int scenario, enum phase, int choice);
/* The cell of that pass; NULL when not measured. */
const struct cell *data_cell_in(const struct data *, enum pass, int scenario, enum phase,
				int choice);
/* The cells of a choice by pass, NULL where there is none. */
struct cells {
	const struct cell *of[NUM_PASSES];
};
struct cells data_cells(const struct data *, int scenario, enum phase, int choice);
/* The one of data.pass, else of pass A. */
const struct cell *cells_of_pass(const struct data *, const struct cells *);
/* Iterates over the choices that have a cell of either phase in a scenario:
 *
 *   struct choice_iter i = choices_of(d, scenario, phase, PHASE_ALL);
 *   while (choices_next(&i))
 *           ... i.choice, i.cells[0] of phase, i.cells[1] of PHASE_ALL */
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

/* ---- times.c: times of cells, in us -------------------------------------------- */
int data_legal(const struct data *, int scenario, enum phase, int choice);
/* Time of an `ok` cell; INFINITY for any other. For PASS_B a cell of pass A counts scaled by
 * data.shift. */
double data_time(const struct data *, int scenario, enum phase, int choice);
/* The same from a choice's cells in a scenario. */
double cells_time(const struct data *, int scenario, const struct cells *);
/* Time of a part from its cells of the phase, [0], and of PHASE_ALL, [1]. */
double cells_part_time(const struct data *, int scenario, const struct cells of[2]);
/* Whether that part's time is one of pass B. */
int cells_confirmed(const struct data *, int scenario, const struct cells of[2]);
/* Whether the times of pass B count there. */
int measured_again(const struct data *, int scenario, enum phase);
/* Whether pass B measured every part of the scenario. */
int data_has_second_pass(const struct data *, int scenario);
/* The noise of a time as a share of it, measured by A/A controls. */
double data_noise(const struct data *, double us);
/* Time of a part. In a batch of one phase it may be stored under that phase or under PHASE_ALL. */
double data_part_time(const struct data *, int scenario, enum phase, int choice);
/* A cautious guess at the time of a legal choice that was not measured there, from the measured
 * members of its family; INFINITY when they do not allow one. */
double family_time(const struct data *, int scenario, enum phase, int choice);

/* ---- splits.c: training and held-out scenarios ------------------------------------- */
/* Not held out, and not one with lost_best. */
int data_is_training(const struct measured *);
int data_count_training(const struct data *);
int floor_log2(long long);
/* Whether its batch has prefills and decodes. */
int measured_is_mixed(const struct measured *);
/* The column of a report: 0 learned from, 1 splits "heldout*", -1 neither. */
int data_side(const struct measured *);
/* split "heldout": all splits that begin with it; NULL: all; else that one, or one of several between
 * commas. */
int in_split(const struct measured *, const char *split);
enum { MAX_SPLITS = 16 };
/* The scenarios' splits: train, peers, heldout (all of it), then the others by name. */
int data_splits(const struct data *, const char *splits[MAX_SPLITS]);
/* Whether a split has that name (NULL: any); if not, complains and lists them. */
int split_known(const struct data *, const char *asked);

/* ---- fastest.c: the least times of a scenario ------------------------------------- */
/* The fastest choice of a phase; INFINITY and -1 when none is. For PASS_B only choices of pass B
 * count, where it measured any. */
double data_best(const struct data *, int scenario, enum phase, int *choice);
/* The least time of all measured plans of the scenario; and of those without overlap. */
double data_oracle(const struct data *, int scenario);
double data_serial(const struct data *, int scenario);

/* ---- defaults.c: the kernels' defaults, and decided plans --------------------------- */
/* A plan of concrete choices. kernel NULL: the batch has no such part, or nothing runs it. join 0:
 * the prefill choice runs the whole batch. */
struct decided {
	struct choice prefill, decode;
	int join;
	enum attune_how how; /* of a join of 1 */
	int by_default;      /* the forest's choice of some part was replaced by a default */
};
/* A policy's pick for a scenario: indices into data.choice, -1: none. */
struct pick {
	int prefill, decode, join;
	enum attune_how how; /* of a join of 1 */
};
/* The measured choices of that plan, -1: none. */
void decided_pick(const struct data *, const struct decided *, struct pick *out);
/* The kernels' default that the library uses for a part; -1: none measured. */
int default_choice(const struct data *, int scenario, enum phase);
/* The same as a concrete choice for a batch; 0: none runs, out->kernel is NULL. */
int default_made(const struct data *, const struct measured *, enum phase, struct choice *out);
/* c as a concrete choice for that part of the batch, its formula evaluated; 0: it may not run. */
int decided_legal(const struct data *, const struct measured *, enum phase, const struct choice *c,
		  struct choice *out);

/* ---- overlap_times.c: times of plans whose parts overlap ------------------------------ */
/* The overlap of a pick: SAYS_SERIAL, SAYS_STREAMS, SAYS_SPARING16 to SAYS_SPARING112 or the index of
 * a fused choice. One launch of a kernel that is not fused counts as serial. */
int pick_way(const struct data *, const struct pick *);
/* The choice that leaves no units to a concurrent launch and is else the same; -1: not listed. */
int data_unspared(const struct data *, int choice);
/* The least time of two streams, as the way says / the same two parts in series; INFINITY: not
 * measured. */
double overlap_pairs(const struct data *, int scenario, int way);

/* ---- plan_times.c: the time of a picked plan ----------------------------------------- */
/* In us; INFINITY when some part of the plan was not measured or failed. */
double data_plan_time(const struct data *, int scenario, const struct pick *);
/* The cell of the picked plan, measured as a whole; NULL: it was not. */
const struct cell *data_pick_cell(const struct data *, int scenario, const struct pick *);
/* The same for a plan of two parts, in that pass; NULL: it was not measured. */
const struct cell *data_plan_cell(const struct data *, enum pass, int scenario,
				  const struct pick *);
/* 0 when some part of the pick's time is of pass A though the scenario has pass B. */
int data_confirmed(const struct data *, int scenario, const struct pick *);
/* The plan of least data_plan_time: the best parts in turn, one launch, or a plan measured whole. It may
 * differ from data_oracle, which leaves out what pass B did not confirm. */
struct decided data_fastest_plan(const struct data *, int scenario);

/* ---- early_times.c: times of early launches ------------------------------------------ */
/* Time with that early value / time in turn, both of one race; NaN: not known. */
double early_part_ratio(const struct data *, int scenario, enum phase, int choice, int value);
/* Geometric mean of the ratios of a part; NaN: none is known. */
double early_ratio(const struct data *, int scenario, enum phase, int value);

/* ---- race_clock.c: whether two times of one pass can be compared ------------------------- */
/* a's time / b's, of one race or of several on one clock; NaN: they cannot be compared. Both cells
 * belong to one scenario and phase, or are plans and single launches of a whole batch, which race
 * each other. */
double cells_ratio(const struct cell *a, const struct cell *b);
/* "tie" within the noise of a time of that many us, else "slower" and so on. */
const char *ratio_words(const struct data *, double ratio, double us);

/* ---- distance.c: how different two parts are ------------------------------------------- */
/* Sum of |log ratio| over the features that measure work. Stops at `most`: a larger sum may be
 * returned incomplete. */
double part_distance(const struct attune_features *, const struct attune_features *, double most);

#endif
