/* SPDX-License-Identifier: Apache-2.0 */
/* models.c - loads the shapes of models, by name and tensor-parallel degree, from
 * scenarios/models.json. scenarios/README.md describes its keys. */
#include "models.h"
#include "scenario.h"
#include "harness/base/base.h"
#include "harness/base/json_in.h"
#include "harness/base/text_rule.h"
#include "kernels/spec/part.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
static const struct key models_keys[] = {
	{ "about",       .kind = NOTES },
	{ "models",      .kind = LIST, .required = 1 },
	{ 0 }
}, model_keys[] = {
	{ "name",        .kind = TEXT, .required = 1 },
	{ "query_heads", .kind = INTEGER, .required = 1, .lo = 1, .hi = 1024 },
	{ "kv_heads",    .kind = INTEGER, .required = 1, .lo = 1, .hi = 1024 },
	{ "head_size",   .kind = INTEGER, .required = 1, .lo = 8, .hi = 512 },
	{ "tp",          .kind = LIST, .required = 1 },
	{ "window",      .kind = INTEGER, .lo = 0, .hi = 1 << 30 },
	{ "softcap",     .kind = NOT_NEGATIVE },
	{ "sinks",       .kind = FLAG },
	{ "alibi",       .kind = FLAG },
	{ "cross",       .kind = FLAG },
	{ "scale",       .kind = NOT_NEGATIVE },
	{ 0 }
};
// clang-format on

void model_key(char key[MODEL_KEY], const attune_shape *s)
{
	const double usual = 1 / sqrt(s->head_size), scale = (double)s->scale;
	snprintf(key, MODEL_KEY, "%d/%d %d %d %d %.4g %d %d %.4g", s->num_query_heads,
		 s->num_kv_heads, s->head_size, !!s->causal, s->window, (double)s->softcap,
		 !!s->has_sinks, !!s->has_alibi,
		 scale > 0 && fabs(scale / usual - 1) > 1e-3 ? scale : 0.0);
}

const struct model *model_find(const struct models *m, const char *name)
{
	for (int i = 0; i < m->n; i++)
		if (!strcmp(m->v[i].name, name))
			return &m->v[i];
	return NULL;
}

int models_append(struct models *m, const struct model *one)
{
	struct model *v = realloc(m->v, ((size_t)m->n + 1) * sizeof *v);
	if (!v) {
		complain("out of memory");
		return 0;
	}
	m->v = v;
	m->v[m->n++] = *one;
	return 1;
}

/* The whole model, on one GPU. */
static attune_shape base_shape(const struct json_t *entry)
{
	return (attune_shape){
		.size = sizeof(attune_shape),
		.num_query_heads = (int)input_integer(input_member(entry, "query_heads"), 0),
		.num_kv_heads = (int)input_integer(input_member(entry, "kv_heads"), 0),
		.head_size = (int)input_integer(input_member(entry, "head_size"), 0),
		.page_size = 16,
		.dtype = ATTUNE_BF16,
		.kv_dtype = ATTUNE_BF16,
		.causal = !input_flag(input_member(entry, "cross")),
		.window = (int)input_integer(input_member(entry, "window"), 0),
		.scale = input_float(input_number(input_member(entry, "scale"), 0)),
		.softcap = input_float(input_number(input_member(entry, "softcap"), 0)),
		.has_sinks = input_flag(input_member(entry, "sinks")),
		.has_alibi = input_flag(input_member(entry, "alibi")),
		.has_new_kv = 1,
	};
}

/* vLLM's rule: tp divides the query heads. It divides the KV heads too, or, with fewer KV heads
 * than GPUs, each GPU gets a copy of one. */
int model_splits(const attune_shape *s, int tp)
{
	return s->num_query_heads % tp == 0 &&
	       (s->num_kv_heads % tp == 0 || tp % s->num_kv_heads == 0);
}

attune_shape model_shard(const attune_shape *whole, int tp)
{
	attune_shape s = *whole;
	s.num_query_heads /= tp;
	s.num_kv_heads = s.num_kv_heads > tp ? s.num_kv_heads / tp : 1;
	return s;
}

static int split(const struct input *in, const char *path, attune_shape *s, int tp)
{
	if (s->num_query_heads % tp)
		return input_bad(in, path, NULL,
				 "tp %d does not divide the %d query heads; it must", tp,
				 s->num_query_heads);
	if (!model_splits(s, tp))
		return input_bad(in, path, NULL,
				 "tp %d neither divides the %d KV heads nor is a multiple of them; "
				 "it must be one of the two",
				 tp, s->num_kv_heads);
	*s = model_shard(s, tp);
	return 1;
}

/* A name is an argument of the command line, one of a list with commas, a text in pictures, and
 * part of a file's name. */
int model_is_name(const char *name)
{
	const size_t n = strlen(name);
	return n && n <= 48 && text_keeps(TEXT_NAME, name) && !strpbrk(name, "+@:") &&
	       !strchr(".-_", name[0]);
}

