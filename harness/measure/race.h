/* race.h - a race under way; between race.c, which says who runs and who is out, retire.c,
 * which takes them out, and sample.c, which has them run. */
#ifndef HARNESS_MEASURE_RACE_H
#define HARNESS_MEASURE_RACE_H

#include "elimination.h"
#include "measure.h"
#include "sample_graph.h"
#include "harness/base/base.h"
#include "kernels/device/device.h"

/* Who runs: race->v[of], or its twin, as the last of the course. */
struct runner {
	int of;
	struct measurement *m;
	struct tapes tapes;
	int calls;                   /* of its last tapes */
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

struct course {
	struct device *dev; /* NULL where times are drawn */
	const struct race *race;
	struct runner *runner; /* race->n, and room for the twin */
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
double course_spent(const struct course *);
/* Tapes of so many calls for runner i: by all page sets, else by those used longest ago,
 * at most `most` tapes. A refused launch ends its race and is a result; so it is with a
 * play where times are drawn, in the functions below. */
void course_record(struct course *, int i, int calls, int most);
/* Plays its next tape; what a call took, to *us. */
enum attune_status course_play(struct course *, int i, double *us);
double course_share(const struct course *); /* of the CPU, of the last play */
/* A sample of each who is in, in an order of its own; again where the device was throttled.
 * Then one round more counts. */
enum attune_status course_round(struct course *);
/* Calls of all who are in, for protocol->settle_s and until the device holds still. */
enum attune_status course_settle(struct course *);

/* ---- solo_power.c ---- */
/* Each who is in runs alone for protocol->hold_s, for alone_w. */
enum attune_status course_hold(struct course *);

/* ---- summarize.c ---- */
/* Its times in the rounds so far, NaN where one does not count: too many other programs
 * ran, but those of the least disturbed ones do where too few are clean (1). */
int course_counted(const struct runner *, int rounds, double *us);
double course_median(const struct course *, int i); /* of those; NaN: there are none */
/* The race is over: fills each measurement, and race->control, and tells of whoever is not
 * told of yet. */
void course_tell(struct course *);

/* ---- retire.c ---- */
/* No kernel beats the machine: a time that does means that work was left out, or that the
 * clock lied. The output is looked at once more, and *us timed `times` more; if it stays so
 * the outcome is WRONG. */
enum attune_status course_doubt(struct course *, int i, double *us, int times);
/* The same of all rounds so far, or of the screen before the first. */
enum attune_status course_doubt_rounds(struct course *, int i);
/* Takes no further part, nor does its twin; nobody is told yet. A time too good is doubted. */
enum attune_status course_retire(struct course *, int i, const char *why);
/* The same without a doubt. */
void course_leave(struct course *, int i);
/* The reference takes no more rounds, and is told of at the end. */
void course_rest(struct course *);

/* ---- screening.c ---- */
/* All but the slow have tapes for rounds, and so has the twin. */
enum attune_status course_screen(struct course *);
/* The fastest in the screen, of those whose race is not over; INFINITY: nobody. */
double course_best_probe(const struct course *, int *who);

#endif
