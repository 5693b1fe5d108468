/* SPDX-License-Identifier: Apache-2.0 */
/* sample.c - the timing protocols; records and runs the graphs of contenders, takes the samples of a
 * round, and measures the power of each contender alone. A disturbed sample is retaken; so is a round
 * in which the device throttled.
 *
 * Page sets rotate through the whole race: each run begins with the sets used longest ago by any
 * contender, so that no call finds its keys in a cache. */
#include "measure.h"
#include "race.h"
#include "harness/base/base.h"
#include "kernels/device/device.h"
#include "kernels/spec/status.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- protocols and graphs ---------------------------------------------------------- */
int protocol_for(struct protocol *p, const struct device_info *d, const char *preset)
{
	// clang-format off
	static const struct {
		const char *preset;
		enum backend backend;
		struct protocol p;
	} table[] = {
#define ROW(preset_, backend_, low, high, tie_, regret_, screen, sample, longest, calls, s) \
	{ preset_, backend_, { .min_rounds = low, .max_rounds = high, .tie = tie_, \
			       .regret = regret_, .screen_ratio = screen, .sample_us = sample, \
			       .longest_us = longest, .min_calls = calls, .seconds = s } },
/*	     preset   backend       rounds  tie    regret  screen sample longest calls seconds */
		ROW("smoke", BACKEND_GPU, 3,  6, 0.03,  0.01,   1.3,    300,  20000, 1,     3)
		ROW("quick", BACKEND_GPU, 3, 24, 0.01,  0.003,  1.3,    500,  20000, 2,    10)
		ROW("full",  BACKEND_GPU, 6, 48, 0.005, 0.001,  1.5,    500,  20000, 4,    30)
		ROW("smoke", BACKEND_CPU, 3,  6, 0.05,  0.02,   1.3,    500,   3000, 1,     3)
		ROW("quick", BACKEND_CPU, 3, 24, 0.02,  0.005,  1.3,   1000,   3000, 1,    10)
		ROW("full",  BACKEND_CPU, 6, 48, 0.01,  0.003,  1.5,   1000,   3000, 1,    60)
#undef ROW
	};
	// clang-format on
	const size_t least = d->backend == BACKEND_GPU ? 400u << 20 : 64u << 20;
	for (size_t i = 0; i < COUNT(table); i++) {
		if (strcmp(table[i].preset, preset) || table[i].backend != d->backend)
			continue;
		*p = table[i].p;
		p->name = d->backend == BACKEND_GPU ? "graph-rotating" : "rounds-rotating";
		p->cold_bytes = 2 * d->l2_bytes > least ? 2 * d->l2_bytes : least;
		return 1;
	}
	return 0;
}

void protocol_steady(struct protocol *p)
{
	p->name =
	    strcmp(p->name, "graph-rotating") ? "rounds-rotating-steady" : "graph-rotating-steady";
	p->settle_s = 1;
	p->hold_s = 1;
}

void graphs_free(struct graphs *g, struct device *dev)
{
	for (int i = 0; i < g->n; i++)
		dev->ops->graph_free(dev, g->v[i]);
	free(g->v);
	*g = (struct graphs){ 0 };
}

static enum attune_status record(struct device *dev, const struct timed_call *timed_call, int sets,
				 int first, int calls, struct graph **graph)
{
	char text[200];
	enum attune_status status = dev->ops->graph_begin(dev);
	if (status)
		return status;
	for (int i = 0; i < calls && !status; i++)
		status = timed_call->call(timed_call->arg, (first + i) % sets);
	if (!status)
		return dev->ops->graph_end(dev, graph);
	/* the failed call's error is kept; graph_end may overwrite it */
	snprintf(text, sizeof text, "%s", attune_last_error());
	if (!dev->ops->graph_end(dev, graph))
		dev->ops->graph_free(dev, *graph);
	return fail(status, "%s", text);
}

static enum attune_status graphs_record(struct graphs *g, struct device *dev,
					const struct timed_call *timed_call, int sets, int first,
					int calls, int most)
{
	const int all = calls >= sets ? 1 : (sets + calls - 1) / calls, n = all < most ? all : most;
	enum attune_status status = ATTUNE_OK;
	*g = (struct graphs){ .calls = calls, .first = first };
	g->v = calloc((size_t)n, sizeof *g->v);
	if (!g->v)
		return fail(ATTUNE_NO_MEMORY, "no memory for %d graphs", n);
	for (int i = 0; i < n && !status; i++) {
		status = record(dev, timed_call, sets, (first + i * calls) % sets, calls, &g->v[i]);
		g->n += !status;
	}
	if (status)
		graphs_free(g, dev);
	return status;
}

