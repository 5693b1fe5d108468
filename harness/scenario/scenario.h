/* SPDX-License-Identifier: Apache-2.0 */
/* scenario.h - reads batches, model shapes, scenarios and sets of scenarios from text and JSON. */
#ifndef HARNESS_SCENARIO_SCENARIO_H
#define HARNESS_SCENARIO_SCENARIO_H

#include "kernels/attune.h"
#include "kernels/segments.h"
#include <stdint.h>
#include <stdio.h>

/* ---- batch.c: vLLM's batch grammar ------------------------------------------ */
/* (<count>)q<len>[k][s<len>[k]] joined by '_'. */
struct batch {
	attune_batch view; /* points into the two arrays */
	int32_t *query_start, *seq_lens;
};
/* On failure NULL and a message with the column in error[]. */
struct batch *batch_parse(const char *text, char *error, size_t size);
void batch_free(struct batch *);
/* The shortest text of the batch: runs joined, k where exact. */
char *batch_format(const attune_batch *);
int batch_query_len(const attune_batch *, int seq);
/* Whether the sequence belongs to the phase's part. */
int batch_is_of_phase(const attune_batch *, enum phase, int seq);

/* ---- names.c, models.c, scenario.c ------------------------------------------------------ */
/* harness/check/kv_order.c has the order of each. From PACKED on K and V share one tensor, and a
 * model's name says so: "llama3.1-8b@1+packed". */
enum layout {
	LAYOUT_NHD,
	LAYOUT_HND,
	LAYOUT_CLASSIC,
	LAYOUT_PACKED, /* vLLM's LBNHC */
	LAYOUT_LBHNC,
	LAYOUT_LHBNC,
	LAYOUT_BLNHC,
	LAYOUT_BLHNC,
	LAYOUT_BHLNC,
	LAYOUT_PAIRED /* a page of K, then its page of V */
};
extern const char *const layout_names[]; /* "nhd", ...; ends with NULL */
enum layout layout_of(const char *name); /* ignores case; unknown names are LAYOUT_NHD */

enum { MODEL_NAME = 64 };
struct scenario {
	char model
	    [MODEL_NAME]; /* "llama3.1-8b@1", "llama3.1-8b@1+lse", "llama3.1-8b@1+lse+packed" */
	char set[48];     /* the file it came from, without .json */
	char split[24];   /* "train", "peers", "heldout_random" ...: scenario_splits */
	char *batch_text; /* in canonical form */
	struct batch *batch;
	attune_shape shape;
	enum layout layout; /* CLASSIC where the shape's kv_layout is */
	double weight;
	double steps; /* of a simulated engine that it represents; 0: not known */
	unsigned long long seed;
	int asked; /* the user named it, beside whole sets: it is measured before them */
};
/* The scales of an E4M3 cache, by the seed: none, one of K and one of V, or one for each sequence and
 * KV head. Other caches have none. */
enum scales { SCALES_NONE, SCALES_ONE, SCALES_EACH, NUM_SCALES };
enum scales scenario_scales(const struct scenario *);
extern const char *const scenario_splits[]; /* the legal ones; ends with NULL */
/* "heldout*", "peers" and "gate": no tree, portfolio, price or threshold is learned from them. */
int split_is_held_out(const char *split);
/* "overlap": the overlap decision alone is learned from these scenarios. */
int split_is_overlap(const char *split);
/* "gate": new rules are compared with old ones on these scenarios. No report counts them as held
 * out. */
int split_is_gate(const char *split);
/* Whether tuning moves this scenario to "gate": a third (0 to 2) of the held-out ones, by a hash of
 * model and batch, so scenarios that differ in page size, types or seed go together. Training scenarios
 * stay: the rules in use were learned from them, perhaps on another GPU, and would look better. */
int gate_draws(const struct scenario *, int third);

/* The kernels' name of a layout. */
enum attune_kv_layout layout_kv(enum layout);

struct scenario_list {
	struct scenario *v;
	int n;
};
/* Appends the scenarios of a file. Errors are one line, "file:line:column: what is
 * wrong; what would be right", and return 0. models: scenarios/models.json, to which a set adds its
 * own. */
