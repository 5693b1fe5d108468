/* priced.c - estimates the time of a part by a priced choice. untuned_costs.c has the choices. */
#include "priced.h"
#include "kernels/select/selector.h"

int takes_priced(const struct device_info *d)
{
	return d->backend == BACKEND_GPU && d->lanes == 32;
}

void priced_config(struct config *c, const struct priced *p, const struct space *s)
{
	const char *where;
	config_default(c, s);
	config_parse(c, s, p->values, &where);
}

const struct part_costs *priced_at(const struct priced *p, int head_size)
{
	int i = 0;
	while (i < PRICED_SIZES - 1 && p->at[i].head_size < head_size)
		i++;
	return &p->at[i];
}

long long priced_estimate(const struct part_costs *costs, const struct kernel *k,
			  const struct config *c, const struct attune_features *f)
{
	const long long most = 1 << 27; /* so that sums fit */
	const int segments = k->space->formula_axis < 0 ? 1 : c->v[k->space->formula_axis];
	struct block_shape block;
	struct segment_load load;
	block_shape_of(&block, c, k);
	segment_load_of(&load, &block, f);
	return costs->launch + segments_cost(&costs->segments, &block, f, segments) +
	       costs->total * min_of(load.blocks * load.mean / f->units, most) +
	       costs->kib * min_of(f->kv_kib, most) +
	       costs->rows * min_of(f->query_tokens * f->num_query_heads, most);
}
