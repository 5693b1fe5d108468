/* SPDX-License-Identifier: Apache-2.0 */
/* trace_set.c - makes a scenario set from request traces, which it simulates, and captured steps:
 * picks steps and writes them as JSON, or prints statistics of the steps. */
#include "engine_sim.h"
#include "set_writer.h"
#include "harness/base/base.h"
#include "harness/base/json_out.h"
#include "harness/scenario/scenario.h"
#include "kernels/segments.h"
#include "kernels/spec/choice.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN_WEIGHT 0.05 /* rare steps of a trace keep some influence */

const struct job usual_job = { .split = "train",
			       .load = 0.95,
			       .max_gflop = INFINITY,
			       .engine = { 8192, 256, 400 * 1024 },
			       .pick = 24,
			       .corners = 1,
			       .requests = 2500,
			       .max_request = 64 * 1024,
			       .seed = 1 };

static void trace_name(char *name, size_t size, const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	snprintf(name, size, "%.*s", (int)strcspn(base, "."), base);
}

/* Model i of the list, which repeats. */
static void model_in_turn(char *name, size_t size, const char *list, int i)
{
	int n = 1;
	for (const char *c = list; *c; c++)
		n += *c == ',';
	for (i %= n; i; i--)
		list = strchr(list, ',') + 1;
	snprintf(name, size, "%.*s", (int)strcspn(list, ","), list);
}

/* The steps of a job, or of one kind of its layers. */
struct source {
	const struct engine_sim *steps;
	const struct job *job;  /* its models: of these layers */
	const char *settings;   /* of the layers, or "" */
	int is_of_model, every; /* every: steps of the engine for each of these */
};

static int add_pick(struct generated_set *set, const struct source *from, const struct picked *p,
		    int picks, const char *split)
{
	const struct engine_sim *r = from->steps;
	const struct job *job = from->job;
	const struct step *s = &r->steps[p->step];
	struct generated e = { .split = split,
			       .is_of_model = from->is_of_model,
			       .weight = fmax(p->weight * picks, MIN_WEIGHT),
			       .steps = p->steps * from->every,
			       .batch = rows_text(&r->rows[s->first], s->num_rows) };
	char name[64];
	snprintf(e.settings, sizeof e.settings, "%s", from->settings);
	trace_name(name, sizeof name, job->path);
	snprintf(e.from, sizeof e.from, "%s, step %d of %d%s", name, p->step * from->every,
		 r->num_steps * from->every, p->weight > 0 ? "" : ", corner");
	model_in_turn(e.model, sizeof e.model, job->models, set->n);
	return e.batch && generated_add(set, e);
}

/* Most query-key pairs within max_gflop for the heaviest model; 0 after a complaint. */
static double most_pairs(const struct job *job, const struct models *models)
{
	double width = 1;
	const char *at = job->models;
	for (int i = 0; at; i++) {
		char name[64];
		attune_shape shape;
		model_in_turn(name, sizeof name, job->models, i);
		if (!models_shape(models, name, &shape))
			return 0;
		width = fmax(width, 4.0 * shape.num_query_heads * shape.head_size);
		at = strchr(at, ',');
		at = at ? at + 1 : NULL;
	}
	return job->max_gflop * 1e9 / width;
}

/* The step where the last `share` of the rule's time begins. */
static int cut_at(const struct engine_sim *r, const struct pick_rule *rule, double share)
{
	double total = 0, sum = 0;
	int i;
	for (i = rule->first; i < rule->end; i++)
		total += r->steps[i].ms;
	for (i = rule->first; i < rule->end && sum < (1 - share) * total; i++)
		sum += r->steps[i].ms;
	return i;
}

static int is_picked(const struct picked *p, int n, int step)
{
	while (n > 0 && p[n - 1].step != step)
		n--;
	return n > 0;
}

