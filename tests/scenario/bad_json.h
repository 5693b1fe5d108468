/* SPDX-License-Identifier: Apache-2.0 */
/* bad_json.h - scenario sets and models that are refused, each with its message (t_scenario.c). */
#ifndef TESTS_SCENARIO_BAD_JSON_H
#define TESTS_SCENARIO_BAD_JSON_H

struct row {
	const char *name, *text, *error;
};

#define ONE(members) "{\"scenarios\": [\n  {\"models\": [\"llama3.1-8b@1\"], " members "}\n]}\n"

// clang-format off
#define K16(c) c c c c c c c c c c c c c c c c
#define D256 K16(K16("["))
#define DEEP D256 D256 D256 D256 D256 D256 D256 D256 D256 /* jansson takes 2048 */

static const struct row bad_sets[] = {
	{ "not JSON", "{\"scenarios\": [}",
	  "1:16: unexpected token near '}'; the file must hold one JSON object" },
	{ "empty file", "",
	  "1:0: '[' or '{' expected near end of file; the file must hold one JSON object" },
	{ "a key twice", "{\"scenarios\": [], \"scenarios\": []}",
	  "1:29: duplicate object key near '\"scenarios\"'; the file must hold one JSON object" },
	{ "1e400", ONE("\"batch\": \"q1\", \"weight\": 1e400"),
	  "2:62: real number overflow near '1e400'; the file must hold one JSON object" },
	{ "a NUL", ONE("\"batch\": \"q1\\u0000\""),
	  "2:51: \\u0000 is not allowed without JSON_ALLOW_NUL near '\"q1\\u0000\"'; the file must hold one JSON object" },
	{ "invalid UTF-8", ONE("\"batch\": \"q\xff\""),
	  "2:43: unable to decode byte 0xff near '\"q'; the file must hold one JSON object" },
	{ "deep JSON", "{\"about\": " DEEP "}",
	  "1:2058: maximum parsing depth reached near '['; the file must hold one JSON object" },
	{ "not an object", "[1]", "1:1: this is a list; it must be an object" },
	{ "no scenarios", "{\"about\": \"x\"}",
	  "1:1: scenarios is missing; it must be given here" },
	{ "empty list", "{\"scenarios\": []}",
	  "1:15: scenarios is an empty list; it must be a list with at least one element" },
	{ "unknown key", "{\"about\": \"x\",\n \"scenario\": []}",
	  "2:2: unknown key \"scenario\"; known here: about, models, defaults, scenarios" },
	{ "notes of numbers", "{\"about\": [1]}",
	  "1:11: about is a list; it must be a text or a list of texts" },
	{ "unknown default", "{\"defaults\": {\"batch\": \"q1\"}, \"scenarios\": [{}]}",
	  "1:15: unknown key \"batch\"; known here: models, page_size, dtype, kv_dtype, "
	  "layout, lse, seed, split" },
	{ "unknown setting", ONE("\"batchs\": \"q1\""),
	  "2:33: unknown key \"batchs\"; known here: batch, weight, steps, from, models, page_size, "
	  "dtype, kv_dtype, layout, lse, seed, split" },
	{ "scenario is a text", "{\"scenarios\": [\"q1\"]}",
	  "1:16: this is \"q1\"; it must be an object" },
	{ "no batch", "{\"scenarios\": [{\"models\": [\"llama3.1-8b@1\"]}]}",
	  "1:16: batch is missing; it must be given here" },
	{ "no model", "{\"scenarios\": [{\"batch\": \"q1\"}]}",
	  "1:16: models is missing; it must be given here or in defaults" },
	{ "batch is a number", ONE("\"batch\": 3"),
	  "2:42: batch is 3; it must be a text: UTF-8 without control characters" },
	{ "bad batch", ONE("\"batch\": \"32q1sx\""),
	  "2:42: batch \"32q1sx\": column 6: expected a sequence length, found 'x'" },
	{ "s below q", ONE("\"batch\": \"q1_q4s2\""),
	  "2:42: batch \"q1_q4s2\": sequence length 2 is below its query length 4; s counts "
	  "the context and the query" },
	{ "no query", ONE("\"batch\": \"2q0s5\""),
	  "2:42: batch \"2q0s5\": no query token; at least one q must be 1 or more" },
	{ "page 0", ONE("\"batch\": \"q1\", \"page_size\": 0"),
	  "2:61: page_size is 0; it must be an integer from 1 to 65536" },
	{ "page as text", ONE("\"batch\": \"q1\", \"page_size\": \"16\""),
	  "2:61: page_size is \"16\"; it must be an integer from 1 to 65536" },
	{ "page as real",
	  ONE("\"page_size\": 16.5"), "2:46: page_size is 16.5; it must be an integer from 1 "
	  "to 65536" },
	{ "B15, page as 1e1", ONE("\"batch\": \"q1\", \"page_size\": 1e1"),
	  "2:61: page_size is 10.0; it must be an integer from 1 to 65536" },
	{ "unknown dtype",
	  ONE("\"dtype\": \"fp8\""), "2:42: dtype is \"fp8\"; it must be \"f32\", \"f16\" or "
	  "\"bf16\"" },
	{ "unknown kv dtype",
	  ONE("\"kv_dtype\": null"), "2:45: kv_dtype is null; it must be \"f32\", \"f16\", "
	  "\"bf16\" or \"e4m3\"" },
	{ "8 bits beside 32",
	  ONE("\"batch\": \"q1\", \"dtype\": \"f32\", \"kv_dtype\": \"e4m3\""),
	  "2:3: with an E4M3 cache dtype must be F16 or BF16" },
	{ "unknown layout",
	  ONE("\"layout\": \"NHD\""), "2:43: layout is \"NHD\"; it must be \"nhd\", \"hnd\", "
	  "\"classic\", \"packed\", \"lbhnc\", \"lhbnc\", \"blnhc\", \"blhnc\", \"bhlnc\" or "
	  "\"paired\"" },
	{ "lse as a number", ONE("\"lse\": 1"), "2:40: lse is 1; it must be true or false" },
	{ "lse of a model by its name",
	  "{\"scenarios\": [{\"batch\": \"q1\", \"models\": [\"llama3.1-8b@1+lse\"]}]}",
	  "1:43: unknown model \"llama3.1-8b@1+lse\"; models.json has llama3.1-8b@1, "
	  "llama3.1-8b@2, llama3.1-8b@4, llama3.1-8b@8" },
	{ "unknown split", ONE("\"split\": \"test\""),
	  "2:42: split is \"test\"; it must be \"train\", \"peers\", \"heldout\", "
	  "\"heldout_random\", \"heldout_blocked\", \"heldout_offgrid\", "
	  "\"heldout_extrapolated\", \"heldout_traces\", \"heldout_shape\", \"ways\", \"gate\", "
	  "\"overlap\", \"heldout_coverage\" or \"heldout_traces_unseen\"" },
	{ "negative seed", ONE("\"seed\": -1"),
	  "2:41: seed is -1; it must be an integer from 0 to 9223372036854775807" },
	{ "no weight", ONE("\"weight\": 0"), "2:43: weight is 0; it must be a number above 0" },
	{ "weight true",
	  ONE("\"weight\": true"), "2:43: weight is true; it must be a number above 0" },
	{ "unknown model",
	  "{\"scenarios\": [{\"batch\": \"q1\",\n\t\"models\": [\"llama3.1-8b@1\", "
	  "\"llama3.1-70b@3\"]}]}",
	  "2:30: unknown model \"llama3.1-70b@3\"; models.json has llama3.1-70b@1, "
	  "llama3.1-70b@2, llama3.1-70b@4, llama3.1-70b@8" },
	{ "a model without a degree",
	  "{\"scenarios\": [{\"batch\": \"q1\", \"models\": [\"phi-4-mini\"]}]}",
	  "1:43: unknown model \"phi-4-mini\"; models.json has phi-4-mini@1, phi-4-mini@2, "
	  "phi-4-mini@4, phi-4-mini@8" },
	{ "unknown default model",
	  "{\"defaults\": {\"models\": [\"x\"]}, \"scenarios\": [{\"batch\": \"q1\"}]}",
	  "1:26: unknown model \"x\"; the nearest is \"llama3.1-8b@1\"" },
	{ "model is a number", "{\"scenarios\": [{\"batch\": \"q1\", \"models\": [1]}]}",
	  "1:43: model is 1; it must be a text: UTF-8 without control characters" },
	{ "models is a text",
	  "{\"scenarios\": [{\"batch\": \"q1\", \"models\": \"llama3.1-8b@1\"}]}",
	  "1:42: models is \"llama3.1-8b@1\"; it must be a list with at least one element" },
	{ "twice", "{\"defaults\": {\"models\": [\"llama3.1-8b@1\"]}, \"scenarios\": "
	  "[\n{\"batch\": \"q1s1k\"},\n{\"batch\": \"q2\"},\n {\"batch\": \"1q1s1024\", "
	  "\"weight\": 2}]}",
	  "4:2: llama3.1-8b@1 q1s1k is already at line 2; give each scenario once" },
	{ "columns are characters", "{\"about\": \"\xc3\xa4\xe2\x82\xac\", \"scenarios\": 1}",
	  "1:30: scenarios is 1; it must be a list with at least one element" },
	{ "a key with escapes stands at its object", " {\"scen\\u0061rios\": 1}",
	  "1:2: scenarios is 1; it must be a list with at least one element" },
};

