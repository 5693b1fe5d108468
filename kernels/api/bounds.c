/* SPDX-License-Identifier: Apache-2.0 */
/* bounds.c - attune_plan_bounds: a plan from maxima, right for every batch within them.
 *
 * The true lengths are not known, so the choice must do well for many. Guesses stand for them:
 * batches whose longest sequence has all max_keys, half of them, a quarter and so on, each once
 * with sequences of equal length and once with a mean of a quarter of the longest. The op's rules
 * name a choice for each guess: for decodes down to a 128th of max_keys, for prefills, where the
 * queries matter more than the keys, down to a quarter.
 *
 * First the majority decides whether the plan has a launch that merges segments, which costs much
 * where sequences are short. Of the choices on that side the one that is named most often runs
 * every batch; of two, the one for shorter sequences. Its number of segments is the one with the
 * least mean, over the guesses, of the cost divided by the least cost, by the header's costs.
 *
 * A step within the maxima may have decodes beside prefills. Then the plan has two parts, each with
 * all sequences: one for queries of up to 8 tokens, one for longer ones. The decodes then run by
 * ring_list where the op has it: other kernels launch blocks for 8 tokens of each sequence, most of
 * them without work. */
#include "plan.h"
#include "kernels/launch/extra.h"
#include "kernels/launch/run.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/sized.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <string.h>

struct maxima {
	int seqs, tokens, query, keys;
};

/* ---- guesses at the lengths ------------------------------------------------------------------ */

enum { OCTAVES = 8, ASKED_OCTAVES = 3, SKEWS = 2, GUESSES = OCTAVES * SKEWS, LEAST_KEYS = 64 };

/* Features of a part, from the longest sequences to the shortest. */
struct guesses {
	int n;
	int asked; /* the first so many choose the kernel; all n choose the number of segments */
	struct part of[GUESSES];
};

/* Sums of sequences of `mean` keys, of which the longest has `keys`. */
static void sums_of(struct part_sums *t, const struct part_shape *s, int seqs, int query, int keys,
		    int mean)
{
	sums_start(t);
	if (!seqs)
		return;
	sums_add(t, s, 0, query, (int)max_of(mean, query));
	for (int i = 0; i < NUM_SUMS; i++)
		t->sum[i] *= seqs;
	t->most[MOST_KEYS] = seq_live_keys(s, query, (int)max_of(keys, query));
}

/* The most sequences of a phase that a step within the maxima has. *query: tokens of each. */
static int seqs_of(const struct maxima *m, enum phase phase, int *query)
{
	const int mixed = m->query > DECODE_MAX_QUERY;
	if (phase == PHASE_DECODE) {
		*query = mixed ? 1 : (int)max_of(m->tokens / m->seqs, 1);
		return (int)min_of(m->seqs, m->tokens);
	}
	*query = m->query;
	return mixed ? (int)min_of(m->seqs, max_of(m->tokens / m->query, 1)) : 0;
}

static void guess(struct part *p, const struct part_shape *s, const struct maxima *m,
		  enum phase phase, int keys, int mean)
{
	struct part_sums sums[PHASE_DECODE + 1];
	int seqs[PHASE_DECODE + 1], query;
	for (int i = PHASE_PREFILL; i <= PHASE_DECODE; i++) {
		seqs[i] = seqs_of(m, (enum phase)i, &query);
		sums_of(&sums[i], s, seqs[i], query, keys, mean);
	}
	sums[PHASE_ALL] = sums[PHASE_PREFILL];
	sums_join(&sums[PHASE_ALL], &sums[PHASE_DECODE]);
	seqs[PHASE_ALL] = seqs[PHASE_PREFILL] + seqs[PHASE_DECODE];
	const int start[] = { 0, (int)sums[phase].sum[SUM_QUERIES] };
	memset(p, 0, sizeof *p);
	part_from(p, s, &sums[phase], &sums[PHASE_PREFILL], &sums[PHASE_DECODE], start);
	p->seq_count = seqs[phase];
	p->f.blocks_per_unit = parts_of(16 * part_blocks(p, 16), p->f.units);
}

