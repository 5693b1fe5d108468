/* SPDX-License-Identifier: Apache-2.0 */
/* candidates.c - lists the choices of a kernel to try on a shape: its defaults, the constants of
 * vLLM's kernel, and by preset their neighbours, a space-filling sample or all legal choices. */
#include "search.h"
#include "harness/base/base.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <argp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

const char *const preset_names[] = { "smoke", "quick", "full", NULL };

void preset_option(enum preset *preset, const char *arg, struct argp_state *state)
{
	for (*preset = 0; *preset < NUM_PRESETS; ++*preset)
		if (!strcmp(preset_names[*preset], arg))
			return;
	argp_error(state, "--preset is '%.*s'; it must be smoke, quick or full", SHOWN_ARGUMENT,
		   arg);
}

/* How many choices of one kernel a preset tries on one shape, baselines included. */
static const int most[NUM_PRESETS] = {
	[PRESET_SMOKE] = 4, [PRESET_QUICK] = 40, [PRESET_FULL] = 1 << 30
};

/* vLLM's unified attention (Triton): BLOCK_M 16 or the next power of two of the group, which is
 * written 0 here; tiles of 32 keys in one pass, or of 16 keys in 16 segments; 4 warps, 3 stages. */
enum { MAX_SETTINGS = 5 };
static const struct baseline {
	enum backend backend;
	const char *kernel;
	struct {
		const char *axis;
		int value;
	} setting[MAX_SETTINGS];
} baselines[] = {
	// clang-format off
	{ BACKEND_GPU, "qblock",
	  { { "BLOCK_M", 0 }, { "TILE_SIZE", 32 }, { "NUM_WARPS", 4 }, { "NUM_STAGES", 3 } } },
	{ BACKEND_GPU, "segmented",
	  { { "BLOCK_M", 0 }, { "TILE_SIZE", 16 }, { "NUM_WARPS", 4 }, { "NUM_STAGES", 3 },
	    { "SEGMENTS", 16 } } },
	// clang-format on
};

/* ---- distance ------------------------------------------------------------------- */
/* Position of a value among an axis' values; a fraction if it is not one of them. */
static double place(const struct axis *a, int value)
{
	int below = 0;
	for (int i = 0; i < a->num_values; i++) {
		if (a->values[i] == value)
			return i;
		below += a->values[i] < value;
	}
	return below - 0.5;
}

/* In steps of the axes; a step of a launch argument counts a quarter of another's. */
static double distance(const struct space *s, const struct config *a, const struct config *b)
{
	double sum = 0;
	for (int i = 0; i < s->num_axes; i++)
		sum += fabs(place(&s->axis[i], a->v[i]) - place(&s->axis[i], b->v[i])) *
		       (s->axis[i].is_static ? 4 : 1);
	return sum;
}

static int is_listed(const struct space *s, const struct config *c)
{
	for (int i = 0; i < s->num_axes; i++)
		if (place(&s->axis[i], c->v[i]) != floor(place(&s->axis[i], c->v[i])))
			return 0;
	return 1;
}

int nearest_legal(struct config *out, const struct kernel *k, const struct config *from,
		  const attune_shape *shape, const struct part *part, const struct device_info *d)
{
	double least = INFINITY;
	struct config c;
	if (is_listed(k->space, from) && !k->space->why_illegal(from, shape, part, d)) {
		*out = *from;
		return 1;
	}
	config_first(&c, k->space, d->lanes);
	do {
		double far = distance(k->space, &c, from);
		if (far < least && !k->space->why_illegal(&c, shape, part, d)) {
			least = far;
			*out = c;
		}
	} while (config_next(&c, k->space, d->lanes));
	return isfinite(least);
}

static void apply(struct config *c, const struct space *s, const struct baseline *b,
		  const attune_shape *shape)
{
	int rows = 16;
	while (rows < shape->num_query_heads / shape->num_kv_heads)
		rows *= 2;
	config_default(c, s);
	for (int i = 0; i < s->num_axes; i++)
		for (int w = 0; w < MAX_SETTINGS && b->setting[w].axis; w++)
			if (!strcmp(s->axis[i].name, b->setting[w].axis))
				c->v[i] = b->setting[w].value ? b->setting[w].value : rows;
}

int baseline_nearest(struct config *c, const struct kernel *k, const attune_shape *shape,
		     const struct part *part, const struct device_info *d)
{
	for (size_t i = 0; i < COUNT(baselines); i++) {
		struct config wanted;
		if (baselines[i].backend != k->backend || strcmp(baselines[i].kernel, k->name))
			continue;
		apply(&wanted, k->space, &baselines[i], shape);
		return nearest_legal(c, k, &wanted, shape, part, d);
	}
	return 0;
}

/* ---- lists ---------------------------------------------------------------------- */
unsigned choice_chain(const struct choice *c)
{
	const unsigned long long kernel = (unsigned long long)(c->kernel - attune_kernels);
	return (unsigned)XXH3_64bits_withSeed(&c->config, sizeof c->config, kernel) % NUM_CHAINS;
}

