/* SPDX-License-Identifier: Apache-2.0 */
/* tune.h - shared by the files of `attune tune`:
 *
 *   tune_cmd.c      options
 *   tune.c          the steps, each with its share of the time
 *   tune_scenarios.c  finds the scenarios
 *   tune_rows.c     races the rows of the rules in force, and what judges rules on held-out scenarios
 *   tune_gate.c     races new rules against those in force
 *   tune_check.c    `attune tune --check`
 *   tune_here.c     finds this machine's rules and databases
 *   tune_sum.c      prints the plan, the forecast and the summary
 *   contribute.c    `attune merge --contribute`: merges this machine's results into the project's
 * / */
#ifndef TUNER_TUNE_TUNE_H
#define TUNER_TUNE_TUNE_H

#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/sweep/sweep.h"
#include "harness/worker/worker.h"
#include "kernels/select/header_text.h"
#include "tuner/emit/induce.h"
#include "tuner/eval/eval.h"
#include "tuner/forest/forest.h"
#include "tuner/transfer/basis.h"
#include "tuner/transfer/gate.h"
#include "tuner/transfer/reorder.h"
#include <limits.h>

struct tune;

/* ---- tune_here.c ------------------------------------------------------------------ */
enum rules_of { RULES_NONE, RULES_BORROWED, RULES_COMMITTED, RULES_LOCAL };

/* The files of a device:
 *
 *   results/local/<gpu>.sqlite              times of this machine
 *   generated/local/attune_<gpu>.h          rules learned from them
 *   generated/local/attune_<gpu>.h.before   rules of the previous tune
 *   results/<gpu>.sqlite, generated/attune_<gpu>.h   committed, of this or the nearest GPU */
struct here {
	char gpu[GPU_NAME];
	char db[PATH_MAX], header[PATH_MAX], before[PATH_MAX]; /* local */
	enum rules_of rules;                                   /* in force */
	char rules_path[PATH_MAX], rules_gpu[GPU_NAME];        /* of the rules in force */
	char rules_device[HEADER_DEVICE];                      /* that they were measured on */
	char prior_db[PATH_MAX], prior_gpu[GPU_NAME];          /* "": none */
	int has_installed;                                     /* here_install has */
};
/* `results` and `generated` are the folders above. 0 after a complaint. */
int here_find(struct here *, const struct device_info *, const char *results,
	      const char *generated);
/* Text such as "the committed rules of h200, measured on NVIDIA H200, sm_90, 132 SMs". */
enum { RULES_TEXT = HEADER_DEVICE + GPU_NAME + 60 };
void here_rules_text(const struct here *, char *text, size_t size);
/* Swaps the rules in force with the previous ones. 0 after a complaint. */
int here_undo(struct here *);
/* Puts the header `text` in force. The previous rules are those before the first call. 0 after a
 * complaint. */
int here_install(struct here *, const char *text);

/* ---- tune.c ----------------------------------------------------------------------- */
struct tune_options {
	const char *gpu, *device, *model, *sets, *steps, *dir, *results, *generated, *command;
	enum preset preset;
	double budget_s; /* of the whole tune; 0: the preset's */
	int dry_run, undo, anyway;
	enum format format;
	int check; /* whether --check was given, and the options that go with it alone; 0: not given */
	const char *db, *header;
	int limit;
};
struct tune {
	const struct tune_options *o;
	struct hello hello;
	char devices[MOST_DEVICES * DEVICE_NAME]; /* "cuda:0,cuda:1"; "": the CPU */
	struct here here;
	struct scenario_list list;
	struct inheritance from; /* rules in force, and the nearest GPU's times */
	struct forest before; /* rules in force before the tune, once a round has replaced them */
	int rounds;           /* before this one whose rules the gate took; > 0: `from` has them */
	struct data *own;     /* measured here */
	struct fresh_rules fresh;          /* learned from all times so far; n 0: not yet */
	struct forest installed;           /* per decision, the one that the gate took */
	int takes;                         /* decisions taken from fresh, in this round */
	struct gate_report gate;           /* of the last round that took some, else of the last */
	double began, deadline;            /* by the budget's clock */
	int has_older;                     /* the database was there before */
	int early_ran_out;                 /* rows or races were left undone, the last time */
	double late_s;                     /* of the steps after the races, the last time */
	double took_s, spent_s[NUM_SPENT]; /* wall time */
	long long learned_from;            /* races of this run before the rules were learned */
	struct sweep_sum sum;
	struct held_out held_out; /* by tune_judge */
	struct rows_left left;
};
/* How often the gate took new rules. */
static inline int tune_taken(const struct tune *t)
{
	return t->rounds + (t->takes > 0);
}
/* The rules in force before the tune. */
static inline const struct forest *tune_before(const struct tune *t)
{
	return t->rounds ? &t->before : &t->from.incumbent;
}
/* An exit code. */
int tune(const struct tune_options *);

/* ---- tune_check.c ------------------------------------------------------------------ */
/* --check. An exit code. */
int tune_check(const struct tune_options *);

/* ---- tune_scenarios.c -------------------------------------------------------------- */
/* Loads the tune's scenarios. 0 after a complaint. */
int tune_scenarios(struct tune *);

/* ---- tune_rows.c ------------------------------------------------------------------ */
/* Races what may come first in the rows of the rules in force (tuner/transfer/reorder.h), on
 * scenarios to learn from. An exit code. */
int tune_rows(struct tune *, const struct sweep_options *);
/* The same work, foreseen. 0 + complain. */
int tune_rows_foresee(struct tune *, struct sweep_forecast *);
/* Races the installed rules on held-out scenarios against those of before, the defaults, and what
 * may come first in their rows. An exit code. */
int tune_held_out(struct tune *, const struct sweep_options *);

/* ---- tune_gate.c ------------------------------------------------------------------ */
/* Races new rules against those in force where they differ, within the sweep's time. An exit code. */
int tune_gate(struct tune *, const struct sweep_options *);
/* The scenario's place in the data; -1: it has no time yet. */
int tune_find(const struct data *, const struct scenario *);
/* The scenario of that place, or for -1 *unknown, made without times. NULL: its batch cannot be
 * planned. */
const struct measured *tune_look(const struct tune *, const struct scenario *, int at,
				 struct measured *unknown);
/* Indices of the scenarios of such splits, in an order that has nothing to do with their kinds, as
 * time may end before the last. The caller frees them. NULL + complain. */
int *tune_draw(const struct tune *, int (*takes)(const char *split), int *n);

/* ---- tune_sum.c ------------------------------------------------------------------- */
/* Prints one line before a tune: its length and the rules that it starts from. */
void tune_print_plan(const struct tune *, double seconds);
/* --dry-run: prints the work that a tune would do: of the rows, and of all races. */
void tune_print_forecast(const struct tune *, const struct sweep_forecast *rows,
			 const struct sweep_forecast *, double seconds);
/* Scores the rules for the summary. An exit code. */
int tune_judge(struct tune *);
/* Prints the results in a few lines. */
void tune_print_summary(const struct tune *);

#endif
