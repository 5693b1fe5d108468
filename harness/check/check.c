/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - runs a candidate and compares its output with the fp64 reference, within the
 * tolerance of tolerance.c. */
#include "check.h"
#include "reference.h"
#include "workload.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "kernels/attune_plugin.h"
#include "kernels/launch/run.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 3, 4))) static void
set_verdict(struct verdict *v, enum outcome outcome, const char *format, ...)
{
	va_list ap;
	v->outcome = outcome;
	va_start(ap, format);
	vsnprintf(v->text, sizeof v->text, format, ap);
	va_end(ap);
}

static void set_status(struct verdict *v, enum attune_status status)
{
	static const enum outcome outcome[] = {
		[ATTUNE_OK] = OUTCOME_OK,
		[ATTUNE_INVALID] = OUTCOME_ILLEGAL,
		[ATTUNE_UNSUPPORTED] = OUTCOME_RESOURCES,
		[ATTUNE_NO_DEVICE] = OUTCOME_CRASH,
		[ATTUNE_NO_MEMORY] = OUTCOME_RESOURCES,
		[ATTUNE_TOO_SMALL] = OUTCOME_RESOURCES,
		[ATTUNE_DEVICE_ERROR] = OUTCOME_CRASH,
	};
	set_verdict(v, outcome[status], "%s", status ? attune_last_error() : "");
}

/* ---- the output ------------------------------------------------------------------ */

/* A host copy of the output with its guards. */
struct output {
	const struct workload *w;
	const attune_shape *shape;
	enum phase phase;
	const unsigned char *bytes;
	size_t size;     /* of an element */
	double rounding; /* check_rounding */
};

static size_t row_at(const struct output *o, int token, int head)
{
	const attune_tensors *t = &o->w->tensors;
	return GUARD + (size_t)(token * t->out_token_stride + head * t->out_head_stride) * o->size;
}

static size_t first_touched(const struct output *o, size_t begin, size_t end)
{
	uint64_t eight = ~UINT64_C(0); /* poisoned bytes */
	while (begin + sizeof eight <= end && eight == ~UINT64_C(0)) {
		memcpy(&eight, o->bytes + begin, sizeof eight);
		begin += eight == ~UINT64_C(0) ? sizeof eight : 0;
	}
	while (begin < end && o->bytes[begin] == POISON)
		begin++;
	return begin;
}

static void report_stray_write(struct verdict *v, const struct output *o, size_t at)
{
	const attune_tensors *t = &o->w->tensors;
	const attune_batch *b = &o->w->scenario->batch->view;
	const size_t end = o->w->out_bytes - GUARD;
	int seq = 0;
	if (at < GUARD || at >= end) {
		set_verdict(v, OUTCOME_WRONG, "wrote %zu bytes %s the output",
			    at < GUARD ? GUARD - at : at - end + 1, at < GUARD ? "before" : "past");
		return;
	}
	const int64_t element = (int64_t)((at - GUARD) / o->size);
	const int token = (int)(element / t->out_token_stride);
	const int head = (int)(element % t->out_token_stride / t->out_head_stride);
	while (b->query_start[seq + 1] <= token)
		seq++;
	set_verdict(v, OUTCOME_WRONG,
		    batch_is_of_phase(b, o->phase, seq)
			? "sequence %d, token %d, head %d: wrote past the row"
			: "sequence %d, token %d, head %d: written, but not in the part",
		    seq, token - b->query_start[seq], head);
}

/* Everything between the rows of the phase must be unchanged. */
static int is_clean_around(struct verdict *v, const struct output *o)
{
	const attune_batch *b = &o->w->scenario->batch->view;
	size_t at, clean = 0;
	for (int seq = 0; seq < b->num_seqs; seq++)
		for (int t = b->query_start[seq];
		     batch_is_of_phase(b, o->phase, seq) && t < b->query_start[seq + 1]; t++)
			for (int h = 0; h < o->shape->num_query_heads; h++) {
				const size_t row = row_at(o, t, h);
				at = first_touched(o, clean, row);
				if (at < row) {
					report_stray_write(v, o, at);
					return 0;
				}
				clean = row + (size_t)o->shape->head_size * o->size;
			}
	at = first_touched(o, clean, o->w->out_bytes);
	if (at < o->w->out_bytes)
		report_stray_write(v, o, at);
	return at == o->w->out_bytes;
}

