/* trace_stats.c - statistics of the steps of a simulated engine: the share that only decodes, the
 * number of sequences, their lengths and the spread of lengths. */
#include "engine_sim.h"
#include "harness/base/base.h"
#include "kernels/segments.h"
#include "kernels/spec/choice.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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

static void print_row(struct table *table, const struct job *j, struct traffic *t)
{
	char name[64];
	trace_name(name, sizeof name, j->path);
	table_text(table, name);
	table_number(table, j->load, 2);
	table_number(table, j->engine.max_batched_tokens, 0);
	table_number(table, j->engine.max_seqs, 0);
	table_number(table, t->steps, 0);
	table_number(table, (double)t->decode_only / t->steps, 3);
	table_number(table, t->decode_only_ms / t->ms, 3);
	for (int i = 0; i < NUM_MEDIANS; i++)
		table_number(table, t->n[i] ? median(t->v[i], t->n[i]) : NAN, i == CV ? 2 : 0);
	table_end_row(table);
}

int traffic_print(const struct job *jobs, int num_jobs, enum format format, FILE *f)
{
	static const char *const columns[] = {
		"trace",         "load",        "budget",           "max_seqs",
		"steps",         "decode_only", "decode_only_time", "seqs",
		"decode_kv",     "longest",     "decode_kv_cv",     "prefills",
		"prefill_tokens"
	};
	struct table *table = table_new(format, columns, COUNT(columns));
	int ok = 1;
	for (int i = 0; ok && i < num_jobs; i++) {
		struct traffic t = { 0 };
		struct engine_sim r;
		if (!job_replay(&r, &jobs[i]))
			return 0;
		ok = tally(&t, &r);
		if (ok)
			print_row(table, &jobs[i], &t);
		for (int k = 0; k < NUM_MEDIANS; k++)
			free(t.v[k]);
		engine_free(&r);
	}
	if (ok)
		table_print(table, f);
	return ok;
}
