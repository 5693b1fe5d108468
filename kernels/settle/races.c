/* races.c - which plans of a batch race when it is settled, and what the races come to.
 *
 *   one phase   the members                                              1 race
 *   mixed       the prefills' members, alone  \  by their winners: the   4 races
 *               the decodes' members, alone   /  ways to run both; then
 *                                                the fastest way with one part changed */
#include "races.h"
#include "alternatives.h"
#include "members.h"
#include "race.h"
#include "stage.h"
#include "table.h"
#include "kernels/api/plan.h"
#include "kernels/spec/status.h"
#include <stdlib.h>

enum attune_status own_batch_make(struct own_batch *b, const attune_batch *of, enum phase phase)
{
	const size_t room = (size_t)of->num_seqs + 1;
	int n = 0;
	*b = (struct own_batch){ .starts = calloc(2 * room, sizeof *b->starts) };
	if (!b->starts)
		return fail(ATTUNE_NO_MEMORY, "attune_settle: no memory for %d lengths",
			    of->num_seqs);
	b->lens = b->starts + room;
	for (int i = 0; i < of->num_seqs; i++) {
		const int query = of->query_start[i + 1] - of->query_start[i];
		if (seq_phase(query) != phase)
			continue;
		b->starts[n + 1] = b->starts[n] + query;
		b->lens[n++] = of->seq_lens[i];
	}
	b->view = (attune_batch){ sizeof b->view, n, b->starts, b->lens };
	return ATTUNE_OK;
}

static void set_stage(struct stage *s, const struct job *job, const attune_batch *batch)
{
	stage_layout(s, job->op, batch, job->how);
	s->layers = (const char *)job->layers;
	s->layer_size = job->layers->size;
	s->workspace = job->workspace;
	s->bytes = job->bytes;
}

/* Races plans up to a share of the whole time. */
static enum attune_status race_for(struct race *r, const struct job *job, const struct stage *s,
				   const struct alternatives *a, double share)
{
	*r = (struct race){
		.stage = s, .until = job->begin + share * job->most, .n = a->n, .plan = a->plan
	};
	return a->n > 1 ? settle_race(r) : ATTUNE_OK;
}

/* What a race came to, if it came to an end. */
static void keep(struct job *job, const struct alternatives *a, const struct race *r)
{
	if (!r->rounds)
		return;
	struct settled_entry *e = &job->entry[job->num_entries++];
	*e = (struct settled_entry){ .batch = a->batch,
				     .num = a->n,
				     .again_us = r->again,
				     .winner = r->winner,
				     .rounds = r->rounds };
	for (int i = 0; i < a->n; i++) {
		e->plan[i] = a->of[i];
		e->plan[i].us = r->us[i];
	}
}

/* Choices of a part that raced, the winner first, then the faster ones first. */
struct ranking {
	int n, id[MAX_MEMBERS];
};

static int is_before(const struct race *r, int a, int b)
{
	return a == r->winner || (b != r->winner && r->us[a] < r->us[b]);
}

static void rank(struct ranking *k, const struct alternatives *a, const struct race *r)
{
	int place[MAX_MEMBERS];
	for (k->n = 0; k->n < a->n && k->n < MAX_MEMBERS && r->rounds; k->n++) {
		int at = k->n;
		for (; at && is_before(r, k->n, place[at - 1]); at--)
			place[at] = place[at - 1];
		place[at] = k->n;
	}
	for (int i = 0; i < k->n; i++)
		k->id[i] = a->plan[place[i]].part[0].choice;
}

/* Settles a batch of one phase. */
static enum attune_status settle_members(struct job *job, const attune_batch *batch, double share,
					 struct ranking *best)
{
	struct alternatives a;
	struct stage s;
	struct race r;
	enum attune_status status = alternatives_start(&a, job->op, batch);
	if (status || !a.parts.num_parts)
		return status;
	alternatives_add_members(&a);
	set_stage(&s, job, batch);
	status = stage_fill(&s);
	if (!status)
		status = race_for(&r, job, &s, &a, share);
	if (status)
		return status;
	rank(best, &a, &r);
	keep(job, &a, &r);
	return ATTUNE_OK;
}

/* For each part the choice that the ways are run with, and another one: the fastest alone that is a
 * member beside the other part too, and what the rules run there, else the next of these. -1: there
 * is no other one. */
