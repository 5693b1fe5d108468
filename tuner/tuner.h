/* tuner.h - from measured times to the code that chooses; the map of this
 * folder. Knows nothing of GPUs: all it reads is a database.
 *
 *   results/<gpu>.sqlite -load.c, data.c, order.c, cells.c-> cells
 *        -formulas.c, clock.c, passes.c, times.c, fastest.c-> times of choices
 *        -overlap_times.c, plan_times.c, early_times.c-> times of plans
 *        -matrix.c, columns.c-> costs of a decision
 *        -price_fit.c, market.c, prices.c-> what parts cost by features, the few to choose from
 *        -teach.c-> costs of measured and made-up batches
 *        -grow.c (solver.h), prune.c, fit.c (parallel.c), relabel.c-> trees; exact.c proves them
 *        -forest.c, overlap.c, early.c, leaves.c, number.c, validity.c-> struct forest
 *        -emit*.c-> generated/attune_<gpu>.h -parse.c-> the same struct forest
 *   transfer.c, translate.c (levels.c)-> data of a GPU with few times of its own and another's, translated
 *   combine.c, gate.c-> one forest of old and new rules; basis.c-> the same by `attune induce`
 *   decide.c says what a forest picks for a scenario, policy.c what a baseline picks (rules.c,
 *   learned.c, cart.c), score.c how far that is from the oracle, estimate.c what to expect where
 *   nothing was measured; eval.c, show.c and diff.c answer people, energy.c of joules.
 *   confirm.c asks the harness for pass B of what was picked (requests.c), refine.c for scenarios
 *   about thresholds. ladder*.c, hybrid.c and peers.c compare with what others have published.
 *
 * A batch is run by three decisions: what runs its decode part, what runs its prefill part, and
 * where it has both how they share the device (overlap.c). A fourth says which launches should
 * begin early (early.c). */
#ifndef TUNER_H
#define TUNER_H

#include "../harness/harness.h"
#include "../kernels/heuristics.h"