int graphs_plan(const struct protocol *p, int sets, double us)
{
	const double most = fmin(fmax(floor(p->longest_us / us), 1), 100000);
	const double want = fmax(ceil(p->sample_us / us), fmax(p->min_calls, 1));
	const double whole = ceil(want / sets) * sets;
	return (int)fmin(whole <= 2 * want ? whole : want, most);
}

static struct graph *graphs_next(const struct graphs *g, int sets, int *next_set)
{
	const int ahead = (*next_set - g->first + sets) % sets;
	const int i = (ahead + g->calls - 1) / g->calls % g->n;
	*next_set = (g->first + (i + 1) * g->calls) % sets;
	return g->v[i];
}

/* ---- samples ----------------------------------------------------------------------- */

enum {
	MAX_TRIES = 3 /* of a sample that is disturbed or at another clock */,
	MAX_REPLAYS = 20 /* of a graph, while the device reports that it took no time */,
	MAX_PAUSES = 3 /* of a race, each twice as long */
};

static const double cheap_look_s = 50e-6;
static const double throttled = 0.75;       /* below this share of the expected clock */
static const double worth_saying = 0.05;    /* worse by this share of the expected clock */
static const double clock_tolerance = 0.03; /* of a sample, to the median of its round */
static const double pause_s = 0.05;
static const double window_s = 0.25, still_mhz = 0.01, still_w = 0.02;
static const double longest_settle = 5; /* in settle_s */

static void wait_s(double seconds)
{
	const struct timespec t = { .tv_sec = (time_t)seconds,
				    .tv_nsec = (long)(fmod(seconds, 1) * 1e9) };
	nanosleep(&t, NULL);
}

double race_spent(const struct race_state *c)
{
	return budget_now() - c->budget_began;
}

double race_cpu_share(const struct race_state *c)
{
	if (c->race->share)
		return c->race->share(c->dev);
	return c->dev->info.backend == BACKEND_CPU ? cpu_last_play_share(c->dev) : 1;
}

static void report_failure(struct measurement *m, enum outcome outcome)
{
	m->outcome = outcome;
	m->samples = 0;
	snprintf(m->detail, sizeof m->detail, "%s", attune_last_error());
}

/* Contender i takes no more samples. Without its original an A/A control has nothing to compare. */
static void leave(struct race_state *c, int i)
{
	struct call_state *r = &c->call_state[i];
	const int has_control = c->contenders > c->race->n;
	r->alive = r->in = r->unreported = 0;
	graphs_free(&r->graphs, c->dev);
	if (has_control && i == c->race->control->of)
		c->call_state[c->race->n].in = 0;
}

/* The device cannot run contender i. A control is no contender of the caller: it just ends. */
static void drop_refused(struct race_state *c, int i)
{
	struct call_state *r = &c->call_state[i];
	report_failure(r->m, OUTCOME_RESOURCES);
	leave(c, i);
	if (i < c->race->n && c->race->after)
		c->race->after(c->race->arg, r->of);
}

/* Contender i lost the device. The crash of a control is that of its original. */
static void drop_crashed(struct race_state *c, int i)
{
	const int of = c->call_state[i].of;
	report_failure(&c->race->v[of].m, OUTCOME_CRASH);
	leave(c, i);
	if (c->race->after)
		c->race->after(c->race->arg, of);
}

void race_build_graphs(struct race_state *c, int i, int calls, int most)
{
	struct call_state *r = &c->call_state[i];
	const double begin = seconds_now();
	graphs_free(&r->graphs, c->dev);
	r->calls = calls;
	if (graphs_record(&r->graphs, c->dev, &c->race->v[r->of], c->race->sets,
			  most == INT_MAX ? 0 : c->next_set, calls, most))
		drop_refused(c, i);
	r->m->wall_us += (seconds_now() - begin) * 1e6;
}

/* The events of a device may report 0 ns or less for a graph. Then it is replayed. */
static enum attune_status play(struct race_state *c, struct call_state *r, double *ns)
{
	enum attune_status status = ATTUNE_OK;
	*ns = 0;
	for (int i = 0; i < MAX_REPLAYS && !status && !(*ns > 0); i++)
		status = c->dev->ops->graph_play(
		    c->dev, graphs_next(&r->graphs, c->race->sets, &c->next_set), ns);
	if (!status && !(*ns > 0))
		status = fail(ATTUNE_DEVICE_ERROR, "a graph of %d calls took no time", r->calls);
	return status;
}

