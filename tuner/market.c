/* market.c - choices that might be priced: struct price (prices.h) fitted to the times of training
 * scenarios.
 *
 * Each choice is fitted at each head size alone, since it is compiled for it. Times near
 * the scenario's best count most, for they are what estimates have to tell apart; but
 * those of up to near_best times the best are needed too, or what is wrong there goes
 * unpunished. */
#include "market.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_CELLS = 8 };
static const double near_best = 8; /* slower than that says nothing */

/* ---- offers -------------------------------------------------------------------------- */
static int value_of_axis(const struct offer *o, int member)
{
	const struct space *s = o->choice.kernel->space;
	return s->formula_axis < 0 ? 1 : s->axis[s->formula_axis].values[member];
}

/* Blocks that the shared memory of a unit holds, beside each the 1 KiB that CUDA takes;
 * at least one. */
static int most_slots(const struct market *k, const struct offer *o, int head_size)
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
		const int fit = g.smem ? d->smem_per_unit / ((int)g.smem + 1024) : 1 << 16;
		most = fit > most ? fit : most;
	}
	return most;
}

/* Of prefills each batch is dealt out; decodes are by the closed form, as in plans. */
static struct dealing dealing_of(const struct market *k, const struct offer *o,
				 const attune_shape *shape, const attune_batch *batch,
				 const struct part *part)
{
	const struct choice *c = &k->d->choice[o->index];
	struct geometry g = { 0 };
	if (k->phase != PHASE_PREFILL)
		return (struct dealing){ .batch = NULL };
	c->kernel->space->geometry(&c->config, shape, part, &k->d->run.device, &g);
	return (struct dealing){ shape, batch, k->phase, g.at_once };
}

/* Cells of a head size that are near their scenario's best. */
static int list_cells(const struct market *k, const struct offer *o, int head_size,
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
			if (us < near_best * best)
				cell[n++] = (struct cell_fit){
					&k->m->f[r], value_of_axis(o, i), us, best / us * best / us,
					dealing_of(k, o, &k->d->v[s].shape, &k->d->v[s].batch->view,
						   &k->d->v[s].part[k->phase])
				};
		}
	}
	return n;
}

int market_fit(const struct market *k, struct offer *o, struct cell_fit *cell)
{
	for (int h = 0; h < k->num_sizes; h++) {
		struct price *p = &o->price[h];
		const int n = list_cells(k, o, k->size[h], cell);
		*p = (struct price){ .slots = 1 };
		block_shape_of(&p->block, &o->choice.config, o->choice.kernel);
		if (n < MIN_CELLS)
			p->block.rows = 0;
		else if (!price_fit(p, cell, n, most_slots(k, o, k->size[h])))
			return 0;
	}
	return 1;
}

/* As costs_for() stands in for a head size, over the sizes of all offers. */
static const struct price *price_at(const struct market *k, const struct offer *o, int head_size)
{
	int best = -1;
	for (int h = 0; h < k->num_sizes; h++) {
		const int size = k->size[h], of = best < 0 ? 0 : k->size[best];
		if (of < head_size ? size > of : size >= head_size && size < of)
			best = h;
	}
	return best >= 0 && o->price[best].block.rows ? &o->price[best] : NULL;
}

long long offer_estimate(const struct market *k, const struct offer *o, const attune_shape *shape,
			 const attune_batch *batch, const struct part *part, struct config *means)
{
	const struct price *p = price_at(k, o, shape->head_size);
	if (!p)
		return -1;
	const struct segment_costs costs = price_costs(p);
	if (config_fitted(means, &o->choice.config, o->choice.kernel, &costs, shape, part,
			  &k->d->run.device))
		return -1;
	const struct dealing dealing = dealing_of(k, o, shape, batch, part);
	return price_estimate(p, &part->f,
			      config_value(means, o->choice.kernel->space, "SEGMENTS", 1),
			      dealing.batch ? &dealing : NULL);
}

