/* matrix_features.h - features of matrices for the exact solver, and the cost of a tree over a matrix. */
#ifndef TESTS_TREE_MATRIX_FEATURES_H
#define TESTS_TREE_MATRIX_FEATURES_H

#include "tuner/tree/tree.h"
#include "tests/support/synthetic.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

static const int used[] = { ATTUNE_FEATURE_group,     ATTUNE_FEATURE_num_seqs,
			    ATTUNE_FEATURE_max_seq,   ATTUNE_FEATURE_rows,
			    ATTUNE_FEATURE_skew,      ATTUNE_FEATURE_work,
			    ATTUNE_FEATURE_kv_tokens, ATTUNE_FEATURE_row_blocks,
			    ATTUNE_FEATURE_mean_seq,  ATTUNE_FEATURE_num_kv_heads,
			    ATTUNE_FEATURE_page_size, ATTUNE_FEATURE_query_tokens,
			    ATTUNE_FEATURE_max_query, ATTUNE_FEATURE_heads_x_seqs,
			    ATTUNE_FEATURE_window,    ATTUNE_FEATURE_decode_kv };

static long long *feature(const struct matrix *m, int row, int f)
{
	return &((long long *)&m->f[row])[used[f]];
}

static long long walked_cost(const struct tree *t, const struct matrix *m)
{
	long long sum = 0;
	for (int r = 0; r < m->rows; r++)
		sum += matrix_at(m, r, t->v[tree_leaf(t, &m->f[r])].action);
	return sum;
}

#endif
