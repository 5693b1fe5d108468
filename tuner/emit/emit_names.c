/* SPDX-License-Identifier: Apache-2.0 */
/* emit_names.c - names the choices of a header: the kernel, its tile, and those of its other
 * tunables that distinguish the choices of the header.
 *
 *   warpgroup BLOCK_M=128 TILE_SIZE=80 ... PACKED=1    warpgroup_128x80_packed
 *   warpgroup BLOCK_M=128 TILE_SIZE=80 ... PACKED=0    warpgroup_128x80
 *   ring BLOCK_M=8 TILE_SIZE=16 ...                    ring_8x16 */
#include "writing.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/forest/forest.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static void add(char name[CHOICE_NAME], const char *format,
						      ...)
{
	const size_t n = strlen(name);
	va_list args;
	va_start(args, format);
	vsnprintf(name + n, CHOICE_NAME - n, format, args);
	va_end(args);
}

static int is_switch(const struct axis *a)
{
	return a->num_values == 2 && a->values[0] == 0 && a->values[1] == 1;
}

/* "NUM_WARPS" 4: "_warps4"; a formula by its number: "_segments_rule2"; a switch that is on:
 * "_packed"; a switch that is off: nothing. */
static void add_axis(char name[CHOICE_NAME], const struct axis *a, int value)
{
	const char *of = strncmp(a->name, "NUM_", 4) ? a->name : a->name + 4;
	char lower[40];
	size_t i = 0;
	for (; of[i] && i + 1 < sizeof lower; i++)
		lower[i] = (char)tolower((unsigned char)of[i]);
	lower[i] = '\0';
	if (is_switch(a) && value)
		add(name, "_%s", lower);
	else if (is_switch(a))
		return;
	else if (value < 0)
		add(name, "_%s_rule%d", lower, -value);
	else if (!strcmp(a->name, "SEGMENTS") && value == SEGMENTS_FITTED)
		add(name, "_%s_fitted", lower);
	else
		add(name, "_%s%d", lower, value);
}

static void add_tile(char name[CHOICE_NAME], const struct choice *c)
{
	const struct space *s = c->kernel->space;
	const int rows = axis_named(s, "BLOCK_M"), tile = axis_named(s, "TILE_SIZE");
	if (rows >= 0 && tile >= 0)
		add(name, "_%dx%d", c->config.v[rows], c->config.v[tile]);
	else if (rows >= 0 || tile >= 0)
		add(name, "_%d", c->config.v[rows >= 0 ? rows : tile]);
}

/* Whether another choice with the same name so far has a different value of the axis. */
static int distinguishes(const struct choice *c, int n, char (*name)[CHOICE_NAME], int id, int axis)
{
	for (int i = 0; i < n; i++)
		if (c[i].kernel == c[id].kernel && !strcmp(name[i], name[id]) &&
		    c[i].config.v[axis] != c[id].config.v[axis])
			return 1;
	return 0;
}

static int most_axes(const struct choice *c, int n)
{
	int most = 0;
	for (int i = 0; i < n; i++)
		most = c[i].kernel->space->num_axes > most ? c[i].kernel->space->num_axes : most;
	return most;
}

/* Whether a leaf of the decode tree names the choice, or one in whose row it is. */
static int is_for_decodes(const struct forest *f, int id)
{
	const struct tree *t = &f->tree[DECIDE_DECODE];
	for (int i = 0; i < t->n; i++) {
		if (t->v[i].feature >= 0 || t->v[i].action < 0)
			continue;
		const struct attune_list *row = &f->list[t->v[i].action];
		if (t->v[i].action == id)
			return 1;
		for (int k = 0; k < row->n; k++)
			if (row->at[k] == id)
				return 1;
	}
	return 0;
}

void name_choices(const struct forest *f, char (*name)[CHOICE_NAME])
{
	const struct choice *c = f->choice;
	const int n = f->num_choices;
	char longer[MAX_IDS][CHOICE_NAME];
	for (int i = 0; i < n; i++) {
		snprintf(name[i], CHOICE_NAME, "%s", c[i].kernel->name);
		add_tile(name[i], &c[i]);
	}
	/* all choices at once, so that both of two different choices get the suffix */
	for (int axis = 0; axis < most_axes(c, n); axis++) {
		memcpy(longer, name, sizeof longer[0] * (size_t)n);
		for (int i = 0; i < n; i++)
			if (axis < c[i].kernel->space->num_axes &&
			    distinguishes(c, n, name, i, axis))
				add_axis(longer[i], &c[i].kernel->space->axis[axis],
					 c[i].config.v[axis]);
		memcpy(name, longer, sizeof longer[0] * (size_t)n);
	}
	for (int i = 1; i < n; i++) /* a choice that both trees use */
		for (int before = 0; before < i; before++)
			if (!strcmp(name[before], name[i])) {
				const int decodes = is_for_decodes(f, i);
				add(name[before], decodes ? "_prefill" : "_decode");
				add(name[i], decodes ? "_decode" : "_prefill");
			}
}
