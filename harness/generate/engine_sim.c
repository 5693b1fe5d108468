/* SPDX-License-Identifier: Apache-2.0 */
/* engine_sim.c - simulates vLLM V1's scheduler on a trace of request lengths.
 *
 * A step is scheduled in two passes. First the running requests, in order, take tokens from the
 * budget. If KV blocks run out, the last running request is preempted: it loses its blocks and is
 * computed again later. Second, unless a request was preempted, waiting requests enter first come
 * first served while the whole prompt has room. The last one gets the rest of the budget as its
 * first chunk.
 *
 *   waiting = preempted (a stack: last preempted enters first), then arrivals
 *
 * The known tokens of a request are its prompt and what it has generated. A step that computes the
 * last known token generates the next one. The last generated token is never computed.
 *
 * With prefix caching a request enters with its cached tokens computed. With speculation a decode
 * also computes drafts, of which some are accepted and the others rejected:
 *
 *   query tokens in all = prompt - cached + output - 1 + recomputed + rejected */
#include "harness/base/base.h"
#include "engine_sim.h"
#include <stdlib.h>
#include <string.h>

/* Fitted by others to one served model. Only the proportions matter, because the load is set as a
 * share of capacity. */
const struct step_cost usual_cost = { .step_ms = 4, .query_ms = 0.02, .kv_ms = 3e-5 };

struct state { /* of a request */
	int computed, generated;
	int cached;  /* tokens of its prompt found in the prefix cache when it entered */
	int drafted; /* has drafts to compute */
	long long blocks;
};

struct sim {
	const struct trace *trace;
	const struct engine *engine;
	struct step_cost cost;
	double draft_share; /* probability that a draft is accepted, given those before it */
	struct engine_sim *out;
	struct state *state; /* as the trace */
	int *running, num_running;
	int *query;      /* of this step, as running */
	struct row *row; /* the same */
	int *preempted, num_preempted;
	int next; /* first request that has neither run nor been preempted */
	long long free_blocks;
	int budget;
	double now_ms;
};

static long long blocks_for(long long tokens)
{
	return (tokens + REPLAY_BLOCK - 1) / REPLAY_BLOCK;
}

static int known_tokens(const struct sim *s, int id)
{
	return s->trace->v[id].prompt + s->state[id].generated;
}

static void give_blocks(struct sim *s, int id, long long blocks)
{
	s->free_blocks -= blocks - s->state[id].blocks;
	s->state[id].blocks = blocks;
}

static void preempt_tail(struct sim *s)
{
	int id = s->running[--s->num_running];
	s->out->recomputed += s->state[id].computed - s->state[id].cached;
	s->out->preemptions++;
	s->state[id].computed = s->state[id].drafted = 0;
	give_blocks(s, id, 0);
	s->preempted[s->num_preempted++] = id;
}

/* 1: a request was preempted. */
static int schedule_running(struct sim *s)
{
	int before = s->out->preemptions;
	for (int i = 0; i < s->num_running; i++) {
		const int id = s->running[i];
		const struct state *st = &s->state[id];
		int needed =
		    known_tokens(s, id) - st->computed + (st->drafted ? s->engine->drafts : 0);
		int query = needed < s->budget ? needed : s->budget;
		long long blocks = blocks_for((long long)st->computed + query);
		if (blocks < st->blocks) /* blocks of rejected drafts are kept */
			blocks = st->blocks;
		while (blocks - st->blocks > s->free_blocks && i < s->num_running)
			preempt_tail(s); /* request i itself at last */
		if (i == s->num_running)
			break;
		give_blocks(s, id, blocks);
		s->query[i] = query;
		s->budget -= query;
	}
	return s->out->preemptions > before;
}

/* Whole blocks; at least one token is left to compute. */
static int cached_tokens(const struct sim *s, int id)
{
	const struct request *r = &s->trace->v[id];
	int cached = r->cached < r->prompt ? r->cached : r->prompt - 1;
	return s->engine->prefix_caching ? cached / REPLAY_BLOCK * REPLAY_BLOCK : 0;
}

