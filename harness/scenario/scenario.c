/* SPDX-License-Identifier: Apache-2.0 */
/* scenario.c - loads scenario sets from JSON, and makes the scenario of --batch. The tables below define
 * the legal keys; scenarios/README.md describes them. A file with an error adds no scenario. */
#include "scenario.h"
#include "harness/base/base.h"
#include "harness/base/json_in.h"
#include "harness/base/text_rule.h"
#include "kernels/spec/choice.h"
#include "kernels/spec/part.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* as enum attune_dtype */
static const char *const dtypes[] = { "f32", "f16", "bf16", NULL };
static const char *const kv_dtypes[] = { "f32", "f16", "bf16", "e4m3", NULL };
const char *const scenario_splits[] = { "train",
					"peers",
					"heldout",
					"heldout_random",
					"heldout_blocked",
					"heldout_offgrid",
					"heldout_extrapolated",
					"heldout_traces",
					"heldout_shape",
					"ways",
					"gate",
					"overlap",
					"heldout_coverage",
					"heldout_traces_unseen",
					NULL };

int split_is_held_out(const char *split)
{
	return !strncmp(split, "heldout", 7) || !strcmp(split, "peers") || split_is_gate(split);
}

int split_is_gate(const char *split)
{
	return !strcmp(split, "gate");
}

int split_is_overlap(const char *split)
{
	return !strcmp(split, "overlap");
}

int gate_draws(const struct scenario *s, int third)
{
	char what[MODEL_NAME + 1];
	const size_t n = (size_t)snprintf(what, sizeof what, "%s", s->model) + 1;
	const XXH64_hash_t model = XXH3_64bits(what, n);
	return !strncmp(s->split, "heldout", 7) &&
	       XXH3_64bits_withSeed(s->batch_text, strlen(s->batch_text), model) % 3 ==
		   (unsigned)third;
}

// clang-format off
#define SETTINGS								\
	{ "models",    .kind = LIST },						\
	{ "page_size", .kind = INTEGER, .lo = 1, .hi = 65536 },			\
	{ "dtype",     .kind = WORD, .words = dtypes },				\
	{ "kv_dtype",  .kind = WORD, .words = kv_dtypes },			\
	{ "layout",    .kind = WORD, .words = layout_names },			\
	{ "lse",       .kind = FLAG },						\
	{ "seed",      .kind = INTEGER, .lo = 0, .hi = 0x7fffffffffffffff },	\
	{ "split",     .kind = WORD, .words = scenario_splits }

static const struct key set_keys[] = {
	{ "about",     .kind = NOTES },
	{ "models",    .kind = LIST },
	{ "defaults",  .kind = OBJECT },
	{ "scenarios", .kind = LIST, .required = 1 },
	{ 0 }
}, default_keys[] = {
	SETTINGS,
	{ 0 }
}, scenario_keys[] = {
	{ "batch",     .kind = TEXT, .required = 1 },
	{ "weight",    .kind = POSITIVE },
	{ "steps",     .kind = POSITIVE },
	{ "from",      .kind = TEXT },
	SETTINGS,
	{ 0 }
};
// clang-format on

/* ---- twins ------------------------------------------------------------------------- */
/* A hash table of scenarios by what is measured, so that a long set is read as fast, for each
 * scenario, as a short one. */
/* Two are twins if model, batch, page size, types and layout are the same; by_seed: the seed, too. */
struct twins {
	int by_seed;
	int *slot; /* index + 1; 0: free */
	size_t room, used;
};
enum { TWINS_NONE = -1, TWINS_NO_MEMORY = -2 };

static int is_twin(const struct scenario *a, const struct scenario *b, int by_seed)
{
	return !strcmp(a->model, b->model) && !strcmp(a->batch_text, b->batch_text) &&
	       a->shape.page_size == b->shape.page_size && a->shape.dtype == b->shape.dtype &&
	       a->shape.kv_dtype == b->shape.kv_dtype && a->layout == b->layout &&
	       (!by_seed || a->seed == b->seed);
}

static size_t hash_of(const struct scenario *s)
{
	const int rest[] = { s->shape.page_size, s->shape.dtype, s->shape.kv_dtype, s->layout };
	const XXH64_hash_t model =
	    XXH3_64bits_withSeed(s->model, strlen(s->model), XXH3_64bits(rest, sizeof rest));
	return XXH3_64bits_withSeed(s->batch_text, strlen(s->batch_text), model);
}

/* The slot with a twin, else the free one to put `s` into. The table is never full. */
static size_t find(const struct twins *t, const struct scenario *v, const struct scenario *s)
{
	const size_t mask = t->room - 1;
	size_t at = hash_of(s) & mask;
	while (t->slot[at] && !is_twin(&v[t->slot[at] - 1], s, t->by_seed))
		at = (at + 1) & mask;
	return at;
}

