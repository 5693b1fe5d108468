/* requests.h - lists of cells and plans to measure (requests.c), and the second pass
 * (confirm.c). */
#ifndef TUNER_REMEASURE_REQUESTS_H
#define TUNER_REMEASURE_REQUESTS_H

#include "kernels/attune.h"
#include "kernels/segments.h"

struct choice;
struct data;
struct forest;
struct decided;
struct measured;
struct scenario_list;
struct sweep_options;
struct contender;

struct wishes {
	struct contender *v;
	int n, room, failed; /* failed: out of memory */
	const char *policy;  /* of wishes that are added from now on; NULL: none */
};
/* Each adds a wish unless it is listed already or has no kernel. `scenario`: an index of the list
 * that is measured. */
void wish_part(struct wishes *, int scenario, enum phase, const struct choice *);
void wish_plan(struct wishes *, int scenario, const struct choice *prefill,
	       const struct choice *decode, enum attune_how);
/* The same cell or plan as another wish. */
void wish_again(struct wishes *, const struct contender *);
/* The library's own plan: for the batch, or for `bounds` times its longest sequence. */
void wish_library(struct wishes *, int scenario, int bounds);
/* A wish for a plan: a part in a batch of one phase, else a plan or one launch. */
void wish_made(struct wishes *, int scenario, const struct measured *, const struct decided *);
/* For pass B: scenario i of the wishes is scenario at[i] of the data, -1: not in it. Where the session that counts
 * there (tuner/data/second_session.c) lacks one of its wishes, all of them are asked for again.
 * Returns how many wishes that is, and in *scenarios of how many scenarios. */
int wishes_renew(struct wishes *, const struct data *, const int *at, int *scenarios);
/* Measures wishes, which are in the order of scenarios, within the budget, as that sweep stage. An
 * exit code. */
int wishes_measure(const struct wishes *, const struct sweep_options *,
		   const struct scenario_list *, const char *stage);
/* confirm.c: which scenarios and picks to measure. */
struct confirm_asked {
	const char *split; /* NULL: all */
	int limit;         /* 0: none */
	int dry_run, fill, named;
	const struct forest *also; /* also measure the picks of these rules; may be NULL */
};
int confirm_run(struct data *, const struct forest *, const struct confirm_asked *,
		const struct sweep_options *);

#endif
