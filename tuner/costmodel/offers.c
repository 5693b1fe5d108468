/* SPDX-License-Identifier: Apache-2.0 */
/* offers.c - lists the choices that can have a cost model, fits their models to training scenarios,
 * and computes their estimates and costs in each.
 *
 * Each choice is fitted separately at each head size, since it is compiled for it. Times near the
 * scenario's best weigh most, since estimates must separate these; times of up to near_best times
 * the best are included, so that large errors there still count. */
#include "harness/scenario/scenario.h"
#include "costmodel.h"
#include "offers.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_CELLS = 8 /* times to fit a model to */, COST_UNSURE = 30000 /* 3 % */ };
static const double near_best = 8; /* slower times are left out */

/* ---- fitting ------------------------------------------------------------------------- */
static int value_of_axis(const struct offer *o, int member)
{
	const struct space *s = o->choice.kernel->space;
	return s->formula_axis < 0 ? 1 : s->axis[s->formula_axis].values[member];
}

/* The most blocks that run on a unit at a time: by the kernel's own count, else by shared memory,
 * of which CUDA reserves 1 KiB a block; at least one. */
static int most_slots(const struct offers *k, const struct offer *o, int head_size)
{
	const struct device_info *d = &k->d->run.device;
	const struct choice *first = &k->d->choice[o->index];
	int most = 1;
	for (int r = 0; r < k->m->rows; r++) {
		const struct measured *m = &k->d->v[k->m->scenario[r]];
		struct geometry g;
		if (m->shape.head_size != head_size)
			continue;
		first->kernel->space->geometry(&first->config, &m->shape, &m->part[k->phase], d,
					       &g);
		const int fit = g.at_once ? g.at_once / d->units
				: g.smem  ? d->smem_per_unit / ((int)g.smem + 1024)
					  : 1 << 16;
		most = fit > most ? fit : most;
	}
	return most;
}

/* Lists the cells of a head size that are within near_best of their scenario's best. */
static int list_cells(const struct offers *k, const struct offer *o, int head_size,
		      struct cell_fit *cell)
{
	int n = 0;
	for (int r = 0; r < k->m->rows; r++) {
		const int s = k->m->scenario[r];
		if (k->m->f[r].head_size != head_size || (k->fold >= 0 && r % FOLDS == k->fold))
			continue;
		const double best = k->best_us[r];
		for (int i = 0; i < o->num_members; i++) {
			const double us = o->member[i] < 0
					      ? INFINITY
					      : data_part_time(k->d, s, k->phase, o->member[i]);
			if (!(us < near_best * best))
				continue;
			cell[n++] = (struct cell_fit){ &k->m->f[r], value_of_axis(o, i), us,
						       best / us * best / us };
		}
	}
	return n;
}

/* The numbers of segments that are legal in a row, measured somewhere or not: the library chooses
 * among these. 0: none has a time. */
static int segments_of_row(const struct offers *k, const struct offer *o, int r,
			   struct segment_row *out)
{
	const int s = k->m->scenario[r];
	const struct measured *m = &k->d->v[s];
	const struct space *space = o->choice.kernel->space;
	struct config c = o->choice.config;
	*out = (struct segment_row){ .f = &k->m->f[r], .least_us = INFINITY };
	for (int i = 0; i < o->num_members; i++) {
		c.v[space->formula_axis] = value_of_axis(o, i);
		if (space->why_illegal(&c, &m->shape, &m->part[k->phase], &k->d->run.device))
			continue;
		const double us =
		    o->member[i] < 0 ? INFINITY : data_part_time(k->d, s, k->phase, o->member[i]);
		out->segments[out->n] = value_of_axis(o, i);
		out->us[out->n++] = us;
		out->least_us = fmin(out->least_us, us);
	}
	const double near = k->best_us[r] / out->least_us;
	out->weight = near * near * k->m->weight[r];
	return isfinite(out->least_us);
}

static int fit_segments(const struct offers *k, struct offer *o, int head_size,
			struct cost_model *p)
{
	struct segment_row *row = malloc(sizeof *row * ((size_t)k->m->rows + 1));
	int n = 0;
	for (int r = 0; row && r < k->m->rows; r++)
		if (k->m->f[r].head_size == head_size && (k->fold < 0 || r % FOLDS != k->fold))
			n += segments_of_row(k, o, r, &row[n]);
	const int done =
	    row && segment_costs_fit(&p->segments, &p->block, row, n, most_slots(k, o, head_size));
	free(row);
	return done;
}

int offer_fit(const struct offers *k, struct offer *o, struct cell_fit *cell)
{
	for (int h = 0; h < k->num_sizes; h++) {
		struct cost_model *p = &o->model[h];
		const int n = o->cells[h] = list_cells(k, o, k->size[h], cell);
		*p = (struct cost_model){ .slots = 1 };
		block_shape_of(&p->block, &o->choice.config, o->choice.kernel);
		if (n < MIN_CELLS)
			p->block.rows = 0;
		else if (!cost_model_fit(p, cell, n, most_slots(k, o, k->size[h])))
			return 0;
		p->segments = cost_model_segments(p);
		if (n >= MIN_CELLS && k->phase == PHASE_DECODE && o->num_members > 1 &&
		    !fit_segments(k, o, k->size[h], p))
			return 0;
	}
	return 1;
}