static int make_room(struct twins *t, const struct scenario *v)
{
	const struct twins old = *t;
	if (t->room && t->used < t->room / 2)
		return 1;
	t->room = t->room ? 2 * t->room : 1024;
	t->slot = calloc(t->room, sizeof *t->slot);
	if (!t->slot) {
		*t = old;
		return 0;
	}
	for (size_t i = 0; i < old.room; i++)
		if (old.slot[i])
			t->slot[find(t, v, &v[old.slot[i] - 1])] = old.slot[i];
	free(old.slot);
	return 1;
}

/* The index of a twin of `s` in v. If there is none: remembers that `s` will be v[index]. */
static int twins_add(struct twins *t, const struct scenario *v, const struct scenario *s, int index)
{
	if (!make_room(t, v))
		return TWINS_NO_MEMORY;
	int *slot = &t->slot[find(t, v, s)];
	if (*slot)
		return *slot - 1;
	*slot = index + 1;
	t->used++;
	return TWINS_NONE;
}

static void twins_free(struct twins *t)
{
	free(t->slot);
	*t = (struct twins){ .by_seed = t->by_seed };
}

/* ---- loading --------------------------------------------------------------------- */

/* A file that is being loaded. */
struct loading {
	struct input in;
	struct models *models;
	struct scenario_list *list;
	int first;     /* index of the file's first scenario */
	size_t *entry; /* index in the file of each scenario from `first` on */
	size_t entries_room;
	struct twins twins;            /* of the file's scenarios, counted from `first` */
	const struct json_t *defaults; /* or NULL */
};

enum scales scenario_scales(const struct scenario *s)
{
	return s->shape.kv_dtype == ATTUNE_E4M3 ? (enum scales)(s->seed % NUM_SCALES) : SCALES_NONE;
}

void scenario_drop(struct scenario *s)
{
	free(s->batch_text);
	batch_free(s->batch);
}

void scenarios_free(struct scenario_list *list)
{
	for (int i = 0; i < list->n; i++)
		scenario_drop(&list->v[i]);
	free(list->v);
	*list = (struct scenario_list){ 0 };
}

/* The value in the entry, else in the defaults; NULL: in neither. */
static const struct json_t *setting(const struct loading *l, const struct json_t *entry,
				    const char *key)
{
	const struct json_t *v = input_member(entry, key);
	return v ? v : input_member(l->defaults, key);
}

static int check_models(const struct loading *l, const struct json_t *list, const char *path)
{
	static const struct key model = { "model", .kind = TEXT };
	const struct json_t *v;
	char place[INPUT_PATH + 32];
	for (size_t i = 0; (v = input_element(list, i)); i++) {
		snprintf(place, sizeof place, "%s/models/%zu", path, i);
		if (!input_check(&l->in, v, place, &model))
			return 0;
		if (!models_find(l->models, input_text(v))) {
			char why[MODEL_WHY];
			models_why_unknown(l->models, input_text(v), why, sizeof why);
			return input_bad(&l->in, place, NULL, "%s", why);
		}
	}
	return 1;
}

int scenario_batch_is_run(const attune_batch *b, char *why, size_t size)
{
	for (int i = 0; i < b->num_seqs; i++) {
		int query = b->query_start[i + 1] - b->query_start[i];
		if (b->seq_lens[i] < query) {
			snprintf(why, size,
				 "sequence length %d is below its query length %d; s counts the "
				 "context and the query",
				 b->seq_lens[i], query);
			return 0;
		}
	}
	if (!b->query_start[b->num_seqs])
		snprintf(why, size, "no query token; at least one q must be 1 or more");
	return b->query_start[b->num_seqs] > 0;
}

/* Fills batch and batch_text; refuses batches that no engine runs. */
static int take_batch(const struct loading *l, struct scenario *s, const char *text,
		      const char *path)
{
	char error[128];
	s->batch = batch_parse(text, error, sizeof error);
	if (!s->batch || !scenario_batch_is_run(&s->batch->view, error, sizeof error))
		return input_bad(&l->in, path, NULL, "batch \"%.*s\": %s", INPUT_SHOWN, text,
				 error);
	s->batch_text = batch_format(&s->batch->view);
	if (!s->batch_text)
		complain("out of memory");
	return s->batch_text != NULL;
}

