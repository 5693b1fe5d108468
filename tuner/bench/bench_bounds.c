/* SPDX-License-Identifier: Apache-2.0 */
/* bench_bounds.c - the list of `attune bench --bounds`: how much slower a plan is that knows the
 * longest lengths alone.
 *
 *   attune      attune_plan_batch for the batch's own lengths: the reference of ratios
 *   bounds_xN   attune_plan_bounds for N times the longest sequence */
#include "bench.h"
#include "kernels/spec/choice.h"
#include <stdint.h>
#include <stdio.h>

static const struct {
	const char *policy;
	int bounds;
} ways[] = { { "attune", 0 },
	     { "bounds_x1", 1 },
	     { "bounds_x2", 2 },
	     { "bounds_x8", 8 },
	     { "bounds_x128", 128 } };

static const char *const batches[] = {
	/* decodes */
	"q1s4k", "8q1s1k", "8q1s16k", "32q1s1k", "32q1s4k", "64q1s2k", "128q1s1k", "128q1s8k",
	"256q1s2k", "16q1s512_8q1s4k_4q1s16k_q1s64k",
	/* drafts */
	"8q4s4k", "32q4s2k", "64q2s8k", "16q8s16k",
	/* prefills */
	"q2k", "4q1k", "2q512s8k",
	/* mixed */
	"2q512s8k_30q1s16k", "q1k_64q1s2k", "8q128s2k_100q1s1k"
};

int bench_llama(struct scenario *s, const char *text)
{
	char error[160];
	*s = (struct scenario){ .model = "llama3.1-8b@1",
				.set = "bounds",
				.split = "bounds",
				.batch = batch_parse(text, error, sizeof error),
				.shape = { .size = sizeof(attune_shape),
					   .num_query_heads = 32,
					   .num_kv_heads = 8,
					   .head_size = 128,
					   .page_size = 16,
					   .dtype = ATTUNE_BF16,
					   .kv_dtype = ATTUNE_BF16,
					   .causal = 1 },
				.seed = 1 };
	s->batch_text = s->batch ? batch_format(&s->batch->view) : NULL;
	return s->batch_text != NULL;
}

int bench_list_bounds(struct wishes *w, int limit)
{
	const int n = limit && limit < (int)COUNT(batches) ? limit : (int)COUNT(batches);
	for (int i = 0; i < n && !w->failed; i++) {
		struct scenario s;
		w->failed |= !bench_llama(&s, batches[i]);
		wish_batch(w, &s, -1);
		for (size_t k = 0; k < COUNT(ways); k++) {
			w->policy = ways[k].policy;
			wish(w, library_wish(ways[k].bounds));
		}
	}
	if (w->failed)
		complain("out of memory");
	return !w->failed;
}