/* In what a set defines itself, a name may be known: for the same shape. */
static int add_degree(const struct input *in, const char *path, struct models *m, const char *name,
		      const struct model *one, int is_set)
{
	const struct model *old = model_find(m, one->name);
	char is[MODEL_KEY], was[MODEL_KEY];
	if (!old)
		return models_append(m, one);
	model_key(is, &one->shape);
	model_key(was, &old->shape);
	if (!is_set)
		return input_bad(in, path, NULL,
				 "%s is defined already; give each name and degree once",
				 one->name);
	return !strcmp(is, was) ||
	       input_bad(in, path, NULL, "%s is known with another shape; give %s another name",
			 one->name, name);
}

static int load_entry(const struct input *in, struct models *m, const struct json_t *entry,
		      size_t index, int is_set)
{
	static const struct key degree = { "tp", .kind = INTEGER, .lo = 1, .hi = 1024 };
	const struct json_t *list = input_member(entry, "tp"), *tp;
	const char *name = input_text(input_member(entry, "name"));
	attune_shape whole = base_shape(entry);
	char path[INPUT_PATH];
	snprintf(path, sizeof path, "models/%zu/name", index);
	if (!model_is_name(name))
		return input_bad(
		    in, path, NULL,
		    "name is \"%.*s\"; it must be 1 to 48 letters, digits, '.', '_' and "
		    "'-', the first a letter or digit",
		    INPUT_SHOWN, name);
	snprintf(path, sizeof path, "models/%zu", index);
	if (shape_error(&whole))
		return input_bad(in, path, NULL, "%s: %s", name, shape_error(&whole));
	for (size_t i = 0; (tp = input_element(list, i)); i++) {
		struct model one = { .shape = whole, .whole = whole, .is_own = is_set };
		snprintf(path, sizeof path, "models/%zu/tp/%zu", index, i);
		if (!input_check(in, tp, path, &degree))
			return 0;
		one.tp = (int)input_integer(tp, 1);
		if (!split(in, path, &one.shape, one.tp))
			return 0;
		snprintf(one.name, sizeof one.name, "%s@%d", name, one.tp);
		if (!add_degree(in, path, m, name, &one, is_set))
			return 0;
	}
	return 1;
}

static int load_entries(struct models *m, const struct input *in, int is_set)
{
	const struct json_t *list = input_member(in->root, "models"), *entry;
	char place[INPUT_PATH];
	for (size_t i = 0; (entry = input_element(list, i)); i++) {
		snprintf(place, sizeof place, "models/%zu", i);
		if (!input_check_object(in, entry, place, model_keys) ||
		    !load_entry(in, m, entry, i, is_set))
			return 0;
	}
	return 1;
}

int models_of_set(struct models *m, const struct input *in)
{
	return load_entries(m, in, 1);
}

struct models *models_load(const char *path)
{
	struct models *m = calloc(1, sizeof *m);
	struct input in;
	int ok;
	if (!m || !input_open(&in, path)) {
		free(m);
		return NULL;
	}
	ok = input_check_object(&in, in.root, "", models_keys) && load_entries(m, &in, 0);
	input_close(&in);
	if (ok)
		return m;
	models_free(m);
	return NULL;
}

void models_free(struct models *m)
{
	if (m)
		free(m->v);
	free(m);
}

const attune_shape *models_find(const struct models *m, const char *name)
{
	const struct model *found = model_find(m, name);
	return found ? &found->shape : NULL;
}

/* The model with the longest common prefix with `name`. */
static const char *nearest(const struct models *m, const char *name)
{
	const char *best = "none";
	size_t most = 0;
	for (int i = 0; i < m->n; i++) {
		size_t same = 0;
		while (name[same] && name[same] == m->v[i].name[same])
			same++;
		if (!i || same > most) {
			most = same;
			best = m->v[i].name;
		}
	}
	return best;
}

void models_why_unknown(const struct models *m, const char *name, char *why, size_t size)
{
	const size_t base = strcspn(name, "@");
	size_t n = 0;
	for (int i = 0; i < m->n && n < size; i++) {
		const char *known = m->v[i].name;
		if (strcspn(known, "@") != base || strncmp(known, name, base) != 0)
			continue;
		n += (size_t)(n ? snprintf(why + n, size - n, ", %s", known)
				: snprintf(why, size, "unknown model \"%.*s\"; models.json has %s",
					   INPUT_SHOWN, name, known));
	}
	if (!n)
		snprintf(why, size, "unknown model \"%.*s\"; the nearest is \"%s\"", INPUT_SHOWN,
			 name, nearest(m, name));
}

int models_shape(const struct models *m, const char *name, attune_shape *out)
{
	char base[MODEL_NAME];
	model_base(base, name);
	const attune_shape *found = models_find(m, base);
	if (found) {
		*out = *found;
		out->has_lse = model_gives_lse(name);
	} else {
		char why[MODEL_WHY];
		models_why_unknown(m, base, why, sizeof why);
		complain("%s; attune scenarios --models lists all", why);
	}
	return found != NULL;
}

const char *models_name(const struct models *m, int i)
{
	return i >= 0 && i < m->n ? m->v[i].name : NULL;
}