/* ---- subcommands -------------------------------------------------------------- */
int cmd_tune(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_contribute(int argc, char **argv);
int cmd_induce(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_plot(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_confirm(int argc, char **argv);
int cmd_refine(int argc, char **argv);
int cmd_ladder(int argc, char **argv);

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
	int *family_of;       /* [num_columns], -1: of none */
	signed char *value;   /* [num_columns] which member of its family it is, -1: none */
	signed char *means;   /* [n][NUM_PHASES][num_columns - num_choices] see formulas.c */
	struct found *basics; /* what baselines learn, kept here by basics.c */
	char *notes;          /* lines for the comment of a header, or NULL; freed with the data */
};

void data_free(struct data *);
/* The steps of data_load, for tests. data_add copies what it keeps; 0 and a
 * complaint when the cell does not belong (other GPU, other protocol, bad text). */
struct data *data_new(const char *gpu, const struct run_info *);
int data_add(struct data *, const struct store_cell *);
const char *phase_name(int phase); /* "all" "prefill" "decode"; NUM_PHASES: "plan" */

/* ---- order.c: data in their final order ------------------------------------------------ */
int data_finish(struct data *);

/* ---- files.c: whole text files ------------------------------------------------------- */
char *file_text(const char *path);                /* NULL when it cannot be read */
int file_put(const char *path, const char *text); /* whole or not at all; 0 + complain */

/* ---- paths.c: which GPU, and where its files are --------------------------------------- */
/* `asked`, or when that is NULL the name of this machine's own device; 0 and a
 * complaint when there is none. */
int gpu_or_own(const char *asked, char gpu[GPU_NAME]);
/* generated/local/attune_<gpu>.h, else generated/attune_<gpu>.h */
void own_header(char path[256], const char *gpu);
/* What was asked for, unless that is NULL; results/local/<gpu>.sqlite, else
 * results/<gpu>.sqlite. */
void db_path(char path[256], const char *asked, const char *gpu);
/* The same of the rules that the library takes for such a GPU: its own header, else the one that it
 * borrows, which a line on stderr says. */
void rules_path(char path[256], const char *asked, const char *gpu);

/* ---- batch_words.c: batches for people ------------------------------------------------ */
/* The batch's text; of a long one how many sequences it has, and of which
 * lengths. */
enum { SHORT_BATCH = 60, BATCH_WORDS = 100 };
void batch_words(char text[BATCH_WORDS], const char *batch);
/* As a cell of a table for people; for machines the text. */
void batch_cell(struct table *, const char *batch, enum format);

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

/* ---- formulas.c: choices that say how to work out a value ----------------------- */
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
struct made {
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
void made_pick(const struct data *, const struct made *, struct pick *out);
/* The kernels' default that the library uses for a part; -1: none measured. */
int default_choice(const struct data *, int scenario, enum phase);
/* The same made concrete for a batch; 0: none runs, out->kernel is NULL. */
int default_made(const struct data *, const struct measured *, enum phase, struct choice *out);
/* What c means for that part of the batch, a formula worked out; 0: it may not run. */
int made_legal(const struct data *, const struct measured *, enum phase, const struct choice *c,
	       struct choice *out);
/* The choice made concrete for that part, where it is legal; else the library's default.
 * c: NULL for the default. 0: neither runs, out->kernel is NULL. */
int made_or_default(const struct data *, const struct measured *, enum phase,
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

/* ---- compare.c: on what basis two times of one pass can be compared ------------------- */
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

/* ---- columns.c: which choices are worth having ---------------------------------- */
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

/* ---- tree.c: trees of any origin ----------------------------------------------- */
enum remark {
	REMARK_NONE,
	REMARK_FEW,    /* of so few rows that chance may have chosen */
	REMARK_UNSURE, /* not faster than the defaults for sure */
	REMARK_UNSAFE, /* the defaults: on average no choice is faster */
	NUM_REMARKS
};
extern const char *const remark_words[NUM_REMARKS]; /* "" for none */
struct node {
	int feature;         /* -1: a leaf */
	long long threshold; /* value <= threshold: below, else above */
	int below, above;
	int action;  /* of the leaf this node is or would be: a column, later an id */
	int support; /* rows */
	/* Sums of weight x cost of the action and of the runner-up, and the
	 * weight; runner_up -1: none. */
	long long cost, runner_up_cost, weight;
	int runner_up;
	int32_t p95;         /* cost of the action that 95 in 100 rows stay below */
	enum remark remark;  /* of a leaf */
	const char *guarded; /* of a leaf: the rule that its choice may break; or NULL */
};
struct tree {
	struct node *v; /* [0] is the root */
	int n, room;
};
int tree_new_node(struct tree *);             /* -1 without memory */
int tree_constant(struct tree *, int action); /* always says that; 0 without memory */
void tree_free(struct tree *);
/* Index of the leaf. */
int tree_leaf(const struct tree *, const struct attune_features *);
int tree_leaves(const struct tree *);
int tree_leaves_below(const struct tree *, int node);
long long tree_cost(const struct tree *, int node); /* of the leaves below */
/* Equal siblings become one leaf; branches that no features can reach go; nodes
 * are renumbered in preorder. */
int tree_tidy(struct tree *);
/* Calls for every leaf, left to right, with the bounds of its box. */
struct box {
	long long lo[ATTUNE_NUM_FEATURES], hi[ATTUNE_NUM_FEATURES]; /* inclusive */
};
void tree_boxes(const struct tree *, const struct box *within,
		void (*each)(void *, int leaf, const struct box *), void *arg);
void box_all(struct box *);
/* The roundest integer of lo..hi, 0 <= lo <= hi. */
long long round_between(long long lo, long long hi);

/* ---- grow.c: cost-sensitive induction ------------------------------------------ */
/* Of the sizes that cross-validation compares (fit.c has what each gave). */
enum size_rule {
	SIZE_MOST,  /* the largest within one standard error of the least loss */
	SIZE_LEAST, /* the one of least loss */
	SIZE_FEWEST /* the smallest within one standard error */
};
struct growth {
	int max_leaves, max_depth, min_support;
	int look;         /* depth of the exact search at each node: 2 (also for 0) or 3 */
	long long lambda; /* what a leaf costs */
	enum size_rule rule;
	int apart; /* 1 + the feature whose levels are split before all else; 0: none */
};
/* Depth-limited tree: each node is the root of the exact best tree of depth `look`
 * over its rows. `rows`: which, NULL for all. 0 without memory. */
int tree_grow(struct tree *, const struct matrix *, const int *rows, int n, const struct growth *);

/* ---- exact.c: the best tree there is ---------------------------------------------- */
struct exact_options {
	int depth; /* 0 to MAX_EXACT_DEPTH */
	int min_support;
	long long lambda;
	double seconds; /* 0: as long as it takes */
	int threads;    /* 0: as many as CPUs, for larger samples; the tree is the same */
};
enum { MAX_EXACT_DEPTH = 6 };
struct certificate {
	long long cost, objective; /* objective: cost + lambda x leaves */
	long long bound;           /* proven: no tree of that depth has a lower objective */
	double gap;                /* (objective - bound) / bound; 0: the best */
	double seconds;
	long long nodes; /* sets of rows that were searched */
};
/* Tree of least objective; of these the one of fewest leaves, then by feature,
 * threshold and column. Out of time: the best one so far, gap > 0. 0 without memory
 * or when costs are so large that sums would not fit. */
int tree_exact(struct tree *, const struct matrix *, const struct exact_options *,
	       struct certificate *);

/* ---- prune.c: smaller trees ------------------------------------------------------ */
/* A way to have fewer leaves: a node becomes a leaf (child -1), or one of its
 * children (0: below, 1: above) takes its place and all its rows. */
struct cut {
	int node, child, leaves; /* leaves: fewer by this */
	long long price;         /* what it costs, for each of them */
};
/* The cheapest one; 0 when the tree is a leaf. `rows` may be reordered. */
int tree_cheapest_cut(const struct tree *, const struct matrix *, int *rows, int n, struct cut *);
int tree_apply_cut(struct tree *, const struct matrix *, int *rows, int n, const struct cut *);
/* Gives all nodes the action that is best for the rows that reach them, and the
 * figures that go with it. 0 without memory. */
int tree_annotate(struct tree *, const struct matrix *, int *rows, int n);
/* The same from the columns c with allowed[c] only: one at least. */
int tree_annotate_among(struct tree *, const struct matrix *, int *rows, int n,
			const char *allowed);
int *matrix_rows(const struct matrix *); /* 0, 1, 2, ...; NULL without memory */

/* ---- relabel.c: fewer kernels ----------------------------------------------------- */
/* Gives leaves the fewest columns such that each leaf's mean cost is within epsilon (a
 * log slowdown: 0.01 is 1 %) of its best; of those sets the one that costs least,
 * then the first. Equal siblings become one leaf. group: [cols] any numbers, columns
 * of one group count once (variants of one binary); NULL: each for itself. Leaves
 * the tree as it is with more than 64 leaves or groups. 0 without memory. */
int tree_relabel(struct tree *, const struct matrix *, double epsilon, const int *group);

/* ---- fit.c: how many leaves ------------------------------------------------------ */
/* Grown, then pruned to as many leaves as blocked cross-validation and the rule ask
 * for. 0 without memory. */
int tree_fit(struct tree *, const struct matrix *, const struct growth *);
/* Fold of each row in a blocking; how many folds, 0 when there is but one value: ranks
 * of the blocks' values, modulo that number. */
int matrix_folds(const struct matrix *, int blocking, int *fold);
/* Sums of weight x cost by number of leaves, [max_leaves + 1]: of the rows that were
 * learned from, and of rows while their fold was held out. 0 without memory. */
int tree_curve(const struct matrix *, const struct growth *, int blocking, long long *trained,
	       long long *held_out);

/* ---- forest_base.c: the trees of all decisions, and what they may name ----------- */
enum { MAX_IDS = 64, MAX_COSTS = 256 };
/* How a tree came about: not in the header's code, but in its comments. */
struct making {
	struct portfolio portfolio;
	/* Of depth CERTIFIED over the same columns, per unit of weight: what the best
	 * tree costs, and what the method makes; and the tree that was made. */
	double exact, method, made;
};
enum { CERTIFIED = 3 };
struct forest {
	struct tree tree[NUM_DECISIONS]; /* actions: ids or enum says */
	struct choice choice[MAX_IDS];   /* by id: the most used first, then the overlap's */
	int num_choices;
	struct selector_costs costs[MAX_COSTS]; /* of choices with SEGMENTS=fitted */
	int num_costs;
	char gpu[GPU_NAME];
	struct making making[2]; /* of the prefill and the decode tree; 0 when read back */
};
struct limits {
	int leaves;   /* of each tree */
	int variants; /* choices of either phase */
	int taught;   /* leaves of a tree that also learns from estimates; 0: as many as others */
};
extern const struct limits default_limits;
void forest_free(struct forest *);
int forest_leaves(const struct forest *);
int forest_kernels(const struct forest *); /* distinct ones among its choices */
/* Whether some leaf says other than serial. */
int forest_overlaps(const struct forest *);
/* Whether the tree says anything; if not, headers and texts leave it out: of so many decisions
 * they hold trees. */
int forest_says_early(const struct forest *);
int forest_decisions(const struct forest *);
/* What that comes to for a part of a choice of trees, which in itself is in turn. */
int forest_early(const struct forest *, const struct attune_features *);

/* ---- words.c: choices and what leaves say, in words --------------------------------------- */
/* "segmented BLOCK_M=16 ..." */
void choice_words(const struct choice *, char text[MAX_CHOICE_TEXT]);
/* The same of what a leaf says. */
void says_words(const struct forest *, enum decision, int action, char text[MAX_CHOICE_TEXT]);
enum { CHOICE_NAME = 96 }; /* room for a choice's name in a header */
/* What is said in place of a choice: "streams"; NULL: it is no such word. */
const char *says_word(enum decision, int action);

/* ---- decide.c: what a forest decides for a batch ------------------------------------ */
/* The choice of that id for the part of that phase, its segments a number; 0 also of -1: there is
 * none that may run, so the library takes the defaults. */
int action_choice(const struct data *, const struct forest *, enum phase, int action,
		  const struct measured *, struct choice *out);
/* Whether a scenario's batch has to do with the decision. */
int decision_is_of(enum decision, const struct measured *);
/* What the library would run: an illegal choice gives way to the defaults. */
void forest_pick(const struct data *, const struct forest *, int scenario, struct pick *);
/* The same for what the prefill or the decode tree says. */
int action_or_default(const struct data *, const struct forest *, enum decision, int action,
		      const struct measured *, struct choice *out);
/* What the library does with a forest; and without the overlap, or with another action of
 * it: an action that may not run leaves what is serial as it is. */
void forest_make(const struct data *, const struct forest *, const struct measured *,
		 struct made *out);
void forest_make_serial(const struct data *, const struct forest *, const struct measured *,
			struct made *out);
void overlap_made(const struct data *, const struct forest *, int action, const struct measured *,
		  struct made *serial);

/* ---- load_batch.c: the data of one batch ----------------------------------------------- */
/* data_load_one() of that model's batch. The choices that the forest makes for it are columns,
 * measured there or not; forest NULL: only measured ones are. */
struct data *data_load_batch(const char *db_path, const char *gpu, const char *model,
			     const char *batch, const struct forest *);

/* ---- combine.c: one forest of two ----------------------------------------------------- */
/* Groups of decisions that are taken over whole; see gate.h. */
enum gate_group { GATE_PREFILL, GATE_DECODE, GATE_MIXED, NUM_GATE_GROUPS };
extern const char *const gate_group_names[NUM_GATE_GROUPS];
enum gate_group gate_group_of(enum decision);
/* Each decision's tree, segment costs and choices of `fresh` where take[decision], else of the
 * incumbent; the gpu's name is that of fresh. Ids are renumbered: those of fresh in its order, then
 * those of the incumbent; choices that nothing names go. Call forest_prove before it is emitted. 0
 * + complain: decisions of a group are not taken together, more than MAX_IDS choices, or no
 * memory. */
int forest_combine(struct forest *out, const struct forest *incumbent, const struct forest *fresh,
		   const int take[NUM_DECISIONS]);
/* The kernels' defaults for everything: the incumbent of a GPU that has none. 0 without memory. */
int forest_defaults(struct forest *, const char *gpu);

/* ---- parse.c: a header read back into a forest ---------------------------------------- */
/* Whether that is the text of a header in a form that forest_parse no longer reads. */
int header_is_older(const char *text);
/* Reads what forest_emit wrote; 0 + complain. */
int forest_parse(struct forest *, const char *text, const char *path);
int forest_load(struct forest *, const char *path);

/* ---- forest.c: the trees of all decisions are made ----------------------------------- */
int forest_induce(struct forest *, const struct data *, const struct limits *); /* 0 + complain */

/* ---- overlap.c: one after the other, or side by side ----------------------------- */
/* At most so many fused choices, the one that gains most over the best serial plans of training
 * scenarios first, then what gains most beside those; how many. */
int overlap_portfolio(const struct data *, int *choice, int most);
/* Training rows of the decision, given the picks [data->n] without it. Mixed scenarios that were
 * measured in another way than serial. Columns are ways. */
struct matrix *matrix_overlap(const struct data *, const struct pick *picks);
/* Makes the last tree, of the others; may add choices. 0 without memory. */
int fit_overlap(struct forest *, const struct data *, const struct growth *);

/* ---- leaves.c: what each leaf should say, and is said of it ------------------------ */
/* Whether that choice is slower there than the kernels' defaults, beyond noise. */
int is_unsafe(const struct data *, int scenario, enum phase, int choice);
/* Adds (sign 1) or takes away (-1) what makes induction shun choices that are. */
void matrix_shun(struct matrix *, const struct data *, enum phase, int sign);
/* Gives leaves whose choice is slower than the defaults on average the defaults, -1. */
int leaves_make_safe(struct tree *, const struct matrix *);
/* Figures and remarks for the actions as they are. */
int leaves_describe(struct tree *, const struct matrix *);

/* ---- validity.c: is what a leaf says legal wherever it may be asked ---------------- */
/* Sets node.guarded of all leaves. 0 + complain when the defaults that stand in for
 * an illegal choice are not legal either somewhere in the leaf's box. */
int forest_prove(struct forest *, const struct data *);

/* ---- emit.c: a forest as a header ------------------------------------------------------- */
/* Text of generated/attune_<gpu>.h; NULL without memory. The caller's to free. */
char *forest_emit(const struct forest *, const struct data *);

/* ---- emit_other.c: a forest in other languages -------------------------------------- */
/* Language "c", "json" or "python". NULL also for any other. */
char *forest_emit_as(const char *language, const struct forest *, const struct data *);

/* ---- dump.c: for other learners ----------------------------------------------------- */
/* Writes <folder>/<decision>.tsv, a matrix with the folds by batch size, and
 * <folder>/<decision>_ours.tsv, the costs of our trees by number of leaves, for the
 * prefill and the decode decision. 0 + complain. */
int dump_matrices(const struct data *, const char *folder, const struct limits *);

/* ---- difftext.c ------------------------------------------------------------------- */
/* Lines that go ('-') and come ('+'), each change with its surroundings. */
void text_diff(FILE *, const char *before, const char *after);

/* ---- policy.c: what is picked ---------------------------------------------------- */
enum policy {
	POLICY_TREE,
	POLICY_ORACLE,
	POLICY_BEST_FIXED, /* one choice a phase and one way (enum baseline_way) for everything */
	POLICY_VLLM_RULE,  /* the rule of vLLM's unified attention, nearest choices */
	POLICY_AITER_RULE, /* that of AMD's aiter */
	POLICY_NEAREST,    /* the best choice of the nearest training scenario */
	POLICY_GREEDY,     /* a cost-sensitive tree of constants, without look-ahead */
	POLICY_LABEL,      /* a tree of depth 6 by entropy on the fastest choices */
	POLICY_DEFAULT,    /* the kernels' defaults, no selection */
	NUM_POLICIES
};
extern const char *const policy_names[NUM_POLICIES];
/* Picks [data->n] for all scenarios; 0 when the policy does not exist on this
 * backend, or picks nothing (POLICY_ORACLE: see data_oracle). The forest is for
 * POLICY_TREE only. */
int policy_picks(const struct data *, enum policy, const struct forest *, struct pick *picks);

/* ---- score.c: how good that is ------------------------------------------------------ */
struct score {
	int n;
	int invalid;                /* not measured, or failed: infinitely slow */
	int unconfirmed;            /* of pass A alone where the scenario has a pass B */
	double geomean, p95, worst; /* time / oracle; INFINITY with an invalid pick */
	struct with_time {
		double geomean, p95, worst;
	} timed;                 /* of the picks that have a time alone; NaN: none has */
	double low, high;        /* 95 % interval of the geomean, over blocks */
	double within2, within5; /* shares */
	double time_weighted;    /* sum of weight x time / sum of weight x oracle */
};
/* Over the scenarios of a split; 0 without memory. A scenario where nothing gave a right
 * result counts as an invalid pick: a crash never improves a score. The interval is that of
 * 1000 resamples of blocks, whole (model, power of two of sequences) at a time. */
int score_picks(const struct data *, const struct pick *, const char *split, struct score *);
/* The same for a policy; 0 also when it does not exist here. */
int score_policy(const struct data *, enum policy, const struct forest *, const char *split,
		 struct score *);

#endif
