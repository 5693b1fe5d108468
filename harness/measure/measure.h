/* SPDX-License-Identifier: Apache-2.0 */
/* measure.h - times several choices in one race: protocol, rounds, measurements, noise. */
#ifndef HARNESS_MEASURE_MEASURE_H
#define HARNESS_MEASURE_MEASURE_H

#include "harness/base/base.h"
#include "kernels/attune.h"

struct device;
struct device_info;
struct race;

/* ---- race.c: the race ----------------------------------------------------- */
struct measurement {
	enum outcome outcome;
	int samples, calls;              /* calls in one sample */
	float us[MAX_SAMPLES];           /* per call */
	double median_us, min_us, ci_us; /* ci: half-width, 95 % */
	/* ratio: to the reference's time; lead: to the winner's. Both are estimated from all
	 * rounds, so they compare across the whole race. lead_low: one-sided lower bound of lead;
	 * NaN if only the screen and round 1 support it. */
	double ratio, lead, lead_low;
	double device_us, wall_us; /* spent on it in all: probes and rejected samples too */
	double gbps, tflops;
	double sm_mhz_before, sm_mhz_after, power_w, joules; /* per call; NaN: not known */
	int rejected; /* samples thrown away: preempted or throttled */
	/* Why its samples ended. Eliminated: "slow" (screen and round 1), "beaten". With the
	 * race: "tie" (all that are left), "settled" (more rounds would not pay), "rounds",
	 * "budget". "noisy": few samples are clean. `outcome` tells whether the time is data. */
	char stopped[16];
	char detail[200]; /* of a failure */
};
struct protocol {
	const char *name; /* "graph-rotating" on GPUs, "rounds-rotating" on CPUs; "-steady" */
	int min_rounds, max_rounds;
	double tie;    /* share: the race ends when all contenders are this close to the leader */
	double regret; /* share: or when the leader's expected loss is below this */
	double screen_ratio; /* eliminates times above best x this, in the screen and round 1 */
	double sample_us;    /* least length of a sample */
	double longest_us;   /* greatest, unless one call takes longer */
	int min_calls;       /* in a sample, if longest_us allows */
	size_t cold_bytes;
	double seconds;  /* budget of a race; LEAST_SAMPLES rounds run in any case */
	double settle_s; /* least warm-up before round 1, until clock and power are steady */
	double hold_s;   /* each survivor then runs alone this long, for its power */
};
/* preset: "smoke", "quick" or "full"; returns 0 for any other. Samples come in bursts with
 * idle gaps, so clocks vary. */
int protocol_for(struct protocol *, const struct device_info *, const char *preset);
/* Turns it into its steady variant, "graph-rotating-steady": the race's own calls warm the
 * device until clock and power are steady, rounds follow back to back, and each survivor runs
 * alone at the end, which measures its power. */
void protocol_steady(struct protocol *);

/* A contender: a choice, a composed plan, or a library's whole call. */
struct timed_call {
	/* Launches one call over page set `set` on the device's own stream. */
	enum attune_status (*call)(void *arg, int set);
	void *arg;
	double bytes, flops;  /* of a call, for the rates */
	double bound_us;      /* least time by the device's ceilings; 0: not known */
	struct measurement m; /* out; no samples when the budget ended before it */
};
/* The A/A control: one contender takes part twice. The two times differ by noise only. */
struct control {
	int of, rounds;                     /* it repeats v[of]; rounds 0: no control ran */
	double median_us, ratio, device_us; /* of the repeat; ratio: to v[of], paired by round */
};
/* Each contender has graphs of some calls. A round runs one graph of every survivor, in
 * shuffled order, so that drift affects all alike. */
struct race {
	const struct protocol *protocol;
	struct timed_call *v; /* v[0] is the reference: if beaten it pauses, but stays */
	int n, sets;          /* sets: page sets to rotate through */
	unsigned long long seed;
	int fixed_rounds; /* > 0: this many rounds, or what the budget allows; no elimination */
	/* Any may be NULL. */
	struct control *control; /* out; repeats the leader of the screen */
	void *arg;
	void (*before)(void *arg, int i, double seconds); /* v[i] is about to run this long */
	void (*after)(void *arg, int i); /* v[i].m is final; the reference comes last */
	int (*right)(void *arg, int i);  /* rechecks the output after a time below the bound */
	double (*share)(const struct device *); /* of the CPU in the last run; NULL: built in */
};
/* ATTUNE_DEVICE_ERROR: the device is lost. `after` was called for the contender that crashed;
 * the other measurements are not final. */
enum attune_status measure_race(struct device *, const struct race *);

/* ---- summarize.c: times too noisy to use -------------------------------------------- */
/* A sample is clean if its threads had at least this share of the CPU. */
static const double clean_share = 0.985;
enum { LEAST_SAMPLES = 3 /* of a time, unless its contender was eliminated early */ };
/* Marks an OK measurement NOISY, with the reason in `detail`, if its samples do not support
 * a time. kept: samples of rounds that count; share: their smallest share of the CPU.
 * m->stopped stays as it is. */
void noise_mark_time(struct measurement *m, int kept, double share);
/* Whether the control's two times differ by more than noise_most_control. */
int noise_in_control(const struct control *);
double noise_of_control(const struct control *); /* the share by which its two times differ */
extern const double noise_most_control;          /* the largest share accepted */

#endif
