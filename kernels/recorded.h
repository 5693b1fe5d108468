/* recorded.h - the data of recorded steps, which a captured graph plans again at each replay, and
 * the code by which host and device pick the same plan. C and device code but for the end.
 *
 *   attune_prepare       ship/bodies.c: the bodies of the kernel; replan/table.c: the table, which
 *                        goes to the device
 *   attune_record_plan   gpu/replan/planner.cu: lengths on the device -> struct recorded_plan
 *   attune_record_run    gpu/replan/recorded.cu, once a part: a kernel of several bodies that runs
 *                        the one in the plan. Instead, where possible, gpu/warpgroup/warpgroup.cu
 *                        for the prefill part and gpu/replan/ring_list_recorded.cu for the decode
 *                        part
 *
 * These two run a part by one choice for all lengths. warpgroup's blocks take items in turn and
 * find them by the lengths in device memory; one launch covers all sequences with more tokens than
 * a decode. It does not cut keys, which would help a few tokens behind long contexts.
 *
 * ring_list deals keys to its fixed grid by the lengths that it finds, so its part of the plan only
 * has the range of sequences. It runs a decode part if it takes the shape, the library carries its
 * code (for the heuristic's first choice of it, else its default), and the longest query fits one
 * of its Q blocks. With several Q blocks each would read the sequence's keys again: speculative
 * decodes then took up to 4.4 times as long as the best body on an H200 (results/h200.sqlite). The
 * tree is not evaluated: for decodes it may name ring, which has no body.
 *
 * A body has the STATIC axes of qblock and segmented. Each part has its own kernel, compiled with
 * the bodies that the part's heuristic may name. It cannot run choices of other kernels (a static
 * kernel's choice runs by the body of the same tunables) or both parts in one launch. */
#ifndef ATTUNE_RECORDED_H
#define ATTUNE_RECORDED_H

#include "segments.h"
#include "tree.h"

enum { MAX_BODIES = 12, MAX_RECORDED = 48, MAX_RECORDED_VALUES = 16 };
enum { RECORDED_PREFILL, RECORDED_DECODE, NUM_RECORDED };

/* A choice of the op that at least one of the kernels can run. */
struct recorded_choice {
	int id;                 /* as in plans */
	int body[NUM_RECORDED]; /* -1: not in that part's kernel */
	int rank[NUM_RECORDED]; /* order among the defaults, from 0; -1: no default */
	struct block_shape block;
	int is_cut;     /* has segments */
	int num_values; /* of the table's values, the first so many */
	int value;      /* segments; 0: by its costs if it has any, else by its formula */
	int has_costs;
	struct segment_costs costs;
	struct formula formula; /* its slots are not 0 here */
};

struct recorded_table {
	struct part_shape shape;
	int num_choices, num_nodes;
	int values[MAX_RECORDED_VALUES]; /* of SEGMENTS, ascending */
	int num_values;
	int root[NUM_RECORDED]; /* -1: no tree */
	/* The id of the choice that runs a part alone, for all lengths, and the longest query that
	 * it is used for; 0: bodies run all. */
	int alone[NUM_RECORDED], alone_query[NUM_RECORDED];
	/* Blocks of a body that a unit runs at a time, and the shared memory of each. */
	int teams[NUM_RECORDED][MAX_BODIES], team_bytes[NUM_RECORDED][MAX_BODIES];
	struct recorded_choice choice[MAX_RECORDED];
	/* struct selector_node[num_nodes] follows */
};

/* The plan of one part. */
struct recorded_part {
	int choice;         /* id; -1: no work */
	int body, segments; /* body -1: the choice that runs alone */
	int teams, team_bytes;
	int blocks; /* of one segment; 0, as teams, without a body */
	int seq_begin, seq_count, min_query, max_query;
	int taken, finished; /* private to the kernel, 0 between launches */
};

/* In device memory; then an int for each block, the number of its finished segments, 0 between
 * launches. */
struct recorded_plan {
	struct recorded_part part[NUM_RECORDED];
};

/* Argument of planner.cu. */
struct planner_args {
	const int *query_start, *seq_lens;
	const struct recorded_table *table;
	struct recorded_plan *plan;
	int num_seqs;
	int counters; /* ints after the plan */
};

/* What a body of a SWITCH node runs; and the argument of leaf.cu. */
struct recorded_leaf {
	int choice[NUM_RECORDED], segments[NUM_RECORDED]; /* choice -1: no part */
};
struct leaf_args {
	const struct recorded_plan *plan;
	const struct recorded_leaf *leaves;
	unsigned long long handle; /* the node's condition */
	int num_leaves;
};

/* ---- picking ---------------------------------------------------------------------------- */

/* Offer o is choice o / MAX_RECORDED_VALUES with value o % MAX_RECORDED_VALUES of SEGMENTS. The
 * first offer of least rank is picked. */
enum { MAX_OFFERS = MAX_RECORDED * MAX_RECORDED_VALUES };

/* Segments of an offer; -1: illegal for the part. */
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

/* Rank of an offer under the tree's answer; -1: the answer is another choice. */
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

/* Whether one choice runs the part for all lengths. */
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

/* A part without work. */
BOTH_SIDES void recorded_clear(struct recorded_part *out)
{
	out->choice = out->body = -1;
	out->segments = 1;
	out->teams = out->team_bytes = out->blocks = 0;
	out->seq_begin = out->seq_count = out->min_query = out->max_query = 0;
	out->taken = out->finished = 0;
}

/* A part that one choice runs alone; recorded_put sets a body. */
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

/* ---- host only -------------------------------------------------------------------------- */
#ifdef ATTUNE_KERNEL_H

struct selector;

/* The bodies of one part's kernel, by number. */
struct bodies {
	int n, warps;
	struct config config[MAX_BODIES]; /* of segmented */
};

/* bodies.c. The bodies that a heuristic's trees may name; without a heuristic, or for types other
 * than BF16, the default body alone. */
void bodies_of(struct bodies *, const struct selector *, int which, const attune_shape *);
/* "-DHEAD_SIZE=128 -DDTYPE=BF16 -DWARPS=12 -DB0=16064042 ..." */
int bodies_flags(char *text, size_t size, const struct bodies *, const attune_shape *);
/* The number of the body with a choice's STATIC values; -1: none. */
int bodies_find(const struct bodies *, const struct kernel *, const struct config *);

#endif
#endif
