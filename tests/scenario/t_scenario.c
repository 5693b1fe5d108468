/* SPDX-License-Identifier: Apache-2.0 */
/* t_scenario.c - scenario sets and models: what is read, and what is refused, with message and
 * place. Runs in the root of the repository. */
#include "harness/scenario/scenario.h"
#include "harness/base/json_in.h"
#include "kernels/spec/choice.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "bad_json.h"
#include "tests/support/heard.h"

static char path[] = "/tmp/t_scenario_XXXXXX/x.json"; /* main makes the folder */
static struct models *models;

static void write_file(const char *text)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* "attune: <path>:" in front, which no row repeats. */
static const char *without_path(const char *message)
{
	static char text[1024];
	char start[64];
	snprintf(start, sizeof start, "attune: %s:", path);
	assert_memory_equal(message, start, strlen(start));
	snprintf(text, sizeof text, "%s", message + strlen(start));
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static void refuses_set(void **arg)
{
	const struct row *row = *arg;
	struct scenario_list list = { 0 };
	int ok;
	write_file(row->text);
	listen_begin();
	ok = scenarios_load(&list, path, models);
	assert_string_equal(without_path(heard()), row->error);
	assert_false(ok);
	assert_int_equal(list.n, 0);
	scenarios_free(&list);
}

static void refuses_models(void **arg)
{
	const struct row *row = *arg;
	struct models *m;
	write_file(row->text);
	listen_begin();
	m = models_load(path);
	assert_string_equal(without_path(heard()), row->error);
	assert_null(m);
}

static void refuses_missing_files(void **arg)
{
	struct scenario_list list = { 0 };
	(void)arg;
	listen_begin();
	assert_false(scenarios_load(&list, "no/such/file.json", models));
	assert_string_equal(heard(), "attune: no/such/file.json: No such file or directory\n");
}

/* Sets stay loaded when a later file is refused. */
static void keeps_earlier_files(void **arg)
{
	struct scenario_list list = { 0 };
	(void)arg;
	write_file(ONE("\"batch\": \"q1\""));
	assert_true(scenarios_load(&list, path, models));
	/* the same scenario again, in a file of its own */
	assert_true(scenarios_load(&list, path, models));
	assert_int_equal(list.n, 2);
	write_file("{\"defaults\": {\"models\": [\"llama3.1-8b@1\"]}, \"scenarios\": "
		   "[{\"batch\": \"q1\"}, {\"batch\": \"q\"}]}");
	listen_begin();
	assert_false(scenarios_load(&list, path, models));
	heard();
	assert_int_equal(list.n, 2);
	assert_string_equal(list.v[1].batch_text, "q1");
	scenarios_free(&list);
}

static void reads_settings(void **arg)
{
	struct scenario_list list = { 0 };
	const struct scenario *s;
	(void)arg;
	write_file(
	    "{\"about\": [\"two\", \"lines\"], \"defaults\": {\"models\": [\"llama3.1-8b@4\", "
	    "\"gpt-oss-120b-local@1\"], \"dtype\": \"f16\", \"seed\": 7},\n"
	    "\"scenarios\": [{\"batch\": \"q1s1024_q1s1k\", \"weight\": 2.5},\n"
	    "{\"batch\": \"q0_q5\", \"models\": [\"qwen3-14b@2\"], \"page_size\": 48,\n"
	    " \"dtype\": \"f32\", \"kv_dtype\": \"bf16\", \"layout\": \"hnd\",\n"
	    " \"split\": \"heldout\", \"seed\": 0, \"from\": \"me\", \"lse\": true},\n"
	    "{\"batch\": \"q5\", \"models\": [\"qwen3-14b@2\"], \"layout\": \"packed\"},\n"
	    "{\"batch\": \"q5\", \"models\": [\"qwen3-14b@2\"], \"layout\": \"packed\", \"lse\": true}]}");
	assert_true(scenarios_load(&list, path, models));
	assert_int_equal(list.n, 5);
	s = &list.v[0];
	assert_string_equal(s->model, "llama3.1-8b@4");
	assert_string_equal(s->set, "x");
	assert_string_equal(s->split, "train");
	assert_string_equal(s->batch_text, "2q1s1k");
	assert_int_equal(s->batch->view.num_seqs, 2);
	assert_int_equal(s->shape.num_query_heads, 8);
	assert_int_equal(s->shape.num_kv_heads, 2);
	assert_int_equal(s->shape.page_size, 16);
	assert_int_equal(s->shape.dtype, ATTUNE_F16);
	assert_int_equal(s->shape.kv_dtype, ATTUNE_F16);
	assert_true(s->shape.causal && s->weight == 2.5 && s->seed == 7);
	s = &list.v[1];
	assert_string_equal(s->model, "gpt-oss-120b-local@1");
	assert_true(s->shape.has_sinks && s->shape.window == 128 && s->shape.head_size == 64);
	assert_false(s->shape.has_lse);
	s = &list.v[2];
	assert_string_equal(s->model, "qwen3-14b@2+lse");
	assert_true(s->shape.has_lse);
	assert_string_equal(s->split, "heldout");
	assert_int_equal(s->shape.page_size, 48);
	assert_int_equal(s->shape.dtype, ATTUNE_F32);
	assert_int_equal(s->shape.kv_dtype, ATTUNE_BF16);
	assert_int_equal(s->layout, LAYOUT_HND);
	assert_true(s->seed == 0 && s->weight == 1);
	s = &list.v[3];
	assert_string_equal(s->model, "qwen3-14b@2+packed");
	assert_true(s->layout == LAYOUT_PACKED && s->shape.kv_layout == ATTUNE_KV_STRIDED);
	assert_string_equal(list.v[4].model, "qwen3-14b@2+lse+packed");
	struct scenario asked;
	assert_true(scenario_of_batch(&asked, "q5", s->model, 16, models));
	assert_true(asked.layout == LAYOUT_PACKED);
	scenario_drop(&asked);
	scenarios_free(&list);
}

/* B14: some editors begin a text with a mark. */
static void skips_a_byte_order_mark(void **arg)
{
	struct scenario_list list = { 0 };
	(void)arg;
	write_file("\xef\xbb\xbf" ONE("\"batch\": \"q1\""));
	assert_true(scenarios_load(&list, path, models));
	assert_int_equal(list.n, 1);
	scenarios_free(&list);
}

/* B13: a set of 100,000 took 93 s, since each scenario was compared with all before it. The
 * second file is the first again, with a double of its first scenario. */
static void loads_long_sets(void **arg)
{
	enum { MANY = 100000 };
	struct scenario_list list = { 0 };
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	(void)arg;
	assert_non_null(f);
	fputs("{\"defaults\": {\"models\": [\"llama3.1-8b@1\"]}, \"scenarios\": [", f);
	for (int i = 0; i < MANY; i++)
		fprintf(f, "%s{\"batch\": \"%dq1s%d\"}", i ? "," : "\n", 1 + i % 50, 1 + i / 50);
	fflush(f);
	const long end = ftell(f);
	fputs("]}", f);
	fflush(f);
	write_file(text);
	assert_true(scenarios_load(&list, path, models));
	assert_int_equal(list.n, MANY);
	assert_true(scenarios_load(&list, path, models));
	scenarios_sift(&list, NULL);
	assert_int_equal(list.n, MANY);
	scenarios_free(&list);
	fseek(f, end, SEEK_SET);
	fputs(",\n{\"batch\": \"q1s1\"}]}", f);
	assert_int_equal(fclose(f), 0);
	write_file(text);
	listen_begin();
	assert_false(scenarios_load(&list, path, models));
	assert_string_equal(without_path(heard()),
			    "3:1: llama3.1-8b@1 q1 is already at line 2; give each scenario once");
	free(text);
}

static void splits_models(void **arg)
{
	attune_shape s;
	struct models *m;
	(void)arg;
	write_file(MODEL("\"tp\": [1, 2, 8, 24], \"softcap\": 50, \"scale\": 0.25"));
	m = models_load(path);
	assert_non_null(m);
	assert_true(models_shape(m, "m@24", &s)); /* replicated */
	assert_true(s.num_query_heads == 1 && s.num_kv_heads == 1);
	assert_true(models_shape(m, "m@8", &s));
	assert_true(s.num_query_heads == 3 && s.num_kv_heads == 1);
	assert_true(models_shape(m, "m@8+lse", &s));
	assert_true(s.num_query_heads == 3 && s.has_lse);
	assert_true(models_shape(m, "m@8+packed", &s) && !s.has_lse);
	assert_true(models_shape(m, "m@8+lse+packed", &s) && s.has_lse);
	for (int i = 0; layout_names[i]; i++) { /* what a database says by the name is read back */
		char name[MODEL_NAME];
		model_name(name, "m@8", i % 2, (enum layout)i);
		assert_int_equal(model_layout(name),
				 i < LAYOUT_PACKED ? LAYOUT_NHD : (enum layout)i);
		assert_true(models_shape(m, name, &s) && s.has_lse == i % 2);
	}
	assert_int_equal(model_layout("m@8+lse"), LAYOUT_NHD);
	assert_true(models_shape(m, "m@2", &s) && !s.has_lse);
	assert_true(s.num_query_heads == 12 && s.num_kv_heads == 4 && s.head_size == 64);
	assert_true(s.softcap == 50 && s.scale == 0.25f && s.causal && !s.has_sinks && !s.window);
	assert_false(s.has_alibi);
	assert_string_equal(models_name(m, 3), "m@24");
	assert_null(models_name(m, 4));
	listen_begin();
	assert_false(models_shape(m, "m@3", &s));
	assert_string_equal(heard(),
			    "attune: unknown model \"m@3\"; models.json has m@1, m@2, m@8, m@24; "
			    "attune scenarios --models lists all\n");
	models_free(m);
}

static void knows_masks(void **arg)
{
	attune_shape s;
	struct models *m;
	(void)arg;
	write_file(MODEL("\"tp\": [1], \"alibi\": true, \"cross\": true"));
	m = models_load(path);
	assert_non_null(m);
	assert_true(models_shape(m, "m@1", &s));
	assert_true(s.has_alibi && !s.causal);
	models_free(m);
}

/* ---- facts ---------------------------------------------------------------------- */
static void counts_facts(void **arg)
{
	const attune_shape *s = models_find(models, "llama3.1-8b@1");
	char error[128];
	struct batch *b = batch_parse("q512s4k_2q1s1k_q0s100", error, sizeof error);
	struct facts f;
	(void)arg;
	scenario_facts(&f, s, &b->view);
	assert_int_equal(f.seqs, 3);
	assert_int_equal(f.decodes, 2);
	assert_int_equal(f.query_tokens, 514);
	/* (4096 + 2 x 1024) tokens x 8 heads x 128 x 2 bytes x K and V */
	assert_true(f.kv_bytes == 6144.0 * 4096);
	/* pairs: sum of 3585 .. 4096, and 2 x 1024 */
	assert_true(f.flops == 4.0 * 32 * 128 * (512 * (3585 + 4096) / 2 + 2048));
	batch_free(b);
}

static void mutants_do_not_crash(void **arg)
{
	static const char text[] = ONE("\"batch\": \"2q1s1k\", \"page_size\": 16, \"weight\": "
				       "1.5");
	unsigned long long state = 20261121;
	(void)arg;
	listen_begin();
	for (int i = 0; i < 400; i++) {
		struct scenario_list list = { 0 };
		char mutant[sizeof text];
		memcpy(mutant, text, sizeof text);
		for (int k = 0; k < 3; k++) {
			state = state * 6364136223846793005ull + 1442695040888963407ull;
			mutant[(state >> 40) % (sizeof text - 1)] =
			    "{}[]\",:0a \\\n-"[(state >> 33) % 13];
		}
		write_file(mutant);
		scenarios_load(&list, path, models);
		scenarios_free(&list);
	}
	heard();
}

static void places(void **arg)
{
	static const char text[] = "{ \"a\" : [ 1 , { \"b\\\"]\" : \"x]}\" , \"c\" : [ ] } ] ,\n"
				   "\"d\":{\"c\":true}}";
	// clang-format off
	static const struct { const char *path, *key; int line, column; } rows[] = {
		{ "", NULL, 1, 1 },         { "a", NULL, 1, 9 },     { "a/0", NULL, 1, 11 },
		{ "a/1", NULL, 1, 15 },     { "a/1/c", NULL, 1, 40 }, { "a/1", "c", 1, 34 },
		{ "d", NULL, 2, 5 },        { "d/c", NULL, 2, 10 },  { "", "d", 2, 1 },
		{ "a/7", NULL, 1, 9 },      { "d/x/y", NULL, 2, 5 }, { "d/c/x", "y", 2, 10 },
	};
	// clang-format on
	(void)arg;
	for (size_t i = 0; i < COUNT(rows); i++) {
		int line, column;
		json_place(text, rows[i].path, rows[i].key, &line, &column);
		if (line != rows[i].line || column != rows[i].column)
			fail_msg("\"%s\" %s: %d:%d", rows[i].path, rows[i].key ? rows[i].key : "",
				 line, column);
	}
}

static int finish(void **arg)
{
	(void)arg;
	models_free(models);
	remove(path);
	*strrchr(path, '/') = '\0';
	return rmdir(path);
}

int main(void)
{
	static struct CMUnitTest tests[COUNT(bad_sets) + COUNT(bad_models) + 10];
	size_t n = 0;
	char *slash = strrchr(path, '/');
	*slash = '\0';
	if (!mkdtemp(path))
		return 1;
	*slash = '/';
	models = models_load("scenarios/models.json");
	if (!models)
		return 1;
#define ROWS(rows, test)                         \
	for (size_t i = 0; i < COUNT(rows); i++) \
		tests[n++] =                     \
		    (struct CMUnitTest){ rows[i].name, test, NULL, NULL, (void *)&rows[i] };
	ROWS(bad_sets, refuses_set)
	ROWS(bad_models, refuses_models)
#undef ROWS
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(refuses_missing_files);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(keeps_earlier_files);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(reads_settings);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(skips_a_byte_order_mark);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(loads_long_sets);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(splits_models);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(knows_masks);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(counts_facts);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(mutants_do_not_crash);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(places);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("scenario", tests, n, NULL, finish);
}