/* Returns the number of picks; -1: out of memory. */
static int pick_from(struct generated_set *set, const struct source *from,
		     const struct pick_rule *rule, int wanted, const char *split)
{
	const struct engine_sim *r = from->steps;
	const struct job *job = from->job;
	struct picked *p = calloc((size_t)wanted + REPLAY_CORNERS, sizeof *p);
	int n = p ? engine_pick(r, rule, p, wanted) : -1, ok = n >= 0;
	int corners = n > 0 && job->corners ? engine_corners(r, rule, p + n) : 0;
	for (int i = 0; ok && i < n + corners; i++) {
		if (i >= n && is_picked(p, i, p[i].step))
			continue;
		const int is_drawn = job->leave_out && i < n && i % 10 == 5;
		ok = add_pick(set, from, &p[i], n, is_drawn ? "heldout_random" : split);
	}
	free(p);
	return ok ? n : -1;
}

static int pick_steps(struct generated_set *set, const struct source *from, double pairs)
{
	const struct engine_sim *r = from->steps;
	const struct job *job = from->job;
	struct pick_rule early = pick_all(r), late;
	const int held = (int)lround(job->pick * job->hold_out);
	int n, more = 0;
	early.max_pairs = pairs;
	early.leave_out = job->leave_out;
	early.seed = job->seed;
	late = early;
	early.end = late.first = cut_at(r, &early, job->hold_out);
	n = pick_from(set, from, &early, job->pick - held, job->split);
	if (n > 0 && held)
		more = pick_from(set, from, &late, held, "heldout_traces");
	if (n < 0 || more < 0)
		complain("out of memory");
	else if (!n || (held && !more))
		complain("%s: no step may be kept; %s", job->path,
			 job->is_captured ? "raise --max-gflop or capture more steps"
					  : "raise --max-gflop or --requests");
	return n > 0 && more >= (held > 0);
}

/* The job's engine with its defaults filled in. */
static struct engine job_engine(const struct job *job)
{
	struct engine e = job->engine;
	e.seed = job->seed;
	e.cost = job->cost.step_ms > 0 ? &job->cost : NULL;
	if (!(e.accept > 0))
		e.accept = 1 + e.drafts / 2.;
	return e;
}

/* Simulates the job's trace at its load and prints a line about it. 0 after a complaint. */
static int job_replay(struct engine_sim *r, const struct job *job)
{
	const struct engine e = job_engine(job);
	long long whole = e.kv_tokens / REPLAY_BLOCK * REPLAY_BLOCK - e.drafts;
	int longest = whole < job->max_request ? (int)whole : job->max_request, ok = 0;
	struct trace trace;
	double capacity;
	if (e.accept > e.drafts + 1) {
		complain("%s: --accept %g with %d drafts; it must be at most %d", job->path,
			 e.accept, e.drafts, e.drafts + 1);
		return 0;
	}
	if (!trace_load(&trace, job->path, job->requests, longest))
		return 0;
	capacity = engine_capacity(&trace, &e);
	const double own = trace_rate(&trace);
	if (capacity > 0) {
		trace_set_rate(&trace, job->load * capacity);
		ok = engine_run(r, &trace, &e);
	}
	if (ok)
		complain("%s: %d requests (%d left out); their %.2f/s are taken as %.2f/s, load "
			 "%.2f of an engine of %d sequences, %d tokens a step and a cache of %lld "
			 "tokens; %d steps, %d preemptions",
			 job->path, trace.n, trace.dropped, own, job->load * capacity, job->load,
			 e.max_seqs, e.max_batched_tokens, e.kv_tokens, r->num_steps,
			 r->preemptions);
	else
		complain("out of memory");
	trace_free(&trace);
	return ok;
}

static int engine_job(struct generated_set *set, const struct job *job, struct models *models)
{
	const double pairs = most_pairs(job, models);
	struct engine_sim r;
	int ok;
	if (!pairs || !job_replay(&r, job))
		return 0;
	const struct source from = { .steps = &r, .job = job, .settings = "", .every = 1 };
	ok = pick_steps(set, &from, pairs);
	engine_free(&r);
	return ok;
}

/* The job of one kind of layers. */
static struct job layers_job(const struct job *job, const struct captured *layers)
{
	struct job own = *job;
	if (*layers->model)
		own.models = layers->model;
	return own;
}

