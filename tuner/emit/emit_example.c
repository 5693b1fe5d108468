/* emit_example.c - writes, for the comment on top of a header, the features that its trees test
 * and what they decide for one batch, so that a reader can follow a decision by hand. */
#include "writing.h"
#include "tuner/data/data.h"
#include "tuner/tree/tree.h"
#include <stdio.h>
#include <string.h>

enum { SEQS = 32, KEYS = 4096 };

static const char *const meanings[ATTUNE_NUM_FEATURES] = {
#define FEATURE(name, replay, meaning) meaning,
#include "kernels/features.def"
#undef FEATURE
};

/* The shape of the example, with the types that were measured. */
static attune_shape example_shape(const struct data *d)
{
	const attune_shape *measured = d->n ? &d->v[0].shape : NULL;
	return (attune_shape){ .num_query_heads = 32,
			       .num_kv_heads = 8,
			       .head_size = 128,
			       .page_size = 16,
			       .dtype = measured ? measured->dtype : ATTUNE_BF16,
			       .kv_dtype = measured ? measured->kv_dtype : ATTUNE_BF16,
			       .causal = 1 };
}

static void example_part(struct part *p, const attune_shape *shape, const struct device_info *dev)
{
	int32_t start[SEQS + 1] = { 0 }, lens[SEQS];
	for (int i = 0; i < SEQS; i++) {
		start[i + 1] = i + 1;
		lens[i] = KEYS;
	}
	const attune_batch batch = { SEQS, start, lens };
	part_make(p, PHASE_DECODE, shape, &batch, dev);
}

static int is_tested(const struct forest *f, int feature)
{
	for (int t = 0; t < forest_decisions(f); t++)
		for (int i = 0; i < f->tree[t].n; i++)
			if (f->tree[t].v[i].feature == feature)
				return 1;
	return 0;
}

static void emit_features(const struct emitter *e, const struct part *p)
{
	const long long *value = (const long long *)&p->f;
	for (int i = 0; i < ATTUNE_NUM_FEATURES; i++)
		if (is_tested(e->f, i))
			fprintf(e->out, " *   %-15s %8lld  %s\n", feature_names[i], value[i],
				meanings[i]);
}

/* "h200_ring_8x16 with SEGMENTS=2" */
static void emit_decision(const struct emitter *e, const attune_shape *shape, const struct part *p)
{
	const struct tree *t = &e->f->tree[DECIDE_DECODE];
	const int id = t->v[tree_leaf(t, &p->f)].action;
	struct config made;
	fprintf(e->out, " * The example runs %s_%s", e->f->gpu, id < 0 ? "defaults" : e->name[id]);
	if (id >= 0) {
		const struct choice *c = &e->f->choice[id];
		const int axis = worked_out_axis(c);
		if (config_fitted(&made, &c->config, c->kernel,
				  costs_for(e->f->costs, e->f->num_costs, id, shape->head_size),
				  shape, p, &e->d->run.device))
			fputs(", which is not legal there: the library runs the defaults", e->out);
		else if (axis >= 0)
			fprintf(e->out, " with %s=%d", c->kernel->space->axis[axis].name,
				made.v[axis]);
	}
	fputs(".\n", e->out);
}

void emit_example(const struct emitter *e)
{
	const attune_shape shape = example_shape(e->d);
	struct part p;
	example_part(&p, &shape, &e->d->run.device);
	fprintf(
	    e->out,
	    " *\n"
	    " * Features that the functions test, with their values in an example: %d decodes of\n"
	    " * %d keys, %d query heads, %d KV heads, head size %d, page size %d.\n"
	    " *\n",
	    SEQS, KEYS, shape.num_query_heads, shape.num_kv_heads, shape.head_size,
	    shape.page_size);
	emit_features(e, &p);
	fputs(" *\n", e->out);
	emit_decision(e, &shape, &p);
}
