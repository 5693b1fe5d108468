/* tree.h - a decision's tree as data, for C and device code. */
#ifndef ATTUNE_TREE_H
#define ATTUNE_TREE_H

#include "attune_features.h"

/* What trees may answer in place of a choice's id or of a way to run. */
enum says {
	SAYS_DEFAULTS = -1,
	SAYS_SERIAL = -1,  /* of the overlap */
	SAYS_OWN = -1,     /* of the early tree: as the choice itself has it */
	SAYS_STREAMS = -3  /* of the overlap: both parts as they are, on two streams */
};

/* Nodes in preorder, so that what lies below a threshold or at it is the next node. */
struct selector_node {
	int feature; /* -1: a leaf, whose answer is `value` */
	int above;   /* node of the features above the threshold */
	long long value;
};

BOTH_SIDES int tree_says(const struct selector_node *nodes, int root,
			 const struct attune_features *f)
{
	const long long *feature = (const long long *)f;
	const struct selector_node *n = &nodes[root];
	while (n->feature >= 0)
		n = feature[n->feature] <= n->value ? n + 1 : &nodes[n->above];
	return (int)n->value;
}

#endif
