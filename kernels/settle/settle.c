/* settle.c - attune_settle: races the few plans of a batch and keeps what was fastest.
 *
 *   one phase   the members                                              1 race
 *   mixed       the prefills' members, alone  \  by their winners: the   4 races
 *               the decodes' members, alone   /  ways to run both; then
 *                                                the fastest way with one part changed */
#include "alternatives.h"
#include "look.h"
#include "members.h"
#include "race.h"
#include "stage.h"
#include "table.h"
#include "kernels/api/plan.h"
#include "kernels/launch/run.h"
#include "kernels/spec/choice.h"
#include "kernels/spec/sized.h"
#include "kernels/spec/status.h"
#include <pthread.h>
#include <stdlib.h>

static const char call[] = "attune_settle";
static const double usual_ms = 20;

enum { MOST_LAYERS = 1 << 16, MOST_ENTRIES = 3 };

struct job {
	const attune_op *op;
	const attune_settle_how *how;
	const attune_tensors *layers;
	char *workspace;
	size_t bytes;
	double begin, most; /* seconds */
	int num_entries;
	struct settled_entry entry[MOST_ENTRIES];
};

/* The sequences of one phase as a batch of their own. */
struct own_batch {
	attune_batch view;
	int32_t *starts, *lens; /* one block of memory */
};