enum attune_status race_run_graph(struct race_state *c, int i, double *us)
{
	struct call_state *r = &c->call_state[i];
	const double begin = seconds_now();
	double ns;
	if (c->race->before)
		c->race->before(c->race->arg, r->of, r->us * r->calls * 1e-6);
	const enum attune_status status = play(c, r, &ns);
	*us = ns / 1e3 / r->calls;
	budget_run();
	r->m->device_us += ns / 1e3;
	r->m->wall_us += (seconds_now() - begin) * 1e6;
	if (status)
		drop_crashed(c, i);
	return status;
}

static void read_conditions(struct race_state *c, struct conditions *now)
{
	const double begin = seconds_now();
	*now = (struct conditions){ 0 };
	if (c->dev->ops->conditions)
		c->dev->ops->conditions(c->dev, now);
	c->look_s = seconds_now() - begin;
}

static enum attune_status sample(struct race_state *c, int i)
{
	struct call_state *r = &c->call_state[i];
	float *us = &r->by_round[c->rounds], *share = &r->share[c->rounds];
	struct conditions now;
	*share = 0;
	for (int attempt = 0; attempt < MAX_TRIES && *share < clean_share && r->in; attempt++) {
		double got;
		enum attune_status status = race_run_graph(c, i, &got);
		if (status || !r->alive)
			return status;
		double clean = race_cpu_share(c);
		r->m->rejected += clean < clean_share;
		if (clean > *share || !attempt) {
			*us = (float)got;
			*share = (float)clean;
		}
	}
	r->mhz = 0;
	if (c->usual_mhz > 0 && c->look_s < cheap_look_s) {
		read_conditions(c, &now);
		r->mhz = now.sm_mhz;
	}
	return ATTUNE_OK;
}

/* Lists all that are in, in a new random order. */
static int shuffle(struct race_state *c)
{
	int n = 0;
	for (int i = 0; i < c->contenders; i++)
		if (c->call_state[i].in)
			c->order[n++] = i;
	for (int i = n - 1; i > 0; i--) {
		int j = (int)(random_bits(&c->random) % (unsigned)(i + 1)), keep = c->order[i];
		c->order[i] = c->order[j];
		c->order[j] = keep;
	}
	return n;
}

/* Drops samples of this round that were taken at another clock than most. Returns how many. */
static int drop_other_clocks(struct race_state *c, int n)
{
	double *mhz = c->scratch;
	int known = 0, dropped = 0;
	for (int i = 0; i < n; i++)
		if (c->call_state[c->order[i]].mhz > 0)
			mhz[known++] = c->call_state[c->order[i]].mhz;
	const double usual = median(mhz, known);
	for (int i = 0; i < n; i++) {
		struct call_state *r = &c->call_state[c->order[i]];
		if (r->mhz > 0 && fabs(r->mhz - usual) > clock_tolerance * usual) {
			r->by_round[c->rounds] = NAN;
			r->m->rejected++;
			dropped++;
		}
	}
	return dropped;
}

static enum attune_status retake_dropped(struct race_state *c, int n)
{
	enum attune_status status = ATTUNE_OK;
	for (int i = 0; i < n && !status; i++)
		if (c->call_state[c->order[i]].in &&
		    isnan(c->call_state[c->order[i]].by_round[c->rounds]))
			status = sample(c, c->order[i]);
	return status;
}

/* Says by how much, each time that it is clearly worse than said before: a sweep has thousands of
 * races. */
static void say_throttled(double mhz, double usual_mhz)
{
	static double worst = 1; /* share of the usual clock */
	const double share = mhz / usual_mhz;
	if (share > worst - worth_saying)
		return;
	worst = share;
	remark(
	    "the device throttles: its clock is %.0f MHz, %.0f %% below %.0f MHz. Rounds at such a "
	    "clock are run again, up to %d in a race",
	    mhz, 100 * (1 - share), usual_mhz, (int)MAX_PAUSES);
}

/* Whether the device throttled, so that the round must be repeated; pauses if so. After
 * MAX_PAUSES throttling counts as permanent, and is measured. */
static int must_cool(struct race_state *c, const struct conditions *now, int n)
{
	if (!(now->sm_mhz > 0 && now->sm_mhz < throttled * c->usual_mhz) || c->pauses == MAX_PAUSES)
		return 0;
	for (int i = 0; i < n; i++)
		c->call_state[c->order[i]].m->rejected++;
	say_throttled(now->sm_mhz, c->usual_mhz);
	wait_s(ldexp(pause_s, c->pauses++));
	return 1;
}

/* Only where the power is not known, because reading the counter may take milliseconds. */
static void read_energy(struct race_state *c)
{
	if (!c->dev->ops->joules || c->last.power_w > 0 ||
	    (c->rounds && !(c->first_energy.joules > 0)))
		return;
	c->last_energy = (struct energy){ seconds_now(), c->dev->ops->joules(c->dev) };
	if (!c->rounds)
		c->first_energy = c->last_energy;
}