static void schedule_waiting(struct sim *s)
{
	while (s->budget > 0 && s->num_running < s->engine->max_seqs) {
		int again = s->num_preempted > 0, id, tokens, query;
		if (!again &&
		    (s->next == s->trace->n || s->trace->v[s->next].arrival_ms > s->now_ms))
			break;
		id = again ? s->preempted[s->num_preempted - 1] : s->next;
		tokens = known_tokens(s, id);
		if (blocks_for(tokens) > s->free_blocks)
			break;
		if (again)
			s->num_preempted--;
		else
			s->next++;
		s->state[id].computed = s->state[id].cached = cached_tokens(s, id);
		query = tokens - s->state[id].cached;
		query = query < s->budget ? query : s->budget;
		give_blocks(s, id, blocks_for((long long)s->state[id].cached + query));
		s->query[s->num_running] = query;
		s->running[s->num_running++] = id;
		s->budget -= query;
	}
}

static void *grown(void *old, size_t *room, size_t wanted, size_t size)
{
	size_t more = *room ? *room : 1024;
	void *p;
	while (more < wanted)
		more *= 2;
	if (more == *room)
		return old;
	p = realloc(old, more * size);
	if (p)
		*room = more;
	return p;
}

int engine_add_step(struct engine_sim *out, const struct row *from, int n,
		    const struct step_cost *cost)
{
	const struct step_cost c = cost ? *cost : usual_cost;
	struct step *steps =
	    grown(out->steps, &out->steps_room, (size_t)out->num_steps + 1, sizeof *steps);
	struct row *rows;
	struct step step = { .ms = c.step_ms, .first = out->num_rows };
	if (steps)
		out->steps = steps;
	rows = grown(out->rows, &out->rows_room, out->num_rows + (size_t)n, sizeof *rows);
	if (rows)
		out->rows = rows;
	if (!steps || !rows)
		return 0;
	for (int i = 0; i < n; i++) {
		if (!from[i].query)
			continue;
		rows[out->num_rows++] = from[i];
		step.num_rows++;
		step.ms += c.query_ms * from[i].query + c.kv_ms * from[i].seq;
	}
	steps[out->num_steps++] = step;
	return 1;
}

/* Records the step, without sequences that got no tokens. */
static int record(struct sim *s)
{
	struct engine_sim *out = s->out;
	for (int i = 0; i < s->num_running; i++) {
		const int id = s->running[i], query = s->query[i];
		s->row[i] = (struct row){ query, s->state[id].computed + query, id };
	}
	if (!engine_add_step(out, s->row, s->num_running, &s->cost))
		return 0;
	if (s->next < s->trace->n || s->num_preempted)
		out->busy_steps = out->num_steps + 1;
	s->now_ms += out->steps[out->num_steps - 1].ms;
	return 1;
}

/* A draw in [0, 1): SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, figure 17). */
static double draw(unsigned long long *state)
{
	return (double)(random_bits(state) >> 11) * 0x1p-53;
}

/* Accepted drafts: those before the first rejected one. The draw depends on the request and its
 * progress only, not on other requests. */
static int accepted(const struct sim *s, int id, int drafts)
{
	unsigned long long at = (unsigned long long)id << 32 | (unsigned)s->state[id].generated;
	unsigned long long h = (s->engine->seed + at) * 0xbf58476d1ce4e5b9ull;
	int n = 0;
	while (n < drafts && draw(&h) < s->draft_share)
		n++;
	return n;
}

static void advance_one(struct sim *s, int id, int query)
{
	struct state *st = &s->state[id];
	const int last = known_tokens(s, id), left = s->trace->v[id].output - st->generated - 1;
	const int drafts = st->computed + query - last;
	int kept;
	if (drafts < 0 || !query) { /* still a prefill, or no budget left for it */
		st->computed += query;
		return;
	}
	kept = accepted(s, id, drafts);
	kept = kept < left ? kept : left;
	st->computed = last + kept;
	st->generated += 1 + kept;
	st->drafted = s->engine->drafts > 0;
	s->out->rejected += drafts - kept;
}