static void report_nan(struct verdict *v, const struct output *o, const struct expected_row *r,
		       int dim, const void *element)
{
	static const unsigned char untouched[4] = { POISON, POISON, POISON, POISON };
	if (memcmp(element, untouched, o->size))
		set_verdict(v, OUTCOME_NAN,
			    "sequence %d, token %d, head %d, dim %d is not a number", r->seq,
			    r->token, r->head, dim);
	else
		set_verdict(v, OUTCOME_WRONG,
			    "sequence %d, token %d, head %d, dim %d was not written", r->seq,
			    r->token, r->head, dim);
}

/* The exponents of all elements in eight bytes. An element is finite if its exponent is not all ones:
 * then adding the exponent's lowest bit does not carry into its sign. */
static const struct {
	uint64_t exponent, lowest, sign;
} eight_bytes[] = {
	[ATTUNE_F32] = { 0x7f8000007f800000, 0x0080000000800000, 0x8000000080000000 },
	[ATTUNE_F16] = { 0x7c007c007c007c00, 0x0400040004000400, 0x8000800080008000 },
	[ATTUNE_BF16] = { 0x7f807f807f807f80, 0x0080008000800080, 0x8000800080008000 },
};

/* Index of the row's first element that is not finite; -1: none. Every row is tested, so this takes
 * WORDS x eight bytes at a time. */
static int first_not_finite(const struct output *o, const unsigned char *row)
{
	enum { WORDS = 8 };
	const enum attune_dtype dtype = o->shape->dtype;
	const uint64_t exponent = eight_bytes[dtype].exponent, lowest = eight_bytes[dtype].lowest;
	const size_t bytes = (size_t)o->shape->head_size * o->size;
	uint64_t carried = 0;
	size_t at = 0;
	for (; at + WORDS * sizeof carried <= bytes; at += WORDS * sizeof carried) {
		uint64_t word[WORDS];
		memcpy(word, row + at, sizeof word);
		for (int i = 0; i < WORDS; i++)
			carried |= (word[i] & exponent) + lowest;
	}
	int d = carried & eight_bytes[dtype].sign ? 0 : (int)(at / o->size);
	while (d < o->shape->head_size && isfinite(value_of(dtype, row, d)))
		d++;
	return d < o->shape->head_size ? d : -1;
}

static int is_written(struct verdict *v, const struct output *o)
{
	const attune_batch *b = &o->w->scenario->batch->view;
	struct expected_row r;
	for (r.seq = 0; r.seq < b->num_seqs; r.seq++)
		for (r.token = 0;
		     batch_is_of_phase(b, o->phase, r.seq) && r.token < batch_query_len(b, r.seq);
		     r.token++)
			for (r.head = 0; r.head < o->shape->num_query_heads; r.head++) {
				const unsigned char *row =
				    o->bytes + row_at(o, b->query_start[r.seq] + r.token, r.head);
				const int d = first_not_finite(o, row);
				if (d < 0)
					continue;
				report_nan(v, o, &r, d, row + (size_t)d * o->size);
				return 0;
			}
	return 1;
}

static void compare_row(struct verdict *v, const struct output *o, const struct expected *e, int i)
{
	const struct expected_row *r = &e->row[i];
	const int first = o->w->scenario->batch->view.query_start[r->seq];
	const unsigned char *row = o->bytes + row_at(o, first + r->token, r->head);
	for (int d = 0; d < o->shape->head_size; d++) {
		const size_t at = (size_t)i * (size_t)o->shape->head_size + (size_t)d;
		const double got = value_of(o->shape->dtype, row, d);
		const double most =
		    e->tolerance[at] + (o->rounding > 0 ? o->rounding * e->rounding[at] : 0);
		const double share = fabs(got - e->want[at]) / most;
		if (share <= v->worst)
			continue;
		v->worst = share;
		if (share > 1)
			set_verdict(
			    v, OUTCOME_WRONG,
			    "sequence %d, token %d, head %d, dim %d: %g, expected %g +- %.2g",
			    r->seq, r->token, r->head, d, got, e->want[at], most);
	}
}

