/* replay.c - a trace of request lengths through vLLM V1's scheduler, simulated.
 *
 * A step is scheduled in two passes. Running requests, in order, take what they
 * need of the token budget; when KV blocks run out the tail of `running` loses its
 * blocks, to be computed again. Then, unless that happened, waiting requests enter
 * first come first served while there is room for the whole prompt; the last one
 * gets the rest of the budget, a first chunk.
 *
 *   waiting = preempted (a stack: last preempted enters first), then arrivals
 *
 * A request's tokens are its prompt and what it has generated. A step that computes
 * the last known token generates the next; the last one generated is never fed, so
 * query tokens in all = prompt + output - 1 + recomputed. */
#include "harness.h"
#include "replay.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Cost of a step, fitted by others to one served model: only its proportions
 * matter here, since the load is set as a share of capacity. */
static const double step_ms = 4, query_ms = 0.02, kv_ms = 3e-5;

struct state { /* of a request */
	int computed, generated;
	long long blocks;
};

struct sim {
	const struct trace *trace;
	const struct engine *engine;
	struct replay *out;
	struct state *state; /* as the trace */
	int *running, num_running;
	int *query; /* of this step, as running */
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
	s->out->recomputed += s->state[id].computed;
	s->out->preemptions++;
	s->state[id].computed = 0;
	give_blocks(s, id, 0);
	s->preempted[s->num_preempted++] = id;
}

