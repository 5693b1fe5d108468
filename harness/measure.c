/* measure.c - times, in interleaved rounds. Owns the tapes of a race and the rules
 * by which a racer is dropped, a sample thrown away and a race ended.
 *
 *   round 0   A0 C0 B0 D0      each letter: one play of one tape, one sample
 *   round 1   B1 D1 A1 C1      D: twice the best, gone
 *   round 2   C2 A2 B2         B: beyond drop_ratio, gone
 *   ...                        until the intervals of all survivors are narrow
 *
 * Page sets rotate through a race as a whole: a play begins with the sets that were
 * used longest ago, whoever used them, so that no call finds its keys in a cache. */
#include "tapes.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	TRIES = 3 /* of a sample that was disturbed */,
	ENOUGH = 3 /* clean samples */,
	ATTEMPTS = 4
};

static const double clean_share = 0.985, first_drop = 2, behind = 1.1;
static const double counter_s = 0.1; /* energy counters tick every few ms */

struct runner {
	struct tapes tapes;
	int alive;
	double us;                   /* a call takes about so long */
	float by_round[MAX_SAMPLES]; /* us a call; NaN: did not run */
	float share[MAX_SAMPLES];    /* of the CPU; below clean_share: disturbed */
};

struct course {
	struct device *dev;
	const struct race *race;
	struct runner *runner;
	int *order;
	int round, next_set;
	unsigned long long random;
	double began, simulated_us;
	double power[MAX_SAMPLES + 1], mhz_first, mhz_last, joules_first, joules_last;
};

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of the budget; a simulated race spends simulated time. */
static double spent(const struct course *c)
{
	return c->race->draw ? c->simulated_us * 1e-6 : now() - c->began;
}

static void tell(struct course *c, int i, double us)
{
	if (c->race->before)
		c->race->before(c->race->arg, i, us * 1e-6);
}

/* Without a device: what the caller says a call takes. */
static enum attune_status draw(struct course *c, int i, double *us)
{
	struct measurement *m = &c->race->v[i].m;
	*us = c->race->draw(c->race->arg, i, c->round);
	if (!(*us > 0))
		return fail(ATTUNE_UNSUPPORTED, "no time was drawn");
	m->device_us += *us * c->runner[i].tapes.calls;
	c->simulated_us += *us * c->runner[i].tapes.calls;
	return ATTUNE_OK;
}

static enum attune_status play(struct course *c, int i, double *us)
{
	struct runner *r = &c->runner[i];
	double ns = 0;
	if (c->race->draw)
		return draw(c, i, us);
	tell(c, i, r->us * r->tapes.calls);
	enum attune_status status =
	    c->dev->ops->tape_play(c->dev, tapes_next(&r->tapes, c->race->sets, &c->next_set), &ns);
	*us = ns / 1e3 / r->tapes.calls;
	c->race->v[i].m.device_us += ns / 1e3;
	if (!status && !(*us > 0))
		return fail(ATTUNE_DEVICE_ERROR, "a play of %d calls took no time", r->tapes.calls);
	return status;
}

static double play_share(const struct course *c)
{
	if (c->race->share)
		return c->race->share(c->dev);
	return c->dev && c->dev->info.backend == BACKEND_CPU ? cpu_last_play_share(c->dev) : 1;
}

/* `fatal`: the device itself failed, nothing more can be run on it. */
static void failed(struct course *c, int i, int fatal)
{
	struct measurement *m = &c->race->v[i].m;
	m->outcome = fatal ? OUTCOME_CRASH : OUTCOME_RESOURCES;
	m->samples = 0;
	snprintf(m->detail, sizeof m->detail, "%s", attune_last_error());
	c->runner[i].alive = 0;
	tapes_free(&c->runner[i].tapes, c->dev);
	if (c->race->after)
		c->race->after(c->race->arg, i);
}

/* Tapes of one call tell roughly how long it takes; tapes of the right length tell
 * better, since a short call is then told apart from the cost of starting a tape. */
