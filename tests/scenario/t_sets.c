/* SPDX-License-Identifier: Apache-2.0 */
/* t_sets.c - the sets in scenarios/: model shapes, counts, bounds on time and memory, and no
 * scenario in two sets. Runs in the root of the repository. */
#include "harness/compile/compile.h"
#include "harness/generate/engine_sim.h"
#include "harness/scenario/scenario.h"
#include "harness/generate/set_writer.h"
#include "kernels/spec/part.h"
#include <stdio.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct models *models;

// clang-format off
static const struct shape {
	const char *name;
	int query_heads, kv_heads, head_size, window, sinks;
	double scale;
	int alibi, cross;
} shapes[] = {
	/*                          per GPU       head  window  sinks  scale  alibi  cross */
	{ "llama3.1-8b@1",         32,  8,   128,    0,     0,     0, 0, 0 },
	{ "llama3.1-8b@4",          8,  2,   128,    0,     0,     0, 0, 0 },
	{ "llama3.1-8b@8",          4,  1,   128,    0,     0,     0, 0, 0 },
	{ "llama3.1-70b@1",        64,  8,   128,    0,     0,     0, 0, 0 },
	{ "llama3.1-70b@4",        16,  2,   128,    0,     0,     0, 0, 0 },
	{ "llama3.1-70b@8",         8,  1,   128,    0,     0,     0, 0, 0 },
	{ "qwen3-32b@1",           64,  8,   128,    0,     0,     0, 0, 0 },
	{ "qwen3-32b@4",           16,  2,   128,    0,     0,     0, 0, 0 },
	{ "mistral-small-24b@1",   32,  8,   128,    0,     0,     0, 0, 0 },
	{ "gemma-3-27b-local@1",   32, 16,   128, 1024,     0,     0.0771517, 0, 0 },
	{ "gemma-3-27b-global@1",  32, 16,   128,    0,     0,     0.0771517, 0, 0 },
	{ "gpt-oss-120b-local@1",  64,  8,    64,  128,     1,     0, 0, 0 },
	{ "gpt-oss-120b-global@1", 64,  8,    64,    0,     1,     0, 0, 0 },
	{ "phi-4-mini@1",          24,  8,   128,    0,     0,     0, 0, 0 },
	{ "qwen3-14b@1",           40,  8,   128,    0,     0,     0, 0, 0 },
	{ "qwen3-next-80b@1",      16,  2,   256,    0,     0,     0, 0, 0 },
	{ "qwen3-next-80b@4",       4,  1,   256,    0,     0,     0, 0, 0 },
	{ "mpt-7b@1",              32, 32,   128,    0,     0,     0, 1, 0 },
	{ "whisper-large-cross@1", 20, 20,    64,    0,     0,     0, 0, 1 },
};
// clang-format on

static void ships_model(void **arg)
{
	const struct shape *row = *arg;
	const attune_shape *s = models_find(models, row->name);
	assert_non_null(s);
	assert_int_equal(s->num_query_heads, row->query_heads);
	assert_int_equal(s->num_kv_heads, row->kv_heads);
	assert_int_equal(s->head_size, row->head_size);
	assert_int_equal(s->window, row->window);
	assert_int_equal(s->has_sinks, row->sinks);
	assert_int_equal(s->has_alibi, row->alibi);
	assert_int_equal(s->causal, !row->cross);
	assert_true(fabs(s->scale - row->scale) < 1e-6);
	assert_null(shape_error(s));
}

enum {
	IS_TRAIN,
	IS_PEERS,
	IS_HELDOUT,
	IS_RANDOM,
	IS_BLOCKED,
	IS_OFFGRID,
	IS_EXTRAPOLATED,
	IS_TRACES,
	IS_SHAPE,
	IS_WAYS,
	IS_GATE,
	IS_OVERLAP,
	IS_COVERAGE,
	IS_TRACES_UNSEEN,
	NUM_SPLITS
};

