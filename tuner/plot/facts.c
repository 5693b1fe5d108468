/* SPDX-License-Identifier: Apache-2.0 */
/* facts.c - fills the tables of facts.sql from a database and its policies' picks. */
#include "plot.h"
#include "harness/scenario/scenario.h"
#include "harness/scratch/scratch.h"
#include "harness/store/store.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include "tuner/policy/settled.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

EMBED(facts_schema, "tuner/plot/facts.sql")

static int like(const struct measured *a, const struct measured *b)
{
	return !strcmp(a->model, b->model) && a->shape.page_size == b->shape.page_size &&
	       a->shape.dtype == b->shape.dtype && a->shape.kv_dtype == b->shape.kv_dtype &&
	       !strcmp(a->layout, b->layout);
}

/* The longest run of scenarios that differ only in the batch. */
struct plotted plotted_make(const struct data *d, const struct forest *f)
{
	struct plotted p = { .data = d, .forest = f };
	for (int s = 0, end; s < d->n; s = end) {
		for (end = s + 1; end < d->n && like(&d->v[s], &d->v[end]); end++)
			;
		if (end - s > p.end - p.first)
			p.first = s, p.end = end;
	}
	return p;
}

static int add_sequences(struct scratch *t, int s, const attune_batch *b)
{
	int done = 1, n = 1;
	for (int i = 0; done && i < b->num_seqs; i++, n++) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		if (i + 1 < b->num_seqs && b->seq_lens[i + 1] == b->seq_lens[i] &&
		    b->query_start[i + 2] - b->query_start[i + 1] == query)
			continue;
		done = scratch_add(t, "sequence", "iiii", s, query, b->seq_lens[i], n);
		n = 0;
	}
	return done;
}

static enum pass pass_of_plans(const struct data *d, int s)
{
	enum pass pass = PASS_A;
	for (int i = d->plan_at[s]; i < d->plan_at[s + 1]; i++)
		if (d->plan[i].pass > pass)
			pass = d->plan[i].pass;
	return pass;
}

static int add_scenario(struct scratch *t, const struct plotted *p, int s)
{
	const struct measured *m = &p->data->v[s];
	struct facts f;
	scenario_facts(&f, &m->shape, &m->batch->view);
	return scratch_add(t, "scenario", "iiississiiiiiiddii", s, p->first <= s && s < p->end,
			   data_side(m), m->model, m->split, m->shape.page_size,
			   dtype_name(m->shape.kv_dtype), m->batch_text, m->batch->view.num_seqs,
			   floor_log2(m->batch->view.num_seqs),
			   (int)m->part[PHASE_ALL].f.decode_seqs, (int)pass_of_plans(p->data, s),
			   m->has[PHASE_PREFILL], m->has[PHASE_DECODE], f.kv_bytes, f.flops,
			   m->shape.head_size, m->shape.num_query_heads / m->shape.num_kv_heads);
}

/* The cell of a pick that is one launch of one part; NULL: it is not, or has none. */
static const struct cell *picked_cell(const struct data *d, const struct pick *pick, int s)
{
	const struct cell *c = measured_is_mixed(&d->v[s]) ? NULL : data_pick_cell(d, s, pick);
	return c && c->outcome == OUTCOME_OK ? c : NULL;
}

static int add_plan(struct scratch *t, const struct data *d, int s, const char *policy, double us,
		    const struct pick *pick)
{
	const struct cell *c = picked_cell(d, pick, s);
	const double watts = c && c->power_of > POWER_AROUND ? c->joules / c->median_us * 1e6 : NAN;
	return scratch_add(t, "plan", "isdd", s, policy, us, time_interval(d, s, us)) &&
	       (!c || scratch_add(t, "launch", "isdddd", s, policy, c->gbps, c->tflops, watts,
				  cell_interval(c)));
}

static int add_oracle(struct scratch *t, const struct data *d)
{
	int done = 1;
	for (int s = 0; done && s < d->n; s++) {
		const struct decided fastest = data_fastest_plan(d, s);
		struct pick pick;
		decided_pick(d, &fastest, &pick);
		done = add_plan(t, d, s, policy_names[POLICY_ORACLE], data_oracle(d, s), &pick);
	}
	return done;
}