struct models; /* name@tp -> shape */
struct models *models_load(const char *path);
/* The shape of "name@tp", or of "name@tp+lse", which also returns the LSE. Behind either may stand
 * "+packed" or another layout that model_layout() knows. 0 + complain. */
int models_shape(const struct models *, const char *name, attune_shape *out);
void model_name(char out[MODEL_NAME], const char *name_at_tp, int gives_lse, enum layout);
/* The name without what it ends with. */
void model_base(char out[MODEL_NAME], const char *name);
int model_gives_lse(const char *name);
/* The layout that the name ends with; LAYOUT_NHD: none. */
enum layout model_layout(const char *name);
/* Prints "models": ["name@tp"], and what the name's ends mean: "lse": true, "layout": "packed". */
void model_members(FILE *, const char *name);
const attune_shape *models_find(const struct models *, const char *name_at_tp); /* or NULL */
/* What to say of a name that models_find() does not find. */
enum { MODEL_WHY = 200 };
void models_why_unknown(const struct models *, const char *name, char *why, size_t size);
const char *models_name(const struct models *, int i); /* NULL after the last */
/* What a model of models.json gives: the same for shapes that differ in pages and types alone. A
 * scale of 1 / sqrt(head_size) is none. */
enum { MODEL_KEY = 160 };
void model_key(char key[MODEL_KEY], const attune_shape *);
/* The first name of a shape; NULL: none has it. */
const char *models_of_shape(const struct models *, const attune_shape *);
/* Adds the shape of one GPU as a model of its own, say "layers-32x8x128-w4096@1", unless a model has
 * it. Returns the model's name; NULL + complain. */
const char *models_add_shape(struct models *, const attune_shape *);
/* Adds a whole model, in the degrees 1, 2, 4 and 8 that its heads allow. 0 + complain. */
int models_add(struct models *, const char *name, const attune_shape *whole);
/* hf_config.c: adds the layers of a config.json of Hugging Face; of two kinds, with a window and
 * without, as NAME-local and NAME-global. 0 + complain. */
int models_add_hf(struct models *, const char *path);
/* How many models are not of models.json; prints these as the member "models" of a set. */
int models_own(const struct models *);
void models_print(const struct models *, FILE *);
struct input;
/* Adds those of the member "models" of a set. 0 + complain. */
int models_of_set(struct models *, const struct input *);
void models_free(struct models *);
int scenarios_load(struct scenario_list *, const char *path, struct models *);
/* The same of a set: the name of a file in `dir`, or a path. */
int scenario_set_load(struct scenario_list *, const char *dir, const char *name, struct models *);
/* all_sets.c: those of all sets in a folder. 0 after a complaint. */
int scenarios_load_all(struct scenario_list *, const char *dir, struct models *);
/* The scenario of --batch. 0 after a complaint. */
int scenario_of_batch(struct scenario *, const char *batch, const char *model, int page_size,
		      const struct models *);
/* Appends a scenario; the list then owns its memory. 0: out of memory, without a complaint. */
int scenarios_append(struct scenario_list *, const struct scenario *);
/* 0 and the reason: a batch that no engine runs. */
int scenario_batch_is_run(const attune_batch *, char *why, size_t size);
/* Frees the memory that it owns. */
void scenario_drop(struct scenario *);
void scenarios_free(struct scenario_list *);
/* Loads the model's scenarios (NULL: all) of several sets, each once. 0 after a complaint. */
int scenario_sets_load(struct scenario_list *, const char *dir, const char *const *set, int n,
		       const char *model, struct models *);
/* Drops twins, and the scenarios of all models but this one (NULL: of none). */
void scenarios_sift(struct scenario_list *, const char *model);

/* ---- scenario.c: work ------------------------------------------------------------ */
/* The work of a batch, over all heads of one GPU. */
struct facts {
	int seqs, decodes; /* sequences with a query; those of them in the decode part */
	long long query_tokens;
	double kv_bytes, flops; /* KV read once; causal FLOPs of both products */
};
void scenario_facts(struct facts *, const attune_shape *, const attune_batch *);

/* ---- batch.c: corner batches ------------------------------------------------------------------ */
/* Batches that every variant must pass for a shape before its time counts: length 1, page
 * boundary +-1, empty sequences, query longer than the sequence, odd sizes, mixed phases.
 * NULL-terminated. */
extern const char *const corner_batches[];

#endif