#define MODEL(members)                                                                         \
	"{\"models\": [\n {\"name\": \"m\", \"query_heads\": 24, \"kv_heads\": 8, "                 \
	"\"head_size\": 64, " members "}]}"

#define NAMED(name)                                                                    \
	"{\"models\": [{\"name\": \"" name "\", \"query_heads\": 24, \"kv_heads\": 8, " \
	"\"head_size\": 64, \"tp\": [1]}]}"
#define NAMES(name)                                                                       \
	"1:22: name is \"" name "\"; it must be 1 to 48 letters, digits, '.', '_' and '-', " \
	"the first a letter or digit"

static const struct row bad_models[] = {
	{ "models: none", "{}", "1:1: models is missing; it must be given here" },
	{ "models: no degree",
	  MODEL("\"window\": 0"), "2:2: tp is missing; it must be given here" },
	{ "models: degree 0",
	  MODEL("\"tp\": [1, 0]"), "2:77: tp is 0; it must be an integer from 1 to 1024" },
	{ "models: degree does not divide", MODEL("\"tp\": [1, 5]"),
	  "2:77: tp 5 does not divide the 24 query heads; it must" },
	{ "models: KV heads do not split", MODEL("\"tp\": [1, 12]"),
	  "2:77: tp 12 neither divides the 8 KV heads nor is a multiple of them; it must be "
	  "one of the two" },
	{ "models: degree twice", MODEL("\"tp\": [2, 2]"),
	  "2:77: m@2 is defined already; give each name and degree once" },
	{ "models: heads",
	  "{\"models\": [{\"name\": \"m\", \"query_heads\": 24, \"kv_heads\": 7, "
	  "\"head_size\": 64, \"tp\": [1]}]}",
	  "1:13: m: num_query_heads must be a multiple of num_kv_heads" },
	{ "models: name",
	  NAMED("m@1"), NAMES("m@1") },
	{ "models: B15, a comma in a name", NAMED("a,b"), NAMES("a,b") },
	{ "models: B15, a quote in a name", NAMED("a'b"), NAMES("a'b") },
	{ "models: B15, a leading dash", NAMED("-x"), NAMES("-x") },
	{ "models: no name", NAMED(""), NAMES("") },
	{ "models: head size", "{\"models\": [{\"head_size\": 1000}]}",
	  "1:27: head_size is 1000; it must be an integer from 8 to 512" },
	{ "models: scale",
	  MODEL("\"scale\": -1"), "2:76: scale is -1; it must be a number of 0 or more" },
	{ "models: sinks", MODEL("\"sinks\": 1"), "2:76: sinks is 1; it must be true or false" },
};
// clang-format on

#endif
