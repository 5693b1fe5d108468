/* measure.h - times of several choices in one race: rounds, samples, elimination, noise.
 * Includes base and kernels. */
#ifndef HARNESS_MEASURE_MEASURE_H
#define HARNESS_MEASURE_MEASURE_H

#include "harness/base/base.h"
#include "kernels/attune.h"

struct device;
struct device_info;
struct race;

/* ---- race.c: times, in rounds --------------------------------------------- */
struct measurement {
	enum outcome outcome;
	int samples, calls;                              /* calls in one sample */
	float us[MAX_SAMPLES];                           /* per call */
	double median_us, min_us, q25_us, q75_us, ci_us; /* ci: half-width, 95 % */
	/* To the reference and to the winner, by what all rounds say, so that it compares with
	 * those of everyone in the race; and the lead's one-sided lower bound, NaN where only the
	 * first two looks speak for it. */
	double ratio, lead, lead_low;
	double device_us, wall_us; /* spent on it in all: probes and rejected samples too */
	double gbps, tflops;
	double sm_mhz_before, sm_mhz_after, power_w, joules; /* per call; NaN: not known */
	int rejected; /* samples thrown away: preempted or throttled */
	/* Why it ended: "slow" in the first two looks, "beaten"; with the race: "tie" of all who
	 * are left, "settled": more rounds would not pay, "rounds", "budget". "noisy": few
	 * samples are clean. The outcome says whether the time is worth learning from. */
	char stopped[16];
	char detail[200]; /* of a failure */
};
struct protocol {
	const char *name; /* "graph-rotating" on GPUs, "rounds-rotating" on CPUs; "-steady" */
	int min_rounds, max_rounds;
	double tie;    /* shares: contenders so close to the leader are as good, and end a race */
	double regret; /* so does an expected loss by its winner below this */
	double screen_ratio; /* drop what is slower than best x this in two first looks */
	double sample_us;    /* aim at samples of at least this long */
	double longest_us;   /* and of at most this, where one call allows */
	int min_calls;       /* in a sample, where longest_us allows */
	size_t cold_bytes;
	double
	    seconds; /* budget for one scenario; LEAST_SAMPLES rounds are run whatever they take */
	double settle_s; /* before the first round, at least: until clock and power hold still */
	double hold_s;   /* after the last one who is left runs alone so long, for its power */
};
/* preset: "smoke", "quick" or "full"; 0 when it is none of them. Bursts: clocks are what
 * idle gaps leave. */
int protocol_for(struct protocol *, const struct device_info *, const char *preset);
/* Makes its steady kin of it, "graph-rotating-steady": the race's own calls heat the device
 * until clock and power hold still, rounds follow back to back, and who is left at the end
 * runs alone for a while, which tells its power. */
void protocol_steady(struct protocol *);

/* One that takes part in a race: a choice, a composed plan, a library's whole call. */
struct timed_call {
	/* Launches one call over page set `set` on the device's own stream. */
	enum attune_status (*call)(void *arg, int set);
	void *arg;
	double bytes, flops;  /* of a call, for the rates */
	double bound_us;      /* what the ceilings allow; 0: not known */
	struct measurement m; /* out; no samples when the budget ended before it */
};
/* A contender that ran twice over, as two that nobody could tell apart: what lies between
 * their times is noise. */
struct control {
	int of, rounds;                     /* v[of]; rounds 0: there was none */
	double median_us, ratio, device_us; /* the twin's; to the contender it doubles, paired */
};
/* Each contender has graphs of some calls; a round plays one graph of every survivor, in
 * shuffled order, so that drift meets all alike. */
struct race {
	const struct protocol *protocol;
	struct timed_call
	    *v; /* v[0] is the reference of ratios: never dropped, but rests if beaten */
	int n, sets;
	unsigned long long seed;
	int fixed_rounds; /* > 0: so many rounds, or what the budget allows; none is dropped */
	/* Any may be NULL. */
	struct control *control; /* out; asks for one, of the leader after the screen */
	void *arg;
	/* A race without a device: what a call of v[i] takes, in us; NaN: it cannot run. Rounds
	 * count from 0, the screen's; a control asks for v[i] twice a round. */
	double (*draw)(void *arg, int i, int round);
	void (*before)(void *arg, int i, double seconds); /* about to run; may take so long */
	void (*after)(void *arg, int i); /* v[i].m is final; of the reference comes last */
	int (*right)(void *arg, int i);  /* the output, looked at again after a time too good */
	double (*share)(const struct device *); /* of the last play; default for a CPU is its own */
};
/* The device may be NULL where `draw` is set; then device time is simulated, too.
 * ATTUNE_DEVICE_ERROR: the device is lost; the culprit was told to `after` as a crash,
 * others are not final. */
enum attune_status measure_race(struct device *, const struct race *);

/* ---- noise.c: which times are not data ------------------------------------------ */
/* A sample whose threads had less than this share of the CPU was disturbed. */
static const double clean_share = 0.985;
enum { LEAST_SAMPLES = 3 /* of a time, unless the race ended early for its candidate */ };
/* Makes an OK measurement NOISY, with the reason in `detail`, where its samples do not support
 * a time. kept: samples of rounds that count; share: the least share of the CPU that one of
 * them had. m->stopped still says how its race ended. */
void noise_judge_time(struct measurement *m, int kept, double share);
/* Whether the same choice twice differs by more than any quiet machine's did. */
int noise_in_control(const struct control *);
/* The same for a whole race: without a believable control no time of it counts. */
void noise_judge_race(struct measurement *, const struct control *);
double noise_of_control(const struct control *); /* by what share its two times differ */
extern const double noise_most_control;          /* the largest that is believed */

#endif
