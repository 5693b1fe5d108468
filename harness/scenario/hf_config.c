/* SPDX-License-Identifier: Apache-2.0 */
/* hf_config.c - the layers of a model by the config.json of Hugging Face's transformers. Of the
 * many spellings it knows those below; members that it does not know are passed over, as they are
 * about other parts of a model. */
#include "scenario.h"
#include "harness/base/base.h"
#include "harness/base/json_in.h"
#include "kernels/spec/choice.h"
#include "kernels/spec/part.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FULL, SLIDING, NUM_KINDS, OTHER = NUM_KINDS /* layers without attention */ };

struct hf_config {
	struct input in;
	const struct json_t *at; /* the object of the text model */
	char below[INPUT_PATH];  /* its place: "" or "text_config/" */
	const char *type;        /* model_type, or "" */
	int failed;
};

/* ---- members by any of their names ----------------------------------------------------- */
/* The member of the first of these names that is there and not null; names end with NULL. */
static const struct json_t *member(struct hf_config *c, const char *const *names, struct key k)
{
	const struct json_t *v = NULL;
	for (; *names && !v && !c->failed; names++) {
		v = input_member(c->at, *names);
		if (v && input_is_null(v))
			v = NULL;
		k.name = *names;
	}
	char place[INPUT_PATH];
	snprintf(place, sizeof place, "%s%s", c->below, k.name ? k.name : "");
	if (v && !input_check(&c->in, v, place, &k)) {
		c->failed = 1;
		v = NULL;
	}
	return v;
}

#define NAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })

static int whole(struct hf_config *c, const char *const *names, int absent)
{
	const struct key k = { .kind = INTEGER, .lo = 1, .hi = 1 << 30 };
	return (int)input_integer(member(c, names, k), absent);
}

static double number(struct hf_config *c, const char *name)
{
	return input_number(member(c, NAMES(name), (struct key){ .kind = POSITIVE }), 0);
}

static int flag(struct hf_config *c, const char *name, int absent)
{
	const struct json_t *v = member(c, NAMES(name), (struct key){ .kind = FLAG });
	return v ? input_flag(v) : absent;
}

static int is_type(const struct hf_config *c, const char *type)
{
	return !strcmp(c->type, type);
}

/* ---- what a layer is --------------------------------------------------------------- */
static int refuse(struct hf_config *c, const char *name, const char *why)
{
	char place[2 * INPUT_PATH];
	if (c->failed) /* one line says the first fault */
		return 0;
	snprintf(place, sizeof place, "%s%s", c->below, name);
	c->failed = 1;
	return input_bad(&c->in, place, NULL, "%s", why);
}

static int kv_heads(struct hf_config *c, int query_heads)
{
	int n = whole(c, NAMES("num_key_value_heads", "num_kv_heads", "n_head_kv"), 0);
	if (flag(c, "multi_query_attention", 0)) /* ChatGLM */
		n = whole(c, NAMES("multi_query_group_num"), n);
	/* Falcon and GPT-BigCode; the first ignores num_kv_heads of its older decoder */
	if (flag(c, "multi_query", is_type(c, "gpt_bigcode")) &&
	    !flag(c, "new_decoder_architecture", 0))
		n = 1;
	else if (is_type(c, "falcon") && !flag(c, "new_decoder_architecture", 0))
		n = query_heads;
	return n ? n : query_heads;
}

static int head_size(struct hf_config *c, int query_heads)
{
	const int size = whole(c, NAMES("head_dim", "kv_channels", "attention_head_size"), 0);
	const int width = whole(c, NAMES("hidden_size", "n_embd", "d_model"), 0);
	if (!size && (!width || width % query_heads))
		refuse(c, "hidden_size",
		       "no head_dim, and no hidden_size that the query heads divide; one of the "
		       "two must be there");
	return size ? size : width / query_heads;
}

/* 0: 1 / sqrt(head_size). */
static double scale_of(struct hf_config *c, int size)
{
	const double scalar = number(c, "query_pre_attn_scalar"); /* Gemma 2 and 3 */
	const double multiplier = number(c, "attention_multiplier");
	const double scale = multiplier > 0 ? multiplier : scalar > 0 ? 1 / sqrt(scalar) : 0;
	return fabs(scale * sqrt(size) - 1) < 1e-6 ? 0 : scale;
}

static int has_alibi(struct hf_config *c)
{
	const struct hf_config outer = *c;
	const struct json_t *mpt = member(c, NAMES("attn_config"), (struct key){ .kind = OBJECT });
	int is = flag(c, "alibi", is_type(c, "bloom") || is_type(c, "mpt"));
	if (mpt) {
		c->at = mpt;
		snprintf(c->below, sizeof c->below, "%.30sattn_config/", outer.below);
		is = flag(c, "alibi", is);
		c->at = outer.at;
		memcpy(c->below, outer.below, sizeof c->below);
	}
	return is;
}