static const struct expected *expect(struct workload *w, int max_rows, int with_rounding)
{
	const struct expected *e = w->expected;
	if (e && (e->max_rows != max_rows || (with_rounding && !e->rounding))) {
		expected_free(w->expected);
		w->expected = NULL;
	}
	if (!w->expected)
		w->expected = expected_make(w, max_rows, with_rounding);
	return w->expected;
}

void check_output(struct verdict *v, struct workload *w, enum phase phase, int max_rows,
		  unsigned needs)
{
	const attune_shape *shape = &w->scenario->shape;
	const double rounding = check_rounding(shape, needs);
	const struct expected *e = expect(w, max_rows, rounding > 0);
	struct output o = { .w = w,
			    .shape = shape,
			    .phase = phase,
			    .rounding = rounding,
			    .size = (size_t)dtype_bytes(shape->dtype) };
	*v = (struct verdict){ .outcome = OUTCOME_OK };
	if (!w->host_out)
		w->host_out = malloc(w->out_bytes);
	o.bytes = w->host_out;
	if (!e || !o.bytes)
		set_verdict(v, OUTCOME_RESOURCES, "out of memory");
	else
		set_status(v, w->dev->ops->get(w->dev, w->host_out, w->memory[0], w->out_bytes));
	if (v->outcome == OUTCOME_OK && is_clean_around(v, &o) && is_written(v, &o))
		for (int i = 0; i < e->num_rows; i++)
			if (batch_is_of_phase(&w->scenario->batch->view, phase, e->row[i].seq))
				compare_row(v, &o, e, i);
	if (v->outcome == OUTCOME_OK && o.shape->has_lse)
		check_lse(v, w, (char *)w->tensors.lse - GUARD, e, phase);
}

/* ---- a run ----------------------------------------------------------------------- */

/* The bytes after the workspace must be unchanged. */
static void check_guard(struct verdict *v, struct device *dev, const char *workspace, size_t bytes)
{
	unsigned char guard[GUARD];
	int n = GUARD;
	set_status(v, dev->ops->get(dev, guard, workspace + bytes, GUARD));
	while (n && guard[n - 1] == POISON)
		n--;
	if (v->outcome == OUTCOME_OK && n)
		set_verdict(v, OUTCOME_WRONG, "wrote %d bytes past the workspace of %zu", n, bytes);
}

unsigned choice_needs(const struct choice *c)
{
	return c->kernel->plugin ? c->kernel->plugin->needs : 0;
}

/* The workspace is poisoned first: reading before writing gives NaN. */
void check_workload(struct verdict *v, struct workload *w, const struct choice *c,
		    const struct loaded *loaded, enum phase phase, int max_rows)
{
	struct device *dev = w->dev;
	void *workspace = NULL;
	size_t bytes;
	double plan_us;
	enum attune_status status = choice_reserve(dev, c, loaded, w, phase, &bytes, &plan_us);
	*v = (struct verdict){ .outcome = OUTCOME_OK };
	if (!status)
		status = dev->ops->alloc(dev, &workspace, bytes + GUARD);
	if (!status)
		status = dev->ops->fill(dev, workspace, POISON, bytes + GUARD);
	if (!status)
		status = workload_poison(w);
	if (!status)
		status = choice_launch(dev, c, loaded, w, 0, phase, workspace, bytes, ALL_STEPS,
				       dev->ops->stream(dev));
	if (!status)
		status = dev->ops->wait(dev, dev->ops->stream(dev));
	if (status)
		set_status(v, status);
	else
		check_guard(v, dev, workspace, bytes);
	if (v->outcome == OUTCOME_OK)
		check_output(v, w, phase, max_rows, choice_needs(c));
	if (workspace)
		dev->ops->release(dev, workspace);
}

void check_choice(struct verdict *v, struct device *dev, struct pool **pool, const struct choice *c,
		  const struct loaded *loaded, const struct scenario *s, enum phase phase,
		  int max_rows)
{
	struct workload *w = NULL;
	enum attune_status status = cached_check_find(&w, dev, pool, s, choice_needs(c));
	*v = (struct verdict){ .outcome = OUTCOME_OK };
	if (status)
		set_status(v, status);
	else
		check_workload(v, w, c, loaded, phase, max_rows);
}
