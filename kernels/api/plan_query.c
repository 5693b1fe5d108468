/* SPDX-License-Identifier: Apache-2.0 */
/* plan_query.c - whether a plan is one of an op's, and the largest workspace for a size of batch.
 * lengths.c says which batches a plan is right for. */
#include "plan.h"
#include "kernels/launch/extra.h"
#include "kernels/launch/run.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"

/* A range of sequences and query lengths that lies within the batch. */
static int is_within(const attune_plan *p, int begin, int count, int min, int max, int64_t tokens)
{
	return begin >= 0 && count >= 0 && count <= p->num_seqs - begin && min >= 0 && min <= max &&
	       max <= p->num_tokens && tokens >= 0 && tokens <= p->num_tokens;
}

static int span_is_within(const attune_plan *p, const attune_span *s)
{
	return is_within(p, s->seq_begin, s->seq_count, s->min_query, s->max_query,
			 s->range_tokens);
}

static int part_is_sound(const attune_plan *plan, const attune_part *p)
{
	return p->choice >= 0 &&
	       is_within(plan, p->seq_begin, p->seq_count, p->min_query, p->max_query,
			 p->range_tokens) &&
	       p->max_seq >= 0 && span_is_within(plan, &p->prefill) &&
	       span_is_within(plan, &p->decode);
}

static int counts_are_sound(const attune_plan *p)
{
	return p->num_parts >= 0 && p->num_parts <= (int)COUNT(p->part) && p->num_seqs >= 0 &&
	       (unsigned)p->how <= ATTUNE_STREAMS && !p->unused &&
	       (unsigned)p->start <= ATTUNE_START_EARLY && p->num_tokens >= 0 &&
	       p->table_pages >= 0 && p->table_seq >= 0 &&
	       p->table_seq <= p->num_seqs - (p->num_seqs > 0);
}

int plan_is_sound(const attune_plan *p)
{
	int sound = counts_are_sound(p);
	for (int i = 0; sound && i < p->num_parts; i++)
		sound = part_is_sound(p, &p->part[i]);
	return sound;
}

const char plan_was_changed[] = "the plan was changed since it was made";

const char *plan_error(const attune_op *op, const attune_plan *p)
{
	if (p->op != op->id)
		return "the plan is not of this op";
	return plan_is_sound(p) ? NULL : plan_was_changed;
}

enum { LONGEST = 1 << 24 }; /* keys of a sequence, when its length is unknown */

/* The workspace of a choice; if its number of segments varies, the largest over all numbers. */
static size_t most_partials(const attune_op *op, const struct ready *r, const struct part *p)
{
	const struct space *s = r->kernel->space;
	const struct device_info *d = &op->ctx->device.info;
	struct config c = r->config;
	size_t most = 0;
	if (!config_is_formula(&c, s) && !config_is_fitted(&c, s))
		return part_workspace(r->kernel, &c, &op->shape, p, d);
	for (int i = 0; i < s->axis[s->formula_axis].num_values; i++) {
		c.v[s->formula_axis] = s->axis[s->formula_axis].values[i];
		const size_t need = part_workspace(r->kernel, &c, &op->shape, p, d);
		most = need > most ? need : most;
	}
	return most;
}

/* The largest workspace of any choice. In batch-invariant mode each phase has one, and its partials
 * no limit: fewer segments would bring other bits. */
static size_t most_of_all(const attune_op *op, const struct part *p)
{
	size_t most = 0;
	if (op->ctx->is_invariant) {
		const int id = op->invariant[p->max_query <= DECODE_MAX_QUERY];
		return id < 0 ? 0 : most_partials(op, &op->ready[id], p);
	}
	for (int i = 0; i < op->num_ready; i++) {
		const size_t need = op->ready[i].code ? most_partials(op, &op->ready[i], p) : 0;
		most = need > most ? need : most;
	}
	return most < MAX_PARTIAL_BYTES ? most : MAX_PARTIAL_BYTES;
}

enum attune_status attune_max_workspace(const attune_op *op, int max_seqs, int max_tokens,
					size_t *bytes)
{
	if (!op || !bytes || max_seqs < 0 || max_tokens < 0)
		return fail(ATTUNE_INVALID, "attune_max_workspace: sizes must be 0 or more");
	/* No larger batch is planned. */
	const int most = MOST_BATCH_ROWS / op->shape.num_query_heads;
	max_seqs = max_seqs < most ? max_seqs : most;
	max_tokens = max_tokens < most ? max_tokens : most;
	const struct part p = { .f.max_seq = LONGEST,
				.seq_count = max_seqs,
				.max_query = max_tokens,
				.range_tokens = max_tokens,
				.estimated = MOST_ESTIMATE,
				.prefill = { 0, max_seqs, 1, max_tokens, max_tokens },
				.decode = { 0, max_seqs, 1, DECODE_MAX_QUERY, max_tokens } };
	struct part decode = p;
	if (decode.max_query > DECODE_MAX_QUERY)
		decode.max_query = DECODE_MAX_QUERY;
	const size_t part[] = { most_of_all(op, &p), most_of_all(op, &decode) };
	/* Also where no rule overlaps parts: settling may. */
	const int on_two_streams = op->ctx->device.info.backend == BACKEND_GPU ||
				   (op->heuristic && op->heuristic->overlaps);
	*bytes =
	    op_workspace(op, on_two_streams ? ATTUNE_STREAMS : ATTUNE_SERIAL, part, 2, NULL, NULL);
	return ATTUNE_OK;
}
