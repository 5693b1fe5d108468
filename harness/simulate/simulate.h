/* simulate.h - simulated sweeps: simulate.c runs the stages on recorded times, score.c scores the
 * picks. */
#ifndef HARNESS_SIMULATE_SIMULATE_H
#define HARNESS_SIMULATE_SIMULATE_H

struct sweep_session;
struct listener;
struct order;
struct timed_call;
struct sweep_options;
struct table;

/* ---- simulate.c ------------------------------------------------------------- */
/* Runs the stages on the recorded times of database o->replay. An exit code. */
int simulate(const struct sweep_options *);

/* What the database has of a cell. */
struct record {
	float *us;
	int n;
	double median; /* INFINITY: failed; NaN: the database lacks it */
};

struct simulation {
	struct sweep_session *c;
	struct record **of; /* [problem][place] */
	double spent_s;
	unsigned long long races;
	/* the race under way */
	const struct order *order;
	const struct listener *listener;
	struct timed_call *timed_call;
	int more;
};

/* A pseudo-random number, fixed by its arguments. */
unsigned long long simulation_dice(unsigned long long, unsigned long long);
/* One of the recorded samples, selected by `dice`. */
double simulation_sample(const struct record *, unsigned long long dice);
/* Adds a row for the picks of a schedule, one per problem (-1: none, which means the reference).
 * Wholes of mixed batches are not scored, as few choices ran on them. `spent`, and `all` of an
 * exhaustive sweep, in seconds of device time. */
void simulation_score(const struct simulation *, struct table *, const char *name, double spent,
		      double all, long long cells, const int *pick);
/* Adds rows of baseline schedules, each at most `spent_s` long. 0: no memory. */
int simulation_baselines(const struct simulation *, struct table *, double all, double spent_s);

#endif