/* The model of a head size, or of the one that costs_for() would take in its place. */
static const struct cost_model *model_at(const struct offers *k, const struct offer *o,
					 int head_size)
{
	int best = -1;
	for (int h = 0; h < k->num_sizes; h++) {
		const int size = k->size[h], of = best < 0 ? 0 : k->size[best];
		if (of < head_size ? size > of : size >= head_size && size < of)
			best = h;
	}
	return best >= 0 && o->model[best].block.rows ? &o->model[best] : NULL;
}

long long offer_estimate(const struct offers *k, const struct offer *o, const attune_shape *shape,
			 const struct part *part, struct config *means)
{
	const struct cost_model *p = model_at(k, o, shape->head_size);
	if (config_fitted(means, &o->choice.config, o->choice.kernel, p ? &p->segments : NULL,
			  shape, part, &k->d->run.device))
		return NOT_LEGAL;
	if (!p)
		return NO_MODEL;
	const int segments = config_value(means, o->choice.kernel->space, "SEGMENTS", 1);
	return cost_model_estimate(p, &part->f, segments);
}

/* The least cost of its members in a row. */
static long long best_member(const struct offers *k, const struct offer *o, int row)
{
	long long best = FORBIDDEN_SUM;
	for (int i = 0; i < o->num_members; i++)
		if (o->member[i] >= 0 && k->column[o->member[i]] >= 0)
			best = min_of(best, matrix_at(k->m, row, k->column[o->member[i]]));
	return best;
}

void offer_estimate_rows(const struct offers *k, struct offer *o)
{
	for (int r = 0; r < k->m->rows; r++) {
		const struct measured *m = &k->d->v[k->m->scenario[r]];
		struct choice as = { .kernel = o->choice.kernel };
		o->best[r] = best_member(k, o, r);
		o->estimate[r] = offer_estimate(k, o, &m->shape, &m->part[k->phase], &as.config);
		o->means[r] = o->estimate[r] < 0 ? -1 : data_find(k->d, &as);
	}
}

/* Time of what an offer runs in a row; INFINITY: it was not measured. */
static double time_of(const struct offers *k, const struct offer *o, int row)
{
	return o->means[row] < 0
		   ? INFINITY
		   : data_part_time(k->d, k->m->scenario[row], k->phase, o->means[row]);
}

/* us per estimated fs: the average error of the estimates in this row, over offers that were
 * measured there. */
static double row_factor(const struct offers *k, const char *in, int row)
{
	double sum = 0;
	int both = 0;
	for (int i = 0; i < k->num_offers; i++) {
		const struct offer *o = &k->offer[i];
		const double us =
		    in[i] && o->is_few && o->estimate[row] > 0 ? time_of(k, o, row) : INFINITY;
		if (!isfinite(us))
			continue;
		sum += log(us / (double)o->estimate[row]);
		both++;
	}
	return both ? exp(sum / both) : 1e-9;
}

/* An unmeasured run costs its estimate + COST_UNSURE, since estimates that are too low are the ones
 * that get picked. */
static int32_t unmeasured_cost(const struct offers *k, const struct offer *o, int row,
			       double factor)
{
	const int s = k->m->scenario[row];
	const enum phase other = k->phase == PHASE_PREFILL ? PHASE_DECODE : PHASE_PREFILL;
	int best;
	const double us = k->d->v[s].has[other] ? data_best(k->d, s, other, &best) : 0;
	const double other_us = isfinite(us) ? us : 0;
	const int32_t cost =
	    cost_of(factor * (double)o->estimate[row] + other_us, k->best_us[row] + other_us);
	return cost < COST_CAP - COST_UNSURE ? cost + COST_UNSURE : COST_CAP;
}

int offer_has_failed(const struct offers *k, const struct offer *o, int row)
{
	const int col = o->means[row] < 0 ? -1 : k->column[o->means[row]];
	return col >= 0 && matrix_at(k->m, row, col) >= FORBIDDEN_SUM;
}

/* An unmeasured run costs what its estimate says: on an H200 the matrix's guess, from other numbers
 * of segments, made choices look slow that are the fastest of one decode in six. */
static long long cost_in_row(const struct offers *k, const struct offer *o, int row, double factor)
{
	const int col = o->means[row] < 0 ? -1 : k->column[o->means[row]];
	const long long cost = col < 0 ? 0 : matrix_at(k->m, row, col);
	const long long most = (long long)k->m->weight[row] * COST_CAP;
	if (o->estimate[row] < 0)
		return FORBIDDEN_SUM;
	if (cost >= FORBIDDEN_SUM)
		return most;
	return isfinite(time_of(k, o, row))
		   ? cost
		   : (long long)k->m->weight[row] * unmeasured_cost(k, o, row, factor);
}

