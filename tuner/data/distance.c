/* SPDX-License-Identifier: Apache-2.0 */
/* distance.c - measures how different two parts are, by their features. */
#include "data.h"
#include <math.h>

double part_distance(const struct attune_features *a, const struct attune_features *b, double most)
{
	static const int of[] = { ATTUNE_FEATURE_num_query_heads, ATTUNE_FEATURE_num_kv_heads,
				  ATTUNE_FEATURE_head_size,       ATTUNE_FEATURE_page_size,
				  ATTUNE_FEATURE_kv_bytes,        ATTUNE_FEATURE_window,
				  ATTUNE_FEATURE_num_seqs,        ATTUNE_FEATURE_max_query,
				  ATTUNE_FEATURE_query_tokens,    ATTUNE_FEATURE_max_seq,
				  ATTUNE_FEATURE_kv_tokens,       ATTUNE_FEATURE_decode_seqs,
				  ATTUNE_FEATURE_prefill_tokens };
	const long long *x = (const long long *)a, *y = (const long long *)b;
	double far = 0;
	for (size_t i = 0; i < COUNT(of) && far < most; i++)
		if (x[of[i]] != y[of[i]])
			far += fabs(log((double)(x[of[i]] + 1) / (double)(y[of[i]] + 1)));
	return far;
}