/* The least cost of its members in a row. */
static long long best_member(const struct market *k, const struct offer *o, int row)
{
	long long best = FORBIDDEN_SUM;
	for (int i = 0; i < o->num_members; i++)
		if (o->member[i] >= 0 && k->column[o->member[i]] >= 0)
			best = min_of(best, matrix_at(k->m, row, k->column[o->member[i]]));
	return best;
}

void market_appraise(const struct market *k, struct offer *o)
{
	for (int r = 0; r < k->m->rows; r++) {
		const long long most = (long long)k->m->weight[r] * COST_CAP;
		const struct measured *m = &k->d->v[k->m->scenario[r]];
		struct choice as = { .kernel = o->choice.kernel };
		o->best[r] = best_member(k, o, r);
		o->cost[r] = FORBIDDEN_SUM;
		o->means[r] = -1;
		o->estimate[r] =
		    offer_estimate(k, o, &m->shape, &m->batch->view, &m->part[k->phase], &as.config);
		if (o->estimate[r] < 0)
			continue;
		const int at = data_find(k->d, &as);
		o->means[r] = at;
		o->cost[r] = at < 0 || k->column[at] < 0
				 ? most
				 : min_of(matrix_at(k->m, r, k->column[at]), most);
	}
}

/* ---- the market -------------------------------------------------------------------------- */
static void list_sizes(struct market *k)
{
	for (int r = 0; r < k->m->rows; r++) {
		const int size = (int)k->m->f[r].head_size;
		int i = 0;
		while (i < k->num_sizes && k->size[i] != size)
			i++;
		if (i == k->num_sizes && i < MAX_SIZES)
			k->size[k->num_sizes++] = size;
	}
}

/* A price counts waves of blocks, which those do not run in that go through a list, or take items
 * in turn; fused ones are for the overlap. */
static int can_be_priced(const struct market *k, const struct choice *c)
{
	const struct space *s = c->kernel->space;
	struct geometry g = { 0 };
	if (!c->kernel->selectable || s->is_scheduled || s->is_fused || !k->m->rows)
		return 0;
	const struct measured *m = &k->d->v[k->m->scenario[0]];
	s->geometry(&c->config, &m->shape, &m->part[k->phase], &k->d->run.device, &g);
	return !g.items;
}

/* Of a choice, with or without a formula, whose family's first member that was measured is `first`. 0
 * without memory. */
static int add_offer(struct market *k, int number, int first)
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

/* One for each family, and for each choice of a kernel without a formula axis. */
static int list_families(struct market *k)
{
	const struct data *d = k->d;
	for (int c = 0; c < d->num_choices; c++) {
		if (first_member(d, c) != c || !can_be_priced(k, &d->choice[c]))
			continue;
		if (!add_offer(k, d->num_columns + c, c))
			return 0;
		struct choice *fitted = &k->offer[k->num_offers - 1].choice;
		*fitted = d->choice[c];
		if (fitted->kernel->space->formula_axis >= 0)
			fitted->config.v[fitted->kernel->space->formula_axis] = SEGMENTS_FITTED;
	}
	return 1;
}

static int list_columns(struct market *k)
{
	for (int c = 0; c < k->few->cols; c++) {
		const int number = k->few->choice[c];
		if (!add_offer(k, number, first_member(k->d, number)))
			return 0;
		k->offer[k->num_offers - 1].choice = k->d->choice[number];
	}
	return 1;
}

static int list_offers(struct market *k)
{
	k->offer = calloc((size_t)(k->d->num_choices + (k->few ? k->few->cols : 0)) + 1,
			  sizeof *k->offer);
	return k->offer && (k->few ? list_columns(k) : list_families(k));
}

int market_open(struct market *k)
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
		k->column[c] = -1; /* of no part alone: what only whole plans have run */
	for (int c = 0; c < k->m->cols; c++)
		if (k->m->choice[c] < k->d->num_choices)
			k->column[k->m->choice[c]] = c;
	list_sizes(k);
	return list_offers(k);
}

void market_close(struct market *k)
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
