/* SPDX-License-Identifier: Apache-2.0 */
/* members.c - what settling races, as wishes: `attune eval` lets pass A choose among these and pass B judge. */
#include "requests.h"
#include "tuner/data/data.h"
#include "tuner/policy/settled.h"

void wish_members(struct wishes *w, const struct data *d, const struct forest *f, int s)
{
	const struct measured *m = &d->v[s];
	struct decided plan[MOST_SETTLED];
	struct choice member[MOST_MEMBERS];
	int n = settle_plans(d, f, s, plan);
	for (int i = 0; i < n; i++)
		wish(w, made_wish(m, &plan[i]));
	for (int p = DECIDE_PREFILL; measured_is_mixed(m) && p <= DECIDE_DECODE; p++) {
		n = row_members(d, f, (enum decision)p, m, member);
		for (int i = 0; i < n; i++)
			wish(w, part_wish(p == DECIDE_PREFILL ? PHASE_PREFILL : PHASE_DECODE,
					  &member[i]));
	}
}

void wish_unraced_members(struct wishes *w, const struct data *d, const struct forest *f, int s)
{
	const int first = w->n;
	int missing = 0;
	wish_members(w, d, f, s);
	for (int i = first; i < w->n; i++) {
		missing += !wish_cell(d, PASS_A, s, &w->v[i]);
		w->v[i].again = 1;
	}
	w->n = missing ? w->n : first;
}
