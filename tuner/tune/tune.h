/* tune.h - between the files of `attune tune`:
 *
 *   tune_cmd.c      options, and what is said before
 *   tune.c          the steps, each with its share of the time
 *   tune_here.c     which rules and databases count on this machine
 *   tune_sum.c      what is said in the end
 *   contribute.c    results of this machine to the project's
 */
#ifndef TUNER_TUNE_TUNE_H
#define TUNER_TUNE_TUNE_H

#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/sweep/sweep.h"
#include "harness/worker/worker.h"
#include "tuner/emit/induce.h"
#include "tuner/eval/eval.h"
#include "tuner/forest/forest.h"
#include "tuner/transfer/basis.h"
#include "tuner/transfer/gate.h"
#include <limits.h>

struct tune;

/* ---- tune_here.c ------------------------------------------------------------------ */
enum rules_of { RULES_NONE, RULES_BORROWED, RULES_COMMITTED, RULES_LOCAL };

/* What counts for a device:
 *
 *   results/local/<gpu>.sqlite        what was measured on this machine
 *   generated/local/attune_<gpu>.h    the rules that it made
 *   generated/local/attune_<gpu>.h.before   those of the tune before
 *   results/<gpu>.sqlite, generated/attune_<gpu>.h   the project's own, or of the nearest GPU */
struct here {
	char gpu[GPU_NAME];
	char db[PATH_MAX], header[PATH_MAX], before[PATH_MAX]; /* local */
	enum rules_of rules;                                   /* in force */
	char rules_path[PATH_MAX], rules_gpu[GPU_NAME];        /* of these */
	char prior_db[PATH_MAX], prior_gpu[GPU_NAME];          /* "": none */
};
/* `results` and `generated` are the folders above. 0 after a complaint. */
int here_find(struct here *, const struct device_info *, const char *results,
	      const char *generated);
/* "the committed rules of h200", say. */
void here_say_rules(const struct here *, char *text, size_t size);
/* Puts the rules of before in force again, and those in force in their place. */
int here_undo(const struct here *);
/* Puts these in force. */
int here_install(const struct here *, const char *text);

/* ---- tune.c ----------------------------------------------------------------------- */
struct tune_options {
	const char *gpu, *device, *model, *sets, *trace_set, *dir, *results, *generated, *command;
	enum preset preset;
	double budget_s; /* of all; 0: the preset's */
	int dry_run, undo, anyway;
	enum format format;
};
struct tune {
	const struct tune_options *o;
	struct hello hello;
	char devices[MOST_DEVICES * DEVICE_NAME]; /* "cuda:0,cuda:1"; "": the CPU */
	struct here here;
	struct scenario_list list;
	struct inheritance from; /* rules in force before, and the nearest GPU's times */
	struct data *own;        /* measured here */
	struct data *learned;    /* what fresh was learned from */
	struct forest fresh;     /* by all that is measured */
	struct forest installed; /* of both, by the gate */
	int has_from, has_fresh, has_installed;
	int takes; /* groups of decisions that are taken from fresh */
	struct gate_report gate;
	double began, deadline, took_s;
	double learning_s;
	struct sweep_sum sum;
};
/* An exit code. */
int tune(const struct tune_options *);

/* ---- tune_sum.c ------------------------------------------------------------------- */
/* One line before: how long it takes, and from what it starts. */
void tune_say_plan(const struct tune *, double seconds);
/* In place of a tune: what there would be to do. */
void tune_foretell(const struct tune *, const struct sweep_forecast *, double seconds);
/* What was found, in a few lines. An exit code. */
int tune_sum(struct tune *);

#endif
