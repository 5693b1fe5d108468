/* SPDX-License-Identifier: Apache-2.0 */
/* batch_words.c - prints a batch on one line: its text, or a summary of a long one. */
#include "base.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

struct range {
	int least, most;
};

static void widen(struct range *r, int value)
{
	r->least = value < r->least ? value : r->least;
	r->most = value > r->most ? value : r->most;
}

static void print_range(FILE *out, const char *what, struct range r)
{
	fprintf(out, ", %s %d", what, r.least);
	if (r.most > r.least)
		fprintf(out, " to %d", r.most);
}

static void print_long(FILE *out, const attune_batch *b)
{
	struct range queries = { INT_MAX, 0 }, sequences = { INT_MAX, 0 };
	for (int i = 0; i < b->num_seqs; i++) {
		widen(&queries, b->query_start[i + 1] - b->query_start[i]);
		widen(&sequences, b->seq_lens[i]);
	}
	fprintf(out, "%d sequences", b->num_seqs);
	print_range(out, "query lengths", queries);
	print_range(out, "sequence lengths", sequences);
}

void batch_words(char text[BATCH_WORDS], const char *batch)
{
	char error[200];
	struct batch *b =
	    strlen(batch) > SHORT_BATCH ? batch_parse(batch, error, sizeof error) : NULL;
	FILE *out = b ? fmemopen(text, BATCH_WORDS, "w") : NULL;
	if (out) {
		print_long(out, &b->view);
		fclose(out);
	} else {
		snprintf(text, BATCH_WORDS, "%s", batch);
	}
	batch_free(b);
}

void batch_cell(struct table *t, const char *batch, enum format format)
{
	char text[BATCH_WORDS];
	batch_words(text, batch);
	table_text(t, format_for_people(format) ? text : batch);
}
