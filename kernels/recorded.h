/* recorded.h - steps of a captured graph that choose anew at each replay.
 *
 *   attune_prepare       bodies.c: which bodies the kernel has; table.c: the table, to
 *                        the device
 *   attune_record_plan   gpu/planner.cu: lengths on the device -> struct recorded_plan
 *   attune_record_run    gpu/recorded.cu, for the prefill and for the decode part: a
 *                        kernel of several bodies, of which it runs what the plan says;
 *                        where they can, gpu/warpgroup.cu for the prefill part and
 *                        gpu/ring_list_recorded.cu for the decode part
 *
 * These two run a part by one choice, whatever the lengths. warpgroup's blocks take items in turn
 * and find them by the lengths in device memory: a launch for all sequences with more tokens than
 * a decode has. Its keys are not cut then, which a few tokens behind long contexts would want.
 *
 * ring_list deals keys to its fixed grid by the lengths that it finds, so that of its part the plan
 * says no more than which sequences are in it. It runs a decode part where it takes the shape, the
 * library carries its code (for the first choice of it that the heuristic has, else its default),
 * and the longest query fits one of its Q blocks: of several each would read the sequence's keys
 * anew, which of speculative decodes on an H200 took up to 4.4 times as long as the best body
 * (results/h200.sqlite). The tree is not asked: what it names for decodes may be ring, which has no
 * body.
 *
 * A body is what the STATIC axes of qblock and segmented make; each part has its own
 * kernel, so that what is compiled in is what the part's heuristic may name. What is not
 * among them it cannot run: no choices of other kernels (for static ones the body of the
 * same tunables stands), no joint launch of both parts.
 *
 * C and device code but for the end: kernel and host pick by the same lines. */
#ifndef ATTUNE_RECORDED_H
#define ATTUNE_RECORDED_H

#include "segments.h"
#include "tree.h"

enum { MAX_BODIES = 12, MAX_RECORDED = 48, MAX_RECORDED_VALUES = 16 };
enum { RECORDED_PREFILL, RECORDED_DECODE, NUM_RECORDED };

/* A choice of the op that at least one of the kernels can run. */
struct recorded_choice {
	int id;                 /* as in plans */
	int body[NUM_RECORDED]; /* -1: that part's kernel lacks it */
	int rank[NUM_RECORDED]; /* among the defaults, 0 the first to be taken; -1: none */
	struct block_shape block;
	int is_cut;     /* has segments */
	int num_values; /* of the table's list */
	int value;      /* how many; 0: by its costs, if it has any, else by its formula */
	int has_costs;
	struct segment_costs costs;
	struct formula formula; /* its slots are never 0 here */
};

struct recorded_table {
	struct part_shape shape;
	int num_choices, num_nodes;
	int values
	    [MAX_RECORDED_VALUES]; /* of SEGMENTS, ascending; each kernel's the first of them */
	int num_values;
	int root[NUM_RECORDED]; /* -1: no tree */
	/* the choice that runs a part whatever the lengths, its id, and the most tokens of a query
	 * that it is taken for; 0: bodies run all */
	int alone[NUM_RECORDED], alone_query[NUM_RECORDED];
	/* how many blocks of a body a unit runs at a time, and the shared memory of each */
	int teams[NUM_RECORDED][MAX_BODIES], team_bytes[NUM_RECORDED][MAX_BODIES];
	struct recorded_choice choice[MAX_RECORDED];
	/* struct selector_node[num_nodes] follows */
};

/* What one part of a step runs. */
struct recorded_part {
	int choice;         /* its id; -1: there is nothing to do */
	int body, segments; /* body -1: a choice alone */
	int teams, team_bytes;
	int blocks; /* of one segment; as teams 0 where there is no body */
	int seq_begin, seq_count, min_query, max_query;
	int taken, finished; /* the kernel's own, 0 between launches */
};

/* In device memory; an int a block follows: how many of its segments are done; 0 between
 * launches. */
struct recorded_plan {
	struct recorded_part part[NUM_RECORDED];
};

/* What planner.cu is given. */
struct planner_args {
	const int *query_start, *seq_lens;
	const struct recorded_table *table;
	struct recorded_plan *plan;
	int num_seqs;
	int counters; /* room behind the plan */
};

/* What a body of a SWITCH node runs; and what leaf.cu is given. */
struct recorded_leaf {
	int choice[NUM_RECORDED], segments[NUM_RECORDED]; /* choice -1: no such part */
};
struct leaf_args {
	const struct recorded_plan *plan;
	const struct recorded_leaf *leaves;
	unsigned long long handle; /* of the node's condition */
	int num_leaves;
};

