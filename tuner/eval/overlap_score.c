/* overlap_score.c - for `attune eval`: counts how a header runs mixed batches, and compares its
 * overlaps with the fastest serial plan of the same race and with the header's own serial plan. */
#include "eval.h"
#include "harness/base/json_out.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const names[2] = { "train", "heldout" };

#define ABOVE 1.02

/* The time of the header's parts one after the other. */
static double own_serial_time(const struct data *d, const struct forest *f, int s)
{
	struct decided made;
	struct pick p;
	forest_make_serial(d, f, &d->v[s], &made);
	decided_pick(d, &made, &p);
	return data_plan_time(d, s, &p);
}

struct logs {
	double best, own;
};

static void count_own(struct overlaps *o, struct logs *logs, double ratio)
{
	if (!isfinite(ratio) || ratio <= 0) /* 0: the serial plan has no time */
		return;
	o->own.n++;
	o->own.above += ratio > ABOVE;
	o->own.worst = fmax(o->own.worst, ratio);
	logs->own += log(ratio);
}

static void count_one(const struct data *d, const struct forest *f, int s, struct overlaps *o,
		      struct logs *logs)
{
	struct pick picked, *p = &picked;
	forest_pick(d, f, s, p);
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
	logs->best += log(ratio);
	o->worst = fmax(o->worst, ratio);
	count_own(o, logs, data_plan_time(d, s, p) / own_serial_time(d, f, s));
}

void count_overlaps(const struct data *d, const struct forest *f, struct overlaps out[2])
{
	struct logs logs[2] = { 0 };
	out[0] = out[1] = (struct overlaps){ 0 };
	for (int s = 0; s < d->n; s++) {
		const int side = data_side(&d->v[s]);
		if (side >= 0 && decision_is_of(DECIDE_OVERLAP, &d->v[s]))
			count_one(d, f, s, &out[side], &logs[side]);
	}
	for (int i = 0; i < 2; i++) {
		const int known = out[i].mixed - out[i].serial - out[i].unknown;
		const int own = out[i].own.n;
		out[i].geomean = known ? exp(logs[i].best / known) : 1;
		out[i].worst = known ? out[i].worst : 1;
		out[i].own.geomean = own ? exp(logs[i].own / own) : 1;
		out[i].own.worst = own ? out[i].own.worst : 1;
	}
}

void overlaps_json(struct json_out *o, const struct overlaps v[2])
{
	out_object(o, "overlap");
	for (int i = 0; i < 2; i++) {
		out_object(o, names[i]);
		out_integer(o, "n", v[i].mixed);
		out_integer(o, "serial", v[i].serial);
		out_integer(o, "streams", v[i].streams);
		out_integer(o, "split", v[i].split);
		out_integer(o, "fused", v[i].fused);
		out_integer(o, "unknown", v[i].unknown);
		out_number(o, "geomean", v[i].geomean, 5);
		out_number(o, "worst", v[i].worst, 5);
		out_object(o, "own");
		out_integer(o, "n", v[i].own.n);
		out_integer(o, "above", v[i].own.above);
		out_number(o, "geomean", v[i].own.geomean, 5);
		out_number(o, "worst", v[i].own.worst, 5);
		out_end(o);
		out_end(o);
	}
	out_end(o);
}

void overlaps_print(const struct overlaps v[2])
{
	for (int i = 0; i < 2; i++) {
		if (!v[i].mixed)
			continue;
		printf("# overlap, %s: %d mixed scenarios: %d serial, %d on two streams, %d with "
		       "split SMs, %d fused",
		       names[i], v[i].mixed, v[i].serial, v[i].streams, v[i].split, v[i].fused);
		if (v[i].mixed > v[i].serial)
			printf("; overlaps take %.4f x the best serial plan (worst %.3f, %d not "
			       "measured)",
			       v[i].geomean, v[i].worst, v[i].unknown);
		if (v[i].own.n)
			printf("; %.4f x the header's own serial plan (worst %.3f, more than 2 %% "
			       "slower in %d of %d)",
			       v[i].own.geomean, v[i].own.worst, v[i].own.above, v[i].own.n);
		putchar('\n');
	}
}
