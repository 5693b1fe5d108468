/* lost_kernels.c - keeps each kernel's least fresh and least stale time per part; see
 * lost_kernels.h. */
#include "data.h"
#include "lost_kernels.h"
#include "harness/base/base.h"
#include "harness/store/store.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

void lost_note(struct lost *l, const struct store_cell *c)
{
	int phase = 0, i = 0;
	while (phase < NUM_PHASES && strcmp(c->phase, phase_name(phase)))
		phase++;
	if (phase == NUM_PHASES || c->pass != 'A' || strcmp(c->outcome, outcome_name(OUTCOME_OK)))
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
