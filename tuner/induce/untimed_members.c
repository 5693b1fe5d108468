/* SPDX-License-Identifier: Apache-2.0 */
/* untimed_members.c - which members of the rows rest on estimates alone. */
#include "induce.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include <math.h>

static int is_timed(const struct data *d, int scenario, enum phase phase, const struct choice *c)
{
	const int choice = data_find(d, c);
	return choice >= 0 && isfinite(data_part_time(d, scenario, phase, choice));
}

/* What a scenario shows of a row's members, one bit each: which run, as those before cannot; which of
 * these have a time; which have one beside a first that runs. */
struct shown {
	unsigned runs, timed, raced;
};

static void look(const struct data *d, const struct forest *f, const struct attune_list *row,
		 enum phase phase, int scenario, struct shown *x)
{
	int first_runs = 0;
	for (int i = 0, runs = 0; i < row->n; i++) {
		struct choice c;
		if (!action_choice(d, f, phase, row->at[i], &d->v[scenario], &c))
			continue;
		const unsigned bit = is_timed(d, scenario, phase, &c) ? 1u << i : 0;
		first_runs |= !i;
		x->raced |= first_runs ? bit : 0;
		x->timed |= runs ? 0 : bit;
		x->runs |= runs ? 0 : 1u << i;
		runs = 1;
	}
}

/* A member rests on times where it runs; one that runs nowhere, where the first runs. */
void rows_mark(struct forest *f, const struct data *d)
{
	struct shown shown[MAX_IDS] = { { 0 } };
	for (enum decision t = DECIDE_PREFILL; t <= DECIDE_DECODE; t++) {
		const enum phase phase = decision_phase(t);
		for (int s = 0; s < d->n; s++) {
			const struct measured *m = &d->v[s];
			if (!data_is_training(m) || !m->has[phase])
				continue;
			const struct tree *tree = &f->tree[t];
			const int id = tree->v[tree_leaf(tree, &m->part[phase].f)].action;
			if (id >= 0)
				look(d, f, &f->list[id], phase, s, &shown[id]);
		}
	}
	for (int id = 0; id < f->num_choices; id++) {
		const struct shown *x = &shown[id];
		const unsigned members = (1u << f->list[id].n) - 1;
		const unsigned on_times = x->timed | (x->raced & ~x->runs);
		f->by_estimate[id] = (unsigned char)(members & ~on_times & ~1u);
	}
}