/* Refuses encoders: each of their tokens also sees the tokens that follow it. Some configs have a
 * member for this, some name a class such as BertForMaskedLM. Models of the types below are encoders
 * unless is_decoder is true. For other types is_decoder means nothing: decoders often have false. */
static void refuse_encoder(struct hf_config *c)
{
	static const char why[] = "an encoder, where a token also sees those that follow it; it must be "
				  "a model that generates text";
	static const char *const encoders[] = {
		"albert",     "bert",       "camembert",   "clip_text_model", "deberta",
		"deberta-v2", "distilbert", "electra",     "ernie",           "esm",
		"eurobert",   "modernbert", "mpnet",       "neobert",         "nomic_bert",
		"roberta",    "vit",        "xlm-roberta", "xlm-roberta-xl",
	};
	static const char trained[] = "architectures", both_ways[] = "use_bidirectional_attention";
	const struct json_t *v = input_member(c->at, trained);
	const char *name = v ? input_text(input_element(v, 0)) : NULL;
	if (name && (strstr(name, "ForMaskedLM") || strstr(name, "Bidirectional")))
		refuse(c, trained, why);
	if (!flag(c, "is_causal", 1))
		refuse(c, "is_causal", why);
	/* A flag, or a text: "all" is an encoder, Gemma 4's "vision" is not. */
	v = input_member(c->at, both_ways);
	name = v ? input_text(v) : NULL;
	if (v && (input_flag(v) || (name && !strcmp(name, "all"))))
		refuse(c, both_ways, why);
	for (size_t i = 0; i < COUNT(encoders); i++)
		if (is_type(c, encoders[i]) && !flag(c, "is_decoder", 0))
			refuse(c, "model_type", why);
}

static void read_shape(struct hf_config *c, attune_shape *s)
{
	const int heads = whole(c, NAMES("num_attention_heads", "n_head", "n_heads"), 0);
	const int size = heads ? head_size(c, heads) : 0;
	const int value = whole(c, NAMES("v_head_dim"), size);
	if (!heads)
		refuse(c, "", "num_attention_heads is missing; it must be given here");
	if (whole(c, NAMES("kv_lora_rank"), 0))
		refuse(c, "kv_lora_rank",
		       "a model with latent attention (MLA); attune has no kernel for it");
	refuse_encoder(c);
	if (flag(c, "is_encoder_decoder", 0))
		refuse(c, "is_encoder_decoder",
		       "a model of an encoder and a decoder; it must have a decoder alone");
	if (value != size)
		refuse(c, "v_head_dim",
		       "values of another size than keys; attune has no kernel for it");
	*s = (attune_shape){ .size = sizeof *s,
			     .num_query_heads = heads,
			     .num_kv_heads = kv_heads(c, heads),
			     .head_size = size,
			     .page_size = 16,
			     .dtype = ATTUNE_BF16,
			     .kv_dtype = ATTUNE_BF16,
			     .causal = 1,
			     .scale = input_float(scale_of(c, size)),
			     .softcap = input_float(number(c, "attn_logit_softcapping")),
			     .has_sinks = is_type(c, "gpt_oss"),
			     .has_alibi = has_alibi(c),
			     .has_new_kv = 1 };
}

/* ---- which layers have a window ---------------------------------------------------- */
static int kind_of(struct hf_config *c, const char *name, size_t index)
{
	static const struct {
		const char *name;
		int kind;
	} kinds[] = { { "full_attention", FULL }, { "sliding_attention", SLIDING },
		      { "attention", FULL },      { "linear_attention", OTHER },
		      { "mamba", OTHER },         { "conv", OTHER },
		      { "moe", OTHER },           { "mlp", OTHER } };
	char place[INPUT_PATH];
	for (size_t i = 0; i < COUNT(kinds); i++)
		if (!strcmp(kinds[i].name, name))
			return kinds[i].kind;
	snprintf(place, sizeof place, "%slayer_types/%zu", c->below, index);
	c->failed = 1;
	input_bad(&c->in, place, NULL,
		  "layers of type \"%.*s\" are not known; it must be full_attention, "
		  "sliding_attention, or one without attention, such as linear_attention",
		  INPUT_SHOWN, name);
	return OTHER;
}

static void count_types(struct hf_config *c, const struct json_t *list, int layers[NUM_KINDS + 1])
{
	const struct json_t *v;
	for (size_t i = 0; !c->failed && (v = input_element(list, i)); i++) {
		char place[INPUT_PATH];
		snprintf(place, sizeof place, "%slayer_types/%zu", c->below, i);
		if (!input_check(&c->in, v, place, &(struct key){ "a layer's type", .kind = TEXT }))
			c->failed = 1;
		else
			layers[kind_of(c, input_text(v), i)]++;
	}
}

/* Without layer_types: one of each n layers sees all keys, the others a window. Returns n; 0:
 * the config does not say. */
