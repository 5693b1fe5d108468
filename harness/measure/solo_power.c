/* solo_power.c - measures the power of each survivor of a steady race, running alone without
 * gaps, by the device's energy counter:
 *
 *   |  lead-in: the power of      |  at least hold_s  |
 *   |  the one before fades       tick ............ tick    power = joules / seconds
 *
 * Both ends are ticks, because the counter ticks far less often than graphs end. It is read
 * rarely, because the device idles meanwhile. Devices without a counter keep the mean power of
 * the race. */
#include "race.h"
#include "harness/base/base.h"
#include <math.h>

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
	if (c->race->draw || !(c->race->protocol->hold_s > 0) || !c->dev->ops->joules ||
	    !(c->dev->ops->joules(c->dev) > 0))
		return ATTUNE_OK;
	for (int i = 0; i < c->race->n && !status; i++)
		if (c->call_state[i].in && c->call_state[i].alive)
			status = measure_alone(c, i);
	return status;
}