// clang-format off
static const struct set {
	const char *name;
	int scenarios[NUM_SPLITS]; /* as scenario_splits */
	double max_kv_mb, bytes_per_s, flops_per_s, max_ms;
} sets[] = {
	/*              train peers       random blocked off extra traces shape ways gate overlap KV MB  bytes/s  FLOP/s   ms    */
	{ "cpu",         { 103,  0,   0,   11,    6,  10,    4,    6,     7 },      256,    20e9,   2e11,  30 },
	{ "gate_cpu",    {   0,  0,   0,    0,    0,   0,    0,    0,     0, 0, 62 },  256,    20e9,   2e11,  30 },
	{ "peers_cpu",   {   0, 18,   0,    0,    0,   0,    0,    0,     0 },      256,    20e9,   2e11,  12 },
	{ "h200",        { 182,  0,   0,   20,   20,  25,   14,    0,    14 },     6000,    4e12,   3e14,  27 },
	{ "shapes_h200", { 117,  0,   0,   13,    0,   0,    0,    0,     0 },     6000,    4e12,   3e14,  27 },
	{ "dense_h200",  { 420,  0,   0,    0,    0,   0,    0,    0,     0 },     2000,    4e12,   3e14,   3 },
	{ "traces_h200", { 150,  0,   0,   24,    0,   0,    0,   24,     8 },     6000,    4e12,   3e14,  27 },
	{ "peers_h200",  {   0, 43,   0,    0,    0,   0,    0,    0,     0 },    70000,    4e12,   3e14,  30 },
	{ "hybrid_h200", {   0,  0,   0,   21,   24,   0,    0,    0,     0, 195 },    24000,    4e12,   3e14,   7 },
	{ "unseen_h200", {   0,  0,   0,    0,    0,  96,    0,    0,    42 },     6000,    4e12,   3e14,  27 },
	{ "gate_h200",   {   0,  0,   0,    0,    0,   0,    0,    0,     0, 0, 792 }, 4000,    4e12,   3e14,   7 },
	{ "drafts_h200", { 150,  0,   0,    0,    0,   0,    0,    0,     0, 0, 0,   0 }, 4000, 4e12,   3e14,   7 },
	{ "blends_h200", {   0,  0,   0,    0,    0,   0,    0,    0,     0, 0, 0, 420 }, 4000, 4e12,   3e14,   7 },
	{ "ladder_h200", {   0,  0,   0,    0,    0,   0,    0,    0,     0, 49 },     6000,    4e12,   3e14,   8 },
	{ "mixed_h200",  {  48,  0,   0,    0,    0,   0,    0,    0,     0 },     3000,    4e12,   3e14,   5 },
	{ "peers_e4m3_h200", { 0, 20, 0,   0,    0,   0,    0,    0,     0 },     6000,    4e12,   3e14,   8 },
	{ "peers_mixed_h200", { 0, 26, 0,  0,    0,   0,    0,    0,     0 },    24000,    4e12,   3e14,  30 },
	{ "e4m3_h200",   { 101,  0,   0,    0,    0,   0,    0,    0,     0 },     6000,    4e12,   3e14,   8 },
	{ "cliffs_h200", {   0,  0,  77,    0,    0,   0,    0,    0,     0 },     6000,    4e12,   3e14,   8 },
	{ "coverage_h200", { 391, 0,  0,   0,    0,   0,    0,    0,     0 },     2000,    4e12,   3e14,   3 },
	{ "fallbacks_h200", { 109, 0, 0,   0,    0,   0,    0,    0,     0 },     2000,    4e12,   3e14,   3 },
	{ "fallbacks_e4m3_h200", { 62, 0, 0, 0,  0,   0,    0,    0,     0 },     2000,    4e12,   3e14,   3 },
	{ "coverage_gate_h200", { 0, 0, 0, 0,    0,   0,    0,    0,     0, 0, 90 }, 2000,  4e12,   3e14,   3 },
	{ "coverage_unseen_h200", { [IS_COVERAGE] = 147 },                     2000,    4e12,   3e14,   3 },
	{ "traces_unseen_h200", { [IS_TRACES_UNSEEN] = 40 },                   6000,    4e12,   3e14,  14 },
	{ "fp8_h200",    {   0,  0,  28,    0,    0,   0,    0,    0,     0 },     2000,    4e12,   3e14,   1 },
	{ "layouts_h200", {  0,  0,  31,    0,    0,   0,    0,    0,     0 },     2000,    4e12,   3e14,   1 },
};
// clang-format on

