/* replay.h - request traces through a simulated engine, and which of its steps to
 * keep as scenarios. The scheduler is vLLM V1's: running requests first and in
 * order, chunked prefill, at most one request half-prefilled after a step. */
#ifndef REPLAY_H
#define REPLAY_H

#include "../kernels/attune.h"
#include <stdio.h>

enum { REPLAY_BLOCK = 16 /* tokens of a KV block of the simulated engine */ };

struct request {
	double arrival_ms;
	int prompt, output; /* tokens, 1 or more each */
};

struct trace {
	struct request *v;
	int n;
	int dropped; /* rows left out: longer than max_request, or without tokens */
};

struct engine {
	int max_batched_tokens, max_seqs;
	long long kv_tokens; /* capacity of the cache */
};

struct row { /* one sequence of a step */
	int32_t query, seq;
};

struct step {
	double ms;
	size_t first; /* into rows */
	int num_rows;
};

struct replay {
	struct step *steps;
	struct row *rows;
	int num_steps;
	int busy_steps; /* until the last request has entered; then the engine runs dry */
	size_t num_rows, steps_room, rows_room;
	long long recomputed; /* tokens computed and then lost to preemption */
	int preemptions;
	double *done_ms; /* of each request of the trace */
};

struct picked {
	int step;
	double weight; /* share of the replay's time that it stands for */
};

/* The first `max_requests` fitting rows of a CSV with columns arrival_s,
 * prompt_tokens, output_tokens (others are ignored), ordered by arrival. 0 after
 * a complaint "file:line:column: ...". */
int trace_load(struct trace *, const char *path, int max_requests, int max_request_tokens);
void trace_free(struct trace *);

/* Runs the whole trace; 0 when out of memory. Every request must fit kv_tokens. */
int replay_run(struct replay *, const struct trace *, const struct engine *);
void replay_free(struct replay *);
/* Requests a second that the engine completes with an endless backlog; 0: out of
 * memory. */
double replay_capacity(const struct trace *, const struct engine *);
/* Moves arrivals so that their mean rate becomes `per_s`; their pattern stays. */
void trace_set_rate(struct trace *, double per_s);

/* pick.c: `n` typical steps that lie far apart in the logarithms of (decodes, their
 * mean KV, prefill tokens, longest KV), found from a first one that is drawn by time
 * with `seed`. Only busy steps after their
 * first tenth, none of more than max_pairs query-key pairs,
 * no batch twice. Returns how many there are, at most n; -1: out of memory. */
int replay_pick(const struct replay *, struct picked *, int n, double max_pairs,
		unsigned long long seed);

/* trace_set.c: a trace and what to make of it. */
struct job {
	const char *path, *split;
	double load; /* request rate as a share of capacity */
	double max_gflop;
	struct engine engine;
	int pick, requests, max_request;
	unsigned long long seed;
};
/* Replays each, and prints the picked steps as one scenario set. Weights are shares
 * of a trace's time x its number of picks: 1 on average. 0 after a complaint. */
int trace_set_print(const struct job *, int num_jobs, const char *model, const attune_shape *,
		    FILE *);

#endif
