/* tree.h - the decision trees as data, and their evaluation. */
#ifndef ATTUNE_TREE_H
#define ATTUNE_TREE_H

#include "kernels/attune_features.h"

/* Answers of trees other than a choice's id. */
enum says {
	SAYS_DEFAULTS = -1,
	SAYS_SERIAL = -1, /* overlap tree */
	SAYS_OWN = -1,    /* early tree: the choice's own value */
	/* overlap tree: the whole batch in one launch by the choice of the prefills */
	SAYS_ONE_LAUNCH = -2,
	SAYS_STREAMS = -3 /* overlap tree: both parts unchanged, on two streams */
};

/* Nodes in preorder: the next node is for features at or below the threshold. */
struct selector_node {
	int feature; /* -1: a leaf; `value` is the answer */
	int above;   /* node of the features above the threshold */
	long long value;
};

static inline int tree_says(const struct selector_node *nodes, int root,
			    const struct attune_features *f)
{
	const long long *feature = (const long long *)f;
	const struct selector_node *n = &nodes[root];
	while (n->feature >= 0)
		n = feature[n->feature] <= n->value ? n + 1 : &nodes[n->above];
	return (int)n->value;
}

#endif