static void load_shipped(struct scenario_list *list, const char *set)
{
	char file[64];
	snprintf(file, sizeof file, "scenarios/%s.json", set);
	assert_true(scenarios_load(list, file, models));
}

static int split_of(const struct scenario *s)
{
	int i = 0;
	while (strcmp(scenario_splits[i], s->split))
		i++;
	return i;
}

static void ships_set(void **arg)
{
	const struct set *set = *arg;
	struct scenario_list list = { 0 };
	int count[NUM_SPLITS] = { 0 };
	load_shipped(&list, set->name);
	for (int i = 0; i < list.n; i++) {
		const struct scenario *s = &list.v[i];
		struct facts f;
		double ms;
		scenario_facts(&f, &s->shape, &s->batch->view);
		ms = 1e3 * fmax(f.kv_bytes / set->bytes_per_s, f.flops / set->flops_per_s);
		if (f.kv_bytes > 1e6 * set->max_kv_mb || ms > set->max_ms)
			fail_msg("%s %s: %.0f MB of KV, %.1f ms", s->model, s->batch_text,
				 f.kv_bytes / 1e6, ms);
		assert_string_equal(s->set, set->name);
		count[split_of(s)]++;
	}
	for (int i = 0; i < NUM_SPLITS; i++)
		if (count[i] != set->scenarios[i])
			fail_msg("%s: %d", scenario_splits[i], count[i]);
	scenarios_free(&list);
}

static int same_work(const struct scenario *a, const struct scenario *b)
{
	return !strcmp(a->batch_text, b->batch_text) && a->layout == b->layout &&
	       !memcmp(&a->shape, &b->shape, sizeof a->shape);
}

/* A held-out batch that train has seen would flatter; like work under two models'
 * names would be measured twice. */
static void sets_are_disjoint(void **arg)
{
	struct scenario_list list = { 0 };
	(void)arg;
	load_shipped(&list, "h200");
	load_shipped(&list, "shapes_h200");
	load_shipped(&list, "dense_h200");
	load_shipped(&list, "traces_h200");
	load_shipped(&list, "peers_h200");
	load_shipped(&list, "hybrid_h200");
	load_shipped(&list, "unseen_h200");
	load_shipped(&list, "gate_h200");
	load_shipped(&list, "blends_h200");
	load_shipped(&list, "drafts_h200");
	load_shipped(&list, "ladder_h200");
	load_shipped(&list, "cliffs_h200");
	load_shipped(&list, "coverage_h200");
	load_shipped(&list, "fallbacks_h200");
	load_shipped(&list, "fallbacks_e4m3_h200");
	load_shipped(&list, "e4m3_h200");
	load_shipped(&list, "fp8_h200");
	load_shipped(&list, "layouts_h200");
	load_shipped(&list, "coverage_gate_h200");
	load_shipped(&list, "coverage_unseen_h200");
	load_shipped(&list, "traces_unseen_h200");
	for (int i = 0; i < list.n; i++)
		for (int j = 0; j < i; j++)
			if (same_work(&list.v[i], &list.v[j]))
				fail_msg("%s %s in %s and %s in %s", list.v[i].model,
					 list.v[i].batch_text, list.v[i].set, list.v[j].model,
					 list.v[j].set);
	scenarios_free(&list);
}

/* Decodes, their mean KV and the longest sequence. */
struct size {
	int decodes;
	double kv, longest;
	int blocked;
};

