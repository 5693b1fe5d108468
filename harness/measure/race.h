/* SPDX-License-Identifier: Apache-2.0 */
/* race.h - the state of a running race, shared by race.c (rounds and elimination), screening.c,
 * sample.c (runs graphs), retire.c (removes contenders) and summarize.c. */
#ifndef HARNESS_MEASURE_RACE_H
#define HARNESS_MEASURE_RACE_H

#include "measure.h"
#include "harness/base/base.h"
#include "harness/machine/sensors.h"

/* ---- elimination.c: compares contenders by their times per round, and finds those to eliminate */
/* A contender's time against the leader's: logarithms of ratios. */
struct score {
	double behind;    /* centre over the rounds that both took; the leader's is 0 */
	double low, high; /* its one-sided bounds; NaN: too few common rounds */
	int beaten;
};
struct comparison {
	int leader;    /* -1: no contender has a time */
	double regret; /* bound of the expected loss by taking the leader */
	int tied;      /* every other contender is within `tie` of the leader */
};

/* log_us[i * COLUMNS + round]: logarithms of times; NaN: no sample. scratch: as many. */
enum { COLUMNS = MAX_SAMPLES };

/* Considers contenders with in[i] only. The A/A control (-1: none) is scored but cannot lead.
 * tie: a logarithm. */
void compare_contenders(struct comparison *, struct score *, const double *log_us, const char *in,
			int n, int rounds, int control, double tie, double *scratch);

/* Fits log_us_ik = level_i + common_k + noise, so that contenders compare that share no round.
 * A contender without a round is placed by the screen. NaN: it has no time there either. */
void levels(double *level, const double *log_us, const double *screen, int n, int rounds,
	    double *scratch);

struct graph;
/* ---- sample.c: graphs --------------------------------------------------------------- */
/* Graph i begins with page set first + i x calls. A full set of graphs covers all page sets. */
struct graphs {
	struct graph **v;
	int n, calls; /* calls: of each graph */
	int first;
};
/* Calls in a sample if one takes `us`: enough for sample_us, rounded up to a multiple of the
 * page sets unless that more than doubles it. */
int graphs_plan(const struct protocol *, int sets, double us);
void graphs_free(struct graphs *, struct device *);

/* ---- the state --------------------------------------------------------------------- */
/* One contender: race->v[of]. The A/A control, if any, is the last. */
struct call_state {
	int of;
	struct measurement *m;
	struct graphs graphs;
	int calls;                   /* in each of its last graphs */
	int unreported;              /* it ran, and race->after was not called yet */
	int alive;                   /* may run */
	int in;                      /* takes rounds; a beaten reference is alive but not in */
	double us;                   /* rough time of a call; 0: not known */
	double probe_us;             /* time of a call in the screen */
	int probe_clean;             /* no other program ran during that */
	float by_round[MAX_SAMPLES]; /* us a call; NaN: no sample */
	float share[MAX_SAMPLES];    /* of the CPU; below clean_share: disturbed */
	double mhz;                  /* at its last sample; 0: not read */
	double alone_w;              /* power when it runs alone; 0: not known */
};

struct race_state {
	struct device *dev;
	const struct race *race;
	struct call_state *call_state; /* race->n, and room for the control */
	int contenders, *order;
	struct measurement control_m;
	int rounds; /* that count, so far */
	int screening, next_set;
	unsigned long long random;
	double began, budget_began;
	/* of each round */
	double power[MAX_SAMPLES];
	struct conditions first, last; /* after the first and the last round */
	/* The energy counter after the first and the last round; read only if the device does not
	 * report its power. joules 0: not known. */
	struct energy {
		double s, joules; /* s: when it was read */
	} first_energy, last_energy;
	double look_s;    /* time to read the conditions once */
	double usual_mhz; /* expected clock; 0: not watched */
	int pauses;       /* taken to let the device cool down */
	/* for compare_contenders */
	double *log_us, *scratch;
	char *in;
	struct score *score;
	struct comparison comparison;
};

/* ---- sample.c ---- */
/* Seconds of the budget. */
double race_spent(const struct race_state *);
/* Builds at most `most` graphs of `calls` calls for contender i. Without a limit (INT_MAX) they
 * cover all page sets; else those used longest ago. A refused launch removes the contender and
 * is its result, not an error. */
void race_build_graphs(struct race_state *, int i, int calls, int most);
/* Runs its next graph. *us: the time of a call. */
enum attune_status race_run_graph(struct race_state *, int i, double *us);
double race_cpu_share(const struct race_state *); /* of the last run */
/* Takes one sample of each contender that is in, in shuffled order, and adds the round.
 * A round on a throttled device is repeated. */
enum attune_status race_round(struct race_state *);
/* Runs all that are in for protocol->settle_s and until clock and power are steady. */
enum attune_status race_settle(struct race_state *);

/* Runs each survivor alone for protocol->hold_s and sets its alone_w. */
enum attune_status race_measure_solo_power(struct race_state *);

/* ---- summarize.c ---- */
/* Copies its times of the rounds so far; NaN where a sample does not count because it was
 * disturbed. Returns 1 if too few are clean: then the least disturbed ones count as well. */
int race_counted_times(const struct call_state *, int rounds, double *us);
double race_median(const struct race_state *, int i); /* of those; NaN: none */
/* After the race: fills each measurement and race->control, and calls race->after for each
 * contender that is unreported. */
void race_report(struct race_state *);

/* ---- retire.c ---- */
/* A time below half of the device's bound means that work was left out or that the clock is
 * wrong. Then checks the output again and times it `times` more into *us; if the output is
 * wrong or the time stays, the outcome is WRONG. */
enum attune_status race_recheck(struct race_state *, int i, double *us, int times);
/* The same for the median of all rounds so far, or for the screen before the first. */
enum attune_status race_recheck_rounds(struct race_state *, int i);
/* Rechecks its time, then removes it and its control. Reports nothing yet. */
enum attune_status race_retire(struct race_state *, int i, const char *why);
/* The same without the recheck. */
void race_remove(struct race_state *, int i);
/* The reference is beaten: it takes no more rounds and is reported at the end. */
void race_rest_reference(struct race_state *);

/* ---- screening.c ---- */
/* Eliminates the slow, and builds the graphs of the others and of the control. */
enum attune_status race_screen(struct race_state *);
/* The least time in the screen among those alive, *who its contender; INFINITY: none. */
double race_best_probe(const struct race_state *, int *who);

#endif