static int capture_job(struct generated_set *set, const struct job *job, struct models *models)
{
	struct capture c;
	if (!capture_load(&c, job->path, job_engine(job).cost, models))
		return 0;
	int ok = 1;
	for (int i = 0; ok && i < c.n; i++) {
		const struct captured *layers = &c.v[i];
		const struct job own = layers_job(job, layers);
		const struct source from = { .steps = &layers->steps,
					     .job = &own,
					     .settings = layers->settings,
					     .is_of_model = *layers->model != '\0',
					     .every = layers->every };
		const double pairs = layers->steps.num_steps ? most_pairs(&own, models) : 0;
		ok = !layers->steps.num_steps || (pairs > 0 && pick_steps(set, &from, pairs));
	}
	capture_free(&c);
	return ok;
}

/* The rarely used options. */
static void print_extras(const struct job *j, char *text, size_t size)
{
	const struct engine e = job_engine(j);
	size_t n = 0;
	text[0] = '\0';
	if (e.prefix_caching)
		n += (size_t)snprintf(text + n, size - n, ", prefix caching");
	if (e.drafts && n < size)
		n += (size_t)snprintf(text + n, size - n, ", %d drafts of which %g advance",
				      e.drafts, e.accept - 1);
	if (j->hold_out > 0 && n < size)
		n += (size_t)snprintf(text + n, size - n, ", the last %g held out", j->hold_out);
	if (e.cost && n < size)
		snprintf(text + n, size - n, ", %g ms + %g ms a query + %g ms a KV token",
			 e.cost->step_ms, e.cost->query_ms, e.cost->kv_ms);
}

static void print_grid(const char *grid, FILE *f)
{
	char text[128];
	snprintf(text, sizeof text, "made by attune scenarios --grid %s; README.md says how", grid);
	fputs("\t\t", f);
	out_quoted(f, text);
}

static void print_about(const struct job *j, FILE *f)
{
	char text[512], extras[160], name[64];
	trace_name(name, sizeof name, j->path);
	print_extras(j, extras, sizeof extras);
	if (j->is_captured)
		snprintf(text, sizeof text, "%s: captured steps%s, %s, seed %llu", name, extras,
			 j->split, j->seed);
	else
		snprintf(text, sizeof text,
			 "%s: load %g, budget %d, %d sequences, %lld KV tokens, first %d requests "
			 "of at most %d tokens%s, %s, seed %llu",
			 name, j->load, j->engine.max_batched_tokens, j->engine.max_seqs,
			 j->engine.kv_tokens, j->requests, j->max_request, extras, j->split,
			 j->seed);
	fputs("\t\t", f);
	out_quoted(f, text);
}

int set_make(const struct recipe *r, struct models *models, FILE *f)
{
	struct generated_set set = { 0 };
	int ok = !r->grid || grid_add(&set, r->grid, r->dir, models);
	for (int i = 0; ok && i < r->num_jobs; i++)
		ok = (r->jobs[i].is_captured ? capture_job : engine_job)(&set, &r->jobs[i], models);
	if (ok) {
		fputs("{\n\t\"about\": [\n", f);
		if (r->grid) {
			print_grid(r->grid, f);
			fputs(r->num_jobs ? ",\n" : "\n", f);
		}
		for (int i = 0; i < r->num_jobs; i++) {
			print_about(&r->jobs[i], f);
			fputs(i + 1 < r->num_jobs ? ",\n" : "\n", f);
		}
		fputs("\t],\n", f);
		if (models_own(models)) {
			models_print(models, f);
			fputs(",\n", f);
		}
		generated_print(&set, f);
		fputs("}\n", f);
	}
	generated_free(&set);
	return ok;
}

/* ---- statistics -------------------------------------------------------------------- */
/* Statistics of the steps of a simulated engine, or of captured ones: the share that only decodes,
 * the number of sequences, their lengths and the spread of lengths. */

enum { SEQS, DECODE_KV, LONGEST, CV, PREFILLS, PREFILL_TOKENS, NUM_MEDIANS };

struct traffic {
	int steps, decode_only, n[NUM_MEDIANS];
	double ms, decode_only_ms;
	double *v[NUM_MEDIANS]; /* of each step that has it */
};

static void keep(struct traffic *t, int what, double v)
{
	t->v[what][t->n[what]++] = v;
}