/* ---- picking ---------------------------------------------------------------------------- */

/* Offer number o is choice o / MAX_RECORDED_VALUES with that value of SEGMENTS. Of those
 * with the least rank the first is taken. */
enum { MAX_OFFERS = MAX_RECORDED * MAX_RECORDED_VALUES };

/* -1: the part cannot run it. */
BOTH_SIDES int offer_segments(const struct recorded_table *t, const struct part *p, int which,
			      int offer)
{
	const struct recorded_choice *c = &t->choice[offer / MAX_RECORDED_VALUES];
	const int v = offer % MAX_RECORDED_VALUES;
	if (offer / MAX_RECORDED_VALUES >= t->num_choices || c->body[which] < 0)
		return -1;
	if (!c->is_cut)
		return v ? -1 : 1;
	if (v >= c->num_values || !segments_have_tiles(t->values[v], c->block.tile, p) ||
	    !partials_fit(t->values[v], p))
		return -1;
	return t->values[v];
}

/* Of what the tree says; -1: it is not that. */
BOTH_SIDES long long offer_rank(const struct recorded_table *t, const struct part *p, int which,
				int says, int offer)
{
	const struct recorded_choice *c = &t->choice[offer / MAX_RECORDED_VALUES];
	const int segments = offer_segments(t, p, which, offer);
	if (segments < 0)
		return -1;
	if (says == SAYS_DEFAULTS ? c->rank[which] < 0 : c->id != says)
		return -1;
	if (c->is_cut && c->value && c->value != segments)
		return -1;
	if (says == SAYS_DEFAULTS)
		return c->rank[which];
	if (!c->is_cut || c->value)
		return 0;
	if (c->has_costs)
		return segments_cost(&c->costs, &c->block, &p->f, segments);
	return formula_estimate(&c->formula, &p->f, part_blocks(p, c->block.rows),
				p->f.units * c->formula.slots, segments);
}

/* Whether a choice alone runs the part. */
BOTH_SIDES int is_alone(const struct recorded_table *t, const struct part *p, int which)
{
	return p->max_query <= t->alone_query[which];
}

BOTH_SIDES const struct selector_node *recorded_nodes(const struct recorded_table *t)
{
	return (const struct selector_node *)(t + 1);
}

BOTH_SIDES int recorded_says(const struct recorded_table *t, const struct part *p, int which)
{
	return t->root[which] < 0 ? SAYS_DEFAULTS
				  : tree_says(recorded_nodes(t), t->root[which], &p->f);
}

/* There is nothing to do. */
BOTH_SIDES void recorded_clear(struct recorded_part *out)
{
	out->choice = out->body = -1;
	out->segments = 1;
	out->teams = out->team_bytes = out->blocks = 0;
	out->seq_begin = out->seq_count = out->min_query = out->max_query = 0;
	out->taken = out->finished = 0;
}

/* By a choice alone, unless an offer follows. */
BOTH_SIDES void recorded_put_part(struct recorded_part *out, const struct part *p, int choice)
{
	out->choice = choice;
	out->seq_begin = p->seq_begin;
	out->seq_count = p->seq_count;
	out->min_query = p->min_query;
	out->max_query = p->max_query;
}

BOTH_SIDES void recorded_put(struct recorded_part *out, const struct recorded_table *t,
			     const struct part *p, int which, int offer)
{
	const struct recorded_choice *c = &t->choice[offer / MAX_RECORDED_VALUES];
	recorded_put_part(out, p, c->id);
	out->body = c->body[which];
	out->segments = offer_segments(t, p, which, offer);
	out->teams = t->teams[which][out->body];
	out->team_bytes = t->team_bytes[which][out->body];
	out->blocks = (int)part_blocks(p, c->block.rows);
}

/* ---- the host alone --------------------------------------------------------------------- */
#ifdef ATTUNE_KERNEL_H

struct selector;

/* What is compiled into the kernel of one part, in the order of its numbers. */
struct bodies {
	int n, warps;
	struct config config[MAX_BODIES]; /* of segmented; options at their values */
};

/* bodies.c. For the trees of a compiled heuristic; with none, or for a shape
 * of which it carries no code: the default body alone. */
void bodies_of(struct bodies *, const struct selector *, int which, const attune_shape *);
/* "-DHEAD_SIZE=128 -DDTYPE=BF16 -DWARPS=12 -DB0=16064042 ..." */
int bodies_flags(char *text, size_t size, const struct bodies *, const attune_shape *);
/* Of a choice's statics, the number of the body; -1: it is not among them. */
int bodies_find(const struct bodies *, const struct kernel *, const struct config *);

#endif
#endif
