/* SPDX-License-Identifier: Apache-2.0 */
/* traces.h - request traces and engines for tests. */
#ifndef TESTS_SUPPORT_TRACES_H
#define TESTS_SUPPORT_TRACES_H

#include "harness/generate/engine_sim.h"
#include <math.h>
#include <stdlib.h>

#define ENGINE(tokens, seqs, kv) \
	.max_batched_tokens = (tokens), .max_seqs = (seqs), .kv_tokens = (kv)
#define DRAFTS(n, tokens) .drafts = (n), .accept = (tokens), .seed = 3

static unsigned long long state;

static int between(int lo, int hi)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return lo + (int)((state >> 33) % (unsigned)(hi - lo + 1));
}

/* Lengths of many magnitudes, arrivals in bursts. */
static inline struct trace random_trace(int n, int longest)
{
	struct trace t = { calloc((size_t)n, sizeof *t.v), n, 0 };
	double at = 0;
	for (int i = 0; i < n; i++) {
		int most = 1 << between(0, (int)log2(longest) - 1);
		at += between(0, 3) ? 0 : between(0, 400);
		t.v[i] = (struct request){ at, between(1, most), between(1, most), 0 };
		t.v[i].cached = between(0, 1) ? between(0, t.v[i].prompt - 1) : 0;
	}
	return t;
}

#endif
