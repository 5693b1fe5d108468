/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c - looks up cells by scenario, phase, choice and pass, and drops some. They are sorted in
 * that order (data_finish.c). Of thousands of choices a scenario and phase has cells of a few hundred. */
#include "data.h"
#include "filling.h"

int data_find(const struct data *d, const struct choice *c)
{
	int lo = 0, hi = d->num_choices;
	while (lo < hi) {
		const int mid = lo + (hi - lo) / 2;
		if (choice_compare(&d->choice[mid], c) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < d->num_choices && !choice_compare(&d->choice[lo], c))
		return lo;
	for (int i = d->num_choices; i < d->num_columns; i++) /* those of one family together */
		if (!choice_compare(&d->choice[i], c))
			return i;
	return -1;
}

/* ---- cells -------------------------------------------------------------------------- */
/* The first of a row's cells with that key or a greater one. */
static int first_from(const struct data *d, int row, int key)
{
	int lo = d->row[row], hi = d->row[row + 1];
	while (lo < hi) {
		const int mid = lo + (hi - lo) / 2;
		if (d->cell[mid].key < key)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Takes the cells of one choice from *at on and moves *at behind them. */
static struct cells take(const struct data *d, int *at, int end, int choice)
{
	struct cells c = { { NULL } };
	for (; *at < end && d->cell[*at].key / NUM_PASSES == choice; (*at)++)
		c.of[d->cell[*at].key % NUM_PASSES] = &d->cell[*at];
	return c;
}

struct cells data_cells(const struct data *d, int scenario, enum phase phase, int choice)
{
	const int concrete = choice < 0 ? -1 : data_concrete(d, scenario, phase, choice);
	const int row = scenario * NUM_PHASES + (int)phase;
	if (concrete < 0)
		return (struct cells){ { NULL } };
	int at = first_from(d, row, concrete * NUM_PASSES);
	return take(d, &at, d->row[row + 1], concrete);
}

const struct cell *data_cell_in(const struct data *d, enum pass pass, int scenario,
				enum phase phase, int choice)
{
	return data_cells(d, scenario, phase, choice).of[pass];
}

const struct cell *cells_of_pass(const struct data *d, const struct cells *c)
{
	return d->pass == PASS_B && c->of[PASS_B] ? c->of[PASS_B] : c->of[PASS_A];
}

const struct cell *data_cell(const struct data *d, int scenario, enum phase phase, int choice)
{
	const struct cells c = data_cells(d, scenario, phase, choice);
	return cells_of_pass(d, &c);
}

struct choice_iter choices_of(const struct data *d, int scenario, enum phase phase,
			      enum phase or_phase)
{
	const int row[2] = { scenario * NUM_PHASES + (int)phase,
			     scenario * NUM_PHASES + (int)or_phase };
	return (struct choice_iter){ .choice = -1,
				     .d = d,
				     .at = { d->row[row[0]], d->row[row[1]] },
				     .end = { d->row[row[0] + 1], d->row[row[1] + 1] } };
}

int choices_next(struct choice_iter *i)
{
	int next = -1;
	for (int k = 0; k < 2; k++)
		if (i->at[k] < i->end[k]) {
			const int choice = i->d->cell[i->at[k]].key / NUM_PASSES;
			next = next < 0 || choice < next ? choice : next;
		}
	i->choice = next;
	for (int k = 0; next >= 0 && k < 2; k++)
		i->cells[k] = take(i->d, &i->at[k], i->end[k], next);
	return next >= 0;
}

/* ---- dropping cells and plans ------------------------------------------------------------ */
void cells_keep(struct data *d, int (*keep)(const struct data *, const struct cell *))
{
	int kept = 0, r = 0;
	for (int i = 0; i < d->num_cells; i++) {
		if (!keep(d, &d->cell[i]))
			continue;
		while (r <= d->cell[i].row)
			d->row[r++] = kept;
		d->cell[kept++] = d->cell[i];
	}
	while (r <= d->n * NUM_PHASES)
		d->row[r++] = kept;
	d->num_cells = kept;
}

void plans_keep(struct data *d, int (*keep)(const struct data *, const struct composed *))
{
	int kept = 0, s = 0;
	for (int i = 0; i < d->num_plans; i++) {
		if (keep && !keep(d, &d->plan[i]))
			continue;
		while (s <= d->plan[i].scenario)
			d->plan_at[s++] = kept;
		d->plan[kept++] = d->plan[i];
	}
	while (s <= d->n)
		d->plan_at[s++] = kept;
	d->num_plans = kept;
}
