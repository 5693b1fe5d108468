/* SPDX-License-Identifier: Apache-2.0 */
/* segment_families.c - resolves choices with a formula, such as "SEGMENTS=balance(1,96,192,16)".
 * They are never measured: in each batch the concrete choice counts that config_resolve() makes of
 * them. A family is the set of concrete choices that differ only in that value:
 *
 *   segmented BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=3 SEGMENTS=*
 *     member[ ] 1 2 3 4 6 8 ...      measured or not
 *     means[scenario][phase][choice] the member that a formula gives, -1: none */
#include "data.h"
#include "filling.h"
#include "harness/base/base.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <stdlib.h>
#include <string.h>

/* A family gets formulas if it was measured at two values or more, in over 1 / WIDELY of the
 * scenarios. */
enum { WIDELY = 20 };

enum { NOT_KNOWN = -2 }; /* in data.means */

static int value_index(const struct choice *c)
{
	const int axis_at = c->kernel->space->formula_axis;
	if (axis_at < 0)
		return -1;
	const struct axis *a = &c->kernel->space->axis[axis_at];
	const int value = c->config.v[axis_at];
	for (int i = 0; i < a->num_values && i < MAX_MEMBERS; i++)
		if (a->values[i] == value)
			return i;
	return -1; /* a formula */
}

/* Sorts members of a family next to each other, by index. */
static int family_order(const void *pa, const void *pb, void *arg)
{
	const struct data *d = arg;
	const int x = *(const int *)pa, y = *(const int *)pb;
	struct choice a = d->choice[x], b = d->choice[y];
	if (a.kernel == b.kernel && a.kernel->space->formula_axis >= 0)
		a.config.v[a.kernel->space->formula_axis] =
		    b.config.v[b.kernel->space->formula_axis] = 0;
	const int order = choice_compare(&a, &b);
	return order ? order : x - y;
}

static int same_family(const struct data *d, int x, int y)
{
	const int axis = d->choice[x].kernel->space->formula_axis;
	struct choice a = d->choice[x], b = d->choice[y];
	if (a.kernel != b.kernel || axis < 0)
		return 0;
	a.config.v[axis] = b.config.v[axis] = 0;
	return !choice_compare(&a, &b);
}

static void begin_family(struct data *d, int choice)
{
	const struct space *s = d->choice[choice].kernel->space;
	struct family *f = &d->family[d->family_of[choice] = d->num_families++];
	f->num_members = s->axis[s->formula_axis].num_values;
	if (f->num_members > MAX_MEMBERS)
		f->num_members = MAX_MEMBERS;
	for (int i = 0; i < MAX_MEMBERS; i++)
		f->member[i] = -1;
}

/* Numbers families in the order of their first members. first[choice]: the first member. */
static void join_families(struct data *d, const int *first)
{
	for (int c = 0; c < d->num_choices; c++) {
		d->family_of[c] = -1;
		d->value[c] = -1;
		if (d->choice[c].kernel->space->formula_axis < 0)
			continue;
		if (first[c] == c)
			begin_family(d, c);
		else
			d->family_of[c] = d->family_of[first[c]];
		d->value[c] = (signed char)value_index(&d->choice[c]);
		if (d->value[c] >= 0)
			d->family[d->family_of[c]].member[d->value[c]] = c;
	}
}

static int find_families(struct data *d)
{
	const size_t choices = (size_t)d->num_choices + 1;
	int *order = malloc(sizeof *order * choices), *first = malloc(sizeof *first * choices);
	int families = 0;
	d->family_of = malloc(sizeof *d->family_of * choices);
	d->value = malloc(choices);
	for (int i = 0; order && i < d->num_choices; i++)
		order[i] = i;
	if (order && first && d->family_of && d->value) {
		qsort_r(order, (size_t)d->num_choices, sizeof *order, family_order, d);
		for (int i = 0; i < d->num_choices; i++) {
			const int same = i && same_family(d, order[i - 1], order[i]);
			first[order[i]] = same ? first[order[i - 1]] : order[i];
			families += !same;
		}
		d->family = malloc(sizeof *d->family * ((size_t)families + 1));
		if (d->family)
			join_families(d, first);
	}
	free(order);
	free(first);
	return d->family != NULL;
}