static int add(struct candidates *list, const struct kernel *k, const struct config *c,
	       enum origin origin)
{
	const struct choice choice = { k, *c };
	int *last = &list->by_choice.last[choice_chain(&choice)];
	for (int i = *last; i; i = list->v[i - 1].next)
		if (choice_same(&list->v[i - 1].choice, &choice))
			return 1;
	if (!array_grow(&list->v, list->n, &list->room, sizeof *list->v)) {
		complain("out of memory");
		return 0;
	}
	list->v[list->n++] = (struct candidate){ choice, origin, *last };
	*last = list->n;
	return 1;
}

/* Whether a choice is not a candidate of its own: it leaves units to another part, and plans derive
 * it; or it begins early, and early_launch.c measures it. */
static int is_for_some(const struct kernel *k, const struct config *c)
{
	const struct choice choice = { k, *c };
	return choice_spares(&choice) > 0 || choice_early(&choice);
}

struct legal {
	struct config *v;
	double *far; /* distance to the nearest choice taken */
	int n;
};

static int list_legal(struct legal *l, const struct kernel *k, const attune_shape *shape,
		      const struct device_info *d)
{
	struct config c;
	int points = 1;
	for (int i = 0; i < k->space->num_axes; i++)
		points *=
		    axis_is_swept(&k->space->axis[i], d->lanes) ? k->space->axis[i].num_values : 1;
	*l = (struct legal){ .v = calloc((size_t)points, sizeof *l->v),
			     .far = calloc((size_t)points, sizeof *l->far) };
	if (!l->v || !l->far) {
		complain("out of memory");
		return 0;
	}
	config_first(&c, k->space, d->lanes);
	do
		if (!is_for_some(k, &c) && !k->space->why_illegal(&c, shape, NULL, d))
			l->v[l->n++] = c;
	while (config_next(&c, k->space, d->lanes));
	return 1;
}

int candidates_add_neighbours(struct candidates *list, const struct kernel *k,
			      const struct config *of, const attune_shape *shape,
			      const struct part *part, const struct device_info *d)
{
	for (int i = 0; i < k->space->num_axes; i++)
		for (int j = 0; j < k->space->axis[i].num_values; j++) {
			struct config c = *of;
			c.v[i] = k->space->axis[i].values[j];
			if (!is_for_some(k, &c) && !k->space->why_illegal(&c, shape, part, d) &&
			    !add(list, k, &c, FROM_NEIGHBOUR))
				return 0;
		}
	return 1;
}

static unsigned long long mixed(unsigned long long z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* Repeatedly adds the choice farthest from all taken ones; the seed breaks ties. */
static int add_spread(struct candidates *list, int first, int want, const struct kernel *k,
		      struct legal *l, unsigned long long seed)
{
	for (int i = 0; i < l->n; i++) {
		l->far[i] = INFINITY;
		for (int j = first; j < list->n; j++)
			l->far[i] = fmin(l->far[i],
					 distance(k->space, &l->v[i], &list->v[j].choice.config));
		l->far[i] += (double)(mixed(seed + (unsigned)i) >> 40) * 0x1p-26; /* < 0.25 */
	}
	while (list->n - first < want) {
		int best = 0;
		for (int i = 1; i < l->n; i++)
			if (l->far[i] > l->far[best])
				best = i;
		if (l->far[best] < 0.5)
			break; /* all are taken */
		if (!add(list, k, &l->v[best], FROM_SAMPLE))
			return 0;
		for (int i = 0; i < l->n; i++)
			l->far[i] = fmin(l->far[i], distance(k->space, &l->v[i], &l->v[best]));
	}
	return 1;
}

int candidates_add(struct candidates *list, const struct kernel *k, const attune_shape *shape,
		   const struct device_info *d, enum preset preset, unsigned long long seed)
{
	const int first = list->n;
	struct config c, of;
	struct legal legal;
	int ok = list_legal(&legal, k, shape, d);
	if (ok && legal.n) {
		config_default(&of, k->space);
		ok = nearest_legal(&c, k, &of, shape, NULL, d) && add(list, k, &c, FROM_DEFAULT);
		of = c;
		if (ok && baseline_nearest(&c, k, shape, NULL, d))
			ok = add(list, k, &c, FROM_BASELINE);
		if (ok && preset != PRESET_SMOKE) /* of full: its options */
			ok = candidates_add_neighbours(list, k, &of, shape, NULL, d);
		if (ok && preset != PRESET_FULL)
			ok = add_spread(list, first, most[preset], k, &legal, seed);
		for (int i = 0; ok && preset == PRESET_FULL && i < legal.n; i++)
			ok = add(list, k, &legal.v[i], FROM_ALL);
	}
	free(legal.v);
	free(legal.far);
	return ok;
}