static void add_step(struct traffic *t, const struct engine_sim *r, const struct step *s)
{
	double sum = 0, squares = 0, longest = 0, tokens = 0;
	int decodes = 0;
	for (int i = 0; i < s->num_rows; i++) {
		const struct row *row = &r->rows[s->first + (size_t)i];
		const double seq = row->seq;
		longest = fmax(longest, seq);
		if (row->query > DECODE_MAX_QUERY) {
			tokens += row->query;
			continue;
		}
		decodes++;
		sum += seq;
		squares += seq * seq;
	}
	t->steps++;
	t->ms += s->ms;
	keep(t, SEQS, s->num_rows);
	keep(t, LONGEST, longest);
	if (decodes)
		keep(t, DECODE_KV, sum / decodes);
	if (decodes > 1)
		keep(t, CV, sqrt(fmax(0, squares * decodes / (sum * sum) - 1)));
	if (decodes < s->num_rows) {
		keep(t, PREFILLS, s->num_rows - decodes);
		keep(t, PREFILL_TOKENS, tokens);
	} else {
		t->decode_only++;
		t->decode_only_ms += s->ms;
	}
}

static int tally(struct traffic *t, const struct engine_sim *r)
{
	const struct pick_rule all = pick_all(r);
	const size_t most = (size_t)r->num_steps + 1;
	int ok = 1;
	for (int i = 0; i < NUM_MEDIANS; i++)
		ok &= (t->v[i] = calloc(most, sizeof *t->v[i])) != NULL;
	for (int i = all.first; ok && i < all.end && i < r->num_steps; i++)
		add_step(t, r, &r->steps[i]);
	if (!ok)
		complain("out of memory");
	return ok;
}

static void print_row(struct table *table, const struct job *j, const char *model,
		      struct traffic *t)
{
	char name[160];
	trace_name(name, 64, j->path);
	if (*model)
		snprintf(strchr(name, '\0'), 80, " %s", model);
	table_text(table, name);
	table_number(table, j->is_captured ? NAN : j->load, 2);
	table_number(table, j->is_captured ? NAN : j->engine.max_batched_tokens, 0);
	table_number(table, j->is_captured ? NAN : j->engine.max_seqs, 0);
	table_number(table, t->steps, 0);
	table_number(table, (double)t->decode_only / t->steps, 3);
	table_number(table, t->decode_only_ms / t->ms, 3);
	for (int i = 0; i < NUM_MEDIANS; i++)
		table_number(table, t->n[i] ? median(t->v[i], t->n[i]) : NAN, i == CV ? 2 : 0);
	table_end_row(table);
}

static int print_steps(struct table *table, const struct job *job, const char *model,
		       const struct engine_sim *r)
{
	struct traffic t = { 0 };
	const int ok = tally(&t, r);
	if (ok)
		print_row(table, job, model, &t);
	for (int k = 0; k < NUM_MEDIANS; k++)
		free(t.v[k]);
	return ok;
}

static int print_job(struct table *table, const struct job *job, struct models *models)
{
	struct engine_sim r;
	struct capture c = { 0 };
	int ok;
	if (!job->is_captured) {
		ok = job_replay(&r, job);
		if (!ok)
			return 0;
		ok = print_steps(table, job, "", &r);
		engine_free(&r);
		return ok;
	}
	ok = capture_load(&c, job->path, job_engine(job).cost, models);
	for (int i = 0; ok && i < c.n; i++)
		ok =
		    !c.v[i].steps.num_steps || print_steps(table, job, c.v[i].model, &c.v[i].steps);
	capture_free(&c);
	return ok;
}

int traffic_print(const struct job *jobs, int num_jobs, struct models *models, enum format format,
		  FILE *f)
{
	static const char *const columns[] = {
		"trace",         "load",        "budget",           "max_seqs",
		"steps",         "decode_only", "decode_only_time", "seqs",
		"decode_kv",     "longest",     "decode_kv_cv",     "prefills",
		"prefill_tokens"
	};
	struct table *table = table_new(format, columns, COUNT(columns));
	for (int i = 0; i < num_jobs; i++)
		if (!print_job(table, &jobs[i], models))
			return 0;
	table_print(table, f);
	return 1;
}
