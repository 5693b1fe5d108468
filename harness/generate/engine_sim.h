/* engine_sim.h - request traces through a simulated engine, and which of its steps to
 * keep as scenarios. The scheduler is vLLM V1's: running requests first and in
 * order, chunked prefill, at most one request half-prefilled after a step. */
#ifndef HARNESS_GENERATE_ENGINE_SIM_H
#define HARNESS_GENERATE_ENGINE_SIM_H

#include "harness/base/base.h"
#include <stdint.h>
#include <stdio.h>

struct models;
struct step;

enum { REPLAY_BLOCK = 16 /* tokens of a KV block of the simulated engine */ };

struct request {
	double arrival_ms;
	int prompt, output; /* tokens, 1 or more each */
	int cached;         /* leading ones of the prompt that a prefix cache holds */
};

struct trace {
	struct request *v;
	int n;
	int dropped; /* rows left out: longer than max_request, or without tokens */
};

struct step_cost { /* of a step: fixed, for each query token, for each KV token read */
	double step_ms, query_ms, kv_ms;
};
extern const struct step_cost usual_cost;

struct engine {
	int max_batched_tokens, max_seqs;
	long long kv_tokens;     /* capacity of the cache */
	int prefix_caching;      /* a trace's cached tokens count; their blocks are not shared */
	int drafts;              /* speculative tokens that a decode feeds beside its own */
	double accept;           /* tokens that it then advances, on average: 1 to drafts + 1 */
	unsigned long long seed; /* draws what is accepted */
	const struct step_cost *cost; /* NULL: usual_cost */
};

struct row { /* one sequence of a step */
	int32_t query, seq;
	int32_t request; /* of the trace; what is made up has none, 0 */
};

struct step {
	double ms;
	size_t first; /* into rows */
	int num_rows;
};

struct engine_sim {
	struct step *steps;
	struct row *rows;
	int num_steps;
	int busy_steps; /* until the last request has entered; then the engine runs dry */
	size_t num_rows, steps_room, rows_room;
	long long recomputed; /* tokens computed and then lost to preemption */
	long long rejected;   /* drafts fed in vain */
	int preemptions;
	double *done_ms; /* of each request of the trace */
};

struct picked {
	int step;
	double weight; /* share of the replay's time that it stands for */
	int steps;     /* how many it stands for, itself included */
};

/* trace.c */
/* The first `max_requests` fitting rows of a CSV with columns arrival_s, prompt_tokens,
 * output_tokens and, if it likes, cached_prefix_tokens (others are ignored), ordered by arrival. 0 after
 * a complaint "file:line:column: ...". */
int trace_load(struct trace *, const char *path, int max_requests, int max_request_tokens);
void trace_free(struct trace *);
/* Requests a second as they arrive; 0: all at a time. */
double trace_rate(const struct trace *);
/* Moves arrivals so that their mean rate becomes `per_s`; their pattern stays. */
void trace_set_rate(struct trace *, double per_s);

/* engine_sim.c */
/* Runs the whole trace; 0 when out of memory. Every request must fit kv_tokens. */
int engine_run(struct engine_sim *, const struct trace *, const struct engine *);
void engine_free(struct engine_sim *);
/* Requests a second that the engine completes with an endless backlog; 0: out of
 * memory. */
double engine_capacity(const struct trace *, const struct engine *);

/* representative_steps.c */
struct pick_rule {
	int first, end;   /* among these steps */
	double max_pairs; /* none of more query-key pairs */
	int leave_out;    /* none of a held-out block */
	unsigned long long seed;
};
/* The busy steps after their first tenth, while the engine fills. */
struct pick_rule pick_all(const struct engine_sim *);
/* `n` typical steps that lie far apart in the logarithms of (decodes, their mean KV,
 * prefill tokens, longest KV), found from a first one that is drawn by time with the
 * seed; no batch twice. Returns how many there are, at most n; -1: out of memory. */
int engine_pick(const struct engine_sim *, const struct pick_rule *, struct picked *, int n);
/* The steps with the longest sequence, the most sequences and the most prefill tokens:
 * REPLAY_CORNERS or fewer, of weight 0. */
enum { REPLAY_CORNERS = 3 };
int engine_corners(const struct engine_sim *, const struct pick_rule *, struct picked *);

/* trace_set.c: a trace and what to make of it. */
struct job {
	const char *path, *split;
	const char *models; /* "a@1,b@4": dealt to the picks in turn */
	int leave_out;      /* no step of a held-out block; a tenth of the picks held out */
	double load;        /* request rate as a share of capacity */
	double hold_out;    /* share of the engine's time, its last, that is held out */
	double max_gflop;
	struct engine engine;  /* its seed, cost and accept 0 are set from what is here */
	struct step_cost cost; /* step_ms 0: the usual */
	int pick, corners, requests, max_request; /* corners: 1 to add them to the picks */
	unsigned long long seed;
};
/* What a set is made of: a grid of made-up batches, traces, or both. */
struct recipe {
	const char *grid, *dir; /* grid: its name, or NULL; dir: of the shipped sets */
	const struct job *jobs;
	int num_jobs;
};
/* Prints it. Weights are shares of a trace's time x its number of picks: 1 on average. 0
 * after a complaint. */
int set_make(const struct recipe *, const struct models *, FILE *);
/* trace_stats.c: what the steps of each are like, as a table. 0 after a complaint. */
int traffic_print(const struct job *, int num_jobs, enum format, FILE *);
/* Replays the job's trace at its load; says in a line what came of it. 0 after a
 * complaint. */
int job_replay(struct engine_sim *, const struct job *);
/* "data/azure2023_code.csv" -> "azure2023_code" */
void trace_name(char *name, size_t size, const char *path);

/* scenarios_list.c: what attune scenarios lists. Exit codes. */
enum { LISTING_SETS = 64 };
struct listing {
	enum format format;
	const char *dir, *batch, *model; /* model: of the batch; of sets, only its scenarios */
	const char *set[LISTING_SETS];   /* names below dir, or paths; none: all of dir */
	int num_sets, page_size;         /* page_size: of the batch */
};
int list_models(const struct models *, enum format);
int list_batch(const struct listing *, const struct models *);
int list_sets(const struct listing *, const struct models *);

#endif