/* ---- choices with a formula ----------------------------------------------------------- */
/* scenarios[family]: the number of scenarios where it has an ok result of pass A. seen: scratch,
 * [num_families]. */
static void count_scenarios(const struct data *d, int *scenarios, int *seen)
{
	for (int f = 0; f < d->num_families; f++)
		scenarios[f] = 0, seen[f] = -1;
	for (int r = 0; r < d->n * NUM_PHASES; r++)
		for (int i = d->row[r]; i < d->row[r + 1]; i++) {
			const int choice = d->cell[i].key / NUM_PASSES, f = d->family_of[choice];
			if (f < 0 || d->value[choice] < 0 ||
			    d->cell[i].key % NUM_PASSES != PASS_A ||
			    d->cell[i].outcome != OUTCOME_OK || seen[f] == r / NUM_PHASES)
				continue;
			seen[f] = r / NUM_PHASES;
			scenarios[f]++;
		}
}

static int members_of(const struct family *f, int *first)
{
	int n = 0;
	for (int i = f->num_members - 1; i >= 0; i--)
		if (f->member[i] >= 0)
			n++, *first = f->member[i];
	return n;
}

static int add_formulas(struct data *d, int family, int first)
{
	const struct space *s = d->choice[first].kernel->space;
	const size_t columns = (size_t)(d->num_columns + s->num_formulas) + 1;
	struct choice *choice = realloc(d->choice, sizeof *choice * columns);
	int *family_of = realloc(d->family_of, sizeof *family_of * columns);
	signed char *value = realloc(d->value, columns);
	d->choice = choice ? choice : d->choice;
	d->family_of = family_of ? family_of : d->family_of;
	d->value = value ? value : d->value;
	if (!choice || !family_of || !value)
		return 0;
	for (int i = 0; i < s->num_formulas; i++) {
		d->choice[d->num_columns] = d->choice[first];
		d->choice[d->num_columns].config.v[s->formula_axis] = -1 - i;
		d->family_of[d->num_columns] = family;
		d->value[d->num_columns++] = -1;
	}
	return 1;
}

int formulas_add(struct data *d)
{
	d->num_columns = d->num_choices;
	if (!find_families(d))
		return 0;
	int *scenarios = malloc(sizeof *scenarios * ((size_t)d->num_families + 1));
	int *seen = malloc(sizeof *seen * ((size_t)d->num_families + 1)), first = -1;
	int done = scenarios && seen;
	if (done)
		count_scenarios(d, scenarios, seen);
	for (int f = 0; done && f < d->num_families; f++)
		if (members_of(&d->family[f], &first) > 1 && scenarios[f] > d->n / WIDELY)
			done = add_formulas(d, f, first);
	free(scenarios);
	free(seen);
	const size_t size = (size_t)d->n * NUM_PHASES * (size_t)(d->num_columns - d->num_choices);
	d->means = malloc(size + 1);
	if (d->means)
		memset(d->means, NOT_KNOWN, size);
	return done && d->means;
}

static int meaning_of(const struct data *d, int scenario, enum phase phase, int choice)
{
	const struct measured *m = &d->v[scenario];
	struct choice c = d->choice[choice];
	if (!m->has[phase] || config_resolve(&c.config, &d->choice[choice].config, c.kernel,
					     &m->shape, &m->part[phase], &d->run.device))
		return -1;
	return value_index(&c);
}

int family_value(const struct data *d, int scenario, enum phase phase, int choice)
{
	if (choice < d->num_choices)
		return d->v[scenario].has[phase] ? d->value[choice] : -1;
	const size_t row = (size_t)scenario * NUM_PHASES + (size_t)phase;
	signed char *means = &d->means[row * (size_t)(d->num_columns - d->num_choices) +
				       (size_t)(choice - d->num_choices)];
	if (*means == NOT_KNOWN)
		*means = (signed char)meaning_of(d, scenario, phase, choice);
	return *means;
}

int data_concrete(const struct data *d, int scenario, enum phase phase, int choice)
{
	if (choice < d->num_choices)
		return choice;
	const int at = family_value(d, scenario, phase, choice);
	return at < 0 ? -1 : d->family[d->family_of[choice]].member[at];
}