static int refuse_double(struct loading *l, const struct scenario *s, const char *path)
{
	const struct scenario *own = l->list->v ? l->list->v + l->first : NULL;
	const int twin = twins_add(&l->twins, own, s, l->list->n - l->first);
	char place[INPUT_PATH];
	int line, column;
	if (twin == TWINS_NO_MEMORY)
		complain("out of memory");
	if (twin < 0)
		return twin == TWINS_NONE;
	snprintf(place, sizeof place, "scenarios/%zu", l->entry[twin]);
	json_place(l->in.text, place, NULL, &line, &column);
	return input_bad(&l->in, path, NULL,
			 "%s %.*s is already at line %d; give each scenario once", s->model,
			 INPUT_SHOWN, s->batch_text, line);
}

int scenarios_append(struct scenario_list *list, const struct scenario *s)
{
	const size_t n = (size_t)list->n;
	/* There is room for the next power of two. */
	if (!(n & (n - 1))) {
		struct scenario *v = realloc(list->v, (n ? 2 * n : 1) * sizeof *v);
		if (!v)
			return 0;
		list->v = v;
	}
	list->v[list->n++] = *s;
	return 1;
}

static int append(struct loading *l, const struct scenario *s, size_t index)
{
	const size_t n = (size_t)(l->list->n - l->first);
	if (n == l->entries_room) {
		const size_t room = n ? 2 * n : 64;
		size_t *entry = realloc(l->entry, room * sizeof *entry);
		if (entry) {
			l->entry = entry;
			l->entries_room = room;
		}
	}
	if (n == l->entries_room || !scenarios_append(l->list, s)) {
		complain("out of memory");
		return 0;
	}
	l->entry[n] = index;
	return 1;
}

/* The shape with the entry's settings must be legal. */
static int check_shape(const struct loading *l, const attune_shape *s, const char *path)
{
	const char *error = shape_error(s);
	return !error || input_bad(&l->in, path, NULL, "%s", error);
}

static int add_scenario(struct loading *l, const struct json_t *entry, const char *model,
			size_t index)
{
	struct scenario s = { .shape = *models_find(l->models, model) };
	char path[INPUT_PATH], text_path[INPUT_PATH];
	int dtype = input_word(setting(l, entry, "dtype"), dtypes, ATTUNE_BF16);
	snprintf(path, sizeof path, "scenarios/%zu", index);
	snprintf(text_path, sizeof text_path, "scenarios/%zu/batch", index);
	s.shape.has_lse = input_flag(setting(l, entry, "lse"));
	s.shape.dtype = (enum attune_dtype)dtype;
	s.shape.kv_dtype =
	    (enum attune_dtype)input_word(setting(l, entry, "kv_dtype"), kv_dtypes, dtype);
	s.shape.page_size = (int)input_integer(setting(l, entry, "page_size"), 16);
	s.layout = (enum layout)input_word(setting(l, entry, "layout"), layout_names, LAYOUT_NHD);
	s.shape.kv_layout = layout_kv(s.layout);
	model_name(s.model, model, s.shape.has_lse, s.layout);
	s.seed = (unsigned long long)input_integer(setting(l, entry, "seed"), 1);
	s.weight = input_number(input_member(entry, "weight"), 1);
	s.steps = input_number(input_member(entry, "steps"), 0);
	snprintf(s.split, sizeof s.split, "%s",
		 scenario_splits[input_word(setting(l, entry, "split"), scenario_splits, 0)]);
	if (check_shape(l, &s.shape, path) &&
	    take_batch(l, &s, input_text(input_member(entry, "batch")), text_path) &&
	    refuse_double(l, &s, path) && append(l, &s, index))
		return 1;
	scenario_drop(&s);
	return 0;
}

static int load_entry(struct loading *l, const struct json_t *entry, size_t index)
{
	const struct json_t *list, *model;
	char path[INPUT_PATH];
	snprintf(path, sizeof path, "scenarios/%zu", index);
	if (!input_check_object(&l->in, entry, path, scenario_keys) ||
	    !check_models(l, input_member(entry, "models"), path))
		return 0;
	list = setting(l, entry, "models");
	if (!list)
		return input_bad(&l->in, path, NULL,
				 "models is missing; it must be given here or in defaults");
	for (size_t i = 0; (model = input_element(list, i)); i++)
		if (!add_scenario(l, entry, input_text(model), index))
			return 0;
	return 1;
}

static int load(struct loading *l)
{
	const struct json_t *list, *entry;
	if (!input_check_object(&l->in, l->in.root, "", set_keys) ||
	    !models_of_set(l->models, &l->in))
		return 0;
	l->defaults = input_member(l->in.root, "defaults");
	if (l->defaults && (!input_check_object(&l->in, l->defaults, "defaults", default_keys) ||
			    !check_models(l, input_member(l->defaults, "models"), "defaults")))
		return 0;
	list = input_member(l->in.root, "scenarios");
	for (size_t i = 0; (entry = input_element(list, i)); i++)
		if (!load_entry(l, entry, i))
			return 0;
	return 1;
}

