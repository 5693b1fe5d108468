/* SPDX-License-Identifier: Apache-2.0 */
/* worker_library.c - the library as a contender: its op, what its context remembers when it plans, and
 * its plan. It settles batches on the tensors of the race: each page set stands for a layer. What it
 * settled goes to a file after each batch, so that nothing is lost when the worker dies. */
#include "records.h"
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "kernels/attune_settle.h"
#include "kernels/launch/run.h"
#include "kernels/settle/settled.h"
#include "kernels/spec/status.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OWN_MARGIN = 10 /* 1000ths, for the batch itself */ };

/* ---- the op --------------------------------------------------------------------------- */

/* Ops are kept while batches of one shape follow each other: preparing one loads its binaries. */
static enum attune_status open_op(struct worker_state *l)
{
	struct library *b = &l->library;
	const attune_shape *shape = &l->scenario->shape;
	enum attune_status status = b->ctx ? ATTUNE_OK : attune_adopt(&b->ctx, &l->dev);
	if (status || (b->op && !memcmp(shape, &b->op_shape, sizeof *shape)))
		return status;
	attune_release(b->op);
	b->op = NULL;
	b->op_shape = *shape;
	return attune_prepare(b->ctx, shape, &b->op);
}

static enum attune_status plan_bounds(struct launcher *r, const attune_batch *v, int times)
{
	int query = 0, keys = 0;
	for (int i = 0; i < v->num_seqs; i++) {
		const int n = v->query_start[i + 1] - v->query_start[i];
		query = n > query ? n : query;
		keys = v->seq_lens[i] > keys ? v->seq_lens[i] : keys;
	}
	return attune_plan_bounds(r->state->library.op, v->num_seqs, v->query_start[v->num_seqs],
				  query, times * keys, &r->plan);
}

/* The plan `nth`; the launcher is over where there are fewer. */
static enum attune_status plan_member(struct launcher *r, const attune_batch *v, int nth)
{
	attune_plan plan[ATTUNE_MOST_ALTERNATIVES];
	int n = 0;
	for (int i = 0; i < ATTUNE_MOST_ALTERNATIVES; i++)
		plan[i] = (attune_plan){ .size = sizeof *plan };
	const enum attune_status status =
	    attune_plan_alternatives(r->state->library.op, v, plan, ATTUNE_MOST_ALTERNATIVES, &n);
	r->is_over = nth >= n;
	if (!status && !r->is_over)
		r->plan = plan[nth];
	return status;
}

/* ---- settling ------------------------------------------------------------------------- */

/* Layer i reads the pages from i * how->num_pages on. NULL: no memory. */
static attune_tensors *make_layers(const struct worker_state *l, attune_settle_how *how)
{
	const struct workload *w = &l->workload;
	const int64_t pages = w->pages_per_set > 0 ? w->pages_per_set : 1;
	const int64_t size = dtype_bytes(l->scenario->shape.kv_dtype);
	attune_tensors *layer = calloc((size_t)w->sets, sizeof *layer);
	*how = (attune_settle_how){ .size = sizeof *how,
				    .num_layers = w->sets,
				    .num_pages = pages,
				    .most_ms = l->setup->settle_ms };
	for (int i = 0; layer && i < w->sets; i++) {
		layer[i] = w->tensors;
		layer[i].k_cache =
		    (const char *)w->tensors.k_cache + i * pages * w->tensors.k_page_stride * size;
		layer[i].v_cache =
		    (const char *)w->tensors.v_cache + i * pages * w->tensors.v_page_stride * size;
	}
	return layer;
}

static enum attune_status settle_batch(struct worker_state *l, double *ms)
{
	const attune_batch *v = &l->scenario->batch->view;
	const attune_op *op = l->library.op;
	attune_settle_how how;
	size_t bytes = 0;
	attune_tensors *layer = make_layers(l, &how);
	enum attune_status status = layer ? attune_settle_sizes(op, v, &how, &bytes)
					  : fail(ATTUNE_NO_MEMORY, "out of memory");
	if (!status)
		status = launcher_room(l, bytes);
	if (!status)
		status = attune_settle(op, v, layer, &how, l->workspace, bytes,
				       l->dev.ops->stream(&l->dev), ms);
	free(layer);
	return status ? status : settled_commit_beyond(l->library.ctx, OWN_MARGIN);
}

/* The text of a context; the caller's to free. */
static enum attune_status text_of(const attune_context *ctx, char **text, size_t *size)
{
	enum attune_status status = attune_settled_text(ctx, NULL, 0, size);
	*text = status ? NULL : malloc(*size + 1);
	if (!status && !*text)
		status = fail(ATTUNE_NO_MEMORY, "out of memory");
	return status ? status : attune_settled_text(ctx, *text, *size, size);
}

/* A context that remembers what a file has; NULL: nothing. */
static enum attune_status open_memory(attune_context **ctx, const struct worker_state *l,
				      const char *path)
{
	enum attune_status status = attune_adopt(ctx, &l->dev);
	char *text = path && !status ? file_text(path) : NULL;
	if (path && !status)
		status = text ? attune_settled_read(*ctx, text, strlen(text), NULL, NULL)
			      : fail(ATTUNE_INVALID, "%s: cannot be read", path);
	free(text);
	if (!status)
		return status;
	attune_close(*ctx);
	*ctx = NULL;
	return status;
}

