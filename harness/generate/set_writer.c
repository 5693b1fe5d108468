/* SPDX-License-Identifier: Apache-2.0 */
/* set_writer.c - collects the scenarios of a set and writes them as JSON; defines the held-out
 * blocks. */
#include "engine_sim.h"
#include "set_writer.h"
#include "harness/base/base.h"
#include "harness/base/json_out.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/choice.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Batch sizes and a band of lengths, held out of training. */
static const struct range decode_blocks[] = { { 20, 28 }, { 90, 110 } };
static const struct range length_block = { 4200, 5900 };

int rows_are_blocked(const struct row *rows, int n)
{
	double decodes = 0, kv = 0, longest = 0;
	for (int i = 0; i < n; i++) {
		if (rows[i].query <= DECODE_MAX_QUERY) {
			decodes++;
			kv += rows[i].seq;
		} else {
			longest = fmax(longest, rows[i].query);
		}
	}
	for (size_t i = 0; i < COUNT(decode_blocks); i++)
		if (decodes >= decode_blocks[i].lo && decodes <= decode_blocks[i].hi)
			return 1;
	if (decodes > 0)
		kv /= decodes;
	return (kv >= length_block.lo && kv <= length_block.hi) ||
	       (longest >= length_block.lo && longest <= length_block.hi);
}

char *rows_text(const struct row *rows, int num_rows)
{
	const size_t n = (size_t)num_rows;
	int32_t *query_start = calloc(2 * n + 1, sizeof *query_start);
	attune_batch b = { .size = sizeof(attune_batch),
			   .num_seqs = num_rows,
			   .query_start = query_start };
	char *text = NULL;
	if (query_start) {
		int32_t *seq_lens = query_start + n + 1;
		for (size_t i = 0; i < n; i++) {
			query_start[i + 1] = query_start[i] + rows[i].query;
			seq_lens[i] = rows[i].seq;
		}
		b.seq_lens = seq_lens;
		text = batch_format(&b);
	}
	free(query_start);
	return text;
}

int generated_add(struct generated_set *set, struct generated one)
{
	struct generated *v;
	for (int i = 0; i < set->n; i++)
		if (!strcmp(set->v[i].batch, one.batch) &&
		    (!one.is_of_model || !strcmp(set->v[i].model, one.model))) {
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

/* Two lines per scenario, the second for its batch, because sets are reviewed and committed. JSON
 * libraries do not write this layout. */
void generated_print(const struct generated_set *set, FILE *f)
{
	fputs("\t\"scenarios\": [\n", f);
	for (int i = 0; i < set->n; i++) {
		const struct generated *m = &set->v[i];
		fputs("\t\t{\"split\": ", f);
		out_quoted(f, m->split);
		fputs(", ", f);
		if (m->steps)
			fprintf(f, "\"weight\": %.3f, \"steps\": %d, ", m->weight, m->steps);
		model_members(f, m->model);
		fprintf(f, ", %s\"from\": ", m->settings);
		out_quoted(f, m->from);
		fputs(",\n\t\t \"batch\": ", f);
		out_quoted(f, m->batch);
		fprintf(f, "}%s\n", i + 1 < set->n ? "," : "");
	}
	fputs("\t]\n", f);
}

void generated_free(struct generated_set *set)
{
	for (int i = 0; i < set->n; i++)
		free(set->v[i].batch);
	free(set->v);
	*set = (struct generated_set){ 0 };
}