/* 1 when somebody was preempted. */
static int schedule_running(struct sim *s)
{
	int before = s->out->preemptions;
	for (int i = 0; i < s->num_running; i++) {
		int id = s->running[i], needed = known_tokens(s, id) - s->state[id].computed;
		int query = needed < s->budget ? needed : s->budget;
		long long blocks = blocks_for((long long)s->state[id].computed + query);
		while (blocks - s->state[id].blocks > s->free_blocks && i < s->num_running)
			preempt_tail(s); /* in the end itself */
		if (i == s->num_running)
			break;
		give_blocks(s, id, blocks);
		s->query[i] = query;
		s->budget -= query;
	}
	return s->out->preemptions > before;
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
		query = tokens < s->budget ? tokens : s->budget;
		if (again)
			s->num_preempted--;
		else
			s->next++;
		give_blocks(s, id, blocks_for(query));
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

/* Keeps the step; sequences that the budget did not reach are not part of it. */
static int record(struct sim *s)
{
	struct replay *out = s->out;
	struct step *steps =
	    grown(out->steps, &out->steps_room, (size_t)out->num_steps + 1, sizeof *steps);
	struct row *rows;
	struct step step = { .ms = step_ms, .first = out->num_rows };
	if (steps)
		out->steps = steps;
	rows =
	    grown(out->rows, &out->rows_room, out->num_rows + (size_t)s->num_running, sizeof *rows);
	if (rows)
		out->rows = rows;
	if (!steps || !rows)
		return 0;
	for (int i = 0; i < s->num_running; i++) {
		int query = s->query[i], seq = s->state[s->running[i]].computed + query;
		if (!query)
			continue;
		rows[out->num_rows++] = (struct row){ query, seq };
		step.num_rows++;
		step.ms += query_ms * query + kv_ms * seq;
	}
	steps[out->num_steps++] = step;
	if (s->next < s->trace->n || s->num_preempted)
		out->busy_steps = out->num_steps + 1;
	s->now_ms += step.ms;
	return 1;
}

/* What the step computed becomes part of the state; finished requests leave. */
static void advance(struct sim *s)
{
	int kept = 0;
	for (int i = 0; i < s->num_running; i++) {
		int id = s->running[i];
		struct state *st = &s->state[id];
		st->computed += s->query[i];
		if (st->computed == known_tokens(s, id))
			st->generated++;
		if (st->generated < s->trace->v[id].output) {
			s->running[kept++] = id;
			continue;
		}
		s->out->done_ms[id] = s->now_ms;
		give_blocks(s, id, 0);
	}
	s->num_running = kept;
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

int replay_run(struct replay *out, const struct trace *trace, const struct engine *engine)
{
	size_t n = (size_t)trace->n + 1, m = (size_t)engine->max_seqs + 1;
	struct sim s = { .trace = trace,
			 .engine = engine,
			 .out = out,
			 .state = calloc(n, sizeof *s.state),
			 .running = calloc(m, sizeof *s.running),
			 .query = calloc(m, sizeof *s.query),
			 .preempted = calloc(n, sizeof *s.preempted),
			 .free_blocks = engine->kv_tokens / REPLAY_BLOCK };
	int ok;
	*out = (struct replay){ .done_ms = calloc(n, sizeof *out->done_ms),
				.busy_steps = trace->n > 0 };
	ok = s.state && s.running && s.query && s.preempted && out->done_ms && run(&s);
	free(s.state);
	free(s.running);
	free(s.query);
	free(s.preempted);
	if (!ok)
		replay_free(out);
	return ok;
}

void replay_free(struct replay *r)
{
	free(r->steps);
	free(r->rows);
	free(r->done_ms);
	*r = (struct replay){ 0 };
}

/* Completions between 15 % and 85 % of a run in which all arrive at once. */
double replay_capacity(const struct trace *trace, const struct engine *engine)
{
	struct trace crowd = { calloc((size_t)trace->n + 1, sizeof *crowd.v), trace->n, 0 };
	struct replay r;
	double end = 0, done = 0;
	if (!crowd.v)
		return 0;
	memcpy(crowd.v, trace->v, (size_t)trace->n * sizeof *crowd.v);
	for (int i = 0; i < crowd.n; i++)
		crowd.v[i].arrival_ms = 0;
	if (replay_run(&r, &crowd, engine)) {
		for (int i = 0; i < r.num_steps; i++)
			end += r.steps[i].ms;
		for (int i = 0; i < crowd.n; i++)
			done += r.done_ms[i] > 0.15 * end && r.done_ms[i] <= 0.85 * end;
		replay_free(&r);
	}
	trace_free(&crowd);
	/* A trace too short to have a middle: its mean over the whole run. */
	return end > 0 ? 1e3 * (done > 0 ? done / 0.7 : trace->n) / end : 0;
}

void trace_set_rate(struct trace *t, double per_s)
{
	double first = t->n ? t->v[0].arrival_ms : 0;
	double span = t->n ? t->v[t->n - 1].arrival_ms - first : 0;
	double wanted = 1e3 * t->n / per_s;
	for (int i = 0; i < t->n; i++)
		t->v[i].arrival_ms = span > 0 ? (t->v[i].arrival_ms - first) * wanted / span : 0;
}

/* ---- the CSV ------------------------------------------------------------------- */
enum { ARRIVAL, PROMPT, OUTPUT, NUM_COLUMNS, MAX_LINE = 1024 };
static const char *const column_names[] = { "arrival_s", "prompt_tokens", "output_tokens" };

/* Where each named column is, from 0. */
static int read_header(char *line, int *where, const char *path)
{
	int i = 0;
	for (int c = 0; c < NUM_COLUMNS; c++)
		where[c] = -1;
	for (char *field = line; field; i++) {
		char *comma = strpbrk(field, ",\r\n");
		int more = comma && *comma == ',';
		if (comma)
			*comma = '\0';
		for (int c = 0; c < NUM_COLUMNS; c++)
			if (!strcmp(field, column_names[c]))
				where[c] = i;
		field = more ? comma + 1 : NULL;
	}
	for (int c = 0; c < NUM_COLUMNS; c++)
		if (where[c] < 0) {
			complain("%s:1:1: no column \"%s\"; the first line must name arrival_s, "
				 "prompt_tokens and output_tokens",
				 path, column_names[c]);
			return 0;
		}
	return 1;
}

static int read_row(char *line, const int *where, double *v, const char *path, int number)
{
	char *field = line;
	for (int i = 0, found = 0; found < NUM_COLUMNS; i++) {
		for (int c = 0; c < NUM_COLUMNS; c++) {
			char *end;
			if (where[c] != i)
				continue;
			v[c] = strtod(field, &end);
			if (end == field || !strchr(",\r\n", *end) || !(v[c] >= 0 && v[c] < 1e9)) {
				complain("%s:%d:%d: %s is no number; it must be 0 or more, below "
					 "1e9",
					 path, number, (int)(field - line) + 1, column_names[c]);
				return 0;
			}
			found++;
		}
		field += strcspn(field, ",\r\n");
		if (*field == ',')
			field++;
	}
	return 1;
}

/* 1: taken or dropped. */
static int take_row(struct trace *t, size_t *room, const double *v, int max_tokens,
		    const char *path, int number)
{
	struct request *more, one = { 1e3 * v[ARRIVAL], (int)v[PROMPT], (int)v[OUTPUT] };
	if (one.prompt < 1 || one.output < 1 || v[PROMPT] + v[OUTPUT] > max_tokens) {
		t->dropped++;
		return 1;
	}
	if (t->n && one.arrival_ms < t->v[t->n - 1].arrival_ms) {
		complain("%s:%d:1: arrival_s goes back; rows must be in order of arrival", path,
			 number);
		return 0;
	}
	more = grown(t->v, room, (size_t)t->n + 1, sizeof *more);
	if (!more) {
		complain("out of memory");
		return 0;
	}
	t->v = more;
	t->v[t->n++] = one;
	return 1;
}

int trace_load(struct trace *t, const char *path, int max_requests, int max_request_tokens)
{
	FILE *f = fopen(path, "r");
	char line[MAX_LINE];
	int where[NUM_COLUMNS], ok, number = 1;
	size_t room = 0;
	double v[NUM_COLUMNS];
	*t = (struct trace){ 0 };
	if (!f) {
		complain("%s: %s; a trace is a CSV file", path, strerror(errno));
		return 0;
	}
	if (!fgets(line, sizeof line, f))
		line[0] = '\0'; /* an empty file lacks its columns */
	ok = read_header(line, where, path);
	while (ok && t->n < max_requests && fgets(line, sizeof line, f))
		ok = read_row(line, where, v, path, ++number) &&
		     take_row(t, &room, v, max_request_tokens, path, number);
	if (ok && ferror(f)) {
		complain("%s: %s", path, strerror(errno));
		ok = 0;
	}
	fclose(f);
	if (ok && !t->n) {
		complain("%s: no request to replay; it must have rows of at most %d tokens", path,
			 max_request_tokens);
		ok = 0;
	}
	if (!ok)
		trace_free(t);
	return ok;
}

void trace_free(struct trace *t)
{
	free(t->v);
	*t = (struct trace){ 0 };
}
