/* priced.c - estimates the time of a part by a priced choice. untuned_costs.c has the choices. */
#include "priced.h"
#include "kernels/device/shared/gpu_names.h"
#include "kernels/select/selector.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <string.h>

int takes_priced(const struct device_info *d)
{
	return d->backend == BACKEND_GPU && d->lanes == 32;
}

int is_priced_gpu(const struct device_info *d)
{
	const struct gpu_model *of = gpu_model("h200"), *m = gpu_whole(d->gpu);
	if (!m || strcmp(m->arch, of->arch))
		return 0;
	const double share = m->tflops / m->units * of->units / of->tflops;
	return share > 0.8 && share < 1.25;
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

int segments_of(const struct kernel *k, const struct config *c)
{
	return k->space->formula_axis < 0 ? 1 : c->v[k->space->formula_axis];
}

long long priced_estimate(const struct part_costs *costs, const struct block_shape *block,
			  int segments, const struct attune_features *f)
{
	const long long most = 1 << 27; /* so that sums fit */
	const long long rows = f->query_tokens * f->num_query_heads;
	struct segment_load load;
	segment_load_of(&load, block, f);
	const long long path = segment_path(&costs->segments, &load, block, f->units, segments);
	return costs->launch + segment_cost(&costs->segments, path, rows, segments) +
	       costs->total * min_of(load.blocks * load.mean / f->units, most) +
	       costs->kib * min_of(f->kv_kib, most) + costs->rows * min_of(rows, most);
}
