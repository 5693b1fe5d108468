/* plan_query.c - calls of attune.h that answer questions and launch nothing: the largest workspace
 * for a size of batch, the features of a batch, whether a choice can run it. lengths.c says which
 * batches a plan is right for. */
#include "plan.h"
#include "kernels/launch/run.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/sized.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <stdio.h>
#include <string.h>

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
	const int on_two_streams = op->heuristic && op->heuristic->overlaps;
	*bytes = parts_workspace(on_two_streams ? ATTUNE_STREAMS : ATTUNE_SERIAL, part, 2, NULL);
	return ATTUNE_OK;
}

static const char no_code[] = "the library carries no code of it for this shape";

/* Why the op never runs a choice of its rules; NULL: it may. */
static const char *why_unused(const attune_op *op, const struct ready *r)
{
	const char *why =
	    r->kernel->space->why_illegal(&r->config, &op->shape, NULL, &op->ctx->device.info);
	return why ? why : r->code ? NULL : no_code;
}

const char *why_not(const attune_op *op, int id, const struct part *p)
{
	const struct ready *r = &op->ready[id];
	struct config as;
	if (can_run(op, id, p, &as))
		return NULL;
	const char *why = config_fitted(&as, &r->config, r->kernel, r->costs, &op->shape, p,
					&op->ctx->device.info);
	return why ? why : r->code ? "the library carries no code of its reduction" : no_code;
}

enum attune_status attune_unused_choices(const attune_op *op, char *text, size_t size)
{
	char words[MAX_PART_TEXT];
	const char *first = NULL;
	int unused = 0, n = 0;
	if (!op || !text || !size)
		return fail(ATTUNE_INVALID, "attune_unused_choices: an argument is NULL");
	for (int i = 0; i < op->num_choices; i++) {
		const struct choice c = { op->ready[i].kernel, op->ready[i].config };
		const char *why = why_unused(op, &op->ready[i]);
		unused += why != NULL;
		if (!why || first)
			continue;
		first = why;
		choice_text(words, sizeof words, &c);
	}
	*text = '\0';
	if (unused)
		n = snprintf(text, size, "%d of %d choices, the first is %s: %s", unused,
			     op->num_choices, words, first);
	return (size_t)n < size
		   ? ATTUNE_OK
		   : fail(ATTUNE_TOO_SMALL, "attune_unused_choices: the buffer is too small");
}

/* Reads a call's batch and sums it up. `own` holds a batch of an older caller. */
static enum attune_status sum_up(const attune_op *op, const attune_batch **batch, attune_batch *own,
				 enum attune_phase phase, const char *call, struct batch_sums *sums)
{
	_Static_assert((int)ATTUNE_PHASE_ALL == PHASE_ALL &&
			   (int)ATTUNE_PHASE_PREFILL == PHASE_PREFILL &&
			   (int)ATTUNE_PHASE_DECODE == PHASE_DECODE,
		       "the public phases are those of segments.h");
	if ((unsigned)phase > ATTUNE_PHASE_DECODE)
		return fail(ATTUNE_INVALID,
			    "%s: phase must be one of ATTUNE_PHASE_ALL, _PREFILL "
			    "and _DECODE",
			    call);
	*batch = batch_read(*batch, own, call);
	if (!*batch)
		return ATTUNE_INVALID;
	const char *error = batch_error(*batch, &op->shape);
	if (error)
		return fail(ATTUNE_INVALID, "%s: %s", call, error);
	batch_count(sums, &op->shape, *batch, &op->ctx->device.info);
	return ATTUNE_OK;
}

enum attune_status attune_batch_features(const attune_op *op, const attune_batch *batch,
					 enum attune_phase phase, struct attune_features *features,
					 size_t size)
{
	static const char call[] = "attune_batch_features";
	const size_t first = 27 * sizeof(long long); /* features of the first release with sizes */
	struct batch_sums sums;
	struct part p;
	attune_batch own;
	if (!op || !batch || !features)
		return fail(ATTUNE_INVALID, "%s: an argument is NULL", call);
	if (size < first || size > sizeof *features || size % sizeof(long long))
		return fail(ATTUNE_INVALID,
			    "%s: size is %zu: it must be sizeof(struct attune_features), and not "
			    "above %zu, which attune %s knows",
			    call, size, sizeof *features, attune_version());
	const enum attune_status status = sum_up(op, &batch, &own, phase, call, &sums);
	if (!status)
		memcpy(features,
		       part_of_batch(&p, (enum phase)phase, &sums, batch) ? &p.f : &sums.shape.f,
		       size);
	return status;
}

enum attune_status attune_choice_runs(const attune_op *op, const attune_batch *batch,
				      enum attune_phase phase, int choice)
{
	static const char call[] = "attune_choice_runs";
	struct batch_sums sums;
	struct part p;
	attune_batch own;
	if (!op || !batch)
		return fail(ATTUNE_INVALID, "%s: an argument is NULL", call);
	if (choice < 0 || choice >= op->num_choices)
		return fail(ATTUNE_INVALID, "%s: choice is %d: the op's rules have %d, from 0",
			    call, choice, op->num_choices);
	const enum attune_status status = sum_up(op, &batch, &own, phase, call, &sums);
	if (status || !part_of_batch(&p, (enum phase)phase, &sums, batch))
		return status;
	parts_take_shorter(&p, 1, batch->query_start);
	const char *why = why_not(op, choice, &p);
	return why ? fail(ATTUNE_UNSUPPORTED, "%s: %s", call, why) : ATTUNE_OK;
}