static enum attune_status own_batch_make(struct own_batch *b, const attune_batch *of,
					 enum phase phase)
{
	const size_t room = (size_t)of->num_seqs + 1;
	int n = 0;
	*b = (struct own_batch){ .starts = calloc(2 * room, sizeof *b->starts) };
	if (!b->starts)
		return fail(ATTUNE_NO_MEMORY, "%s: no memory for %d lengths", call, of->num_seqs);
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

/* ---- sizes ----------------------------------------------------------------------------------- */

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* The largest workspace of the plans of a batch of one phase. */
static size_t members_workspace(const struct alternatives *a)
{
	size_t most = 0;
	for (int i = 0; i < a->n; i++)
		most = larger(most, a->plan[i].workspace);
	return most;
}

/* The largest workspace of the plans that a mixed batch may come to: with any members of both
 * parts, in any way; or with what the rules have beside a decode, which may be no member. */
static size_t mixed_workspace(const struct alternatives *a)
{
	static const int ways[] = { WAY_SERIES,        WAY_SPARING16,  WAY_SPARING16 + 1,
				    WAY_SPARING16 + 3, WAY_ONE_LAUNCH, WAY_FUSED };
	const attune_plan *rules = &a->plan[0];
	size_t part[2] = { 0, 0 }, most = rules->workspace;
	int member[2][MAX_MEMBERS];
	const int n[] = {
		part_members(a->op, a->parts.choice[0], &a->parts.part[0], member[0]),
		part_members(a->op, a->parts.choice[1], &a->parts.part[1], member[1]),
	};
	for (int k = 0; k < 2 && rules->num_parts == 2; k++)
		part[k] = rules->part[k].workspace;
	for (int i = 0; i < n[0] + n[1]; i++)
		for (size_t w = 0; w < COUNT(ways); w++) {
			const int of = i >= n[0];
			attune_plan plan;
			struct instead in = { answer_of_way(a->op, ways[w], &a->whole),
					      { -1, -1 } };
			in.id[of] = of ? member[1][i - n[0]] : member[0][i];
			if (in.overlap == AS_RULES || plan_instead(a->op, a->batch, &in, &plan))
				continue;
			most = larger(most, plan.workspace);
			for (int k = 0; k < 2 && plan.num_parts == 2; k++)
				part[k] = larger(part[k], plan.part[k].workspace);
		}
	return larger(most, parts_workspace(ATTUNE_STREAMS, part, 2, NULL));
}

/* What one batch takes, without those of its parts alone. */
static enum attune_status size_of(const attune_op *op, const attune_batch *batch,
				  const attune_settle_how *how, size_t *bytes)
{
	struct alternatives a;
	struct stage s;
	const enum attune_status status = alternatives_start(&a, op, batch);
	if (status)
		return status;
	stage_layout(&s, op, batch, how);
	alternatives_add_members(&a);
	size_t run = a.is_mixed ? mixed_workspace(&a) : members_workspace(&a);
	if (stage_call_bytes(&s) < (double)s.flush)
		run = larger(run, s.flush);
	*bytes = s.run_at + run;
	return ATTUNE_OK;
}

static enum attune_status size_of_all(const attune_op *op, const attune_batch *batch,
				      const attune_settle_how *how, size_t *bytes)
{
	enum attune_status status = size_of(op, batch, how, bytes);
	for (enum phase phase = PHASE_PREFILL; !status && phase <= PHASE_DECODE; phase++) {
		struct own_batch part;
		size_t of_part = 0;
		status = own_batch_make(&part, batch, phase);
		if (!status && part.view.num_seqs)
			status = size_of(op, &part.view, how, &of_part);
		*bytes = larger(*bytes, of_part);
		free(part.starts);
	}
	return status;
}

static const attune_settle_how *how_of(const attune_settle_how *how, attune_settle_how *own,
				       const char *by)
{
	how = settle_how_read(how, own, by);
	const char *error = !how ? NULL
			    : how->num_layers < 1 || how->num_layers > MOST_LAYERS
				? "num_layers must be 1 to 65536"
			    : how->num_pages < 1 ? "num_pages must be 1 or more"
			    : !(how->most_ms >= 0 && how->most_ms <= 1e9)
				? "most_ms must be a number from 0 to 10^9"
			    : how->unused ? "unused must be 0"
					  : NULL;
	if (error)
		fail(ATTUNE_INVALID, "%s: %s", by, error);
	return error ? NULL : how;
}

enum attune_status attune_settle_sizes(const attune_op *op, const attune_batch *batch,
				       const attune_settle_how *how, size_t *bytes)
{
	static const char sizes[] = "attune_settle_sizes";
	attune_settle_how own_how;
	attune_batch own_batch;
	enum attune_status status;
	if (!op || !batch || !how || !bytes)
		return fail(ATTUNE_INVALID, "%s: an argument is NULL", sizes);
	batch = settle_batch(op, batch, &own_batch, sizes, &status);
	if (batch)
		how = how_of(how, &own_how, sizes);
	if (!batch || !how)
		return batch ? ATTUNE_INVALID : status;
	return size_of_all(op, batch, how, bytes);
}

/* ---- races ----------------------------------------------------------------------------------- */

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

/* Settles a batch of one phase. best: ids of the winner and of the fastest of the others. */
static enum attune_status settle_members(struct job *job, const attune_batch *batch, double share,
					 int best[2])
{
	struct alternatives a;
	struct stage s;
	struct race r;
	int second = -1;
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
	for (int i = 0; i < a.n && r.rounds; i++)
		if (i != r.winner && (second < 0 || r.us[i] < r.us[second]))
			second = i;
	best[0] = a.plan[r.winner].part[0].choice;
	best[1] = second < 0 ? -1 : a.plan[second].part[0].choice;
	keep(job, &a, &r);
	return ATTUNE_OK;
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

static enum attune_status settle_mixed(struct job *job, const attune_batch *batch, int best[2][2])
{
	struct alternatives a;
	struct stage s;
	struct race r;
	const int id[] = { best[0][0], best[1][0] };
	enum attune_status status = alternatives_start(&a, job->op, batch);
	if (status || !a.is_mixed)
		return status;
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
	int best[2][2] = { { -1, -1 }, { -1, -1 } };
	enum attune_status status = own_batch_make(&part[0], batch, PHASE_PREFILL);
	if (!status)
		status = own_batch_make(&part[1], batch, PHASE_DECODE);
	if (status)
		return status;
	const int mixed = part[0].view.num_seqs && part[1].view.num_seqs;
	if (!mixed)
		return settle_members(job, batch, 1, best[0]);
	status = settle_members(job, &part[0].view, 0.25, best[0]);
	if (!status)
		status = settle_members(job, &part[1].view, 0.5, best[1]);
	return status ? status : settle_mixed(job, batch, best);
}

/* Nothing is kept before all races are over. */
static enum attune_status settle(struct job *job, const attune_batch *batch)
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

/* ---- attune_settle --------------------------------------------------------------------------- */

/* Races disturb each other, and share the stream and the events of a device. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static enum attune_status workspace_error(const struct job *job, const attune_batch *batch)
{
	size_t need;
	const enum attune_status status = size_of_all(job->op, batch, job->how, &need);
	if (status)
		return status;
	if (!job->workspace || job->bytes < need)
		return fail(ATTUNE_TOO_SMALL, "%s: workspace has %zu bytes, %zu are needed", call,
			    job->workspace ? job->bytes : 0, need);
	return (uintptr_t)job->workspace % 16
		   ? fail(ATTUNE_INVALID, "%s: workspace must be 16-byte aligned", call)
		   : ATTUNE_OK;
}

enum attune_status attune_settle(const attune_op *op, const attune_batch *batch,
				 const attune_tensors *layers, const attune_settle_how *how,
				 void *workspace, size_t bytes, void *stream, double *ms)
{
	const double begin = settle_clock();
	attune_settle_how own_how;
	attune_batch own_batch;
	enum attune_status status;
	if (!op || !batch || !layers || !how)
		return fail(ATTUNE_INVALID, "%s: an argument is NULL", call);
	batch = settle_batch(op, batch, &own_batch, call, &status);
	if (batch)
		how = how_of(how, &own_how, call);
	if (!batch || !how)
		return batch ? ATTUNE_INVALID : status;
	struct device *dev = &op->ctx->device;
	if (dev->ops->capturing(dev, stream))
		return fail(ATTUNE_UNSUPPORTED, "%s: the stream is being captured", call);
	struct job job = { .op = op,
			   .how = how,
			   .layers = layers,
			   .workspace = workspace,
			   .bytes = bytes,
			   .most = (how->most_ms > 0 ? how->most_ms : usual_ms) / 1e3 };
	status = workspace_error(&job, batch);
	if (status)
		return status;
	pthread_mutex_lock(&one_at_a_time);
	job.begin = settle_clock();
	status = dev->ops->wait(dev, stream);
	if (!status)
		status = settle(&job, batch);
	pthread_mutex_unlock(&one_at_a_time);
	if (ms)
		*ms = (settle_clock() - begin) * 1e3;
	return status;
}