/* Adds the step's tokens to the state. Finished requests leave. */
static void advance(struct sim *s)
{
	int kept = 0;
	for (int i = 0; i < s->num_running; i++) {
		int id = s->running[i];
		advance_one(s, id, s->query[i]);
		if (s->state[id].generated < s->trace->v[id].output) {
			s->running[kept++] = id;
			continue;
		}
		s->out->done_ms[id] = s->now_ms;
		give_blocks(s, id, 0);
	}
	s->num_running = kept;
}

/* Solves 1 + p + ... + p^drafts = tokens, the mean advance of a decode in a step. */
static double share_for(int drafts, double tokens)
{
	double lo = 0, hi = 1;
	for (int i = 0; i < 60; i++) {
		double p = (lo + hi) / 2, sum = 1;
		for (int d = 0; d < drafts; d++)
			sum = 1 + p * sum;
		if (sum < tokens)
			lo = p;
		else
			hi = p;
	}
	return (lo + hi) / 2;
}

static int run(struct sim *s)
{
	const struct trace *t = s->trace;
	while (s->num_running || s->num_preempted || s->next < t->n) {
		if (!s->num_running && !s->num_preempted && t->v[s->next].arrival_ms > s->now_ms)
			s->now_ms = t->v[s->next].arrival_ms;
		s->budget = s->engine->max_batched_tokens;
		memset(s->query, 0, (size_t)s->engine->max_seqs * sizeof *s->query);
		if (!schedule_running(s))
			schedule_waiting(s);
		if (!record(s))
			return 0;
		advance(s);
	}
	return 1;
}

int engine_run(struct engine_sim *out, const struct trace *trace, const struct engine *engine)
{
	size_t n = (size_t)trace->n + 1, m = (size_t)engine->max_seqs + 1;
	struct sim s = { .trace = trace,
			 .engine = engine,
			 .cost = engine->cost ? *engine->cost : usual_cost,
			 .draft_share = share_for(engine->drafts, engine->accept),
			 .out = out,
			 .state = calloc(n, sizeof *s.state),
			 .running = calloc(m, sizeof *s.running),
			 .query = calloc(m, sizeof *s.query),
			 .row = calloc(m, sizeof *s.row),
			 .preempted = calloc(n, sizeof *s.preempted),
			 .free_blocks = engine->kv_tokens / REPLAY_BLOCK };
	int ok;
	*out = (struct engine_sim){ .done_ms = calloc(n, sizeof *out->done_ms),
				    .busy_steps = trace->n > 0 };
	ok = s.state && s.running && s.query && s.row && s.preempted && out->done_ms && run(&s);
	free(s.state);
	free(s.running);
	free(s.query);
	free(s.row);
	free(s.preempted);
	if (!ok)
		engine_free(out);
	return ok;
}

void engine_free(struct engine_sim *r)
{
	free(r->steps);
	free(r->rows);
	free(r->done_ms);
	*r = (struct engine_sim){ 0 };
}

/* The rate of completions between 15 % and 85 % of a run in which all arrive at once. */
double engine_capacity(const struct trace *trace, const struct engine *engine)
{
	struct trace crowd = { calloc((size_t)trace->n + 1, sizeof *crowd.v), trace->n, 0 };
	struct engine_sim r;
	double end = 0, done = 0;
	if (!crowd.v)
		return 0;
	memcpy(crowd.v, trace->v, (size_t)trace->n * sizeof *crowd.v);
	for (int i = 0; i < crowd.n; i++)
		crowd.v[i].arrival_ms = 0;
	if (engine_run(&r, &crowd, engine)) {
		for (int i = 0; i < r.num_steps; i++)
			end += r.steps[i].ms;
		for (int i = 0; i < crowd.n; i++)
			done += r.done_ms[i] > 0.15 * end && r.done_ms[i] <= 0.85 * end;
		engine_free(&r);
	}
	trace_free(&crowd);
	/* A trace too short for that: the mean over the whole run. */
	return end > 0 ? 1e3 * (done > 0 ? done / 0.7 : trace->n) / end : 0;
}
