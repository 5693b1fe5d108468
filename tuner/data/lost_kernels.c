/* SPDX-License-Identifier: Apache-2.0 */
/* lost_kernels.c - detects that a scenario's fastest kernel has only stale rows, because its source
 * was edited. Trees must not learn from the rest: it would name the wrong kernel. Keeps each kernel's
 * least fresh and least stale time per part. */
#include "data.h"
#include "filling.h"
#include "harness/base/base.h"
#include "harness/store/store.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

void lost_note(struct lost *l, const struct store_cell *c)
{
	const int phase = phase_named(c->phase);
	int i = 0;
	if (phase < 0 || phase == PHASE_PLAN || c->pass != 'A' ||
	    strcmp(c->outcome, outcome_name(OUTCOME_OK)))
		return;
	struct kernel_least *v = l->least[phase];
	while (i < l->kernels[phase] && strcmp(v[i].kernel, c->kernel))
		i++;
	if (i == MAX_KERNELS)
		return;
	if (i == l->kernels[phase]) {
		v[l->kernels[phase]++] =
		    (struct kernel_least){ .fresh = INFINITY, .stale = INFINITY };
		snprintf(v[i].kernel, sizeof v[i].kernel, "%s", c->kernel);
	}
	double *least = c->today == STALE ? &v[i].stale : &v[i].fresh;
	*least = fmin(*least, c->median_us);
}

/* Whether the part's fastest kernel has no fresh time. */
static int best_is_lost(const struct kernel_least *v, int n)
{
	double best = INFINITY;
	int lost = 0;
	for (int i = 0; i < n; i++) {
		const double least = fmin(v[i].fresh, v[i].stale);
		if (least < best) {
			best = least;
			lost = isinf(v[i].fresh);
		}
	}
	return lost;
}

int lost_end(struct lost *l)
{
	int lost = 0;
	for (int phase = 0; phase < NUM_PHASES; phase++) {
		lost |= best_is_lost(l->least[phase], l->kernels[phase]);
		l->kernels[phase] = 0;
	}
	return lost;
}
