/* SPDX-License-Identifier: Apache-2.0 */
/* races.c - which plans of a batch race when it is settled, and what the races come to.
 *
 *   one phase   the members; the fastest of them with other numbers of      1 to 3 races
 *               segments; the fastest of these, and one step further,
 *               against the first
 *   mixed       the prefills alone, the decodes alone; by their winners     3 more
 *               the ways to run both; the fastest way with one part
 *               changed; the fastest of these against the first
 *
 * Where the time does not suffice for the next race, the one before decides. */
#include "races.h"
#include "alternatives.h"
#include "members.h"
#include "race.h"
#include "stage.h"
#include "table.h"
#include "kernels/api/plan.h"
#include "kernels/spec/status.h"
#include <stdlib.h>
#include <string.h>

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

/* ---- the races of one batch ------------------------------------------------------------------ */

static const double slow_member = 1.3, slow_way = 2; /* times the first's time in one call: out */
static const double step_gain = 0.005; /* what a step must gain: equals stay as they are */

struct course {
	struct stage stage;
	struct alternatives a;
	double until;                           /* seconds of settle_clock() */
	double ratio[ATTUNE_MOST_ALTERNATIVES]; /* to the first's time; 0: not timed */
	double first_us, again_us;
	int fastest, winner, rounds; /* of the last race that came to an end; rounds 0: none did */
};

/* until: a share of the call's time. */
static enum attune_status course_start(struct course *c, const struct job *job,
				       const attune_batch *batch, double until)
{
	c->until = job->begin + until * job->most;
	c->fastest = c->winner = c->rounds = 0;
	memset(c->ratio, 0, sizeof c->ratio);
	set_stage(&c->stage, job, batch);
	const enum attune_status status = alternatives_start(&c->a, job->op, batch);
	return status || !c->a.parts.num_parts ? status : stage_fill(&c->stage);
}

struct entrants {
	int n, at[ATTUNE_MOST_ALTERNATIVES]; /* of the alternatives; the first is the first */
};

static void enter(struct entrants *e, int at)
{
	int stands = at < 0;
	for (int i = 0; i < e->n; i++)
		stands |= e->at[i] == at;
	if (!stands)
		e->at[e->n++] = at;
}

/* Races the entrants with samples for a share of the time that is left. A race that
 * gives up leaves the course as it was. */
static enum attune_status race(struct course *c, const struct entrants *e, double slow,
			       double share, int is_last)
{
	struct race r = { .stage = &c->stage, .until = c->until, .slow = slow, .is_last = is_last };
	const double now = settle_clock();
	r.soon = now + share * (c->until - now);
	r.n = e->n;
	for (int i = 0; i < e->n; i++)
		r.plan[i] = &c->a.plan[e->at[i]];
	const enum attune_status status = e->n > 1 ? settle_race(&r) : ATTUNE_OK;
	if (status || !r.rounds)
		return status;
	for (int i = 0; i < r.n; i++)
		c->ratio[e->at[i]] = r.us[i] / r.us[0];
	c->first_us = r.us[0];
	c->again_us = r.again;
	c->rounds = r.rounds;
	c->fastest = e->at[r.fastest];
	c->winner = e->at[r.winner];
	return status;
}

/* What the races came to, if one of them came to an end. */
static void keep(struct job *job, const struct course *c)
{
	if (!c->rounds)
		return;
	struct settled_entry *e = &job->entry[job->num_entries++];
	*e = (struct settled_entry){ .batch = c->a.batch,
				     .again_us = c->again_us,
				     .rounds = c->rounds };
	for (int i = 0; i < c->a.n; i++) {
		if (!(c->ratio[i] > 0))
			continue;
		if (i == c->winner)
			e->winner = e->num;
		e->plan[e->num] = c->a.of[i];
		e->plan[e->num++].us = c->first_us * c->ratio[i];
	}
}

/* ---- one phase ------------------------------------------------------------------------------- */

