/* formulas.c - choices that say how to work out a value of a tunable, instead of
 * naming it: "SEGMENTS=balance(1,96,192,16)". They are never measured: where one is
 * asked for, the choice of numbers counts that config_resolve makes of it for the
 * batch. A family is that choice with all its siblings:
 *
 *   segmented BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=3 SEGMENTS=*
 *     member[ ] 1 2 3 4 6 8 ...      measured or not
 *     means[scenario][phase][choice] which of them a formula comes to, -1: none */
#include "data.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A family has formulas when it was measured at two values or more, in this share
 * of the scenarios. */
enum { WIDELY = 20 };

static int same_family(const struct choice *a, const struct choice *b)
{
	const int axis = a->kernel->space->formula_axis;
	struct config x = a->config, y = b->config;
	if (a->kernel != b->kernel || axis < 0)
		return 0;
	x.v[axis] = y.v[axis] = 0;
	return !memcmp(&x, &y, sizeof x);
}

static int value_index(const struct choice *c)
{
	const struct axis *a = &c->kernel->space->axis[c->kernel->space->formula_axis];
	const int value = c->config.v[c->kernel->space->formula_axis];
	for (int i = 0; i < a->num_values && i < MAX_MEMBERS; i++)
		if (a->values[i] == value)
			return i;
	return -1; /* a formula */
}

/* The family that the choice belongs to, begun by its first member. */
static void join_family(struct data *d, int choice)
{
	const struct choice *c = &d->choice[choice];
	struct family *f;
	d->family_of[choice] = -1;
	if (c->kernel->space->formula_axis < 0)
		return;
	for (int i = choice - 1; i >= 0 && d->family_of[choice] < 0; i--)
		if (same_family(&d->choice[i], c))
			d->family_of[choice] = d->family_of[i];
	if (d->family_of[choice] < 0) {
		f = &d->family[d->family_of[choice] = d->num_families++];
		f->num_members = c->kernel->space->axis[c->kernel->space->formula_axis].num_values;
		if (f->num_members > MAX_MEMBERS)
			f->num_members = MAX_MEMBERS;
		for (int i = 0; i < MAX_MEMBERS; i++)
			f->member[i] = -1;
	}
	const int at = value_index(c);
	if (at >= 0)
		d->family[d->family_of[choice]].member[at] = choice;
}

static size_t meaning_at(const struct data *d, int scenario, int phase, int choice)
{
	return ((size_t)scenario * NUM_PHASES + (size_t)phase) * (size_t)d->num_columns +
	       (size_t)choice;
}

static signed char meaning(const struct data *d, int scenario, int phase, int choice)
{
	const struct measured *m = &d->v[scenario];
	struct choice c = d->choice[choice];
	const int is_formula = config_is_formula(&c.config, c.kernel->space);
	if (d->family_of[choice] < 0 || !m->has[phase])
		return -1;
	if (is_formula && config_resolve(&c.config, &d->choice[choice].config, c.kernel, &m->shape,
					 &m->part[phase], &d->run.device))
		return -1;
	return (signed char)value_index(&c);
}

/* Scenarios in which the family has a right result; 0 when it has but one member. */
static int scenarios_of(const struct data *d, const struct family *f)
{
	int members = 0, scenarios = 0;
	for (int i = 0; i < f->num_members; i++)
		members += f->member[i] >= 0;
	for (int s = 0; members > 1 && s < d->n; s++) {
		int known = 0;
		for (int p = 0; p < NUM_PHASES; p++)
			for (int i = 0; i < f->num_members; i++)
				known |= f->member[i] >= 0 &&
					 isfinite(data_time(d, s, (enum phase)p, f->member[i]));
		scenarios += known;
	}
	return scenarios;
}

static int add_formulas(struct data *d, int family)
{
	const struct family *f = &d->family[family];
	int first = 0;
	while (f->member[first] < 0)
		first++;
	struct choice c = d->choice[f->member[first]];
	for (int i = 0; i < c.kernel->space->num_formulas; i++) {
		c.config.v[c.kernel->space->formula_axis] = -1 - i;
		if (!array_grow(&d->choice, d->num_columns, &d->scaffold->choice_room,
				sizeof *d->choice))
			return 0;
		d->choice[d->num_columns++] = c;
	}
	return 1;
}

static int find_families(struct data *d)
{
	const size_t choices = (size_t)d->num_choices + 1;
	d->num_columns = d->num_choices;
	d->family = malloc(sizeof *d->family * choices);
	d->family_of = malloc(sizeof *d->family_of * choices);
	if (!d->family || !d->family_of)
		return 0;
	for (int c = 0; c < d->num_choices; c++)
		join_family(d, c);
	return 1;
}

int formulas_add(struct data *d)
{
	int done = find_families(d);
	for (int f = 0; done && f < d->num_families; f++)
		if (scenarios_of(d, &d->family[f]) > d->n / WIDELY)
			done = add_formulas(d, f);
	const size_t columns = (size_t)d->num_columns + 1;
	int *family_of = done ? realloc(d->family_of, sizeof *family_of * columns) : NULL;
	d->family_of = family_of ? family_of : d->family_of;
	d->means = malloc(((size_t)d->n * NUM_PHASES + 1) * columns);
	if (!family_of || !d->means)
		return 0;
	for (int c = d->num_choices; c < d->num_columns; c++)
		join_family(d, c);
	for (int s = 0; s < d->n; s++)
		for (int p = 0; p < NUM_PHASES; p++)
			for (int c = 0; c < d->num_columns; c++)
				d->means[meaning_at(d, s, p, c)] = meaning(d, s, p, c);
	return 1;
}

int data_concrete(const struct data *d, int scenario, enum phase phase, int choice)
{
	if (choice >= d->num_columns)
		return d->cheapest[choice - d->num_columns][scenario];
	if (choice < d->num_choices)
		return choice;
	const int at = d->means[meaning_at(d, scenario, (int)phase, choice)];
	return at < 0 ? -1 : d->family[d->family_of[choice]].member[at];
}

/* Between two members that were measured the time is taken to be at most the larger
 * of theirs, since more segments first help and then hinder. Beyond the last of them
 * each step costs a tenth, and three steps are too far to tell. */
double family_time(const struct data *d, int scenario, enum phase phase, int choice)
{
	enum { FAR = 3 };
	double beside[2] = { INFINITY, INFINITY };
	int steps[2] = { 0, 0 };
	if (choice >= d->num_columns)
		choice = data_concrete(d, scenario, phase, choice);
	if (choice < 0)
		return INFINITY;
	const int family = d->family_of[choice];
	const int at = d->means[meaning_at(d, scenario, (int)phase, choice)];
	if (family < 0 || at < 0)
		return INFINITY;
	const struct family *f = &d->family[family];
	for (int side = 0; side < 2; side++)
		for (int i = at; i >= 0 && i < f->num_members && !isfinite(beside[side]);
		     i += side ? 1 : -1) {
			steps[side] = abs(i - at);
			beside[side] = f->member[i] < 0
					   ? INFINITY
					   : data_part_time(d, scenario, phase, f->member[i]);
		}
	if (isfinite(beside[0]) && isfinite(beside[1]))
		return fmax(beside[0], beside[1]);
	const int side = !isfinite(beside[0]);
	return steps[side] < FAR ? beside[side] * (1 + 0.1 * steps[side]) : INFINITY;
}