/* Adds what the context remembers to the file, which may have cells of earlier runs. */
static enum attune_status keep(struct worker_state *l)
{
	struct library *b = &l->library;
	const char *path = l->setup->settle;
	enum attune_status status = ATTUNE_OK;
	char *text = NULL;
	size_t size;
	if (!b->file)
		status = open_memory(&b->file, l, access(path, F_OK) ? NULL : path);
	if (!status)
		status = text_of(b->ctx, &text, &size);
	if (!status)
		status = attune_settled_read(b->file, text, size, NULL, NULL);
	free(text);
	text = NULL;
	if (!status)
		status = attune_settled_commit(b->file);
	if (!status)
		status = text_of(b->file, &text, &size);
	if (!status && !file_put_bytes(path, text, size))
		status = fail(ATTUNE_INVALID, "%s: cannot be written", path);
	free(text);
	return status;
}

/* ---- planning ------------------------------------------------------------------------- */

static void forget(struct library *b)
{
	if (b->memory == MEMORY_CARRIED)
		settled_swap(b->ctx, b->carried);
	else if (b->memory != MEMORY_NONE)
		settled_forget(b->ctx);
	b->memory = MEMORY_NONE;
}

/* The file of another session is read once, into a context of its own. To plan by it, the two
 * contexts swap what they have settled. */
static enum attune_status carry(struct worker_state *l, int per_cent)
{
	struct library *b = &l->library;
	enum attune_status status =
	    b->carried ? ATTUNE_OK : open_memory(&b->carried, l, l->setup->settled);
	if (!status)
		status = settled_commit_beyond(b->carried, 10 * per_cent);
	if (status)
		return status;
	settled_swap(b->ctx, b->carried);
	b->memory = MEMORY_CARRIED;
	return ATTUNE_OK;
}

/* Has the context remember what the contender is to plan with. */
static enum attune_status remember(struct launcher *r)
{
	struct worker_state *l = r->state;
	struct library *b = &l->library;
	const struct contender *c = r->contender;
	enum attune_status status;
	double ms = 0;
	if (c->memory == MEMORY_SETTLED && b->memory == MEMORY_SETTLED &&
	    b->scenario == c->scenario)
		return ATTUNE_OK;
	forget(b);
	if (c->memory == MEMORY_CARRIED)
		return carry(l, c->nth);
	if (c->memory != MEMORY_SETTLING && c->memory != MEMORY_SETTLED)
		return ATTUNE_OK;
	status = settle_batch(l, &ms);
	if (!status && l->setup->settle)
		status = keep(l);
	b->memory = MEMORY_SETTLED;
	b->scenario = status ? -1 : c->scenario;
	if (c->memory == MEMORY_SETTLING) {
		r->settled_ms = ms;
		r->is_over = 1;
	}
	return status;
}

enum attune_status library_plan(struct launcher *r)
{
	struct worker_state *l = r->state;
	const struct contender *c = r->contender;
	struct message message = { .kind = MESSAGE_PLANNED, .index = c->index };
	const attune_batch *v = &l->scenario->batch->view;
	enum attune_status status = open_op(l);
	r->plan = (attune_plan){ .size = sizeof r->plan };
	if (!status)
		status = remember(r);
	if (!status && c->memory == MEMORY_MEMBER)
		status = plan_member(r, v, c->nth);
	else if (!status)
		status = c->bounds ? plan_bounds(r, v, c->bounds)
				   : attune_plan_batch(l->library.op, v, &r->plan);
	if (status || (r->is_over && c->memory == MEMORY_MEMBER))
		return status;
	status = attune_plan_text(l->library.op, &r->plan, message.text, sizeof message.text);
	if (!status)
		status = launcher_room(l, r->plan.workspace);
	if (!status)
		report_message(l, &message);
	return status;
}

/* ---- what does not race --------------------------------------------------------------- */

static int are_alike(const struct launcher *a, const struct launcher *b)
{
	char of_a[MAX_PLAN_TEXT], of_b[MAX_PLAN_TEXT];
	const attune_op *op = a->state->library.op;
	return a->contender->is_library && !a->contender->bounds && !b->contender->bounds &&
	       !attune_plan_text(op, &a->plan, of_a, sizeof of_a) &&
	       !attune_plan_text(op, &b->plan, of_b, sizeof of_b) && !strcmp(of_a, of_b);
}

/* The time of a call of attune_settle. */
static void report_settling(const struct worker_state *l, const struct launcher *r)
{
	const double us = fmax(r->settled_ms * 1e3, 1);
	const struct measurement m = { .outcome = OUTCOME_OK,
				       .samples = 1,
				       .calls = 1,
				       .us = { (float)us },
				       .median_us = us,
				       .min_us = us,
				       .ci_us = NAN,
				       .lead = NAN,
				       .lead_low = NAN };
	report_result(l, r->contender->index, &m, 0);
}

int library_is_over(struct worker_state *l, const struct launcher *r)
{
	int of = -1;
	for (int i = 0; i < l->num_contenders && of < 0 && !r->is_over; i++)
		if (are_alike(&l->launcher[i], r))
			of = i;
	if (r->contender->memory == MEMORY_SETTLING)
		report_settling(l, r);
	if (of >= 0)
		l->alike[l->num_alike++] = (struct alike){ r->contender->index, of };
	return r->is_over || of >= 0;
}

void library_report_alike(const struct worker_state *l)
{
	for (int i = 0; i < l->num_alike; i++) {
		const struct alike *a = &l->alike[i];
		const struct measurement *m = &l->timed_call[a->of].m;
		if (l->launcher[a->of].was_wrong)
			report_failure(l, a->index, OUTCOME_WRONG, "as the same plan of another");
		else
			report_result(l, a->index, m, 0);
	}
}