/* The fastest so far with the next lower and the next higher number of segments. Returns in *more
 * which of them is faster by enough; 0: neither. */
static enum attune_status race_steps(struct course *c, int *more)
{
	const int from = c->fastest;
	const int lower = alternatives_add_step(&c->a, from, -1);
	const int higher = alternatives_add_step(&c->a, from, 1);
	struct entrants e = { .n = 1 };
	*more = 0;
	enter(&e, from);
	enter(&e, lower);
	enter(&e, higher);
	const enum attune_status status =
	    lower < 0 && higher < 0 ? ATTUNE_OK : race(c, &e, slow_member, 0.4, 0);
	const double enough = (from ? c->ratio[from] : 1) - step_gain;
	if (!status && c->fastest != from && c->ratio[c->fastest] < enough)
		*more = c->fastest == lower ? -1 : 1;
	else if (!status)
		c->fastest = from;
	return status;
}

static enum attune_status race_members(struct course *c)
{
	struct entrants all = { .n = 0 }, last = { .n = 1 };
	enum attune_status status;
	int more = 0;
	alternatives_add_members(&c->a);
	for (int i = 0; i < c->a.n; i++)
		enter(&all, i);
	status = race(c, &all, slow_member, 0.4, 0);
	if (status || (all.n > 1 && !c->rounds))
		return status;
	status = race_steps(c, &more);
	if (status || !c->fastest)
		return status;
	enter(&last, c->fastest);
	if (more)
		enter(&last, alternatives_add_step(&c->a, c->fastest, more));
	return race(c, &last, slow_member, 1, 1);
}

/* Choices of a part that raced, with their steps: the winner first, then the faster ones first. */
struct ranking {
	int n, id[ATTUNE_MOST_ALTERNATIVES], step[ATTUNE_MOST_ALTERNATIVES];
};

static int is_before(const struct course *c, int a, int b)
{
	return a == c->winner || (b != c->winner && c->ratio[a] < c->ratio[b]);
}

static void rank(struct ranking *k, const struct course *c, int is_decodes)
{
	int place[ATTUNE_MOST_ALTERNATIVES];
	k->n = 0;
	for (int i = 0; i < c->a.n; i++) {
		int at = k->n;
		if (!(c->ratio[i] > 0))
			continue;
		for (; at && is_before(c, i, place[at - 1]); at--)
			place[at] = place[at - 1];
		place[at] = i;
		k->n++;
	}
	for (int i = 0; i < k->n; i++) {
		k->id[i] = c->a.plan[place[i]].part[0].choice;
		k->step[i] = c->a.of[place[i]].step[is_decodes];
	}
}

/* Settles a batch of one phase. */
static enum attune_status settle_part(struct job *job, struct course *c, const attune_batch *batch,
				      double until, int is_decodes, struct ranking *best)
{
	enum attune_status status = course_start(c, job, batch, until);
	if (!status && c->a.parts.num_parts)
		status = race_members(c);
	if (status)
		return status;
	rank(best, c, is_decodes);
	keep(job, c);
	return ATTUNE_OK;
}

/* ---- both phases ----------------------------------------------------------------------------- */

/* Parts that ways to run both are raced with. */
struct pairs {
	/* of each part the fastest alone that is a member beside the other, too; the next of these */
	struct settled_plan alone, next;
	struct settled_plan rules; /* what the rules run */
};

static int same_name(const attune_op *op, int a, int b)
{
	return op->ready[a].name == op->ready[b].name;
}

static enum attune_status find_pairs(const struct alternatives *a, const struct ranking rank[2],
				     struct pairs *p)
{
	static const struct instead serial = { SAYS_SERIAL, { -1, -1 }, { 0, 0 } };
	attune_plan rules;
	const enum attune_status status = plan_instead(a->op, a->batch, &serial, &rules);
	*p = (struct pairs){ .rules = { .id = { -1, -1 } } };
	for (int i = 0; i < 2 && !status; i++) {
		int n = 0;
		p->rules.id[i] = p->alone.id[i] = p->next.id[i] = rules.part[i].choice;
		for (int k = 0; k < rank[i].n && n < 2; k++) {
			struct settled_plan *to = n ? &p->next : &p->alone;
			const int id = rank[i].id[k];
			if (member_place(a->op, a->parts.choice[i], &a->parts.part[i], id) < 0 ||
			    (n && same_name(a->op, id, p->alone.id[i])))
				continue;
			to->id[i] = id;
			to->step[i] = rank[i].step[k];
			n++;
		}
	}
	return status;
}

