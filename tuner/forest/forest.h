/* forest.h - the trees of all decisions with the choices they name, as a struct and read from a header.
 * Includes data and tree. */
#ifndef TUNER_FOREST_FOREST_H
#define TUNER_FOREST_FOREST_H

#include "tuner/matrix/matrix.h"
#include "tuner/tree/tree.h"

/* ---- forest.c: the trees of all decisions, and what they may name ----------- */
enum { MAX_IDS = 64, MAX_COSTS = 256 };
/* How a tree came about: not in the header's code, but in its comments. */
struct making {
	struct portfolio portfolio;
	/* Of depth CERTIFIED over the same columns, per unit of weight: what the best
	 * tree costs, and what the method makes; and the tree that was made. */
	double exact, method, made;
};
enum { CERTIFIED = 3 };
struct forest {
	struct tree tree[NUM_DECISIONS]; /* actions: ids or enum says */
	struct choice choice[MAX_IDS];   /* by id: the most used first, then the overlap's */
	int num_choices;
	struct selector_costs costs[MAX_COSTS]; /* of choices with SEGMENTS=fitted */
	int num_costs;
	char gpu[GPU_NAME];
	struct making making[2]; /* of the prefill and the decode tree; 0 when read back */
};
struct limits {
	int leaves;   /* of each tree */
	int variants; /* choices of either phase */
	int taught;   /* leaves of a tree that also learns from estimates; 0: as many as others */
};
extern const struct limits default_limits;
void forest_free(struct forest *);
int forest_leaves(const struct forest *);
int forest_kernels(const struct forest *); /* distinct ones among its choices */
/* Whether some leaf says other than serial. */
int forest_overlaps(const struct forest *);
/* Whether the tree says anything; if not, headers and texts leave it out: of so many decisions
 * they hold trees. */
int forest_says_early(const struct forest *);
int forest_decisions(const struct forest *);
/* What that comes to for a part of a choice of trees, which in itself is in turn. */
int forest_early(const struct forest *, const struct attune_features *);

/* ---- words.c: choices and what leaves say, in words --------------------------------------- */
/* "segmented BLOCK_M=16 ..." */
void choice_words(const struct choice *, char text[MAX_CHOICE_TEXT]);
/* The same of what a leaf says. */
void says_words(const struct forest *, enum decision, int action, char text[MAX_CHOICE_TEXT]);
enum { CHOICE_NAME = 96 }; /* room for a choice's name in a header */
/* What is said in place of a choice: "streams"; NULL: it is no such word. */
const char *says_word(enum decision, int action);

/* ---- decide.c: what a forest decides for a batch ------------------------------------ */
/* The choice of that id for the part of that phase, its segments a number; 0 also of -1: there is
 * none that may run, so the library takes the defaults. */
int action_choice(const struct data *, const struct forest *, enum phase, int action,
		  const struct measured *, struct choice *out);
/* Whether a scenario's batch has to do with the decision. */
int decision_is_of(enum decision, const struct measured *);
/* What the library would run: an illegal choice gives way to the defaults. */
void forest_pick(const struct data *, const struct forest *, int scenario, struct pick *);
/* The same for what the prefill or the decode tree says. */
int action_or_default(const struct data *, const struct forest *, enum decision, int action,
		      const struct measured *, struct choice *out);
/* What the library does with a forest; and without the overlap, or with another action of
 * it: an action that may not run leaves what is serial as it is. */
void forest_make(const struct data *, const struct forest *, const struct measured *,
		 struct decided *out);
void forest_make_serial(const struct data *, const struct forest *, const struct measured *,
			struct decided *out);
void overlap_made(const struct data *, const struct forest *, int action, const struct measured *,
		  struct decided *serial);

/* ---- load_batch.c: the data of one batch ----------------------------------------------- */
/* data_load_one() of that model's batch. The choices that the forest makes for it are columns,
 * measured there or not; forest NULL: only measured ones are. */
struct data *data_load_batch(const char *db_path, const char *gpu, const char *model,
			     const char *batch, const struct forest *);

/* ---- combine.c: one forest of two ----------------------------------------------------- */
/* Groups of decisions that are taken over whole; see gate.h. */
enum gate_group { GATE_PREFILL, GATE_DECODE, GATE_MIXED, NUM_GATE_GROUPS };
extern const char *const gate_group_names[NUM_GATE_GROUPS];
enum gate_group gate_group_of(enum decision);
/* Each decision's tree, segment costs and choices of `fresh` where take[decision], else of the
 * incumbent; the gpu's name is that of fresh. Ids are renumbered: those of fresh in its order, then
 * those of the incumbent; choices that nothing names go. Call forest_prove before it is emitted. 0
 * + complain: decisions of a group are not taken together, more than MAX_IDS choices, or no
 * memory. */
int forest_combine(struct forest *out, const struct forest *incumbent, const struct forest *fresh,
		   const int take[NUM_DECISIONS]);
/* The kernels' defaults for everything: the incumbent of a GPU that has none. 0 without memory. */
int forest_defaults(struct forest *, const char *gpu);

/* ---- parse.c: a header read back into a forest ---------------------------------------- */
/* Whether that is the text of a header in a form that forest_parse no longer reads. */
int header_is_older(const char *text);
/* Reads what forest_emit wrote; 0 + complain. */
int forest_parse(struct forest *, const char *text, const char *path);
int forest_load(struct forest *, const char *path);

#endif
