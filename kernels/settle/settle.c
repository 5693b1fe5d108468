/* SPDX-License-Identifier: Apache-2.0 */
/* settle.c - attune_settle: what it takes and what it asks for. races.c has the races. */
#include "alternatives.h"
#include "look.h"
#include "members.h"
#include "race.h"
#include "races.h"
#include "stage.h"
#include "store.h"
#include "table.h"
#include "kernels/api/plan.h"
#include "kernels/launch/extra.h"
#include "kernels/launch/run.h"
#include "kernels/spec/choice.h"
#include "kernels/spec/sized.h"
#include "kernels/spec/status.h"
#include <stdlib.h>

static const char call[] = "attune_settle";

enum { MOST_LAYERS = 1 << 16 };

/* ---- sizes ----------------------------------------------------------------------------------- */

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* The largest workspace of the plans of a batch of one phase, with all steps. */
static size_t members_workspace(const struct alternatives *a)
{
	size_t most = 0;
	for (int i = 0; i < a->n; i++) {
		struct alternatives with = *a;
		most = larger(most, a->plan[i].workspace);
		for (int more = -MOST_STEPS; more <= MOST_STEPS; more++) {
			const int at = alternatives_add_step(&with, i, more);
			most = larger(most, at < 0 ? 0 : with.plan[at].workspace);
		}
	}
	return most;
}

/* The workspace of a way to run a mixed batch, with a choice for one of its parts. */
static void take_workspace(const struct alternatives *a, int way, int of, int id, int step,
			   size_t part[2], size_t *most)
{
	struct instead in = { answer_of_way(a->op, way, &a->whole), { -1, -1 }, { 0, 0 } };
	attune_plan plan;
	in.id[of] = id;
	in.step[of] = step;
	if (in.overlap == AS_RULES || plan_instead(a->op, a->batch, &in, &plan))
		return;
	*most = larger(*most, plan.workspace);
	for (int k = 0; k < 2 && plan.num_parts == 2; k++)
		part[k] = larger(part[k], plan.part[k].workspace);
}

/* The largest workspace of the plans that a mixed batch may come to: with any members of both
 * parts, in any way; or with what the rules have beside a decode, which may be no member. */
static size_t mixed_workspace(const struct alternatives *a)
{
	static const int ways[] = { WAY_SERIES,        WAY_SPARING16,  WAY_SPARING16 + 1,
				    WAY_SPARING16 + 3, WAY_ONE_LAUNCH, WAY_FUSED };
	const attune_plan *rules = &a->plan[0];
	size_t part[2] = { 0, 0 }, most = rules->workspace;
	for (int k = 0; k < 2 && rules->num_parts == 2; k++)
		part[k] = rules->part[k].workspace;
	for (int of = 0; of < 2; of++) {
		int member[MAX_MEMBERS];
		const int n = part_members(a->op, a->parts.choice[of], &a->parts.part[of], member);
		for (int i = 0; i < n; i++) {
			for (size_t w = 0; w < COUNT(ways); w++)
				take_workspace(a, ways[w], of, member[i], 0, part, &most);
			for (int step = -MOST_STEPS; step <= MOST_STEPS; step++)
				take_workspace(a, WAY_SERIES, of, member[i], step, part, &most);
		}
	}
	return larger(most, op_workspace(a->op, ATTUNE_STREAMS, part, 2, NULL, NULL));
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
	const char *error =
	    !how                                                   ? NULL
	    : how->num_layers < 1 || how->num_layers > MOST_LAYERS ? "num_layers must be 1 to 65536"
	    : how->num_pages < 1 || how->num_pages > INT32_MAX ? "num_pages must be 1 to 2147483647"
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

/* ---- attune_settle --------------------------------------------------------------------------- */

/* most_ms where it is 0. */
static double usual_ms(const attune_batch *batch)
{
	enum { DECODES_MS = 20, PREFILLS_MS = 200 };
	int decodes = 1;
	for (int i = 0; i < batch->num_seqs && decodes; i++)
		decodes = batch->query_start[i + 1] - batch->query_start[i] <= DECODE_MAX_QUERY;
	return decodes ? DECODES_MS : PREFILLS_MS;
}

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
			   .most = (how->most_ms > 0 ? how->most_ms : usual_ms(batch)) / 1e3 };
	status = workspace_error(&job, batch);
	if (status)
		return status;
	settled_lock(LOCK_RACES);
	job.begin = settle_clock();
	status = dev->ops->wait(dev, stream);
	if (!status)
		status = settle_job(&job, batch);
	settled_unlock(LOCK_RACES);
	if (ms)
		*ms = (settle_clock() - begin) * 1e3;
	return status;
}