static struct size size_of(const attune_batch *b)
{
	struct size z = { 0 };
	struct row *rows = calloc((size_t)b->num_seqs, sizeof *rows);
	assert_non_null(rows);
	for (int i = 0; i < b->num_seqs; i++) {
		rows[i].query = b->query_start[i + 1] - b->query_start[i];
		rows[i].seq = b->seq_lens[i];
		z.decodes += rows[i].query <= DECODE_MAX_QUERY;
		z.longest = fmax(z.longest, rows[i].seq);
	}
	z.blocked = rows_are_blocked(rows, b->num_seqs);
	free(rows);
	return z;
}

/* The names of the splits hold: no training scenario lies in a held-out block, beyond the edge,
 * or has a held-out shape; scenarios of these splits do. */
static void splits_hold(void **arg)
{
	const char *const *set = *arg;
	struct scenario_list list = { 0 };
	int most = 0;
	double longest = 0;
	for (; *set; set++)
		load_shipped(&list, *set);
	for (int i = 0; i < list.n; i++) {
		struct size z = size_of(&list.v[i].batch->view);
		if (split_of(&list.v[i]) > IS_PEERS && split_of(&list.v[i]) != IS_OVERLAP)
			continue;
		most = z.decodes > most ? z.decodes : most;
		longest = fmax(longest, z.longest);
		if (z.blocked)
			fail_msg("%s %s", list.v[i].split, list.v[i].batch_text);
	}
	for (int i = 0; i < list.n; i++) {
		const struct scenario *s = &list.v[i];
		struct size z = size_of(&s->batch->view);
		const int split = split_of(s);
		assert_true(split != IS_BLOCKED || z.blocked);
		assert_true(split != IS_EXTRAPOLATED || z.decodes > most || z.longest > longest);
		for (int j = 0; j < list.n && split == IS_SHAPE; j++)
			if (split_of(&list.v[j]) != IS_SHAPE)
				assert_string_not_equal(list.v[j].model, s->model);
	}
	scenarios_free(&list);
}

/* Training has no holes of a factor two: for every batch size and length between the
 * ends, some decode batch within that reach. */
static void train_is_dense(void **arg)
{
	struct scenario_list list = { 0 };
	(void)arg;
	load_shipped(&list, "h200");
	load_shipped(&list, "traces_h200");
	for (double n = 1; n <= 256; n *= 2)
		for (double kv = 64; kv <= 65536 && n * kv <= 1 << 19; kv *= 4) {
			int near = 0;
			for (int i = 0; i < list.n; i++) {
				const attune_batch *b = &list.v[i].batch->view;
				double mean = 0;
				for (int k = 0; k < b->num_seqs; k++)
					mean += (double)b->seq_lens[k] / b->num_seqs;
				near += split_of(&list.v[i]) == IS_TRAIN &&
					size_of(b).decodes == b->num_seqs &&
					fabs(log2(b->num_seqs / n)) <= 1 &&
					fabs(log2(mean / kv)) <= 2;
			}
			if (!near)
				fail_msg("nothing near %.0f decodes of %.0f", n, kv);
		}
	scenarios_free(&list);
}

/* hybrid_h200 has one chunk behind 4k to 20k tokens, with 16 to 256 decodes of the same length. */
static void hybrid_is_hybrid(void **arg)
{
	struct scenario_list list = { 0 };
	(void)arg;
	load_shipped(&list, "hybrid_h200");
	for (int i = 0; i < list.n; i++) {
		const attune_batch *b = &list.v[i].batch->view;
		const int decodes = size_of(b).decodes, last = b->num_seqs - 1;
		const int chunk = b->query_start[last + 1] - b->query_start[last];
		assert_in_range(decodes, 16, 256);
		assert_int_equal(decodes, last);
		assert_in_range(b->seq_lens[0], 4096, 20480);
		assert_in_range(chunk, 512, 2048);
		assert_in_range(b->seq_lens[last] - chunk, 4096, 20480);
		for (int k = 0; k < last; k++) {
			assert_int_equal(b->query_start[k + 1] - b->query_start[k], 1);
			assert_int_equal(b->seq_lens[k], b->seq_lens[0]);
		}
	}
	scenarios_free(&list);
}