static enum attune_status best_of(const struct alternatives *a, const struct ranking rank[2],
				  int best[2][2])
{
	static const struct instead serial = { SAYS_SERIAL, { -1, -1 } };
	attune_plan rules;
	const enum attune_status status = plan_instead(a->op, a->batch, &serial, &rules);
	for (int i = 0; i < 2 && !status; i++) {
		const struct part *p = &a->parts.part[i];
		const int named = a->parts.choice[i], own = rules.part[i].choice;
		int place[2] = { -1, -1 }, n = 0;
		for (int k = 0; k <= rank[i].n && n < 2; k++) {
			const int id = k < rank[i].n ? rank[i].id[k] : own;
			const int at = member_place(a->op, named, p, id);
			if (at >= 0 && at != place[0])
				place[n++] = at;
		}
		const int by_rules = member_place(a->op, named, p, own);
		if (place[0] != by_rules)
			place[1] = by_rules;
		for (int k = 0; k < 2; k++)
			best[i][k] = place[k] < 0 ? -1 : member_at(a->op, named, p, place[k]);
	}
	return status;
}

/* One step from the winner: its way with the other choice of a part. The entry gets the times of
 * both races, as shares of the first's in its own race. */
static enum attune_status settle_swaps(struct job *job, const struct stage *s,
				       const struct alternatives *ways, const struct race *by_ways,
				       int best[2][2])
{
	const struct settled_plan base = ways->of[by_ways->winner];
	struct settled_entry *e = &job->entry[job->num_entries - 1];
	struct alternatives a;
	struct race r;
	enum attune_status status = alternatives_start(&a, job->op, ways->batch);
	if (status)
		return status;
	if (by_ways->winner)
		alternatives_add(&a, base.way, base.id);
	const int from = a.n;
	for (int i = 0; i < 2; i++) {
		const int id[2] = { best[0][i == 0], best[1][i == 1] };
		if (best[i][1] >= 0 && base.way != WAY_FUSED)
			alternatives_add(&a, base.way, id);
	}
	status = a.n > from ? race_for(&r, job, s, &a, 1) : ATTUNE_OK;
	if (status || a.n == from || !r.rounds)
		return status;
	const double scale = by_ways->us[0] / r.us[0];
	for (int i = from; i < a.n && e->num < ATTUNE_MOST_ALTERNATIVES; i++) {
		if (alternatives_find(ways, &a.plan[i]) >= 0)
			continue;
		e->plan[e->num] = a.of[i];
		e->plan[e->num].us = r.us[i] * scale;
		if (r.winner == i)
			e->winner = e->num;
		e->num++;
	}
	if (r.winner < from)
		e->winner = r.winner ? by_ways->winner : 0;
	e->rounds += r.rounds;
	return ATTUNE_OK;
}

static enum attune_status settle_mixed(struct job *job, const attune_batch *batch,
				       const struct ranking rank[2])
{
	struct alternatives a;
	struct stage s;
	struct race r;
	int best[2][2];
	enum attune_status status = alternatives_start(&a, job->op, batch);
	if (!status && a.is_mixed)
		status = best_of(&a, rank, best);
	if (status || !a.is_mixed)
		return status;
	const int id[] = { best[0][0], best[1][0] };
	alternatives_add_ways(&a, id);
	set_stage(&s, job, batch);
	status = stage_fill(&s);
	if (!status)
		status = race_for(&r, job, &s, &a, 0.85);
	if (status)
		return status;
	const int before = job->num_entries;
	keep(job, &a, &r);
	return job->num_entries == before ? ATTUNE_OK : settle_swaps(job, &s, &a, &r, best);
}

/* A batch of both phases first as two of their own. */
static enum attune_status settle_all(struct job *job, const attune_batch *batch,
				     struct own_batch part[2])
{
	struct ranking best[2] = { { .n = 0 }, { .n = 0 } };
	enum attune_status status = own_batch_make(&part[0], batch, PHASE_PREFILL);
	if (!status)
		status = own_batch_make(&part[1], batch, PHASE_DECODE);
	if (status)
		return status;
	const int mixed = part[0].view.num_seqs && part[1].view.num_seqs;
	if (!mixed)
		return settle_members(job, batch, 1, &best[0]);
	status = settle_members(job, &part[0].view, 0.25, &best[0]);
	if (!status)
		status = settle_members(job, &part[1].view, 0.5, &best[1]);
	return status ? status : settle_mixed(job, batch, best);
}

/* Nothing is kept before all races are over. */
enum attune_status settle_job(struct job *job, const attune_batch *batch)
{
	struct own_batch part[2] = { { .starts = NULL }, { .starts = NULL } };
	struct stage s;
	set_stage(&s, job, batch);
	enum attune_status status = stage_check(&s);
	if (!status)
		status = settle_all(job, batch, part);
	for (int i = 0; i < job->num_entries && !status; i++)
		status = settled_add(job->op, &job->entry[i]);
	free(part[0].starts);
	free(part[1].starts);
	return status;
}