static int add_settled(struct scratch *t, const struct data *d, const struct forest *f)
{
	int done = 1;
	for (int s = 0; done && f && s < d->n; s++) {
		struct settled settled;
		settle(d, f, s, &settled);
		done = add_plan(t, d, s, "row_settled", data_plan_time(d, s, &settled.pick),
				&settled.pick);
	}
	return done;
}

static int add_plans(struct scratch *t, const struct plotted *p, const struct forest *f)
{
	const struct data *d = p->data;
	struct pick *picks = calloc((size_t)d->n + 1, sizeof *picks);
	int done = picks && add_oracle(t, d) && add_settled(t, d, f);
	for (enum policy i = 0; done && i < NUM_POLICIES; i++)
		for (int s = policy_picks(d, i, f, picks) ? 0 : d->n; done && s < d->n; s++)
			done = add_plan(t, d, s, policy_names[i], data_plan_time(d, s, &picks[s]),
					&picks[s]);
	free(picks);
	return done;
}

/* The best time of one kernel that runs the whole batch in one launch. */
static double kernel_time(const struct data *d, int s, const struct kernel *k)
{
	const struct measured *m = &d->v[s];
	const enum phase phase = !m->has[PHASE_PREFILL]  ? PHASE_DECODE
				 : !m->has[PHASE_DECODE] ? PHASE_PREFILL
							 : PHASE_ALL;
	double best = INFINITY;
	struct choice_iter i = choices_of(d, s, phase, PHASE_ALL);
	while (choices_next(&i))
		if (d->choice[i.choice].kernel == k)
			best = fmin(best, cells_part_time(d, s, i.cells));
	return best;
}

static int add_kernels(struct scratch *t, const struct plotted *p)
{
	int done = 1, id = 0;
	for (const struct kernel *k = attune_kernels; done && k->name; k++) {
		if (k->backend != p->data->run.device.backend || !k->selectable)
			continue;
		done = scratch_add(t, "kernel", "is", id, k->name);
		for (int s = 0; done && s < p->data->n; s++) {
			const double us = kernel_time(p->data, s, k);
			if (isfinite(us))
				done = scratch_add(t, "kernel_time", "iidd", s, id, us,
						   time_interval(p->data, s, us));
		}
		id++;
	}
	return done;
}

/* ---- ways to run a mixed batch --------------------------------------------------------- */
enum way {
	WAY_ONE_LAUNCH, /* one kernel without separate phases */
	WAY_FUSED,      /* one kernel with separate phases */
	WAY_STREAMS,
	WAY_SPLIT, /* two streams; the prefill part leaves SMs to the decodes */
	WAY_TUNED, /* the header's pick */
	NUM_WAYS
};
static const char *const way_names[NUM_WAYS] = {
	"one launch", "one fused kernel", "two streams", "SMs split in two", "tuned choice",
};

static int add_way(struct scratch *t, const struct data *d, int s, enum way way, double us,
		   double ci)
{
	return !isfinite(us) || scratch_add(t, "way_each", "iiidd", s, (int)d->pass, way, us, ci);
}

/* Two streams, by the times of d->pass alone. */
static int add_overlaps(struct scratch *t, const struct data *d, int s)
{
	int done = 1;
	for (int i = d->plan_at[s]; done && i < d->plan_at[s + 1]; i++) {
		const struct composed *c = &d->plan[i];
		const struct choice *prefill = &d->choice[c->prefill];
		const int splits =
		    config_value(&prefill->config, prefill->kernel->space, "SPARE_UNITS", 0);
		if (c->pass == d->pass && c->how != ATTUNE_SERIAL && c->cell.outcome == OUTCOME_OK)
			done = add_way(t, d, s, splits ? WAY_SPLIT : WAY_STREAMS, c->cell.median_us,
				       cell_interval(&c->cell));
	}
	return done;
}

