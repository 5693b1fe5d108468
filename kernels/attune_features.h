/* SPDX-License-Identifier: Apache-2.0 */
/* attune_features.h - struct attune_features, the input of generated heuristics. Plain integers,
 * for C, C++ and device code. */
#ifndef ATTUNE_FEATURES_H
#define ATTUNE_FEATURES_H

#if defined(__CUDACC__) || defined(__HIPCC__)
#define ATTUNE_SELECT static __host__ __device__ inline
#else
#define ATTUNE_SELECT static inline
#endif
#define BOTH_SIDES ATTUNE_SELECT /* for functions that host and device share */

/* Every member a long long, in the order of features.def. */
struct attune_features {
#define FEATURE(name, replay, meaning) long long name;
#include "features.def"
#undef FEATURE
};

enum attune_feature {
#define FEATURE(name, replay, meaning) ATTUNE_FEATURE_##name,
#include "features.def"
#undef FEATURE
	ATTUNE_NUM_FEATURES
};

#endif