void offers_set_costs(const struct offers *k, const char *in)
{
	for (int r = 0; r < k->m->rows; r++) {
		const double factor = row_factor(k, in, r);
		for (int i = 0; i < k->num_offers; i++)
			if (in[i])
				k->offer[i].cost[r] = cost_in_row(k, &k->offer[i], r, factor);
	}
}

/* ---- listing ----------------------------------------------------------------------------- */
static int is_power_of_two(int v)
{
	return !(v & (v - 1));
}

/* Whether a head size takes the models of the next larger one: costs_for() would, and a header has no
 * room for costs of 80, 96 and 192 beside those of 64, 128 and 256. */
static int takes_larger(const struct offers *k, int size)
{
	for (int r = 0; r < k->m->rows && !is_power_of_two(size); r++) {
		const int other = (int)k->m->f[r].head_size;
		if (other > size && is_power_of_two(other))
			return 1;
	}
	return 0;
}

static void list_sizes(struct offers *k)
{
	for (int r = 0; r < k->m->rows; r++) {
		const int size = (int)k->m->f[r].head_size;
		if (takes_larger(k, size))
			continue;
		int i = 0;
		while (i < k->num_sizes && k->size[i] != size)
			i++;
		if (i == k->num_sizes && i < MAX_SIZES)
			k->size[k->num_sizes++] = size;
	}
}

/* The model counts waves of blocks. Kernels that take blocks from a list do not run in waves, and
 * fused kernels belong to the overlap decision. */
static int can_be_fitted(const struct choice *c)
{
	const struct space *s = c->kernel->space;
	return c->kernel->selectable && !s->is_scheduled && !s->is_fused && !choice_spares(c) &&
	       !choice_early(c);
}

/* first: the family's first measured member, or the choice itself. 0 without memory. */
static int add_offer(struct offers *k, int number, int first)
{
	const struct data *d = k->d;
	const int family = d->family_of[first];
	struct offer *o = &k->offer[k->num_offers++];
	o->number = number;
	o->index = first;
	o->num_members = family < 0 ? 1 : d->family[family].num_members;
	o->member[0] = first;
	if (family >= 0)
		memcpy(o->member, d->family[family].member, sizeof o->member);
	o->estimate = calloc((size_t)k->m->rows + 1, sizeof *o->estimate);
	o->cost = calloc((size_t)k->m->rows + 1, sizeof *o->cost);
	o->best = calloc((size_t)k->m->rows + 1, sizeof *o->best);
	o->means = calloc((size_t)k->m->rows + 1, sizeof *o->means);
	return o->estimate && o->cost && o->best && o->means;
}

static int first_member(const struct data *d, int choice)
{
	const int family = d->family_of[choice];
	int first = choice < d->num_choices ? choice : d->num_choices;
	for (int i = 0; family >= 0 && i < d->family[family].num_members; i++)
		if (d->family[family].member[i] >= 0 && d->family[family].member[i] < first)
			first = d->family[family].member[i];
	return first;
}

/* Whether some column of `few` belongs to the family with that first member. */
static int is_among_few(const struct offers *k, int first)
{
	for (int c = 0; k->few && c < k->few->cols; c++)
		if (first_member(k->d, k->few->choice[c]) == first)
			return 1;
	return !k->few;
}

/* One for each family, and for each choice of a kernel without a formula axis. */
static int list_offers(struct offers *k)
{
	const struct data *d = k->d;
	k->offer = calloc((size_t)d->num_choices + 1, sizeof *k->offer);
	for (int c = 0; k->offer && c < d->num_choices; c++) {
		if (first_member(d, c) != c || !can_be_fitted(&d->choice[c]))
			continue;
		if (!add_offer(k, d->num_columns + c, c))
			return 0;
		struct choice *fitted = &k->offer[k->num_offers - 1].choice;
		k->offer[k->num_offers - 1].is_few = is_among_few(k, c);
		*fitted = d->choice[c];
		if (fitted->kernel->space->formula_axis >= 0)
			fitted->config.v[fitted->kernel->space->formula_axis] = SEGMENTS_FITTED;
	}
	return k->offer != NULL;
}

int offers_open(struct offers *k)
{
	int choice;
	k->fold = -1;
	k->column = malloc(sizeof *k->column * (size_t)(k->d->num_choices + 1));
	k->best_us = malloc(sizeof *k->best_us * (size_t)(k->m->rows + 1));
	if (!k->column || !k->best_us)
		return 0;
	for (int r = 0; r < k->m->rows; r++)
		k->best_us[r] = data_best(k->d, k->m->scenario[r], k->phase, &choice);
	for (int c = 0; c < k->d->num_choices; c++)
		k->column[c] = -1; /* measured only in whole plans */
	for (int c = 0; c < k->m->cols; c++)
		if (k->m->choice[c] < k->d->num_choices)
			k->column[k->m->choice[c]] = c;
	list_sizes(k);
	return list_offers(k);
}

void offers_close(struct offers *k)
{
	for (int i = 0; i < k->num_offers; i++) {
		free(k->offer[i].estimate);
		free(k->offer[i].cost);
		free(k->offer[i].best);
		free(k->offer[i].means);
	}
	free(k->offer);
	free(k->column);
	free(k->best_us);
}