static enum attune_status prepare(struct course *c, int i)
{
	struct runner *r = &c->runner[i];
	const struct race *race = c->race;
	enum attune_status status;
	int calls = 1;
	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		tapes_free(&r->tapes, c->dev);
		r->tapes.calls = calls;
		if (!c->race->draw &&
		    tapes_record(&r->tapes, c->dev, &race->v[i], race->sets, calls)) {
			failed(c, i, 0);
			return ATTUNE_OK;
		}
		for (int warm = 0; warm < 2; warm++)
			if ((status = play(c, i, &r->us))) {
				failed(c, i, status == ATTUNE_DEVICE_ERROR);
				return c->race->draw ? ATTUNE_OK : status;
			}
		calls = tapes_plan(race->protocol, race->sets, r->us);
		if (calls < r->tapes.calls * 5 / 4 + 1)
			break;
	}
	r->alive = 1;
	return ATTUNE_OK;
}

/* ---- rounds ------------------------------------------------------------------- */

static unsigned long long step(unsigned long long *state)
{
	unsigned long long z = *state += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* Survivors in an order of their own each round. */
static int shuffle(struct course *c)
{
	int n = 0;
	for (int i = 0; i < c->race->n; i++)
		if (c->runner[i].alive)
			c->order[n++] = i;
	for (int i = n - 1; i > 0; i--) {
		int j = (int)(step(&c->random) % (unsigned)(i + 1)), keep = c->order[i];
		c->order[i] = c->order[j];
		c->order[j] = keep;
	}
	return n;
}

static void look(struct course *c)
{
	struct conditions now = { 0 };
	if (c->race->draw)
		return;
	c->dev->ops->conditions(c->dev, &now);
	c->power[c->round] = now.power_w;
	if (!c->round) {
		c->mhz_first = now.sm_mhz;
		c->joules_first = now.joules;
	}
	c->mhz_last = now.sm_mhz;
	c->joules_last = now.joules;
}

/* One sample; of disturbed tries the least disturbed is kept, marked by its share. */
static enum attune_status sample(struct course *c, int i)
{
	struct runner *r = &c->runner[i];
	struct measurement *m = &c->race->v[i].m;
	float *us = &r->by_round[c->round], *share = &r->share[c->round];
	*share = 0;
	for (int attempt = 0; attempt < TRIES && *share < clean_share; attempt++) {
		double got;
		enum attune_status status = play(c, i, &got);
		if (status) {
			failed(c, i, status == ATTUNE_DEVICE_ERROR);
			return c->race->draw ? ATTUNE_OK : status;
		}
		double clean = play_share(c);
		m->rejected += clean < clean_share;
		if (clean > *share || !attempt) {
			*us = (float)got;
			*share = (float)clean;
		}
	}
	return ATTUNE_OK;
}

/* The share that a sample needs to count: where too few are clean, that of the least
 * disturbed ones. */
static float share_needed(const struct runner *r, int rounds, int *noisy)
{
	double share[MAX_SAMPLES];
	int n = 0, clean = 0;
	for (int k = 0; k < rounds; k++) {
		if (isnan(r->by_round[k]))
			continue;
		share[n++] = -r->share[k];
		clean += r->share[k] >= clean_share;
	}
	*noisy = clean < ENOUGH && clean < n;
	if (!*noisy)
		return (float)clean_share;
	(void)median(share, n); /* sorts: the largest share first */
	return (float)-share[n < ENOUGH ? n - 1 : ENOUGH - 1];
}

/* Samples that count, in order of rounds. */
static int collect(const struct runner *r, int rounds, double *us, int *noisy)
{
	const float needed = share_needed(r, rounds, noisy);
	int n = 0;
	for (int k = 0; k < rounds; k++)
		if (!isnan(r->by_round[k]) && r->share[k] >= needed)
			us[n++] = r->by_round[k];
	return n;
}

static double standing(const struct runner *r, int rounds, double *ci)
{
	double us[MAX_SAMPLES];
	int noisy, n = collect(r, rounds, us, &noisy);
	double middle = median(us, n); /* sorts */
	*ci = median_ci(us, n);
	return middle;
}

static double known(double value)
{
	return value > 0 ? value : NAN;
}

static double ratio_to(const struct runner *r, const struct runner *reference, int rounds)
{
	double ratio[MAX_SAMPLES];
	int n = 0;
	for (int k = 0; k < rounds; k++)
		if (!isnan(r->by_round[k]) && !isnan(reference->by_round[k]))
			ratio[n++] = (double)r->by_round[k] / (double)reference->by_round[k];
	return median(ratio, n);
}

static double mean_power(const struct course *c)
{
	double power[MAX_SAMPLES + 1], seconds = spent(c);
	memcpy(power, c->power, sizeof power);
	double middle = median(power, c->round + 1);
	if (middle > 0)
		return middle;
	if (seconds > counter_s && c->joules_last > c->joules_first)
		return (c->joules_last - c->joules_first) / seconds;
	return NAN;
}

/* Fills m from the samples of the rounds so far. */
static void summarise(struct course *c, int i, int rounds)
{
	const struct racer *racer = &c->race->v[i];
	struct measurement *m = &c->race->v[i].m;
	struct runner *r = &c->runner[i];
	double us[MAX_SAMPLES];
	int noisy;
	m->samples = collect(r, rounds, us, &noisy);
	m->calls = r->tapes.calls;
	for (int k = 0; k < m->samples; k++)
		m->us[k] = (float)us[k];
	m->median_us = median(us, m->samples);
	m->min_us = us[0];
	m->q25_us = quantile(us, m->samples, 0.25);
	m->q75_us = quantile(us, m->samples, 0.75);
	m->ci_us = median_ci(us, m->samples);
	m->ratio = ratio_to(r, &c->runner[0], rounds);
	m->gbps = racer->bytes / m->median_us / 1e3;
	m->tflops = racer->flops / m->median_us / 1e6;
	m->sm_mhz_before = known(c->mhz_first);
	m->sm_mhz_after = known(c->mhz_last);
	m->power_w = mean_power(c);
	m->joules = m->power_w * m->median_us * 1e-6;
	if (noisy)
		snprintf(m->stopped, sizeof m->stopped, "noisy");
}

/* No kernel beats the machine: such a time means that work was left out, or that the
 * clock lied. Its output is looked at once more and it is timed once more. */
static enum attune_status doubt(struct course *c, int i, int rounds)
{
	struct racer *racer = &c->race->v[i];
	struct measurement *m = &racer->m;
	const double limit = racer->bound_us / 2;
	enum attune_status status;
	if (!(m->median_us < limit))
		return ATTUNE_OK;
	const double first = m->median_us;
	if (c->race->right && !c->race->right(c->race->arg, i)) {
		m->outcome = OUTCOME_WRONG;
		snprintf(m->detail, sizeof m->detail,
			 "%.3f us, and its output is wrong when looked at again", first);
		return ATTUNE_OK;
	}
	const int keep = c->round;
	for (c->round = 0; c->round < rounds; c->round++)
		if ((status = sample(c, i)))
			return status;
	c->round = keep;
	summarise(c, i, rounds);
	if (m->median_us < limit) {
		m->outcome = OUTCOME_WRONG;
		snprintf(m->detail, sizeof m->detail,
			 "%.3f us twice: the machine's ceilings allow no less than %.3f us",
			 m->median_us, racer->bound_us);
	}
	return ATTUNE_OK;
}

static enum attune_status retire(struct course *c, int i, const char *why)
{
	struct measurement *m = &c->race->v[i].m;
	snprintf(m->stopped, sizeof m->stopped, "%s", why);
	summarise(c, i, c->round);
	enum attune_status status = doubt(c, i, c->round);
	if (status)
		return status;
	c->runner[i].alive = 0;
	tapes_free(&c->runner[i].tapes, c->dev);
	if (c->race->after)
		c->race->after(c->race->arg, i);
	return ATTUNE_OK;
}

/* After a round: who goes, and whether all survivors are known well enough. */
static enum attune_status judge(struct course *c, int *settled)
{
	const struct protocol *p = c->race->protocol;
	const double limit = c->round == 1 ? fmax(first_drop, p->drop_ratio) : p->drop_ratio;
	double best = INFINITY, ci;
	enum attune_status status = ATTUNE_OK;
	*settled = c->round >= p->min_rounds;
	for (int i = 0; i < c->race->n; i++)
		if (c->runner[i].alive)
			best = fmin(best, standing(&c->runner[i], c->round, &ci));
	for (int i = c->race->n - 1; i >= 0 && !status; i--) {
		const struct runner *r = &c->runner[i];
		if (!r->alive)
			continue;
		double us = standing(r, c->round, &ci);
		int narrow = c->round >= p->min_rounds && ci <= p->interval * us;
		int sure = c->round > 1 || r->share[0] >= clean_share;
		if (i && sure && us > limit * best)
			status = retire(c, i, "slow");
		else if (i && narrow && us > behind * best)
			status = retire(c, i, "interval");
		else if (!narrow)
			*settled = 0;
	}
	return status;
}

static enum attune_status run_round(struct course *c)
{
	const int n = shuffle(c);
	enum attune_status status = ATTUNE_OK;
	look(c);
	for (int i = 0; i < c->race->n; i++)
		c->runner[i].by_round[c->round] = NAN;
	for (int i = 0; i < n && !status; i++)
		status = sample(c, c->order[i]);
	c->round++;
	return status;
}

/* The reference comes last: who is told of it knows that the race is over. */
static enum attune_status retire_all(struct course *c, const char *why)
{
	enum attune_status status = ATTUNE_OK;
	c->power[c->round] = c->power[c->round ? c->round - 1 : 0];
	for (int i = c->race->n - 1; i >= 0 && !status; i--)
		if (c->runner[i].alive)
			status = retire(c, i, why);
	return status;
}

static enum attune_status run_course(struct course *c)
{
	const struct protocol *p = c->race->protocol;
	const int most = p->max_rounds < MAX_SAMPLES ? p->max_rounds : MAX_SAMPLES;
	enum attune_status status = ATTUNE_OK;
	const char *why = "rounds";
	/* half of the time for finding out how long a call takes, at most */
	for (int i = 0; i < c->race->n && !status; i++)
		if (!i || spent(c) < p->seconds / 2)
			status = prepare(c, i);
	while (!status && c->round < most) {
		const double begin = spent(c);
		int settled = 0, left = 0;
		status = run_round(c);
		if (!status)
			status = judge(c, &settled);
		for (int i = 0; i < c->race->n; i++)
			left += c->runner[i].alive;
		if (status || !left)
			break;
		if (settled) {
			why = "interval";
			break;
		}
		if (spent(c) + (spent(c) - begin) > p->seconds) {
			why = "budget";
			break;
		}
	}
	return status ? status : retire_all(c, why);
}

enum attune_status measure_race(struct device *dev, const struct race *race)
{
	struct course c = { .dev = dev, .race = race, .random = race->seed, .began = now() };
	enum attune_status status = ATTUNE_NO_MEMORY;
	c.runner = calloc((size_t)race->n, sizeof *c.runner);
	c.order = calloc((size_t)race->n, sizeof *c.order);
	for (int i = 0; i < race->n; i++)
		race->v[i].m = (struct measurement){ .outcome = OUTCOME_OK };
	if (c.runner && c.order)
		status = run_course(&c);
	else
		fail(status, "no memory for a race of %d", race->n);
	for (int i = 0; c.runner && i < race->n; i++)
		tapes_free(&c.runner[i].tapes, dev);
	free(c.runner);
	free(c.order);
	return status;
}
