/* SPDX-License-Identifier: Apache-2.0 */
/* emit_example.c - writes, for the comment on top of a header, how its trees decide for one batch, so
 * that a reader can follow a decision by hand. */
#include "writing.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"
#include "tuner/data/data.h"
#include "tuner/tree/tree.h"
#include <stdio.h>

enum { SEQS = 32, KEYS = 4096 };

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
	const attune_batch batch = { .size = sizeof(attune_batch),
				     .num_seqs = SEQS,
				     .query_start = start,
				     .seq_lens = lens };
	part_make(p, PHASE_DECODE, shape, &batch, dev);
}

/* The tests from the root to the leaf: "head_size 128 > 64, skew 16 <= 52, ...". */
static int emit_path(FILE *out, const struct tree *t, const struct attune_features *f)
{
	enum { WIDTH = 100 };
	const long long *value = (const long long *)f;
	int node = 0, column = WIDTH;
	while (t->v[node].feature >= 0) {
		const struct node *v = &t->v[node];
		const int below = value[v->feature] <= v->threshold;
		char test[120];
		const int next = below ? v->below : v->above;
		const int n =
		    snprintf(test, sizeof test, " %s %lld %s %lld%s", feature_names[v->feature],
			     value[v->feature], below ? "<=" : ">", v->threshold,
			     t->v[next].feature < 0 ? ":" : ",");
		if (column + n > WIDTH)
			column = fprintf(out, "%s *  ", node ? "\n" : "") - !!node;
		fputs(test, out);
		column += n;
		node = next;
	}
	fputs(node ? "\n *  " : " *  ", out);
	return t->v[node].action;
}

/* The first of a row that is legal for the part, as it would run; -1: none. */
static int first_legal(const struct emitter *e, const struct attune_list *row,
		       const attune_shape *shape, const struct part *p, struct config *made)
{
	for (int i = 0; i < row->n; i++) {
		const struct choice *c = &e->f->choice[row->at[i]];
		const struct segment_costs *costs =
		    costs_for(e->f->costs, e->f->num_costs, row->at[i], shape->head_size);
		if (!config_fitted(made, &c->config, c->kernel, costs, shape, p, &e->d->run.device))
			return i;
	}
	return -1;
}

/* "h200_ring_8x16 with SEGMENTS=2. Where it is not legal: ring_16x16, qblock_16x64." */
static void emit_decision(const struct emitter *e, const attune_shape *shape, const struct part *p)
{
	const int id = emit_path(e->out, &e->f->tree[DECIDE_DECODE], &p->f);
	struct attune_list row = { 1, { (short)id } };
	struct config made;
	fprintf(e->out, " %s_%s", e->f->gpu, id < 0 ? "defaults" : e->name[id]);
	if (id >= 0 && e->f->list[id].n)
		row = e->f->list[id];
	const int runs = id < 0 ? -1 : first_legal(e, &row, shape, p, &made);
	const struct choice *c = runs < 0 ? NULL : &e->f->choice[row.at[runs]];
	if (id >= 0 && runs)
		fprintf(e->out, ", which is not legal there: %s runs",
			runs < 0 ? "no choice of its row is; another" : e->name[row.at[runs]]);
	if (c && worked_out_axis(c) >= 0)
		fprintf(e->out, " with %s=%d", c->kernel->space->axis[worked_out_axis(c)].name,
			made.v[worked_out_axis(c)]);
	fputs(row.n > 1 ? ".\n *   Where a rule forbids it:" : ".\n", e->out);
	for (int i = 1; i < row.n; i++)
		fprintf(e->out, " %s%s", e->name[row.at[i]], i + 1 < row.n ? ", else" : ".\n");
}

void emit_example(const struct emitter *e)
{
	const attune_shape shape = example_shape(e->d);
	struct part p;
	example_part(&p, &shape, &e->d->run.device);
	fprintf(e->out,
		" * Example: %d decodes of %d keys, %d query heads, %d KV heads, head size %d, "
		"page size "
		"%d:\n",
		SEQS, KEYS, shape.num_query_heads, shape.num_kv_heads, shape.head_size,
		shape.page_size);
	emit_decision(e, &shape, &p);
	fputs(" *\n", e->out);
}