/* Half of dense_h200 has head size 128, a quarter each 64 and 256, and at most two of five
 * batches are mixed. */
static void dense_is_balanced(void **arg)
{
	struct scenario_list list = { 0 };
	int of_size[257] = { 0 }, mixed = 0;
	(void)arg;
	load_shipped(&list, "dense_h200");
	for (int i = 0; i < list.n; i++) {
		const struct scenario *s = &list.v[i];
		struct facts f;
		scenario_facts(&f, &s->shape, &s->batch->view);
		of_size[s->shape.head_size]++;
		mixed += f.decodes > 0 && f.decodes < f.seqs;
	}
	assert_int_equal(2 * of_size[128], list.n);
	assert_int_equal(4 * of_size[64], list.n);
	assert_int_equal(4 * of_size[256], list.n);
	assert_true(5 * mixed <= 2 * list.n);
	scenarios_free(&list);
}

/* Weights and steps of a trace's set are known, and a held-out trace is not learned from. */
static void traces_are_weighed(void **arg)
{
	struct scenario_list list = { 0 };
	double sum = 0;
	(void)arg;
	load_shipped(&list, "traces_h200");
	for (int i = 0; i < list.n; i++) {
		assert_true(list.v[i].steps >= 1 && list.v[i].steps < 1e6);
		assert_true(list.v[i].weight >= 0.05);
		sum += list.v[i].weight;
	}
	assert_true(fabs(sum / list.n - 1) < 0.1);
	scenarios_free(&list);
}

/* A generated set equals the committed one. */
static void grid_is_remade(void **arg)
{
	const char *set = *arg;
	char file[64], *now = NULL, *committed, *made;
	size_t size;
	FILE *f = open_memstream(&now, &size);
	snprintf(file, sizeof file, "scenarios/%s.json", set);
	committed = source_text(file);
	assert_non_null(f);
	assert_non_null(committed);
	assert_true(set_make(&(struct recipe){ .grid = set, .dir = "scenarios" }, models, f));
	assert_int_equal(fclose(f), 0);
	made = strstr(now, "\"scenarios\"");
	made[strlen(made) - strlen("\n\t]\n}\n")] = '\0'; /* sets of traces may follow */
	if (!strstr(committed, made))
		fail_msg("%s: sh scenarios/make.sh remakes it", file);
	free(now);
	free(committed);
}

// clang-format off
#define REMADE(set) { set " is remade", set }
static const struct {
	const char *title, *set;
} remade[] = {
	REMADE("h200"),
	REMADE("shapes_h200"),
	REMADE("dense_h200"),
	REMADE("hybrid_h200"),
	REMADE("unseen_h200"),
	REMADE("gate_h200"),
	REMADE("blends_h200"),
	REMADE("drafts_h200"),
	REMADE("coverage_h200"),
	REMADE("coverage_gate_h200"),
	REMADE("coverage_unseen_h200"),
	REMADE("cpu"),
	REMADE("gate_cpu"),
};
// clang-format on

/* The published table's own figures for its ragged batches. */
static void peers_match(void **arg)
{
	struct scenario_list list = { 0 };
	int decodes = 0, prefills = 0;
	(void)arg;
	load_shipped(&list, "peers_h200");
	for (int i = 0; i < list.n; i++) {
		const struct scenario *s = &list.v[i];
		struct facts f;
		scenario_facts(&f, &s->shape, &s->batch->view);
		if (f.seqs == 64 && f.decodes == 64 && strchr(s->batch_text, '_')) {
			assert_true(fabs(f.kv_bytes / 1e6 - 1587) < 0.5);
			decodes++;
		}
		if (f.seqs == 16 && !f.decodes) {
			assert_true(fabs(f.flops / 1e9 - 1154) < 0.5);
			prefills++;
		}
	}
	assert_int_equal(decodes, 1);
	assert_int_equal(prefills, 1);
	scenarios_free(&list);
}

