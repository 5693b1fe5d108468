/* simulate.h - between simulate.c, which runs a sweep's stages on recorded times,
 * and score.c, which says what they are worth. */
#ifndef HARNESS_SIMULATE_SIMULATE_H
#define HARNESS_SIMULATE_SIMULATE_H

struct sweep_session;
struct listener;
struct order;
struct timed_call;
struct sweep_options;
struct table;

/* ---- simulate.c ------------------------------------------------------------- */
/* The stages on the recorded times of o->replay. An exit code. */
int simulate(const struct sweep_options *);

/* Of each place of a problem what the database has. */
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
	/* of the race under way */
	const struct order *order;
	const struct listener *listener;
	struct timed_call *timed_call;
	int more;
};

/* A number that follows from these two. */
unsigned long long simulation_dice(unsigned long long, unsigned long long);
/* One of the recorded samples. */
double simulation_drawn(const struct record *, unsigned long long dice);
/* Adds a row: what is picked in each part (wholes of mixed batches are tried by few and
 * judged by nobody here); -1: nothing yet, which means the reference. `spent` and `all`, of
 * an exhaustive sweep, in seconds of the device. */
void simulation_judge(const struct simulation *, struct table *, const char *name, double spent,
		      double all, long long cells, const int *pick);
/* Adds rows of schedules that know nothing, at most `spent_s` long each. 0: no memory. */
int simulation_baselines(const struct simulation *, struct table *, double all, double spent_s);

#endif
