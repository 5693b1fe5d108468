/* solo_power.c - what a contender draws when it runs alone. After a steady race each who is left runs
 * unbroken, and the device's energy counter says what passed between two of its ticks:
 *
 *   |  lead-in           |  at least hold_s  |
 *   the one before fades  tick ........ tick : joules / seconds
 *
 * The counter ticks far less often than graphs end; from tick to tick, steps of it are not in
 * the figure. Looks at it are few, as the device idles meanwhile. Devices without a counter
 * keep the power of the race. */
#include "race.h"
#include "harness/base/base.h"
#include <math.h>

static const double lead_in = 0.25, patience = 3; /* in hold_s */
static const double rarely_s = 0.005, looks_share = 0.05;

struct hold {
	double begin, least;        /* seconds */
	double seen;                /* the counter at the last look */
	double tick_s, tick_joules; /* the first tick that counts */
	double w;
	int over;
};

static void look_at_counter(struct hold *h, double now, double joules)
{
	const int ticked = h->seen > 0 && joules > h->seen;
	h->seen = joules;
	h->over = !(joules > 0) || now - h->begin > patience * h->least;
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

static enum attune_status hold(struct race_state *c, int i)
{
	struct hold h = { .begin = seconds_now(), .least = c->race->protocol->hold_s };
	const double every = fmax(rarely_s, c->look_s / looks_share);
	enum attune_status status = ATTUNE_OK;
	double next = h.begin, us;
	while (!status && !h.over) {
		struct conditions now;
		status = race_play(c, i, &us);
		if (status || seconds_now() < next)
			continue;
		c->dev->ops->conditions(c->dev, &now);
		look_at_counter(&h, seconds_now(), now.joules);
		next = seconds_now() + every;
	}
	c->call_state[i].alone_w = h.w;
	return status;
}

enum attune_status race_hold(struct race_state *c)
{
	enum attune_status status = ATTUNE_OK;
	if (c->race->draw || !(c->race->protocol->hold_s > 0) || !(c->last.joules > 0))
		return ATTUNE_OK;
	for (int i = 0; i < c->race->n && !status; i++)
		if (c->call_state[i].in && c->call_state[i].alive)
			status = hold(c, i);
	return status;
}
