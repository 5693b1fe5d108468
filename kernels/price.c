/* price.c - what price.h says, asked of choices. */
#include "device.h"
#include <limits.h>

void price_amounts(long long amount[NUM_PRICE_TERMS], const struct price *p,
		   const struct attune_features *f, int segments)
{
	struct price_load l;
	price_load_of(&l, p, f);
	price_count(amount, p, f, &l, segments);
}

int price_joins(long long whole, long long prefill, long long decode)
{
	return whole >= 0 && prefill >= 0 && decode >= 0 && whole / 9 < (prefill + decode) / 10;
}

long long config_cheaper(struct config *out, const struct config *c, const struct kernel *k,
			 const struct price *price, const attune_shape *shape, const struct part *p,
			 const struct device_info *d, long long than)
{
	const struct space *s = k->space;
	const struct axis *a = s->formula_axis < 0 ? NULL : &s->axis[s->formula_axis];
	struct price_load l;
	struct config at = *c;
	long long least = than;
	price_load_of(&l, price, &p->f);
	for (int i = 0; i < (a ? a->num_values : 1); i++) {
		if (a)
			at.v[s->formula_axis] = a->values[i];
		const int value = a ? a->values[i] : 1;
		if (price_floor(price, &p->f, &l, value) >= least)
			continue;
		const long long cost = price_of_load(price, &p->f, &l, value);
		if (cost < least && !s->why_illegal(&at, shape, p, d)) {
			least = cost;
			*out = at;
		}
	}
	return least < than ? least : -1;
}

long long config_cheapest(struct config *out, const struct config *c, const struct kernel *k,
			  const struct price *price, const attune_shape *shape,
			  const struct part *p, const struct device_info *d)
{
	return config_cheaper(out, c, k, price, shape, p, d, LLONG_MAX);
}
