/* SPDX-License-Identifier: Apache-2.0 */
/* batch_query.c - calls of attune.h that answer questions about choices and batches: the features of
 * a batch, whether a choice can run it, which choices of the rules run none. */
#include "plan.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/sized.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <stdio.h>
#include <string.h>

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
	if (!why && r->code)
		why = lacks_cuts(op, id, &as, p);
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
