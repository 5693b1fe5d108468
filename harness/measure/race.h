/* race.h - a race under way; between race.c, which says who runs and who is out, retire.c,
 * which takes them out, and sample.c, which has them run. */
#ifndef HARNESS_MEASURE_RACE_H
#define HARNESS_MEASURE_RACE_H

#include "elimination.h"
#include "measure.h"
#include "sample_graph.h"
#include "harness/base/base.h"
#include "kernels/device/device.h"

/* Who runs: race->v[of], or its twin, as the last of the race. */
struct call_state {
	int of;
	struct measurement *m;
	struct graphs graphs;
	int calls;                   /* of its last graphs */
	int untold;                  /* it ran, and its result is not told */
	int alive;                   /* may run */
	int in;                      /* takes rounds; the reference may be alive and out */
	double us;                   /* a call takes about so long; 0: not known */
	double probe_us;             /* in the screen */
	int seen;                    /* there without other programs in between */
	float by_round[MAX_SAMPLES]; /* us a call; NaN: no sample */
	float share[MAX_SAMPLES];    /* of the CPU; below clean_share: disturbed */
	double mhz;                  /* at its last sample; 0: not looked at */
	double alone_w;              /* what it draws alone; 0: not known */
};

struct race_state {
	struct device *dev; /* NULL where times are drawn */
	const struct race *race;
	struct call_state *call_state; /* race->n, and room for the twin */
	int runners, *order;
	struct measurement twin;
	int rounds; /* that count, so far */
	int screening, next_set;
	unsigned long long random;
	double began, budget_began, simulated_us;
	/* of each round */
	double power[MAX_SAMPLES];
	struct conditions first, last; /* after the first and the last round */
	double look_s;                 /* what a look at the conditions takes */
	double usual_mhz;              /* what the clock should be; 0: not watched */
	int naps;                      /* taken to let the device cool down */
	/* for the judge */
	double *log_us, *scratch;
	char *in;
	struct score *score;
	struct ruling ruling;
};

/* ---- sample.c ---- */
/* Of the budget; a simulated race spends simulated time. */
double race_spent(const struct race_state *);
/* Graphs of so many calls for contender i: by all page sets, else by those used longest ago,
 * at most `most` graphs. A refused launch ends its race and is a result; so it is with a
 * play where times are drawn, in the functions below. */
void race_record(struct race_state *, int i, int calls, int most);
/* Plays its next graph; what a call took, to *us. */
enum attune_status race_play(struct race_state *, int i, double *us);
double race_share(const struct race_state *); /* of the CPU, of the last play */
/* A sample of each who is in, in an order of its own; again where the device was throttled.
 * Then one round more counts. */
enum attune_status race_round(struct race_state *);
/* Calls of all who are in, for protocol->settle_s and until the device holds still. */
enum attune_status race_settle(struct race_state *);

/* ---- solo_power.c ---- */
/* Each who is in runs alone for protocol->hold_s, for alone_w. */
enum attune_status race_hold(struct race_state *);

/* ---- summarize.c ---- */
/* Its times in the rounds so far, NaN where one does not count: too many other programs
 * ran, but those of the least disturbed ones do where too few are clean (1). */
int race_counted(const struct call_state *, int rounds, double *us);
double race_median(const struct race_state *, int i); /* of those; NaN: there are none */
/* The race is over: fills each measurement, and race->control, and tells of whoever is not
 * told of yet. */
void race_tell(struct race_state *);

/* ---- retire.c ---- */
/* No kernel beats the machine: a time that does means that work was left out, or that the
 * clock lied. The output is looked at once more, and *us timed `times` more; if it stays so
 * the outcome is WRONG. */
enum attune_status race_doubt(struct race_state *, int i, double *us, int times);
/* The same of all rounds so far, or of the screen before the first. */
enum attune_status race_doubt_rounds(struct race_state *, int i);
/* Takes no further part, nor does its twin; nobody is told yet. A time too good is doubted. */
enum attune_status race_retire(struct race_state *, int i, const char *why);
/* The same without a doubt. */
void race_leave(struct race_state *, int i);
/* The reference takes no more rounds, and is told of at the end. */
void race_rest(struct race_state *);

/* ---- screening.c ---- */
/* All but the slow have graphs for rounds, and so has the twin. */
enum attune_status race_screen(struct race_state *);
/* The fastest in the screen, of those whose race is not over; INFINITY: nobody. */
double race_best_probe(const struct race_state *, int *who);

#endif