static int add_launches(struct scratch *t, const struct data *d, int s)
{
	struct choice_iter i = choices_of(d, s, PHASE_ALL, PHASE_ALL);
	int done = 1;
	while (done && choices_next(&i)) {
		const int fused = d->choice[i.choice].kernel->space->is_fused;
		const struct cell *c = cells_of_pass(d, &i.cells[0]);
		done = !c || add_way(t, d, s, fused ? WAY_FUSED : WAY_ONE_LAUNCH,
				     cells_time(d, s, &i.cells[0]), cell_interval(c));
	}
	return done;
}

/* tuned: the picks of the header, or NULL. */
static int add_mixed(struct scratch *t, const struct data *all, const struct pick *tuned)
{
	struct data of_pass = *all, *d = &of_pass;
	int done = 1, choice;
	for (int k = 0; done && k < NUM_WAYS; k++)
		done = scratch_add(t, "way", "is", k, way_names[k]);
	for (int s = 0; done && s < d->n; s++)
		for (d->pass = PASS_A; done && d->pass <= PASS_B; d->pass++) {
			if (!measured_is_mixed(&d->v[s]))
				continue;
			const double serial = data_serial(d, s);
			const double prefill = data_best(d, s, PHASE_PREFILL, &choice);
			const double decode = data_best(d, s, PHASE_DECODE, &choice);
			const double us = tuned ? data_plan_time(d, s, &tuned[s]) : NAN;
			done = scratch_add(t, "mixed", "iiddd", s, (int)d->pass, serial,
					   time_interval(d, s, serial),
					   100 * prefill / (prefill + decode)) &&
			       add_overlaps(t, d, s) && add_launches(t, d, s) &&
			       add_way(t, d, s, WAY_TUNED, us, time_interval(d, s, us));
		}
	return done;
}

/* What harness/ceilings and kernels/device/cpu repeat to find the ceiling of arithmetic. */
static const char *step_of(const struct device_info *device)
{
	if (device->backend == BACKEND_CPU)
		return "FMA";
	if (!strncmp(device->arch, "gfx", 3))
		return "MFMA";
	return strcmp(device->arch, "sm_90") ? "mma.sync" : "wgmma";
}

static int add_counted(struct scratch *t, const struct plotted *p)
{
	const struct data *d = p->data;
	const struct forest *f = p->forest;
	const struct measured *m = d->n ? &d->v[p->first] : NULL;
	const int below[NOISE_BANDS] = { 20, 200, 0 };
	int done = scratch_add(t, "counted", "iiiiiii", d->n, d->num_cells, d->stale, d->noisy,
			       forest_leaves(f), f->num_choices, forest_kernels(f));
	if (m)
		done = done && scratch_add(t, "shown", "ssssii", d->run.device.name, m->model,
					   dtype_name(m->shape.dtype), d->protocol,
					   m->shape.page_size, p->with_stale);
	for (int i = 0; done && i < NOISE_BANDS; i++)
		done =
		    scratch_add(t, "noise", "idi", below[i], d->noise.floor[i], d->noise.pairs[i]);
	return done;
}

struct scratch *facts_make(const struct plotted *p)
{
	const struct run_info *r = &p->data->run;
	struct scratch *t = scratch_new(facts_schema);
	struct pick *tuned = calloc((size_t)p->data->n + 1, sizeof *tuned);
	int done =
	    t && tuned && peers_tables(t) &&
	    scratch_add(t, "ceiling", "dds", r->dram_gbps, r->fma_tflops, step_of(&r->device));
	const int picked = done && policy_picks(p->data, POLICY_TREE, p->forest, tuned);
	for (int s = 0; done && s < p->data->n; s++)
		done = add_scenario(t, p, s) && add_sequences(t, s, &p->data->v[s].batch->view);
	done = done && add_plans(t, p, p->forest) && add_kernels(t, p) &&
	       add_mixed(t, p->data, picked ? tuned : NULL) && add_counted(t, p);
	free(tuned);
	if (done)
		return t;
	scratch_free(t);
	return NULL;
}