/* Each batch with a cache of 8 bits, and with one of 16. */
static void fp8_comes_in_pairs(void **arg)
{
	struct scenario_list list = { 0 };
	(void)arg;
	load_shipped(&list, "fp8_h200");
	assert_int_equal(list.n % 2, 0);
	for (int i = 0; i < list.n; i += 2) {
		const struct scenario *s = &list.v[i];
		struct scenario other = list.v[i + 1];
		struct facts f;
		scenario_facts(&f, &s->shape, &s->batch->view);
		assert_true(f.kv_bytes >= 100e6 && f.decodes == f.seqs);
		assert_int_equal(s->shape.kv_dtype, ATTUNE_E4M3);
		assert_int_equal(other.shape.kv_dtype, ATTUNE_BF16);
		other.shape.kv_dtype = ATTUNE_E4M3;
		assert_true(same_work(s, &other));
	}
	scenarios_free(&list);
}

/* In all layouts of engines, each behind the same batch in NHD. */
static void layouts_have_their_nhd(void **arg)
{
	struct scenario_list list = { 0 };
	int seen[LAYOUT_PAIRED + 1] = { 0 };
	struct scenario nhd = { 0 };
	(void)arg;
	load_shipped(&list, "layouts_h200");
	for (int i = 0; i < list.n; i++) {
		struct scenario s = list.v[i];
		seen[s.layout]++;
		if (s.layout == LAYOUT_NHD)
			nhd = s;
		s.layout = LAYOUT_NHD;
		assert_true(same_work(&s, &nhd));
	}
	for (int i = LAYOUT_PACKED; i <= LAYOUT_PAIRED; i++)
		assert_true(seen[i] > 0);
	scenarios_free(&list);
}

int main(void)
{
	static const char *const gpu[] = { "h200",
					   "shapes_h200",
					   "dense_h200",
					   "traces_h200",
					   "peers_h200",
					   "hybrid_h200",
					   "unseen_h200",
					   "ladder_h200",
					   "blends_h200",
					   "drafts_h200",
					   "coverage_h200",
					   "coverage_gate_h200",
					   "coverage_unseen_h200",
					   "traces_unseen_h200",
					   NULL };
	static const char *const cpu[] = { "cpu", NULL };
	static struct CMUnitTest tests[COUNT(shapes) + COUNT(sets) + COUNT(remade) + 10];
	size_t n = 0;
	int failed;
	models = models_load("scenarios/models.json");
	if (!models)
		return 1;
	for (size_t i = 0; i < COUNT(shapes); i++)
		tests[n++] = (struct CMUnitTest){ shapes[i].name, ships_model, NULL, NULL,
						  (void *)&shapes[i] };
	for (size_t i = 0; i < COUNT(sets); i++)
		tests[n++] =
		    (struct CMUnitTest){ sets[i].name, ships_set, NULL, NULL, (void *)&sets[i] };
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(sets_are_disjoint);
	tests[n++] =
	    (struct CMUnitTest){ "splits hold, GPU", splits_hold, NULL, NULL, (void *)gpu };
	tests[n++] =
	    (struct CMUnitTest){ "splits hold, CPU", splits_hold, NULL, NULL, (void *)cpu };
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(train_is_dense);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(dense_is_balanced);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(hybrid_is_hybrid);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(traces_are_weighed);
	for (size_t i = 0; i < COUNT(remade); i++)
		tests[n++] = (struct CMUnitTest){ remade[i].title, grid_is_remade, NULL, NULL,
						  (void *)remade[i].set };
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(peers_match);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(fp8_comes_in_pairs);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(layouts_have_their_nhd);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	failed = _cmocka_run_group_tests("sets", tests, n, NULL, NULL);
	models_free(models);
	return failed;
}
