/* SPDX-License-Identifier: Apache-2.0 */
/* t_captured.c - captured steps, the sets made from them, and the layers of a config.json: what is read,
 * and what is refused, with message and place. Runs in the root of the repository. */
#include "harness/generate/engine_sim.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/choice.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/heard.h"

static char path[] = "/tmp/t_captured_XXXXXX/steps.jsonl",
	    set_path[] = "/tmp/t_captured_XXXXXX/set.json",
	    config_path[] = "/tmp/t_captured_XXXXXX/gemma2.json";
static const char real[] = "tests/scenario/transformers_steps.jsonl";

static void write_file(const char *to, const char *text)
{
	FILE *f = fopen(to, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static struct models *fresh_models(void)
{
	struct models *m = models_load("scenarios/models.json");
	assert_non_null(m);
	return m;
}

struct file_case {
	const char *name, *text, *error;
};

// clang-format off
#define LAYERS(n, more) "{\"layers\": " #n ", \"query_heads\": 8, \"kv_heads\": 2, " \
	"\"head_size\": 64, \"page_size\": 16, \"dtype\": \"f16\"" more "}\n"
#define STEP(n, batch) "{\"layers\": " #n ", \"batch\": \"" batch "\"}\n"

static const struct file_case bad_steps[] = {
	{ "empty", "", " no step; a step is a line such as {\"layers\": 1, \"batch\": \"q512s2k_32q1s1k\"}" },
	{ "layers alone", LAYERS(1, ""),
	  " no step; a step is a line such as {\"layers\": 1, \"batch\": \"q512s2k_32q1s1k\"}" },
	{ "no JSON", LAYERS(1, "") "\nq1\n",
	  "3:1: '[' or '{' expected near 'q'; a line must hold one JSON object" },
	{ "two objects in a line", "{\"batch\": \"q1\"} {\"batch\": \"q1\"}\n",
	  "1:17: end of file expected near '{'; a line must hold one JSON object" },
	{ "a list", "[1]\n", "1:1: this is a list; it must be an object" },
	{ "a NUL", LAYERS(1, "") "{\"batch\": \"q\\u0000\"}\n",
	  "2:19: \\u0000 is not allowed without JSON_ALLOW_NUL near '\"q\\u0000\"'; a line must hold one JSON object" },
	{ "unknown layers", LAYERS(1, "") STEP(2, "q1"),
	  "2:12: layers 2 are not known; a line above must have their heads" },
	{ "layers twice", LAYERS(1, "") LAYERS(1, ""),
	  "2:12: layers 1 are described already; once is enough" },
	{ "no heads", "{\"layers\": 1}\n", "1:1: query_heads is missing; it must be given here" },
	{ "heads", LAYERS(1, ", \"kv_heads\": 3"), "1:107: duplicate object key near '\"kv_heads\"'; a line must hold one JSON object" },
	{ "an unknown key", LAYERS(1, ", \"heads\": 3"), "1:98: unknown key \"heads\"; known here: "
	  "layers, query_heads, kv_heads, head_size, page_size, dtype, kv_dtype, layout, window, softcap, "
	  "scale, sinks, alibi, cross, lse" },
	{ "8 bits beside 32", "{\"layers\": 0, \"query_heads\": 8, \"kv_heads\": 2, \"head_size\": 64, "
	  "\"page_size\": 16, \"dtype\": \"f32\", \"kv_dtype\": \"e4m3\"}\n",
	  "1:1: with an E4M3 cache dtype must be F16 or BF16" },
	{ "a scale that is no float", LAYERS(1, ", \"scale\": 1e-60") STEP(1, "q1"),
	  "1:1: scale must not be below the least normal float, 1.2e-38" },
	{ "a softcap that is no float", LAYERS(1, ", \"softcap\": 1e-60") STEP(1, "q1"),
	  "1:1: softcap must be 0 (none) or at least 1e-4" },
	{ "heads that do not divide", "{\"layers\": 0, \"query_heads\": 8, \"kv_heads\": 3, \"head_size\": 64, "
	  "\"page_size\": 16, \"dtype\": \"f32\"}\n", "1:1: num_query_heads must be a multiple of num_kv_heads" },
	{ "a bad batch", LAYERS(1, "") STEP(1, "32q1sx"),
	  "2:24: batch \"32q1sx\": column 6: expected a sequence length, found 'x'" },
	{ "a batch of no step", LAYERS(1, "") STEP(1, "q4s2"),
	  "2:24: batch \"q4s2\": sequence length 2 is below its query length 4; s counts the context "
	  "and the query" },
	{ "a number for a batch", "{\"batch\": 7}\n",
	  "1:11: batch is 7; it must be a text: UTF-8 without control characters" },
};

#define HEADS "\"num_attention_heads\": 8, \"num_key_value_heads\": 2"
#define ENCODER "an encoder, where a token also sees those that follow it; it must be a model that generates text"
static const struct file_case bad_configs[] = {
	{ "config: no JSON", "x", "1:1: '[' or '{' expected near 'x'; the file must hold one JSON object" },
	{ "config: a list", "[]", "1:1: this is an empty list; it must be an object" },
	{ "config: empty", "{}", "1:1: num_attention_heads is missing; it must be given here" },
	{ "config: a text for heads", "{\"num_attention_heads\": \"8\"}",
	  "1:25: num_attention_heads is \"8\"; it must be an integer from 1 to 1073741824" },
	{ "config: heads of a text model", "{\"text_config\": {\"num_attention_heads\": -1}}",
	  "1:41: num_attention_heads is -1; it must be an integer from 1 to 1073741824" },
	{ "config: no head size", "{" HEADS "}",
	  "1:1: no head_dim, and no hidden_size that the query heads divide; one of the two must be there" },
	{ "config: an odd width", "{\"hidden_size\": 100, " HEADS "}",
	  "1:17: no head_dim, and no hidden_size that the query heads divide; one of the two must be there" },
	{ "config: MLA", "{\"head_dim\": 64, \"kv_lora_rank\": 512, " HEADS "}",
	  "1:34: a model with latent attention (MLA); attune has no kernel for it" },
	{ "config: an encoder", "{\"head_dim\": 64, \"is_encoder_decoder\": true, " HEADS "}",
	  "1:40: a model of an encoder and a decoder; it must have a decoder alone" },
	{ "config: BERT", "{\"head_dim\": 64, \"model_type\": \"bert\", " HEADS "}",
	  "1:32: " ENCODER },
	{ "config: a type of BERT's kin, no decoder", "{\"is_decoder\": false, \"head_dim\": 64, \"model_type\": \"xlm-roberta\", " HEADS "}",
	  "1:53: " ENCODER },
	{ "config: trained for masked words", "{\"head_dim\": 64, \"architectures\": [\"NewForMaskedLM\"], " HEADS "}",
	  "1:35: " ENCODER },
	{ "config: not causal", "{\"head_dim\": 64, \"is_causal\": false, " HEADS "}", "1:31: " ENCODER },
	{ "config: both ways", "{\"head_dim\": 64, \"use_bidirectional_attention\": true, " HEADS "}", "1:49: " ENCODER },
	{ "config: values of another size", "{\"head_dim\": 64, \"v_head_dim\": 128, " HEADS "}",
	  "1:32: values of another size than keys; attune has no kernel for it" },
	{ "config: chunks", "{\"head_dim\": 64, \"layer_types\": [\"full_attention\", \"chunked_attention\"], " HEADS "}",
	  "1:52: layers of type \"chunked_attention\" are not known; it must be full_attention, "
	  "sliding_attention, or one without attention, such as linear_attention" },
	{ "config: a number for a type", "{\"head_dim\": 64, \"layer_types\": [3], " HEADS "}",
	  "1:34: a layer's type is 3; it must be a text: UTF-8 without control characters" },
	{ "config: no attention", "{\"head_dim\": 64, \"layer_types\": [\"mamba\"], " HEADS "}",
	  "1:33: no layer with attention; it must have one" },
	{ "config: a window of no length", "{\"head_dim\": 64, \"layer_types\": [\"sliding_attention\"], " HEADS "}",
	  "1:33: layers with a window; sliding_window must say how long" },
	{ "config: a softcap that is no float", "{\"head_dim\": 64, \"attn_logit_softcapping\": 1e-60, " HEADS "}",
	  "1:1: softcap must be 0 (none) or at least 1e-4" },
	{ "config: heads of 1000", "{\"head_dim\": 1000, " HEADS "}", "1:1: head_size must be 8 to 512" },
};

/* The first model that it adds, and the second, on one GPU: "heads/KV heads size window softcap scale
 * sinks alibi". */
static const struct {
	const char *name, *text, *first, *second;
} good_configs[] = {
	{ "config: Llama", "{\"hidden_size\": 4096, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
	  "\"sliding_window\": null}", "32/8 128 0 0 0 0 0", NULL },
	{ "config: a decoder's full dump", "{\"hidden_size\": 4096, \"num_attention_heads\": 32, \"is_decoder\": false, "
	  "\"architectures\": [\"LlamaForCausalLM\"], \"use_bidirectional_attention\": \"vision\"}", "32/32 128 0 0 0 0 0", NULL },
	{ "config: a decoder of BERT's kin", "{\"model_type\": \"bert\", \"hidden_size\": 768, \"num_attention_heads\": 12, "
	  "\"is_decoder\": true}", "12/12 64 0 0 0 0 0", NULL },
	{ "config: Mistral", "{\"hidden_size\": 4096, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
	  "\"num_hidden_layers\": 32, \"sliding_window\": 4096}", "32/8 128 4096 0 0 0 0", NULL },
	{ "config: Qwen 2, window off", "{\"hidden_size\": 3584, \"num_attention_heads\": 28, \"num_key_value_heads\": 4, "
	  "\"sliding_window\": 131072, \"use_sliding_window\": false, \"max_window_layers\": 28}", "28/4 128 0 0 0 0 0", NULL },
	{ "config: Qwen 2, window on", "{\"hidden_size\": 3584, \"num_attention_heads\": 28, \"num_key_value_heads\": 4, "
	  "\"num_hidden_layers\": 28, \"sliding_window\": 1024, \"use_sliding_window\": true, \"max_window_layers\": 20}",
	  "28/4 128 0 0 0 0 0", "28/4 128 1024 0 0 0 0" },
	{ "config: Gemma 2", "{\"model_type\": \"gemma2\", \"head_dim\": 256, \"num_attention_heads\": 16, "
	  "\"num_key_value_heads\": 8, \"num_hidden_layers\": 42, \"query_pre_attn_scalar\": 256, "
	  "\"attn_logit_softcapping\": 50.0, \"sliding_window\": 4096}", "16/8 256 0 50 0 0 0", "16/8 256 4096 50 0 0 0" },
	{ "config: Gemma 3", "{\"model_type\": \"gemma3\", \"vision_config\": {\"num_attention_heads\": 16}, \"text_config\": "
	  "{\"model_type\": \"gemma3_text\", \"head_dim\": 128, \"num_attention_heads\": 32, \"num_key_value_heads\": 16, "
	  "\"num_hidden_layers\": 62, \"query_pre_attn_scalar\": 168, \"sliding_window\": 1024}}",
	  "32/16 128 0 0 0.0772 0 0", "32/16 128 1024 0 0.0772 0 0" },
	{ "config: gpt-oss", "{\"model_type\": \"gpt_oss\", \"head_dim\": 64, \"num_attention_heads\": 64, "
	  "\"num_key_value_heads\": 8, \"sliding_window\": 128, \"layer_types\": [\"sliding_attention\", "
	  "\"full_attention\"]}", "64/8 64 0 0 0 1 0", "64/8 64 128 0 0 1 0" },
	{ "config: Qwen 3 Next", "{\"head_dim\": 256, \"num_attention_heads\": 16, \"num_key_value_heads\": 2, "
	  "\"layer_types\": [\"linear_attention\", \"full_attention\"]}", "16/2 256 0 0 0 0 0", NULL },
	{ "config: Granite", "{\"hidden_size\": 4096, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
	  "\"attention_multiplier\": 0.0078125}", "32/8 128 0 0 0.00781 0 0", NULL },
	{ "config: Falcon 7B", "{\"model_type\": \"falcon\", \"hidden_size\": 4544, \"num_attention_heads\": 71, "
	  "\"multi_query\": true, \"new_decoder_architecture\": false, \"num_kv_heads\": 71}", "71/1 64 0 0 0 0 0", NULL },
	{ "config: Falcon 40B", "{\"model_type\": \"falcon\", \"hidden_size\": 8192, \"num_attention_heads\": 128, "
	  "\"multi_query\": true, \"new_decoder_architecture\": true, \"num_kv_heads\": 8}", "128/8 64 0 0 0 0 0", NULL },
	{ "config: BLOOM", "{\"model_type\": \"bloom\", \"hidden_size\": 2560, \"n_head\": 32}", "32/32 80 0 0 0 0 1", NULL },
	{ "config: MPT", "{\"model_type\": \"mpt\", \"d_model\": 4096, \"n_heads\": 32, \"attn_config\": {\"alibi\": true}}",
	  "32/32 128 0 0 0 0 1", NULL },
	{ "config: GPT-BigCode", "{\"model_type\": \"gpt_bigcode\", \"n_embd\": 4096, \"n_head\": 32}", "32/1 128 0 0 0 0 0", NULL },
	{ "config: ChatGLM", "{\"hidden_size\": 4096, \"num_attention_heads\": 32, \"kv_channels\": 128, "
	  "\"multi_query_attention\": true, \"multi_query_group_num\": 2}", "32/2 128 0 0 0 0 0", NULL },
};
// clang-format on

/* "attune: <file>:" in front, which no row repeats. */
static const char *without_path(const char *message, const char *file)
{
	static char text[1024];
	char start[64];
	snprintf(start, sizeof start, "attune: %s:", file);
	if (!strncmp(message, start, strlen(start)))
		message += strlen(start);
	snprintf(text, sizeof text, "%s", message);
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static void refuses_steps(void **arg)
{
	const struct file_case *row = *arg;
	struct models *m = fresh_models();
	struct capture c;
	write_file(path, row->text);
	listen_begin();
	const int taken = capture_load(&c, path, NULL, m);
	assert_string_equal(without_path(heard(), path), row->error);
	assert_false(taken);
	models_free(m);
}

static void refuses_config(void **arg)
{
	const struct file_case *row = *arg;
	struct models *m = fresh_models();
	write_file(config_path, row->text);
	listen_begin();
	const int taken = models_add_hf(m, config_path);
	assert_string_equal(without_path(heard(), config_path), row->error);
	assert_false(taken);
	models_free(m);
}

/* The first model that stands behind `known` others, at one GPU, from number *i on. */
static const char *shape_text(const struct models *m, int *i)
{
	static char text[2][120];
	static int turn;
	char *out = text[turn++ % 2];
	const char *name;
	while ((name = models_name(m, *i)) && strcmp(strchr(name, '@'), "@1") != 0)
		++*i;
	if (!name)
		return NULL;
	const attune_shape *s = models_find(m, name);
	snprintf(out, sizeof text[0], "%d/%d %d %d %g %.3g %d %d", s->num_query_heads,
		 s->num_kv_heads, s->head_size, s->window, (double)s->softcap, (double)s->scale,
		 s->has_sinks, s->has_alibi);
	++*i;
	return out;
}

static void takes_config(void **arg)
{
	const size_t which = (size_t)*arg;
	struct models *m = fresh_models();
	int i = 0;
	while (models_name(m, i))
		i++;
	write_file(config_path, good_configs[which].text);
	listen_begin();
	const int taken = models_add_hf(m, config_path);
	heard();
	assert_true(taken);
	assert_string_equal(shape_text(m, &i), good_configs[which].first);
	const char *second = shape_text(m, &i);
	assert_true(!second == !good_configs[which].second);
	if (second)
		assert_string_equal(second, good_configs[which].second);
	models_free(m);
}

/* What models_print writes of a config is read again, with all degrees. */
static void config_is_a_set(void **unused)
{
	struct models *m = fresh_models(), *again = fresh_models();
	struct scenario_list list = { 0 };
	(void)unused;
	write_file(config_path, good_configs[6].text);
	listen_begin();
	assert_true(models_add_hf(m, config_path));
	heard();
	FILE *f = fopen(set_path, "w");
	assert_non_null(f);
	fputs("{\n", f);
	models_print(m, f);
	fputs(",\n\"scenarios\": [{\"batch\": \"q1\", \"models\": [\"gemma2-local@8\"]}]}\n", f);
	assert_int_equal(fclose(f), 0);
	assert_true(scenarios_load(&list, set_path, again));
	assert_int_equal(list.v[0].shape.window, 4096);
	assert_int_equal(list.v[0].shape.num_kv_heads, 1);
	assert_true((double)list.v[0].shape.softcap == 50);
	assert_int_equal(models_own(again), models_own(m));
	/* the same set once more does not disturb; the name of another shape does */
	assert_true(scenarios_load(&list, set_path, again));
	write_file(set_path,
		   "{\"models\": [{\"name\": \"gemma2-local\", \"query_heads\": 8, "
		   "\"kv_heads\": 8, \"head_size\": 64, \"tp\": [1]}],\n"
		   "\"scenarios\": [{\"batch\": \"q1\", \"models\": [\"gemma2-local@1\"]}]}");
	listen_begin();
	assert_false(scenarios_load(&list, set_path, again));
	assert_string_equal(without_path(heard(), set_path),
			    "1:95: gemma2-local@1 is known with another shape; give gemma2-local "
			    "another name");
	scenarios_free(&list);
	models_free(again);
	models_free(m);
}

/* ---- sets of captured steps ------------------------------------------------------------ */
static void make_set(const char *from, struct job job, struct models *m, struct scenario_list *list)
{
	FILE *f = fopen(set_path, "w");
	assert_non_null(f);
	job.path = from;
	job.is_captured = 1;
	job.models = "llama3.1-8b@1";
	listen_begin();
	const int made = set_make(&(struct recipe){ .jobs = &job, .num_jobs = 1 }, m, f);
	heard();
	assert_true(made);
	assert_int_equal(fclose(f), 0);
	assert_true(scenarios_load(list, set_path, m));
}

/* Steps of Transformers' continuous batching: a set of few that stand for all. */
static void makes_a_set_of_a_run(void **unused)
{
	struct models *m = fresh_models();
	struct scenario_list list = { 0 };
	struct job job = usual_job;
	double steps = 0, weight = 0;
	(void)unused;
	job.pick = 12;
	job.corners = 0;
	job.hold_out = 0.33;
	make_set(real, job, m, &list);
	assert_int_equal(list.n, 12);
	for (int i = 0; i < list.n; i++) {
		const struct scenario *s = &list.v[i];
		steps += s->steps;
		weight += s->weight;
		assert_string_equal(s->model, "layers-8x2x64@1");
		assert_int_equal(s->shape.num_query_heads, 8);
		assert_int_equal(s->shape.page_size, 16);
		assert_int_equal(s->shape.dtype, ATTUNE_F32);
		assert_string_equal(s->split, i < 8 ? "train" : "heldout_traces");
	}
	assert_int_equal((int)steps, 90);
	assert_true(fabs(weight - 12) < 0.02);
	scenarios_free(&list);
	models_free(m);
}

/* A step that occurs often weighs more; one at the end of the time is held out. */
static void weighs_by_time(void **unused)
{
	struct models *m = fresh_models();
	struct scenario_list list = { 0 };
	struct job job = usual_job;
	FILE *f = fopen(path, "w");
	(void)unused;
	assert_non_null(f);
	for (int i = 0; i < 400; i++)
		fputs(i % 4 ? "{\"batch\": \"4q1s100\"}\n" : "{\"batch\": \"q2k\"}\n", f);
	assert_int_equal(fclose(f), 0);
	job.pick = 2;
	job.corners = 0;
	make_set(path, job, m, &list);
	assert_int_equal(list.n, 2);
	const struct scenario *decode = &list.v[!!strcmp(list.v[0].batch_text, "4q1s100")];
	const struct scenario *prompt = decode == list.v ? list.v + 1 : list.v;
	assert_string_equal(prompt->batch_text, "q2k");
	assert_int_equal((int)decode->steps, 300);
	assert_int_equal((int)prompt->steps, 100);
	/* 4 ms a step, 0.02 ms a query token, 3e-5 ms a key */
	const double of_decodes = 270 * (4 + 4 * 0.02 + 400 * 3e-5),
		     of_prompts = 90 * (4 + 2048 * 0.02 + 2048 * 3e-5);
	assert_true(fabs(decode->weight - 2 * of_decodes / (of_decodes + of_prompts)) < 0.001);
	scenarios_free(&list);
	models_free(m);
}

/* Layers of two kinds run the same batches, each with its own settings; known shapes keep the names of
 * models.json. */
static void keeps_kinds_of_layers(void **unused)
{
	static const char text[] =
	    "{\"layers\": 3, \"query_heads\": 64, \"kv_heads\": 8, \"head_size\": 64, "
	    "\"page_size\": 32, "
	    "\"dtype\": \"bf16\", \"sinks\": true, \"scale\": 0.125, \"layout\": \"packed\"}\n"
	    "{\"layers\": 5, \"query_heads\": 64, \"kv_heads\": 8, \"head_size\": 64, "
	    "\"page_size\": 32, "
	    "\"dtype\": \"bf16\", \"sinks\": true, \"window\": 100, \"kv_dtype\": \"e4m3\"}\n" STEP(
		3, "q100") STEP(5, "q100") STEP(3, "q1s101") STEP(5, "q1s101");
	struct models *m = fresh_models();
	struct scenario_list list = { 0 };
	struct job job = usual_job;
	(void)unused;
	write_file(path, text);
	job.corners = 0;
	make_set(path, job, m, &list);
	assert_int_equal(list.n, 4);
	for (int i = 0; i < 4; i++) {
		const struct scenario *s = &list.v[i];
		assert_string_equal(s->model, i < 2 ? "gpt-oss-120b-global@1+packed"
						    : "layers-64x8x64-w100-sinks@1");
		assert_int_equal(s->shape.page_size, 32);
		assert_int_equal(s->shape.kv_dtype, i < 2 ? ATTUNE_BF16 : ATTUNE_E4M3);
	}
	scenarios_free(&list);
	models_free(m);
}

/* Of very many steps every second, fourth ... is kept; the numbers still count all. */
static void thins_long_captures(void **unused)
{
	enum { STEPS = 150000 };
	struct models *m = fresh_models();
	struct capture c;
	FILE *f = fopen(path, "w");
	(void)unused;
	assert_non_null(f);
	for (int i = 0; i < STEPS; i++)
		fprintf(f, "{\"batch\": \"q1s%d\"}\n", 1 + i);
	fputs("{\"batch\": \"q1s9", f); /* the process was killed */
	assert_int_equal(fclose(f), 0);
	listen_begin();
	assert_true(capture_load(&c, path, NULL, m));
	assert_string_equal(without_path(heard(), path),
			    "150001: the last line was not written whole; it is left out");
	assert_int_equal(c.n, 1);
	const struct engine_sim *s = &c.v[0].steps;
	assert_int_equal(c.v[0].every, 8);
	assert_int_equal(s->num_steps, STEPS / 8);
	for (int i = 0; i < s->num_steps; i++)
		assert_int_equal(s->rows[s->steps[i].first].seq, 1 + 8 * i);
	capture_free(&c);
	models_free(m);
}

static int finish(void **unused)
{
	(void)unused;
	remove(path);
	remove(set_path);
	remove(config_path);
	*strrchr(path, '/') = '\0';
	return rmdir(path);
}

int main(void)
{
	static struct CMUnitTest
	    tests[COUNT(bad_steps) + COUNT(bad_configs) + COUNT(good_configs) + 5];
	size_t n = 0;
	char *slash = strrchr(path, '/');
	*slash = '\0';
	if (!mkdtemp(path))
		return 1;
	memcpy(set_path, path, strlen(path));
	memcpy(config_path, path, strlen(path));
	*slash = '/';
	for (size_t i = 0; i < COUNT(bad_steps); i++)
		tests[n++] = (struct CMUnitTest){ bad_steps[i].name, refuses_steps, NULL, NULL,
						  (void *)&bad_steps[i] };
	for (size_t i = 0; i < COUNT(bad_configs); i++)
		tests[n++] = (struct CMUnitTest){ bad_configs[i].name, refuses_config, NULL, NULL,
						  (void *)&bad_configs[i] };
	for (size_t i = 0; i < COUNT(good_configs); i++)
		tests[n++] = (struct CMUnitTest){ good_configs[i].name, takes_config, NULL, NULL,
						  (void *)i };
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(config_is_a_set);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(makes_a_set_of_a_run);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(weighs_by_time);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(keeps_kinds_of_layers);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(thins_long_captures);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("captured", tests, n, NULL, finish);
}