static void guess_all(struct guesses *g, const struct part_shape *s, const struct maxima *m,
		      enum phase phase)
{
	const int least = phase == PHASE_DECODE ? LEAST_KEYS : m->query;
	g->n = 0;
	for (int i = 0; i < OCTAVES && (!i || m->keys >> i >= least); i++)
		for (int skew = 0; skew < SKEWS; skew++)
			guess(&g->of[g->n++], s, m, phase, m->keys >> i, m->keys >> i >> 2 * skew);
	g->asked = phase == PHASE_DECODE ? g->n : (int)min_of(g->n, ASKED_OCTAVES * SKEWS);
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* A choice that the rules name, and for how many guesses. */
struct named {
	int id, votes, merges; /* merges: a launch that merges segments may follow */
	struct picked pick;    /* id -1: it cannot run the part */
};

static int merges(const attune_op *op, const struct picked *f, const struct part *p)
{
	const struct ready *r = &op->ready[f->id];
	struct geometry g;
	r->kernel->space->geometry(&f->as, &op->shape, p, &op->ctx->device.info, &g);
	return g.segments > 1;
}

static int count_votes(struct named t[GUESSES], const attune_op *op, enum decision decision,
		       const struct guesses *g, const struct part *p)
{
	int n = 0;
	for (int i = 0; op->heuristic && i < g->asked; i++) {
		const int id = selector_says(op->heuristic, decision, &g->of[i].f);
		int at = 0;
		while (at < n && t[at].id != id)
			at++;
		if (at == n) {
			t[n] = (struct named){ .id = id, .pick = pick_row(op, id, p, 0) };
			t[n].merges = t[n].pick.id >= 0 && merges(op, &t[n].pick, p);
			n++;
		}
		t[at].votes += t[at].pick.id >= 0;
	}
	return n;
}

/* The choice that the rules name for most guesses, of those that can run the part. */
static struct picked most_named(const attune_op *op, enum decision decision,
				const struct guesses *g, const struct part *p)
{
	struct named t[GUESSES];
	struct picked best = { .id = -1, .named = -1 };
	const int n = count_votes(t, op, decision, g, p);
	int of[2] = { 0, 0 }, most = 0;
	for (int i = 0; i < n; i++)
		of[t[i].merges] += t[i].votes;
	for (int i = 0; i < n; i++)
		if (t[i].votes && t[i].votes >= most && t[i].merges == (of[1] > of[0])) {
			most = t[i].votes;
			best = t[i].pick;
		}
	return best;
}

/* On two streams if for most guesses the rules run the parts in any way but one after the other. */
static enum attune_how how_to_run(const attune_op *op, const struct part_shape *s,
				  const struct maxima *m)
{
	struct guesses g;
	int shared = 0;
	if (!op->heuristic || !op->heuristic->overlaps)
		return ATTUNE_SERIAL;
	guess_all(&g, s, m, PHASE_ALL);
	for (int i = 0; i < g.asked; i++)
		shared += selector_says(op->heuristic, DECIDE_OVERLAP, &g.of[i].f) != SAYS_SERIAL;
	return 2 * shared > g.asked ? ATTUNE_STREAMS : ATTUNE_SERIAL;
}

/* The first choice of ring_list that can run the part; those of the rules precede the default. */
static struct picked first_list(const attune_op *op, const struct part *p)
{
	const struct kernel *list = kernel_find(op->ctx->device.info.backend, "ring_list");
	struct picked f = { .id = -1, .named = -1 };
	for (int i = 0; list && i < op->num_ready && f.id < 0; i++)
		if (op->ready[i].kernel == list && can_run(op, i, p, &f.as))
			f.id = i;
	return f;
}

enum { MOST_VALUES = 16 };
/* The header's costs leave out the launch itself. In fs; most launches cost 1e9 to 5e9. */
static const long long launch_fs = 2000000000;

/* Sets the number of segments of a choice whose costs are known. */
static void fit_segments(const attune_op *op, struct picked *f, const struct guesses *g,
			 const struct part *p)
{
	const struct ready *r = &op->ready[f->id];
	const struct space *s = r->kernel->space;
	struct config as = f->as;
	long long loss[MOST_VALUES] = { 0 }, least_loss = 0; /* sums of cost / least, times 2^20 */
	int legal[MOST_VALUES];
	if (!config_is_fitted(&r->config, s) || !r->costs)
		return;
	const struct axis *a = &s->axis[s->formula_axis];
	const int n = (int)min_of(a->num_values, MOST_VALUES);
	for (int v = 0; v < n; v++) {
		as.v[s->formula_axis] = a->values[v];
		legal[v] = !s->why_illegal(&as, &op->shape, p, &op->ctx->device.info);
	}
	for (int i = 0; i < g->n; i++) {
		long long cost[MOST_VALUES], least = 0;
		for (int v = 0; v < n; v++) {
			cost[v] = launch_fs +
				  segments_cost(r->costs, &r->block, &g->of[i].f, a->values[v]);
			least = legal[v] && (least == 0 || cost[v] < least) ? cost[v] : least;
		}
		if (!least) /* none is legal; else it is launch_fs or more */
			return;
		for (int v = 0; v < n; v++)
			loss[v] += cost[v] / (least >> 20);
	}
	for (int v = 0; v < n; v++)
		if (legal[v] && (least_loss == 0 || loss[v] < least_loss)) {
			least_loss = loss[v];
			f->as.v[s->formula_axis] = a->values[v];
		}
}

/* The fallback where the rules name nothing that can run the part: for the guess in the middle. */
static struct picked fallback_between(const attune_op *op, const struct guesses *g,
				      const struct part *p)
{
	struct part between = *p;
	between.f = g->of[g->n / 2].f;
	struct picked f = pick_behind(op, &between, 0);
	if (f.id >= 0 &&
	    op->ready[f.id].kernel->space->why_illegal(&f.as, &op->shape, p, &op->ctx->device.info))
		f.id = -1;
	return f;
}

static enum attune_status add_bounded(const attune_op *op, const struct part_shape *s,
				      const struct maxima *m, enum phase phase, attune_plan *plan)
{
	const int decodes = phase == PHASE_DECODE, mixed = m->query > DECODE_MAX_QUERY;
	struct guesses g;
	struct picked f = { .id = -1, .named = -1 };
	guess_all(&g, s, m, phase);
	struct part p = g.of[0];
	p.seq_count = m->seqs;
	p.min_query = decodes ? 1 : DECODE_MAX_QUERY + 1;
	p.max_query = decodes ? (int)min_of(m->query, DECODE_MAX_QUERY) : m->query;
	p.range_tokens = m->tokens;
	p.f.max_seq = seq_live_keys(s, p.max_query, m->keys);
	*(decodes ? &p.decode : &p.prefill) =
	    (attune_span){ 0, p.seq_count, p.min_query, p.max_query, p.range_tokens };
	if (op->ctx->is_invariant)
		return add_part(op, plan, &p, pick_invariant(op, &p));
	if (decodes && mixed)
		f = first_list(op, &p);
	if (f.id < 0)
		f = most_named(op, decodes ? DECIDE_DECODE : DECIDE_PREFILL, &g, &p);
	if (f.id < 0)
		f = fallback_between(op, &g, &p);
	else
		fit_segments(op, &f, &g, &p);
	return add_part(op, plan, &p, f);
}

static enum attune_status plan_maxima(const attune_op *op, const struct maxima *m,
				      attune_plan *plan)
{
	const int mixed = m->query > DECODE_MAX_QUERY;
	enum attune_status status = ATTUNE_OK;
	struct part_shape s;
	part_shape_of(&s, &op->shape, &op->ctx->device.info);
	*plan = (attune_plan){ .size = sizeof *plan,
			       .op = op->id,
			       .num_seqs = m->seqs,
			       .num_tokens = m->tokens,
			       .table_seq = (int)max_of(m->seqs - 1, 0),
			       .table_pages = WHOLE_ROW };
	for (int i = 0; i < ATTUNE_PLAN_SLICES; i++)
		plan->longest[i] = m->query;
	if (mixed)
		status = add_bounded(op, &s, m, PHASE_PREFILL, plan);
	if (m->tokens && !status)
		status = add_bounded(op, &s, m, PHASE_DECODE, plan);
	if (mixed)
		plan->how = how_to_run(op, &s, m);
	const size_t part[] = { plan->part[0].workspace, plan->part[1].workspace };
	plan->workspace = op_workspace(op, plan->how, part, plan->num_parts, NULL, NULL);
	return status;
}

enum attune_status attune_plan_bounds(const attune_op *op, int num_seqs, int num_tokens,
				      int max_query, int max_keys, attune_plan *plan)
{
	static const char call[] = "attune_plan_bounds";
	attune_plan own;
	if (!op || !plan)
		return fail(ATTUNE_INVALID, "%s: an argument is NULL", call);
	attune_plan *made = sized_make(&plan_sized, plan, &own, call);
	if (!made)
		return ATTUNE_INVALID;
	const int tokens = (int)min_of(num_tokens, (long long)num_seqs * max_query);
	const struct maxima m = { num_seqs, tokens, (int)min_of(max_query, tokens), max_keys };
	const char *error = maxima_error(m.seqs, m.tokens, m.query, m.keys, &op->shape);
	if (error)
		return fail(ATTUNE_INVALID, "%s: %s", call, error);
	const enum attune_status status = plan_maxima(op, &m, made);
	sized_give(&plan_sized, plan, made);
	return status;
}
