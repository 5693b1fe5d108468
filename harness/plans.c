/* plans.c - composed plans of a mixed batch: which prefill and decode choices are worth
 * being raced together, once each was raced alone. */
#include "sweep.h"
#include <math.h>

enum { BEST = 2 /* choices of each part */ };

/* Places of the fastest, the fastest first; how many there are. */
static int fastest(const struct heat *h, int place[BEST])
{
	int n = 0;
	for (int i = 0; i < h->n; i++) {
		if (!isfinite(h->us[i]))
			continue;
		int at = n < BEST ? n++ : BEST;
		for (; at > 0 && h->us[place[at - 1]] > h->us[i]; at--)
			if (at < BEST)
				place[at] = place[at - 1];
		if (at < BEST)
			place[at] = i;
	}
	return n;
}

int plans_pick(const struct heats *heats, int scenario, struct lane lane[MAX_PLANS])
{
	const struct heat *prefill = heats_find(heats, scenario, PHASE_PREFILL);
	const struct heat *decode = heats_find(heats, scenario, PHASE_DECODE);
	int a[BEST], b[BEST], n = 0;
	const int num_a = prefill ? fastest(prefill, a) : 0;
	const int num_b = decode ? fastest(decode, b) : 0;
	for (int i = 0; i < num_a; i++)
		for (int j = 0; j < num_b; j++)
			lane[n++] = (struct lane){
				{ (int)(prefill - heats->v), (int)(decode - heats->v) },
				{ a[i], b[j] },
				1,
			};
	return n;
}

void plan_text(char text[MAX_PLAN_TEXT], const struct heats *h, const struct lane *lane)
{
	char part[2][MAX_CHOICE_TEXT + 32];
	for (int i = 0; i < 2; i++)
		choice_text(part[i], sizeof part[i],
			    &h->entrant[h->v[lane->heat[i]].entrant[lane->place[i]]].choice);
	snprintf(text, MAX_PLAN_TEXT, "prefill: %s | decode: %s", part[0], part[1]);
}
