/* SPDX-License-Identifier: Apache-2.0 */
/* engine_sim.h - runs request traces through a simulated engine and selects steps of it as
 * scenarios. The scheduler is vLLM V1's: running requests first and in order, chunked prefill,
 * at most one request half-prefilled after a step. */
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
	int cached;         /* leading tokens of the prompt that a prefix cache holds */
};

struct trace {
	struct request *v;
	int n;
	int dropped; /* rows skipped: longer than max_request, or without tokens */
};

struct step_cost { /* of a step: fixed, per query token, per KV token read */
	double step_ms, query_ms, kv_ms;
};
extern const struct step_cost usual_cost;

struct engine {
	int max_batched_tokens, max_seqs;
	long long kv_tokens;     /* capacity of the cache */
	int prefix_caching;      /* a trace's cached tokens count; their blocks are not shared */
	int drafts;              /* speculative tokens that a decode adds to its own */
	double accept;           /* tokens that it then advances on average, 1 to drafts + 1 */
	unsigned long long seed; /* draws the accepted drafts */
	const struct step_cost *cost; /* NULL: usual_cost */
};

struct row { /* one sequence of a step */
	int32_t query, seq;
	int32_t request; /* index in the trace; 0 in made-up batches */
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
	int busy_steps; /* until the last request enters; then the engine drains */
	int is_served;  /* 1: an engine ran these, which did not begin empty and does not drain */
	size_t num_rows, steps_room, rows_room;
	long long recomputed; /* tokens computed again after preemption */
	long long rejected;   /* drafts computed and not accepted */
	int preemptions;
	double *done_ms; /* of each request of the trace */
};

struct picked {
	int step;
	double weight; /* share of the simulated time that it represents */
	int steps;     /* steps that it represents, itself included */
};

/* trace.c */
/* Reads the first `max_requests` fitting rows of a CSV with columns arrival_s, prompt_tokens,
 * output_tokens and optionally cached_prefix_tokens, ordered by arrival. Other columns are ignored.
 * 0 after a complaint "file:line:column: ...". */
int trace_load(struct trace *, const char *path, int max_requests, int max_request_tokens);
void trace_free(struct trace *);
/* Mean arrival rate in requests a second; 0: all arrive at once. */
double trace_rate(const struct trace *);
/* Scales arrivals so that their mean rate becomes `per_s`; their pattern stays. */
void trace_set_rate(struct trace *, double per_s);

/* engine_sim.c */
/* Runs the whole trace; 0: out of memory. Every request must fit into kv_tokens. */
int engine_run(struct engine_sim *, const struct trace *, const struct engine *);
/* Adds a step of these sequences, but not those without query tokens; cost NULL: usual_cost. 0: out
 * of memory. */
int engine_add_step(struct engine_sim *, const struct row *, int n, const struct step_cost *);
void engine_free(struct engine_sim *);
/* Requests a second that the engine completes if all wait from the start; 0: out of memory. */
double engine_capacity(const struct trace *, const struct engine *);

/* captured_steps.c: steps that an engine ran, by libattune.capture (scenarios/README.md). */
struct captured {                /* those of one kind of layers */
	char model[64];          /* "": the lines name no layers */
	char settings[96];       /* JSON members of a set, each followed by ", " */
	int every;               /* one step in `every` is kept */
	struct engine_sim steps; /* each of the ms that the cost says */
	/* private */
	int number, seen;
};
struct capture {
	struct captured *v;
	int n;
};
/* Reads a file. Shapes that no model has are added to the models. 0 + complain. */
int capture_load(struct capture *, const char *path, const struct step_cost *, struct models *);
void capture_free(struct capture *);

/* representative_steps.c */
struct pick_rule {
	int first, end;   /* range of steps */
	double max_pairs; /* most query-key pairs of a step */
	int leave_out;    /* exclude steps of a held-out block */
	unsigned long long seed;
};
/* The busy steps without their first tenth, in which a simulated engine fills. */
struct pick_rule pick_all(const struct engine_sim *);
/* Picks at most n typical steps that lie far apart in the logarithms of (decodes, their mean KV,
 * prefill tokens, longest KV), no batch twice. The first is drawn with the seed, in proportion
 * to time. Returns their number; -1: out of memory. */
int engine_pick(const struct engine_sim *, const struct pick_rule *, struct picked *, int n);
/* Picks the steps with the longest sequence, the most sequences and the most prefill tokens: at
 * most REPLAY_CORNERS, of weight 0. */
enum { REPLAY_CORNERS = 3 };
int engine_corners(const struct engine_sim *, const struct pick_rule *, struct picked *);

/* trace_set.c: a trace, or captured steps, and the settings for its steps. */
struct job {
	const char *path, *split;
	int is_captured;    /* the engine and the load are not used */
	const char *models; /* "a@1,b@4": assigned to the picks in turn */
	int leave_out;      /* exclude steps of a held-out block; hold out a tenth of the picks */
	double load;        /* request rate as a share of capacity */
	double hold_out;    /* the last share of the engine's time, held out */
	double max_gflop;
	struct engine engine;  /* seed and cost are set from below; accept 0: 1 + drafts / 2 */
	struct step_cost cost; /* step_ms 0: usual_cost */
	int pick, corners, requests, max_request; /* corners: 1 to add them to the picks */
	unsigned long long seed;
};
extern const struct job usual_job; /* without path and models */
/* The sources of a set: a grid of made-up batches, traces, or both. */
struct recipe {
	const char *grid, *dir; /* grid: its name, or NULL; dir: of the shipped sets */
	const struct job *jobs;
	int num_jobs;
};
/* Makes and prints the set. A weight is a share of the trace's time x its number of picks, 1 on
 * average. 0 after a complaint. */
int set_make(const struct recipe *, struct models *, FILE *);
/* Prints statistics of each job's steps as a table. 0 after a complaint. */
int traffic_print(const struct job *, int num_jobs, struct models *, enum format, FILE *);

#endif
