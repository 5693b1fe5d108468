/* plot_mixed.c - the mixed picture: mixed batches against the ideal. The ideal reads each byte of
 * keys and values once, skips masked products, and fully overlaps memory and arithmetic at the
 * device's measured ceilings. */
#include "plot.h"
#include "harness/scenario/scenario.h"
#include "harness/store/store.h"
#include "tuner/compare/hybrid.h"
#include "tuner/compare/peers.h"
#include "tuner/data/data.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MIXED = 24 };

/* A batch of one prompt, or a chunk of one, and decodes of one sequence length. */
struct mixed {
	int scenario, query, seq, decodes, length;
	double ideal, best; /* us */
	struct hybrid ways;
};

static const struct {
	const char *name;
	size_t us; /* where in struct mixed */
} own[] = {
	{ "tuned choice", offsetof(struct mixed, ways.us[WAY_TUNED]) },
	{ "best measured plan", offsetof(struct mixed, best) },
	{ "best serial plan", offsetof(struct mixed, ways.serial) },
	{ "two streams", offsetof(struct mixed, ways.us[WAY_STREAMS]) },
	{ "SMs split in two", offsetof(struct mixed, ways.us[WAY_SPLIT]) },
	{ "one fused kernel", offsetof(struct mixed, ways.us[WAY_FUSED]) },
};
enum { NUM_OWN = COUNT(own), MAX_SERIES = NUM_OWN + MAX_PEERS };

static int shape_of(const struct measured *m, struct mixed *x)
{
	const attune_batch *b = &m->batch->view;
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		if (query > DECODE_MAX_QUERY) {
			if (x->query)
				return 0;
			x->query = query;
			x->seq = b->seq_lens[i];
			continue;
		}
		if (query != 1 || (x->decodes && x->length != b->seq_lens[i]))
			return 0;
		x->length = b->seq_lens[i];
		x->decodes++;
	}
	return x->query && x->decodes;
}

static int by_size(const void *pa, const void *pb)
{
	const struct mixed *a = pa, *b = pb;
	if (a->query != b->query)
		return a->query - b->query;
	if (a->seq != b->seq)
		return a->seq - b->seq;
	return a->decodes - b->decodes;
}

static double ideal_us(const struct measured *m, const struct run_info *r)
{
	struct facts f;
	scenario_facts(&f, &m->shape, &m->batch->view);
	return fmax(f.kv_bytes / r->dram_gbps / 1e3, f.flops / r->fma_tflops / 1e6);
}

/* Uses times of the second pass. A way that only the first pass has keeps its gain from there. */
static void look_at(const struct plotted *p, struct mixed *x)
{
	const struct pick *tuned = p->pick[POLICY_TREE];
	struct hybrid first, *h = &x->ways;
	hybrid_look(p->data, PASS_A, x->scenario, NULL, &first);
	hybrid_look(p->data, PASS_B, x->scenario, tuned ? &tuned[x->scenario] : NULL, h);
	x->best = h->serial;
	for (int k = 0; k < NUM_WAYS; k++) {
		if (!isfinite(h->us[k]) && isfinite(first.us[k]))
			h->us[k] = h->serial * first.us[k] / first.serial;
		x->best = fmin(x->best, h->us[k]);
	}
}

static int find_mixed(const struct plotted *p, struct mixed v[MAX_MIXED])
{
	int n = 0;
	for (int s = 0; s < p->data->n && n < MAX_MIXED; s++) {
		const struct measured *m = &p->data->v[s];
		v[n] = (struct mixed){ .scenario = s };
		if (strcmp(m->split, "peers") || !shape_of(m, &v[n]))
			continue;
		look_at(p, &v[n]);
		v[n].ideal = ideal_us(m, &p->data->run);
		n += isfinite(v[n].best);
	}
	if (n)
		qsort(v, (size_t)n, sizeof *v, by_size);
	return n;
}

/* Our own series first, then those of the peers. */
static const char *series_name(const struct peers *p, int k)
{
	return k < NUM_OWN ? own[k].name : p->name[k - NUM_OWN];
}

static double series_us(const struct plotted *p, const struct mixed *x, int k)
{
	if (k < NUM_OWN)
		return *(const double *)((const char *)x + own[k].us);
	const struct peer_time *t = peers_fastest(p->peers, &p->data->v[x->scenario], k - NUM_OWN);
	return t ? t->us : NAN;
}

/* One row: its index, then each series' time over the ideal. */
static void row_print(const struct plotted *p, const struct mixed *x, int nth, FILE *rows,
		      struct range *found, int *seen)
{
	fprintf(rows, "%d", nth);
	for (int k = 0; k < NUM_OWN + p->peers->num_names; k++) {
		const double over = series_us(p, x, k) / x->ideal;
		fprintf(rows, isfinite(over) ? " %g" : " nan", over);
		range_stretch(found, over);
		seen[k] |= isfinite(over);
	}
	fputc('\n', rows);
}

/* A tic of two lines: "1k of 12k", "+ 80 x 12k". */
static void tic_print(const struct mixed *x, int nth, FILE *settings)
{
	char query[24], seq[24], length[24], of[30] = "";
	length_text(query, x->query);
	length_text(seq, x->seq);
	length_text(length, x->length);
	if (x->query < x->seq)
		snprintf(of, sizeof of, " of %s", seq);
	fprintf(settings, "%s\"%s%s\\n+ %d x %s\" %d", nth ? ", " : "", query, of, x->decodes,
		length, nth);
}

/* The series with at least one time: their names and their columns. */
static void seen_print(const struct peers *p, const int *seen, FILE *settings)
{
	int ours = 0, all = 0;
	fputs("names = '", settings);
	for (int k = 0; k < NUM_OWN + p->num_names; k++)
		if (seen[k])
			fprintf(settings, "%s\"%s\"", k ? " " : "", series_name(p, k));
	fputs("'\nseen = '", settings);
	for (int k = 0; k < NUM_OWN + p->num_names; k++) {
		if (seen[k])
			fprintf(settings, " %d", k + 1);
		ours += seen[k] && k < NUM_OWN;
		all += seen[k];
	}
	fprintf(settings, "'\nnum_own = %d\nnum_seen = %d\n", ours, all);
}

int series_mixed(const struct plotted *p, FILE *rows, FILE *settings)
{
	const struct run_info *r = &p->data->run;
	struct range found = { 1, 1 };
	struct mixed v[MAX_MIXED];
	int seen[MAX_SERIES] = { 0 };
	const int n = r->dram_gbps > 0 && r->fma_tflops > 0 ? find_mixed(p, v) : 0;
	fputs("tics = '(", settings);
	for (int i = 0; i < n; i++) {
		row_print(p, &v[i], i, rows, &found, seen);
		tic_print(&v[i], i, settings);
	}
	fputs(")'\n", settings);
	seen_print(p->peers, seen, settings);
	range_print(settings, "over", found);
	fprintf(settings, "num_mixed = %d\ndram_gbps = %g\nfma_tflops = %g\n", n, r->dram_gbps,
		r->fma_tflops);
	return n;
}