/* The fastest way with one part by another choice. */
static enum attune_status race_swaps(struct course *c, const struct pairs *p)
{
	const struct settled_plan *const others[] = { &p->alone, &p->next, &p->rules };
	const struct settled_plan from = c->a.of[c->fastest];
	struct entrants e = { .n = 1 };
	enter(&e, c->fastest);
	for (int i = 0; i < 2; i++)
		for (size_t k = 0; k < COUNT(others) && from.way != WAY_FUSED; k++) {
			struct settled_plan other = from;
			other.id[i] = others[k]->id[i];
			other.step[i] = others[k]->step[i];
			enter(&e, alternatives_add(&c->a, other));
		}
	return race(c, &e, slow_way, 0.4, 0);
}

/* What is the fastest alone need not be so beside the other part, or for all sequences in one
 * launch: the ways run with the rules' parts, too. */
static enum attune_status race_ways(struct course *c, const struct ranking rank[2])
{
	struct pairs p;
	struct entrants all = { .n = 0 }, last = { .n = 1 };
	enum attune_status status = find_pairs(&c->a, rank, &p);
	if (status)
		return status;
	alternatives_add_ways(&c->a, p.alone);
	alternatives_add_ways(&c->a, p.rules);
	for (int i = 0; i < c->a.n; i++)
		enter(&all, i);
	status = race(c, &all, slow_way, 0.5, 0);
	if (!status && c->rounds)
		status = race_swaps(c, &p);
	if (status || !c->fastest)
		return status;
	enter(&last, c->fastest);
	return race(c, &last, slow_way, 1, 1);
}

static enum attune_status settle_mixed(struct job *job, struct course *c, const attune_batch *batch,
				       const struct ranking rank[2])
{
	enum attune_status status = course_start(c, job, batch, 1);
	if (!status && c->a.is_mixed)
		status = race_ways(c, rank);
	if (!status && c->a.is_mixed)
		keep(job, c);
	return status;
}

/* A batch of both phases first as two of their own. */
static enum attune_status settle_all(struct job *job, struct course *c, const attune_batch *batch,
				     struct own_batch part[2])
{
	struct ranking best[2] = { { .n = 0 }, { .n = 0 } };
	enum attune_status status = own_batch_make(&part[0], batch, PHASE_PREFILL);
	if (!status)
		status = own_batch_make(&part[1], batch, PHASE_DECODE);
	if (status)
		return status;
	const int decodes = part[1].view.num_seqs > 0, mixed = decodes && part[0].view.num_seqs > 0;
	if (!mixed)
		return settle_part(job, c, batch, 1, decodes, &best[decodes]);
	status = settle_part(job, c, &part[0].view, 0.25, 0, &best[0]);
	if (!status)
		status = settle_part(job, c, &part[1].view, 0.5, 1, &best[1]);
	return status ? status : settle_mixed(job, c, batch, best);
}

/* Nothing is kept before all races are over. */
enum attune_status settle_job(struct job *job, const attune_batch *batch)
{
	struct own_batch part[2] = { { .starts = NULL }, { .starts = NULL } };
	struct course c;
	set_stage(&c.stage, job, batch);
	enum attune_status status = stage_check(&c.stage);
	if (!status)
		status = settle_all(job, &c, batch, part);
	for (int i = 0; i < job->num_entries && !status; i++)
		status = settled_add(job->op, &job->entry[i]);
	free(part[0].starts);
	free(part[1].starts);
	return status;
}
