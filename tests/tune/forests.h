/* SPDX-License-Identifier: Apache-2.0 */
/* forests.h - forests written by hand. */
#ifndef TESTS_TUNE_FORESTS_H
#define TESTS_TUNE_FORESTS_H

#include "tests/support/synthetic.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/store/store.h"
#include "harness/sweep/sweep.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/remeasure/requests.h"
#include "tuner/tree/tree.h"
#include "tuner/data/filling.h"
#include "tuner/transfer/gate.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "tests/support/by_hand.h"

/* ---- forests by hand -------------------------------------------------------------------- */
/* All leaves; ids are of `kernels`. */
struct rules {
	const char *kernels[4][2];
	int prefill, decode, overlap;
};

static void make_forest(struct forest *f, const struct rules *s)
{
	const int action[NUM_DECISIONS] = { s->prefill, s->decode, s->overlap, SAYS_OWN };
	assert_true(forest_defaults(f, "h200"));
	for (int t = 0; t < NUM_DECISIONS; t++)
		f->tree[t].v[0].action = action[t];
	for (; f->num_choices < 4 && s->kernels[f->num_choices][0]; f->num_choices++) {
		struct choice *c = &f->choice[f->num_choices];
		const char *const *k = s->kernels[f->num_choices];
		const char *where;
		char text[MAX_CHOICE_TEXT];
		snprintf(text, sizeof text, "%s", with(k[0], k[1]));
		c->kernel = kernel_find(BACKEND_GPU, k[0]);
		assert_true(config_parse(&c->config, c->kernel->space, text, &where));
	}
}

#define SMALL "BLOCK_M=32 TILE_SIZE=64 NUM_WARPS=2"
#define LARGE "BLOCK_M=64 TILE_SIZE=64"
#define SPLIT_2 "BLOCK_M=16 TILE_SIZE=64 SEGMENTS=2"
#define SPLIT_8 "BLOCK_M=16 TILE_SIZE=64 SEGMENTS=8"

static const struct rules old_rules = { { { "qblock", SMALL }, { "segmented", SPLIT_2 } },
					0,
					1,
					SAYS_SERIAL },
			  new_rules = { { { "segmented", SPLIT_8 },
					  { "qblock", LARGE },
					  { "segmented", SPLIT_2 },
					  { "warpgroup_mixed", "" } },
					1,
					0,
					3 };

#endif
