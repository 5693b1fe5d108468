/* SPDX-License-Identifier: Apache-2.0 */
/* next_set.c - the scenario set of settled batches that are worth a sweep. */
#include "settled.h"
#include "harness/base/base.h"
#include "harness/generate/engine_sim.h"
#include "harness/generate/set_writer.h"
#include "harness/scenario/scenario.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct next {
	double loss;
	char *batch, model[MODEL_NAME], settings[96], from[48];
};

static const char *type_word(enum attune_dtype t)
{
	static const char *const words[] = { [ATTUNE_F32] = "f32",
					     [ATTUNE_F16] = "f16",
					     [ATTUNE_BF16] = "bf16",
					     [ATTUNE_E4M3] = "e4m3" };
	return words[t];
}

int next_set_add(struct next_set *set, const char *model, const attune_shape *shape,
		 const char *batch, double loss)
{
	if (!array_grow(&set->v, set->n, &set->room, sizeof *set->v))
		return 0;
	struct next *one = &set->v[set->n];
	*one = (struct next){ .loss = loss, .batch = strdup(batch) };
	snprintf(one->model, sizeof one->model, "%s", model);
	snprintf(one->settings, sizeof one->settings,
		 "\"page_size\": %d, \"dtype\": \"%s\", \"kv_dtype\": \"%s\", ", shape->page_size,
		 type_word(shape->dtype), type_word(shape->kv_dtype));
	snprintf(one->from, sizeof one->from, "settled: lost %.1f %%", 100 * (loss - 1));
	set->n += one->batch != NULL;
	return one->batch != NULL;
}

/* What loses most comes first. */
static int by_loss(const void *pa, const void *pb)
{
	const struct next *a = pa, *b = pb;
	if (a->loss != b->loss)
		return a->loss > b->loss ? -1 : 1;
	const int batch = strcmp(a->batch, b->batch), model = strcmp(a->model, b->model);
	return batch ? batch : model ? model : strcmp(a->settings, b->settings);
}

static int has_batch(const struct generated_set *set, const char *batch)
{
	for (int i = 0; i < set->n; i++)
		if (!strcmp(set->v[i].batch, batch))
			return 1;
	return 0;
}

/* A set has each batch once: of several shapes and machines with the one that loses most. */
int next_set_print(const struct next_set *set, const char *gpu)
{
	struct generated_set out = { 0 };
	int ok = 1;
	qsort(set->v, (size_t)set->n, sizeof *set->v, by_loss);
	for (int i = 0; ok && i < set->n; i++) {
		const struct next *v = &set->v[i];
		if (has_batch(&out, v->batch))
			continue;
		struct generated one = { .batch = strdup(v->batch), .split = "train", .weight = 1 };
		snprintf(one.model, sizeof one.model, "%s", v->model);
		snprintf(one.from, sizeof one.from, "%s", v->from);
		snprintf(one.settings, sizeof one.settings, "%s", v->settings);
		ok = one.batch && generated_add(&out, one);
	}
	if (ok) {
		printf("{\n\t\"about\": \"batches that the library settled otherwise than the "
		       "rules of "
		       "%s, or where these lost more than 5 %%\",\n",
		       gpu);
		generated_print(&out, stdout);
		fputs("}\n", stdout);
	} else {
		complain("out of memory");
	}
	generated_free(&out);
	return ok;
}

void next_set_free(struct next_set *set)
{
	for (int i = 0; i < set->n; i++)
		free(set->v[i].batch);
	free(set->v);
	*set = (struct next_set){ 0 };
}

int lengths_are_held_out(const attune_batch *b)
{
	struct row *rows = calloc((size_t)b->num_seqs, sizeof *rows);
	for (int i = 0; rows && i < b->num_seqs; i++)
		rows[i] = (struct row){ .query = batch_query_len(b, i), .seq = b->seq_lens[i] };
	/* without memory they count as held out */
	const int is = !rows || rows_are_blocked(rows, b->num_seqs);
	free(rows);
	return is;
}
