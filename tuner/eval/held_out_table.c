/* SPDX-License-Identifier: Apache-2.0 */
/* held_out_table.c - scores the installed rules, the previous ones and the kernels' defaults on
 * held-out scenarios with pass B times of all three. */
#include "eval.h"
#include "harness/base/base.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdlib.h>

static int pick_all(const struct data *d, const struct forest *installed,
		    const struct forest *before, struct pick *picks[NUM_CONTENDERS])
{
	const struct forest *forest[NUM_CONTENDERS] = {
		[INSTALLED] = installed, [BEFORE] = before
	};
	for (int c = 0; c < NUM_CONTENDERS; c++) {
		picks[c] = calloc((size_t)d->n + 1, sizeof **picks);
		if (!picks[c] || !policy_picks(d, c == DEFAULTS ? POLICY_DEFAULT : POLICY_TREE,
					       forest[c], picks[c]))
			return 0;
	}
	return 1;
}

static void add_scenario(struct held_out *h, const struct data *d, int s,
			 struct pick *const picks[NUM_CONTENDERS])
{
	const double best = data_oracle(d, s);
	double ratio[NUM_CONTENDERS];
	for (int c = 0; c < NUM_CONTENDERS; c++) {
		ratio[c] = data_plan_time(d, s, &picks[c][s]) / best;
		if (!isfinite(ratio[c]))
			return;
	}
	for (int c = 0; c < NUM_CONTENDERS; c++)
		h->slowdown[c] += log(ratio[c]);
	h->n++;
	if (ratio[INSTALLED] > h->worst) {
		h->worst = ratio[INSTALLED];
		h->worst_at = s;
	}
}

int held_out_judge(struct data *d, const struct forest *installed, const struct forest *before,
		   struct held_out *h)
{
	struct pick *picks[NUM_CONTENDERS] = { NULL };
	const int done = pick_all(d, installed, before, picks);
	*h = (struct held_out){ .worst_at = -1 };
	d->pass = PASS_B;
	for (int s = 0; done && s < d->n; s++)
		if (in_split(&d->v[s], "heldout") && data_has_second_pass(d, s))
			add_scenario(h, d, s, picks);
	for (int c = 0; c < NUM_CONTENDERS; c++) {
		h->slowdown[c] = h->n ? exp(h->slowdown[c] / h->n) : NAN;
		free(picks[c]);
	}
	if (!done)
		complain("out of memory");
	return done;
}
