/* tune.h - between the files of `attune tune`:
 *
 *   tune_cmd.c      options, and what is said before
 *   tune.c          the steps, each with its share of the time
 *   tune_devices.c  one step on all GPUs of the machine
 *   tune_here.c     which rules and databases count on this machine
 *   tune_sum.c      what is said in the end
 */
#ifndef TUNE_H
#define TUNE_H

#include "wishes.h"
#include <limits.h>

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
enum { MOST_DEVICES = 16 };
struct tune {
	const struct tune_options *o;
	struct hello hello;
	char device[MOST_DEVICES][24]; /* "cuda:0" */
	int num_devices;
	struct here here;
	struct scenario_list list;
	struct forest incumbent; /* rules in force before; constant defaults where there are none */
	struct forest fresh;     /* by what is measured now */
	int has_fresh;
	double began, deadline;
	double learning_s; /* spent on trees */
	struct sweep_sum sum;
	char header[2][33]; /* hashes of the rules before and after */
};
int tune(const struct tune_options *);

/* ---- tune_sum.c ------------------------------------------------------------------- */
int tune_sum(struct tune *, const struct data *own, const struct forest *installed);

#endif
