/* plot_peers.c - the peers picture: times of other projects' kernels over that of our fastest plan, on
 * every batch on which both raced. */
#include "plot.h"
#include "harness/scenario/scenario.h"
#include "tuner/compare/peers.h"
#include "tuner/data/data.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Panels, and their blocks of rows. */
enum { PROMPTS, MIXED, DECODES, NUM_PANELS, MAX_SHOWN = 400 };
static const char *const titles[NUM_PANELS] = { "whole prompts", "prompts beside decodes",
						"decodes" };

static int panel_of(const struct measured *m)
{
	if (!m->has[PHASE_PREFILL])
		return DECODES;
	return m->has[PHASE_DECODE] ? MIXED : PROMPTS;
}

struct shown {
	int scenario;
	double us; /* of our fastest plan */
};

static int by_time(const void *pa, const void *pb)
{
	const struct shown *a = pa, *b = pb;
	return a->us != b->us ? (a->us > b->us) - (a->us < b->us) : a->scenario - b->scenario;
}

/* The batches of a panel, shortest call first. */
static int find_shown(const struct plotted *p, int panel, struct shown v[MAX_SHOWN])
{
	int n = 0;
	for (int s = p->first; s < p->end && n < MAX_SHOWN; s++) {
		const struct measured *m = &p->data->v[s];
		v[n] = (struct shown){ s, data_oracle(p->data, s) };
		n += panel_of(m) == panel && isfinite(v[n].us) && peers_fastest(p->peers, m, -1);
	}
	qsort(v, (size_t)n, sizeof *v, by_time);
	return n;
}

/* The batch text if it is short; else the number of sequences and their range of lengths. */
static void name_print(const struct measured *m, FILE *settings)
{
	enum { LONGEST = 20 };
	const attune_batch *b = &m->batch->view;
	int least = b->seq_lens[0], most = least;
	char lo[24], hi[24];
	if (strlen(m->batch_text) <= LONGEST) {
		fputs(m->batch_text, settings);
		return;
	}
	for (int i = 1; i < b->num_seqs; i++) {
		least = b->seq_lens[i] < least ? b->seq_lens[i] : least;
		most = b->seq_lens[i] > most ? b->seq_lens[i] : most;
	}
	length_text(lo, least);
	length_text(hi, most);
	fprintf(settings, "%d of %s to %s", b->num_seqs, lo, hi);
}

static void row_print(const struct plotted *p, const struct shown *x, int nth, FILE *rows,
		      struct range *found, int *seen)
{
	fprintf(rows, "%d", nth);
	for (int k = 0; k < p->peers->num_names; k++) {
		const struct peer_time *t = peers_fastest(p->peers, &p->data->v[x->scenario], k);
		fprintf(rows, t ? " %g" : " nan", t ? t->us / x->us : 0);
		if (t)
			range_stretch(found, t->us / x->us);
		seen[k] |= t != NULL;
	}
	fputc('\n', rows);
}

/* Writes one block: its batches from the top down, and their names. */
static int panel_print(const struct plotted *p, int panel, FILE *rows, FILE *settings,
		       struct range *found, int *seen)
{
	struct shown v[MAX_SHOWN];
	const int n = find_shown(p, panel, v);
	fprintf(settings, "%s\"(", panel ? " " : "");
	for (int i = 0; i < n; i++) {
		fputs(i ? ", '" : "'", settings);
		name_print(&p->data->v[v[i].scenario], settings);
		fprintf(settings, "' %d", i);
		row_print(p, &v[i], i, rows, found, seen);
	}
	fputs(")\"", settings);
	fputs(n ? "\n\n" : "nan\n\n\n", rows);
	return n;
}

int series_peers(const struct plotted *p, FILE *rows, FILE *settings)
{
	struct range found = { 1, 1 };
	int seen[MAX_PEERS] = { 0 }, filled[NUM_PANELS], n = 0;
	fputs("array tics[3] = [", settings);
	for (int k = 0; k < NUM_PANELS; k++) {
		fputs(k ? "," : "", settings);
		filled[k] = panel_print(p, k, rows, settings, &found, seen);
		n += filled[k];
	}
	fputs("]\narray titles[3] = [", settings);
	for (int k = 0; k < NUM_PANELS; k++)
		fprintf(settings, "%s'%s'", k ? ", " : "", titles[k]);
	fputs("]\nnames = '", settings);
	for (int k = 0; k < p->peers->num_names; k++)
		fprintf(settings, "%s\"%s\"", k ? " " : "", p->peers->name[k]);
	fputs("'\nseen = '", settings);
	for (int k = 0; k < p->peers->num_names; k++)
		fprintf(settings, " %d", seen[k]);
	fputs("'\n", settings);
	filled_print(settings, filled, NUM_PANELS);
	range_print(settings, "ratio", found);
	fprintf(settings, "num_names = %d\n", p->peers->num_names);
	return n;
}
