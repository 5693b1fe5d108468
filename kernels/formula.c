/* formula.c - choices whose segment count is worked out for each batch. */
#include "device.h"

int config_is_formula(const struct config *c, const struct space *s)
{
	return s->formula_axis >= 0 && c->v[s->formula_axis] < 0;
}

/* What an estimate is made of, the same for all values. */
struct load {
	long long blocks, at_once, mean, longest;
};

static long long estimate(const struct formula *f, const struct load *l, long long v)
{
	const long long waves = (l->blocks * v + l->at_once - 1) / l->at_once;
	return waves * (l->mean / v + f->start) + (l->longest - l->mean) / v +
	       (v > 1 ? f->launch : 0) + f->merge * v;
}

/* Blocks that share a unit's shared memory, of which CUDA keeps RESERVED for itself
 * beside each; registers may bind earlier, but of them the host knows nothing. */
static int resident(const struct geometry *g, const struct device_info *d)
{
	enum { RESERVED = 1024 };
	const int n = g->smem ? d->smem_per_unit / ((int)g->smem + RESERVED) : 1;
	return n > 1 ? n : 1;
}

static struct load load_of(struct config c, const struct formula *formula, const struct space *s,
			   const attune_shape *shape, const struct part *p,
			   const struct device_info *d)
{
	const struct attune_features *f = &p->f;
	struct geometry g;
	c.v[s->formula_axis] = 1;
	s->geometry(&c, shape, p, d, &g);
	struct load l = { .blocks = geometry_items(&g) / g.segments,
			  .at_once = g.items
					 ? (long long)g.x * g.y * g.z
					 : (long long)d->units *
					       (formula->slots ? formula->slots : resident(&g, d)),
			  .mean = f->mean_seq,
			  .longest = f->max_seq };
	if (f->keys_per_query < l.mean)
		l.mean = f->keys_per_query;
	return l;
}

const char *config_resolve(struct config *out, const struct config *c, const struct kernel *k,
			   const attune_shape *shape, const struct part *p,
			   const struct device_info *d)
{
	const struct space *s = k->space;
	const char *why = NULL, *first_why = NULL;
	*out = *c;
	if (!config_is_formula(c, s))
		return s->why_illegal(c, shape, p, d);
	const struct axis *a = &s->axis[s->formula_axis];
	const struct formula *f = &s->formulas[-1 - c->v[s->formula_axis]];
	const struct load l = load_of(*c, f, s, shape, p, d);
	struct config at = *c;
	long long least = -1;
	for (int i = 0; i < a->num_values; i++) {
		at.v[s->formula_axis] = a->values[i];
		why = s->why_illegal(&at, shape, p, d);
		if (why && !first_why)
			first_why = why;
		const long long cost = estimate(f, &l, a->values[i]);
		if (!why && (least < 0 || cost < least)) {
			least = cost;
			*out = at;
		}
	}
	return least < 0 ? first_why : NULL;
}
