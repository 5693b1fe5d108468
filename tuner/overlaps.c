/* overlaps.c - for `attune eval`: in which ways a header runs mixed batches, and what those
 * that are not serial take, to the fastest serial plan of the same race. */
#include "eval.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const names[2] = { "train", "heldout" };

static void count_one(const struct data *d, int s, const struct pick *p, struct overlaps *o,
		      double *logs)
{
	const int way = pick_way(d, p);
	o->mixed++;
	o->serial += way == SAYS_SERIAL;
	o->streams += way == SAYS_STREAMS;
	o->split += way >= 0 && p->how == ATTUNE_STREAMS;
	o->fused += way >= 0 && p->how == ATTUNE_SERIAL;
	if (way == SAYS_SERIAL)
		return;
	const double ratio = overlap_ratio(d, s, way, p);
	o->unknown += !isfinite(ratio);
	if (!isfinite(ratio))
		return;
	*logs += log(ratio);
	o->worst = fmax(o->worst, ratio);
}

void count_overlaps(const struct data *d, const struct forest *f, struct overlaps out[2])
{
	double logs[2] = { 0 };
	out[0] = out[1] = (struct overlaps){ 0 };
	for (int s = 0; s < d->n; s++) {
		const int held_out = !data_is_training(&d->v[s]);
		struct pick p;
		if (!decision_is_of(DECIDE_OVERLAP, &d->v[s]))
			continue;
		forest_pick(d, f, s, &p);
		count_one(d, s, &p, &out[held_out], &logs[held_out]);
	}
	for (int i = 0; i < 2; i++) {
		const int known = out[i].mixed - out[i].serial - out[i].unknown;
		out[i].geomean = known ? exp(logs[i] / known) : 1;
		out[i].worst = known ? out[i].worst : 1;
	}
}

void overlaps_json(const struct overlaps v[2])
{
	fputs("\"overlap\": {", stdout);
	for (int i = 0; i < 2; i++)
		printf("%s\"%s\": {\"n\": %d, \"serial\": %d, \"streams\": %d, \"split\": %d, "
		       "\"fused\": %d, \"unknown\": %d, \"geomean\": %.5f, \"worst\": %.5f}",
		       i ? ", " : "", names[i], v[i].mixed, v[i].serial, v[i].streams, v[i].split,
		       v[i].fused, v[i].unknown, v[i].geomean, v[i].worst);
	fputs("}, ", stdout);
}

void overlaps_print(const struct overlaps v[2])
{
	for (int i = 0; i < 2; i++) {
		if (!v[i].mixed)
			continue;
		printf("# overlap, %s: %d mixed scenarios, %d serial, %d on two streams, %d with "
		       "units left, %d fused",
		       names[i], v[i].mixed, v[i].serial, v[i].streams, v[i].split, v[i].fused);
		if (v[i].mixed > v[i].serial)
			printf("; these take %.4f of the best serial plan, at worst %.3f, %d not "
			       "known",
			       v[i].geomean, v[i].worst, v[i].unknown);
		putchar('\n');
	}
}