enum attune_status race_round(struct race_state *c)
{
	enum attune_status status = ATTUNE_OK;
	struct conditions now;
	int n;
	for (int i = 0; i < c->contenders; i++)
		c->call_state[i].by_round[c->rounds] = NAN;
	do {
		n = shuffle(c);
		for (int i = 0; i < n && !status; i++)
			status = sample(c, c->order[i]);
		read_conditions(c, &now);
	} while (!status && must_cool(c, &now, n));
	/* at the limit of power the clock wanders: the last sample stays, whatever its clock */
	for (int attempt = 1; !status && attempt < MAX_TRIES && drop_other_clocks(c, n); attempt++)
		status = retake_dropped(c, n);
	c->power[c->rounds] = now.power_w;
	if (!c->rounds)
		c->first = now;
	c->last = now;
	read_energy(c);
	c->rounds++;
	return status;
}

/* Whether reading a is within `share` of b. An unknown reading (NaN) counts as steady. */
static int is_steady(double a, double b, double share)
{
	return !(fabs(a - b) > share * b);
}

enum attune_status race_settle(struct race_state *c)
{
	const double least = c->race->protocol->settle_s, begin = seconds_now();
	enum attune_status status = ATTUNE_OK;
	struct conditions before = { 0 }, now = { 0 };
	double window = begin, us;
	int still = 0, windows = 0, n = shuffle(c);
	if (!(least > 0))
		return ATTUNE_OK;
	for (int i = 0; n && !status; i = (i + 1) % n) {
		const double at = seconds_now();
		if (at - begin > longest_settle * least || (still && at - begin > least))
			break;
		if (at - window > fmin(window_s, least / 4)) {
			read_conditions(c, &now);
			still = windows++ && is_steady(now.sm_mhz, before.sm_mhz, still_mhz) &&
				is_steady(now.power_w, before.power_w, still_w);
			before = now;
			window = seconds_now();
		}
		status = race_run_graph(c, c->order[i], &us);
	}
	read_conditions(c, &now);
	if (c->usual_mhz > 0 && now.sm_mhz > 0)
		c->usual_mhz = now.sm_mhz;
	return status;
}

/* ---- power ------------------------------------------------------------------------- */
/* Measures the power of each survivor of a steady race, running alone without gaps, by the device's
 * energy counter:
 *
 *   |  lead-in: the power of      |  at least hold_s  |
 *   |  the one before fades       tick ............ tick    power = joules / seconds
 *
 * Both ends are ticks, because the counter ticks far less often than graphs end. It is read
 * rarely, because the device idles meanwhile. Devices without a counter keep the mean power of
 * the race. */

static const double lead_in = 0.25, longest = 3;               /* in hold_s */
static const double least_gap_s = 0.005, reading_share = 0.05; /* of the counter, in the run */

struct power_run {
	double begin, least;        /* seconds */
	double last_joules;         /* the counter when last read */
	double tick_s, tick_joules; /* the first tick that counts */
	double w;
	int over;
};

static void read_counter(struct power_run *h, double now, double joules)
{
	const int ticked = h->last_joules > 0 && joules > h->last_joules;
	h->last_joules = joules;
	h->over = !(joules > 0) || now - h->begin > longest * h->least;
	if (!ticked || now - h->begin < lead_in * h->least)
		return;
	if (!(h->tick_s > 0)) {
		h->tick_s = now;
		h->tick_joules = joules;
	} else if (now - h->tick_s >= h->least) {
		h->w = (joules - h->tick_joules) / (now - h->tick_s);
		h->over = 1;
	}
}

static enum attune_status measure_alone(struct race_state *c, int i)
{
	struct power_run h = { .begin = seconds_now(), .least = c->race->protocol->hold_s };
	enum attune_status status = ATTUNE_OK;
	double next = h.begin, us;
	while (!status && !h.over) {
		status = race_run_graph(c, i, &us);
		const double begin = seconds_now();
		if (status || begin < next)
			continue;
		const double joules = c->dev->ops->joules(c->dev), end = seconds_now();
		read_counter(&h, end, joules);
		next = end + fmax(least_gap_s, (end - begin) / reading_share);
	}
	c->call_state[i].alone_w = h.w;
	return status;
}

enum attune_status race_measure_solo_power(struct race_state *c)
{
	enum attune_status status = ATTUNE_OK;
	if (!(c->race->protocol->hold_s > 0) || !c->dev->ops->joules ||
	    !(c->dev->ops->joules(c->dev) > 0))
		return ATTUNE_OK;
	for (int i = 0; i < c->race->n && !status; i++)
		if (c->call_state[i].in && c->call_state[i].alive)
			status = measure_alone(c, i);
	return status;
}
