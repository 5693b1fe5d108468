/* SPDX-License-Identifier: Apache-2.0 */
/* nearest_estimate.c - estimates the time of plans on batches that were never measured.
 *
 * A part's work is LAUNCH_US + the larger of bytes / bandwidth and FLOPs / rate, at the device's
 * measured ceilings. The best time of the nearest measured scenario is scaled by the ratio of both
 * works. The choice keeps its slowdown of the nearest scenario where it was measured. The parts of
 * a plan run in series. Ties go to the first scenario in the order of the data. */
#include "policy.h"
#include "tuner/data/data.h"
#include <math.h>
#include <stdlib.h>

/* For a device without measured ceilings; only their ratio matters. */
enum { LAUNCH_US = 4, SOME_GBPS = 1000, SOME_TFLOPS = 100 };

/* Whether times of a phase of a can be used for b: both have it, and for PHASE_ALL both have the
 * same parts. */
static int alike(const struct measured *a, const struct measured *b, enum phase phase)
{
	return a->has[phase] && b->has[phase] && a->shape.kv_layout == b->shape.kv_layout &&
	       a->shape.has_lse == b->shape.has_lse &&
	       (phase != PHASE_ALL || (a->has[PHASE_PREFILL] == b->has[PHASE_PREFILL] &&
				       a->has[PHASE_DECODE] == b->has[PHASE_DECODE]));
}

/* The work of a part in us, from its features. */
static double work_us(const struct data *d, const struct measured *m, enum phase phase)
{
	const struct run_info *r = &d->run;
	const struct attune_features *f = &m->part[phase].f;
	const double gbps = r->dram_gbps > 0 ? r->dram_gbps : SOME_GBPS;
	const double tflops = r->fma_tflops > 0 ? r->fma_tflops : SOME_TFLOPS;
	const double bytes = 2.0 * (double)f->kv_tokens * (double)f->num_kv_heads *
			     (double)f->head_size * (double)f->kv_bytes;
	const double flops =
	    4.0 * 4096 * (double)f->work * (double)f->num_query_heads * (double)f->head_size;
	return LAUNCH_US + fmax(bytes / gbps / 1e3, flops / tflops / 1e6);
}

/* One batch: the distance of every scenario, by phase, and the best time scaled from the nearest
 * one. */
struct around {
	const struct data *d;
	const struct measured *m;
	double *far[NUM_PHASES]; /* [d->n]; INFINITY: not alike */
	int nearest[NUM_PHASES]; /* scenario with an ok result; -1: none */
	double us[NUM_PHASES];   /* estimated best time; INFINITY: unknown */
};

static void look_around(struct around *a, enum phase phase)
{
	const struct data *d = a->d;
	double least = INFINITY, best = INFINITY;
	int any;
	a->nearest[phase] = -1;
	a->us[phase] = INFINITY;
	for (int s = 0; s < d->n; s++) {
		const struct measured *v = &d->v[s];
		a->far[phase][s] =
		    alike(a->m, v, phase)
			? part_distance(&a->m->part[phase].f, &v->part[phase].f, INFINITY)
			: INFINITY;
		if (a->far[phase][s] >= least)
			continue;
		const double us = data_best(d, s, phase, &any);
		if (isfinite(us))
			a->nearest[phase] = s, least = a->far[phase][s], best = us;
	}
	if (a->nearest[phase] >= 0)
		a->us[phase] =
		    best * work_us(d, a->m, phase) / work_us(d, &d->v[a->nearest[phase]], phase);
}

int mark_near(const struct data *d, const char *model, int page_size, const attune_batch *batch,
	      char *wanted)
{
	enum { MOST = 32 };
	struct measured m;
	attune_shape shape;
	int marked = 0;
	if (!d->n || !shape_of_model(&shape, d, model, page_size))
		return d->n ? -1 : 0;
	if (!measured_make_view(&m, d, &shape, batch))
		return 0;
	for (int i = 0; i < NUM_PHASES * MOST; i++) {
		const enum phase phase = (enum phase)(i % NUM_PHASES);
		double least = INFINITY;
		int nearest = -1;
		for (int s = 0; s < d->n; s++) {
			if (wanted[s] || !alike(&m, &d->v[s], phase))
				continue;
			const double far =
			    part_distance(&m.part[phase].f, &d->v[s].part[phase].f, least);
			if (far < least)
				least = far, nearest = s;
		}
		if (nearest >= 0)
			wanted[nearest] = 1, marked++;
	}
	return marked;
}

struct around *around_new(const struct data *d, const struct measured *m)
{
	struct around *a = calloc(1, sizeof *a);
	if (!a)
		return NULL;
	*a = (struct around){ .d = d, .m = m };
	for (int p = 0; p < NUM_PHASES; p++) {
		a->far[p] = malloc(sizeof **a->far * (size_t)(d->n + 1));
		if (!a->far[p]) {
			around_free(a);
			return NULL;
		}
		look_around(a, (enum phase)p);
	}
	return a;
}

void around_free(struct around *a)
{
	for (int p = 0; a && p < NUM_PHASES; p++)
		free(a->far[p]);
	free(a);
}

int around_nearest(const struct around *a, enum phase phase, double *far)
{
	*far = a->nearest[phase] < 0 ? INFINITY : a->far[phase][a->nearest[phase]];
	return a->nearest[phase];
}

double estimate_part(const struct around *a, enum phase phase, const struct choice *c)
{
	const int choice = c->kernel ? data_find(a->d, c) : -1;
	int seen = -1, any;
	for (int s = 0; choice >= 0 && s < a->d->n; s++)
		if (isfinite(a->far[phase][s]) &&
		    (seen < 0 || a->far[phase][s] < a->far[phase][seen]) &&
		    isfinite(data_part_time(a->d, s, phase, choice)))
			seen = s;
	if (seen < 0)
		return INFINITY;
	return a->us[phase] * data_part_time(a->d, seen, phase, choice) /
	       data_best(a->d, seen, phase, &any);
}

double estimate_plan(const struct around *a, const struct decided *made)
{
	const struct measured *m = a->m;
	double us = 0;
	if (measured_is_mixed(m) && !made->join)
		return estimate_part(a, PHASE_ALL, &made->prefill);
	if (m->has[PHASE_PREFILL])
		us += estimate_part(a, PHASE_PREFILL, &made->prefill);
	if (m->has[PHASE_DECODE])
		us += estimate_part(a, PHASE_DECODE, &made->decode);
	return us;
}

double estimate_best(const struct around *a)
{
	const struct measured *m = a->m;
	const int mixed = measured_is_mixed(m);
	double parts = 0;
	for (enum phase p = PHASE_PREFILL; p <= PHASE_DECODE; p++)
		parts += m->has[p] ? a->us[p] : 0;
	return mixed ? fmin(parts, a->us[PHASE_ALL]) : parts;
}