/* "scenarios/h200.json" -> "h200"; 0: empty, too long, or with control characters. */
static int set_name(char *name, size_t size, const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	const char *dot = strrchr(base, '.');
	size_t n = dot && !strcmp(dot, ".json") ? (size_t)(dot - base) : strlen(base);
	snprintf(name, size, "%.*s", (int)n, base);
	return n > 0 && n < size && text_keeps(TEXT_FREE, name);
}

int scenarios_load(struct scenario_list *list, const char *path, struct models *models)
{
	struct loading l = { .models = models, .list = list, .first = list->n };
	char set[sizeof list->v->set];
	int ok;
	if (!set_name(set, sizeof set, path)) {
		complain("%s: a set's name must be 1 to %zu bytes of %s", path, sizeof set - 1,
			 text_rule_says(TEXT_FREE));
		return 0;
	}
	if (!input_open(&l.in, path))
		return 0;
	ok = load(&l);
	input_close(&l.in);
	free(l.entry);
	twins_free(&l.twins);
	for (int i = l.first; i < list->n; i++)
		memcpy(list->v[i].set, set, sizeof set);
	while (!ok && list->n > l.first)
		scenario_drop(&list->v[--list->n]);
	return ok;
}

void scenario_facts(struct facts *out, const attune_shape *s, const attune_batch *b)
{
	*out = (struct facts){ .query_tokens = b->query_start[b->num_seqs] };
	for (int i = 0; i < b->num_seqs; i++) {
		int query = b->query_start[i + 1] - b->query_start[i];
		out->seqs += query > 0;
		out->decodes += query > 0 && query <= DECODE_MAX_QUERY;
	}
	out->kv_bytes = 2.0 * (double)part_live_keys(s, b, PHASE_ALL) * s->num_kv_heads *
			s->head_size * dtype_bytes(s->kv_dtype);
	out->flops = 4.0 * (double)part_pairs(s, b, PHASE_ALL) * s->num_query_heads * s->head_size;
}

/* ---- a batch by itself ------------------------------------------------------------- */

int scenario_of_batch(struct scenario *s, const char *text, const char *model, int page_size,
		      const struct models *models)
{
	char error[128];
	*s = (struct scenario){
		.set = "batch", .split = "train", .weight = 1, .seed = 1, .asked = 1
	};
	if (!models_shape(models, model, &s->shape))
		return 0;
	snprintf(s->model, sizeof s->model, "%s", model);
	s->layout = model_layout(model);
	s->shape.page_size = page_size;
	if (shape_error(&s->shape)) {
		complain("%s", shape_error(&s->shape));
		return 0;
	}
	s->batch = batch_parse(text, error, sizeof error);
	if (!s->batch || !scenario_batch_is_run(&s->batch->view, error, sizeof error))
		complain("--batch \"%s\": %s", text, error);
	else if (!(s->batch_text = batch_format(&s->batch->view)))
		complain("out of memory");
	if (!s->batch_text)
		scenario_drop(s);
	return s->batch_text != NULL;
}

/* ---- several sets as one list, each scenario once ---------------------------------- */

int scenario_set_load(struct scenario_list *list, const char *dir, const char *name,
		      struct models *m)
{
	char path[PATH_MAX];
	const size_t n = strlen(name);
	if (strchr(name, '/') || (n > 5 && !strcmp(name + n - 5, ".json")))
		return scenarios_load(list, name, m);
	snprintf(path, sizeof path, "%s/%s.json", dir, name);
	return scenarios_load(list, path, m);
}

void scenarios_sift(struct scenario_list *list, const char *model)
{
	struct scenario_list kept = { .v = list->v };
	struct twins seen = { .by_seed = 1 };
	for (int i = 0; i < list->n; i++) {
		struct scenario s = list->v[i];
		const int wanted = !model || !strcmp(s.model, model);
		const int twin = wanted ? twins_add(&seen, kept.v, &s, kept.n) : 0;
		if (wanted && twin >= 0)
			kept.v[twin].asked |= s.asked;
		if (wanted && twin < 0) /* without memory a twin may stay */
			kept.v[kept.n++] = s;
		else
			scenario_drop(&s);
	}
	list->n = kept.n;
	twins_free(&seen);
}

int scenario_sets_load(struct scenario_list *list, const char *dir, const char *const *set, int n,
		       const char *model, struct models *m)
{
	for (int i = 0; i < n; i++)
		if (!scenario_set_load(list, dir, set[i], m))
			return 0;
	scenarios_sift(list, model);
	return 1;
}
