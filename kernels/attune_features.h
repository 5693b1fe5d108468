/* attune_features.h - the struct that generated heuristics read. Plain integers, so
 * that it compiles as C, C++ and device code. */
#ifndef ATTUNE_FEATURES_H
#define ATTUNE_FEATURES_H

#if defined(__CUDACC__) || defined(__HIPCC__)
#define ATTUNE_SELECT static __host__ __device__ inline
#else
#define ATTUNE_SELECT static inline
#endif
#define BOTH_SIDES ATTUNE_SELECT /* what the host and kernels work out by the same lines */

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
