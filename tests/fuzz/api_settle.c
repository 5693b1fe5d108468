/* SPDX-License-Identifier: Apache-2.0 */
/* api_settle.c - settles batches of a case: rounds of any times, attune_settle, texts that another
 * context would have written, and commits in between. Whatever these say, plans stay legal. */
#include "api.h"
#include "kernels/attune_settle.h"
#include "kernels/launch/op.h"
#include <float.h>
#include <stdlib.h>
#include <string.h>

enum { MAY_PASS = 1u << ATTUNE_OK, INVALID = 1u << ATTUNE_INVALID };

/* All calls alike are refused with ATTUNE_INVARIANT=1. */
static unsigned unless_invariant(const struct planned *p, unsigned allowed)
{
	return p->op->ctx->is_invariant ? 1u << ATTUNE_UNSUPPORTED : allowed;
}

/* Near each other, of all sizes, or extreme. */
static double any_time(struct dice *d, int way)
{
	static const double ends[] = { 0.001, 0.0011, 1, 1e6, 999999998.9996, 999999999 };
	double us = 100 + noise(d);
	if (way == 1)
		for (int n = between(d, -15, 20); n; n += n < 0 ? 1 : -1)
			us *= n < 0 ? 0.5 : 2;
	return way == 2 ? ends[below(d, (int)COUNT(ends))] : us;
}

/* *some: one of the alternatives. Returns how many there are. */
static int report_rounds(struct dice *d, const struct planned *p, attune_plan *some)
{
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES] = { { .size = sizeof *plans } };
	const int way = below(d, 3), rounds = between(d, 1, 12);
	double us[ATTUNE_MOST_ALTERNATIVES];
	int n = 0;
	check_refusal(
	    attune_plan_alternatives(p->op, &p->w->batch, plans, ATTUNE_MOST_ALTERNATIVES, &n),
	    unless_invariant(p, MAY_PASS), "attune_plan_alternatives");
	note("%d rounds of %d plans", rounds, n);
	for (int r = 0; r < rounds && n; r++) {
		for (int i = 0; i < n; i++)
			us[i] = any_time(d, way);
		check_refusal(attune_report(p->op, &p->w->batch, plans, us, n), MAY_PASS,
			      "attune_report");
	}
	if (n && !attune_plan_serves(&plans[0], &p->plan))
		fault("the first alternative is not the present plan");
	*some = plans[n ? below(d, n) : 0];
	return n;
}

/* Its own metadata may read any page; K of an odd draw may be all zeros where it looks. */
static void time_it(struct dice *d, const struct planned *p)
{
	const attune_settle_how how = { .size = sizeof how,
					.num_layers = 1,
					.num_pages = between(d, 1, p->w->pages),
					.most_ms = between(d, 0, 3) };
	size_t bytes = 0;
	double ms;
	check_refusal(attune_settle_sizes(p->op, &p->w->batch, &how, &bytes),
		      unless_invariant(p, MAY_PASS), "attune_settle_sizes");
	if (p->op->ctx->is_invariant)
		return;
	const size_t whole = (bytes + 15) / 16 * 16;
	char *workspace = guarded(p->w->dev, whole, 0);
	note("settle: %zu bytes", bytes);
	check_refusal(attune_settle(p->op, &p->w->batch, &p->w->device, &how, workspace, bytes - 1,
				    NULL, &ms),
		      1u << ATTUNE_TOO_SMALL, "attune_settle in too little room");
	check_refusal(
	    attune_settle(p->op, &p->w->batch, &p->w->device, &how, workspace, bytes, NULL, &ms),
	    MAY_PASS | INVALID, "attune_settle");
	release_guarded(p->w->dev, workspace);
}

/* What was committed, through its text; also a text that is damaged. */
static void read_own(struct dice *d, attune_context *ctx)
{
	const unsigned allowed = ctx->is_invariant ? 1u << ATTUNE_UNSUPPORTED : MAY_PASS;
	size_t size = 0;
	int dropped = 0;
	check_refusal(attune_settled_commit(ctx), allowed, "attune_settled_commit");
	const uint64_t before = attune_settled_digest(ctx);
	check_refusal(attune_settled_text(ctx, NULL, 0, &size), MAY_PASS, "attune_settled_text");
	char *text = malloc(size + 1);
	if (!text)
		fault("the test: no memory");
	check_refusal(attune_settled_text(ctx, text, size, &size), MAY_PASS, "attune_settled_text");
	check_refusal(attune_settled_read(ctx, text, size, NULL, &dropped), allowed,
		      "attune_settled_read of what was written");
	check_refusal(attune_settled_commit(ctx), allowed, "attune_settled_commit");
	if (dropped || before != attune_settled_digest(ctx))
		fault("another memory after its own text: %d are dropped of %.*s", dropped,
		      (int)size, text);
	const size_t at = size ? (size_t)(roll(d) % size) : 0;
	text[at] = (char)PICK(d, 0, ' ', '0', '9', '-', '\n', text[at] + 1, 0xff);
	if (!ctx->is_invariant)
		check_refusal(
		    attune_settled_read(ctx, text, size - (size_t)below(d, 2), NULL, NULL),
		    MAY_PASS | INVALID, "attune_settled_read of a damaged text");
	free(text);
}

int settle_some(struct dice *d, enum where where, const struct planned *p, attune_plan *some)
{
	const attune_context *ctx = p->op->ctx;
	if (where == ON_CPU && one_in(d, 3))
		time_it(d, p);
	const int n = report_rounds(d, p, some);
	if (one_in(d, 2))
		check_refusal(attune_settled_commit(p->op->ctx), unless_invariant(p, MAY_PASS),
			      "attune_settled_commit");
	if (one_in(d, 3))
		read_own(d, p->op->ctx);
	note("settled: digest %016llx", (unsigned long long)attune_settled_digest(ctx));
	return n;
}