static int pattern_of(struct hf_config *c)
{
	const int usual = is_type(c, "gemma2") || is_type(c, "gpt_oss")       ? 2
			  : is_type(c, "gemma3") || is_type(c, "gemma3_text") ? 6
			  : is_type(c, "cohere2")                             ? 4
									      : 0;
	return whole(c, NAMES("sliding_window_pattern"), usual);
}

static void count_layers(struct hf_config *c, int window, int layers[NUM_KINDS + 1])
{
	const int all =
	    whole(c, NAMES("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 1);
	const struct json_t *types = member(c, NAMES("layer_types"), (struct key){ .kind = LIST });
	const int pattern = pattern_of(c);
	if (types) {
		count_types(c, types, layers);
	} else if (!window) {
		layers[FULL] = all;
	} else if (pattern) {
		layers[FULL] = all / pattern;
		layers[SLIDING] = all - layers[FULL];
	} else { /* Qwen 2: those from this number on */
		const struct json_t *v =
		    member(c, NAMES("max_window_layers"),
			   (struct key){ .kind = INTEGER, .lo = 0, .hi = 1 << 30 });
		const long long full = input_integer(v, 0);
		layers[FULL] = (int)(full < all ? full : all);
		layers[SLIDING] = all - layers[FULL];
	}
	if (!layers[FULL] && !layers[SLIDING])
		refuse(c, "layer_types", "no layer with attention; it must have one");
}

static int sliding_window(struct hf_config *c)
{
	return flag(c, "use_sliding_window", 1) ? whole(c, NAMES("sliding_window"), 0) : 0;
}

/* ---- the file ------------------------------------------------------------------------ */
/* models--a--b/config.json, b/config.json and b.json are called b. */
static void name_of(char *name, size_t size, const struct hf_config *c, const char *path)
{
	const char *end = strrchr(path, '/'), *base = end ? end + 1 : path;
	size_t n = strlen(base);
	n -= n > 5 && !strcmp(base + n - 5, ".json") ? 5 : 0;
	if (n == 6 && !strncmp(base, "config", n) && end > path) {
		for (base = end; base > path && base[-1] != '/';)
			base--;
		n = (size_t)(end - base);
	} else if (n == 6 && !strncmp(base, "config", n)) {
		base = c->type;
		n = strlen(base);
	}
	size_t to = 0;
	for (size_t i = 0; i < n && to + 1 < size && to < 40; i++) {
		const char ch = (char)tolower((unsigned char)base[i]);
		const int is_kept = isalnum((unsigned char)ch) || (to && strchr(".-_", ch));
		if (is_kept || to)
			name[to++] = is_kept ? ch : '-';
	}
	name[to] = '\0';
	if (!to)
		snprintf(name, size, "model");
}

static int add_models(struct hf_config *c, struct models *m, const char *path)
{
	attune_shape s;
	int layers[NUM_KINDS + 1] = { 0 };
	char base[48], name[64];
	read_shape(c, &s);
	const int window = c->failed ? 0 : sliding_window(c);
	if (!c->failed)
		count_layers(c, window, layers);
	if (layers[SLIDING] && !window)
		refuse(c, "layer_types", "layers with a window; sliding_window must say how long");
	if (shape_error(&s))
		refuse(c, "", shape_error(&s));
	if (c->failed)
		return 0;
	name_of(base, sizeof base, c, path);
	const int are_two = layers[FULL] && layers[SLIDING];
	snprintf(name, sizeof name, "%s%s", base, are_two ? "-global" : "");
	int done = !layers[FULL] || models_add(m, name, &s);
	snprintf(name, sizeof name, "%s%s", base, are_two ? "-local" : "");
	s.window = window;
	done = done && (!layers[SLIDING] || models_add(m, name, &s));
	if (done && are_two)
		remark("%s: %d layers are %s-global, %d are %s-local", path, layers[FULL], base,
		       layers[SLIDING], base);
	return done;
}

int models_add_hf(struct models *m, const char *path)
{
	static const char *const nested[] = { "text_config", "llm_config", "language_config" };
	struct hf_config c = { .type = "" };
	if (!input_open(&c.in, path))
		return 0;
	int done = input_check(&c.in, c.in.root, "", &(struct key){ "this", .kind = OBJECT });
	c.at = c.in.root;
	for (size_t i = 0; done && i < COUNT(nested); i++) {
		const struct json_t *v =
		    member(&c, NAMES(nested[i]), (struct key){ .kind = OBJECT });
		if (!v)
			continue;
		c.at = v;
		snprintf(c.below, sizeof c.below, "%s/", nested[i]);
		break;
	}
	const struct json_t *type =
	    done ? member(&c, NAMES("model_type"), (struct key){ .kind = TEXT }) : NULL;
	c.type = type ? input_text(type) : "";
	done = done && !c.failed && add_models(&c, m, path);
	input_close(&c.in);
	return done;
}
