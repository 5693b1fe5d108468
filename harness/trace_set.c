/* trace_set.c - from request traces to a scenario set: replay each, pick steps,
 * write them as JSON that scenario.c reads. */
#include "harness.h"
#include "replay.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct entry {
	char *batch, from[96];
	const char *split;
	double weight;
};

struct set {
	struct entry *v;
	int n;
};

/* "data/azure2023_code.csv" -> "azure2023_code" */
static void trace_name(char *name, size_t size, const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	snprintf(name, size, "%.*s", (int)strcspn(base, "."), base);
}

static char *step_text(const struct replay *r, const struct step *s)
{
	size_t n = (size_t)s->num_rows;
	int32_t *query_start = calloc(2 * n + 1, sizeof *query_start);
	attune_batch b = { .num_seqs = s->num_rows, .query_start = query_start };
	char *text = NULL;
	if (query_start) {
		int32_t *seq_lens = query_start + n + 1;
		for (size_t i = 0; i < n; i++) {
			const struct row *row = &r->rows[s->first + i];
			query_start[i + 1] = query_start[i] + row->query;
			seq_lens[i] = row->seq;
		}
		b.seq_lens = seq_lens;
		text = batch_format(&b);
	}
	free(query_start);
	return text;
}

/* Takes `batch`. A batch that another trace gave is not given again. */
static int set_add(struct set *set, struct entry one)
{
	struct entry *v;
	for (int i = 0; i < set->n; i++)
		if (!strcmp(set->v[i].batch, one.batch)) {
			complain("%s: the same batch as from %s; kept once", one.from,
				 set->v[i].from);
			free(one.batch);
			return 1;
		}
	v = realloc(set->v, ((size_t)set->n + 1) * sizeof *v);
	if (!v) {
		free(one.batch);
		return 0;
	}
	set->v = v;
	set->v[set->n++] = one;
	return 1;
}

static void set_free(struct set *set)
{
	for (int i = 0; i < set->n; i++)
		free(set->v[i].batch);
	free(set->v);
}

static int add_picks(struct set *set, const struct replay *r, const struct job *job,
		     const struct picked *picked, int n)
{
	char name[64];
	trace_name(name, sizeof name, job->path);
	for (int i = 0; i < n; i++) {
		struct entry e = { .split = job->split,
				   .weight = fmax(picked[i].weight * n, 0.001),
				   .batch = step_text(r, &r->steps[picked[i].step]) };
		snprintf(e.from, sizeof e.from, "%s, step %d of %d", name, picked[i].step,
			 r->num_steps);
		if (!e.batch || !set_add(set, e))
			return 0;
	}
	return 1;
}

static int pick_steps(struct set *set, const struct replay *r, const struct job *job,
		      const attune_shape *shape)
{
	double pairs = job->max_gflop * 1e9 / (4.0 * shape->num_query_heads * shape->head_size);
	struct picked *picked = calloc((size_t)job->pick, sizeof *picked);
	int n = picked ? replay_pick(r, picked, job->pick, pairs, job->seed) : -1;
	int ok = n >= 0 && add_picks(set, r, job, picked, n);
	free(picked);
	if (!ok)
		complain("out of memory");
	else if (!n)
		complain("%s: no step may be kept; raise --max-gflop or --requests", job->path);
	return ok && n;
}

static int replay_job(struct set *set, const struct job *job, const attune_shape *shape)
{
	long long whole = job->engine.kv_tokens / REPLAY_BLOCK * REPLAY_BLOCK;
	int longest = whole < job->max_request ? (int)whole : job->max_request, ok = 0;
	struct trace trace;
	struct replay r;
	double capacity;
	if (!trace_load(&trace, job->path, job->requests, longest))
		return 0;
	capacity = replay_capacity(&trace, &job->engine);
	if (capacity > 0) {
		trace_set_rate(&trace, job->load * capacity);
		ok = replay_run(&r, &trace, &job->engine);
	}
	if (ok) {
		complain("%s: %d requests (%d left out), %.2f/s of %.2f/s, %d steps, %d "
			 "preemptions",
			 job->path, trace.n, trace.dropped, job->load * capacity, capacity,
			 r.num_steps, r.preemptions);
		ok = pick_steps(set, &r, job, shape);
		replay_free(&r);
	} else {
		complain("out of memory");
	}
	trace_free(&trace);
	return ok;
}

static void print_about(const struct job *jobs, int num_jobs, FILE *f)
{
	char text[256], name[64];
	fputs("\t\"about\": [\n", f);
	for (int i = 0; i < num_jobs; i++) {
		const struct job *j = &jobs[i];
		trace_name(name, sizeof name, j->path);
		snprintf(text, sizeof text,
			 "%s: load %g, budget %d, %d sequences, %lld KV tokens, first %d requests "
			 "of at most %d tokens, %s, seed %llu",
			 name, j->load, j->engine.max_batched_tokens, j->engine.max_seqs,
			 j->engine.kv_tokens, j->requests, j->max_request, j->split, j->seed);
		fputs("\t\t", f);
		json_quote(f, text);
		fputs(i + 1 < num_jobs ? ",\n" : "\n\t],\n", f);
	}
}

static void print_set(const struct set *set, const char *model, FILE *f)
{
	fputs("\t\"defaults\": {\"models\": [", f);
	json_quote(f, model);
	fputs("]},\n\t\"scenarios\": [\n", f);
	for (int i = 0; i < set->n; i++) {
		const struct entry *e = &set->v[i];
		fprintf(f, "\t\t{\"split\": \"%s\", \"weight\": %.3f, \"from\": ", e->split,
			e->weight);
		json_quote(f, e->from);
		fprintf(f, ",\n\t\t \"batch\": \"%s\"}%s\n", e->batch, i + 1 < set->n ? "," : "");
	}
	fputs("\t]\n}\n", f);
}

int trace_set_print(const struct job *jobs, int num_jobs, const char *model,
		    const attune_shape *shape, FILE *f)
{
	struct set set = { 0 };
	int ok = 1;
	for (int i = 0; ok && i < num_jobs; i++)
		ok = replay_job(&set, &jobs[i], shape);
	if (ok) {
		fputs("{\n", f);
		print_about(jobs, num_jobs, f);
		print_set(&set, model, f);
	}
	set_free(&set);
	return ok;
}
