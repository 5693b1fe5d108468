/* SPDX-License-Identifier: Apache-2.0 */
/* requests.h - lists of cells and plans to measure (requests.c), and the second pass
 * (confirm.c). */
#ifndef TUNER_REMEASURE_REQUESTS_H
#define TUNER_REMEASURE_REQUESTS_H

#include "harness/scenario/scenario.h"
#include "harness/sweep/sweep.h"
#include "tuner/data/data.h"

struct forest;

/* Batches, and what is to be measured on them. */
struct wishes {
	struct scenario_list batches; /* texts and batches are their owners' */
	int *at, at_room;             /* [batches.n] the scenario of the data; -1: none */
	struct contender *v;          /* in the order of batches */
	int n, room, failed;          /* failed: out of memory */
	const char *policy;           /* of wishes that are added from now on; NULL: none */
};
void wishes_free(struct wishes *);
/* Adds a batch, which the wishes that follow are for. */
void wish_batch(struct wishes *, const struct scenario *, int at);
/* The same for a scenario of the data, again. */
void wish_scenario(struct wishes *, const struct data *, int s);
/* Adds a wish unless it is listed already or has no kernel. */
void wish(struct wishes *, struct contender);
struct contender part_wish(enum phase, const struct choice *);
struct contender plan_wish(const struct choice *prefill, const struct choice *decode,
			   enum attune_how);
/* The library's own plan: for the batch, or for `bounds` times its longest sequence. */
struct contender library_wish(int bounds);
/* A plan: a part in a batch of one phase, else a plan or one launch. */
struct contender made_wish(const struct measured *, const struct decided *);
/* Whether both have kernels, and not the same. */
int wishes_differ(const struct contender *, const struct contender *);
/* The cell of that pass that a wish is for; NULL: it was not measured. */
const struct cell *wish_cell(const struct data *, enum pass, int scenario,
			     const struct contender *);
/* Lists in best[most] the fastest choices of a phase that are still legal, fastest first; returns their
 * number. In a batch of one phase a time as or_phase stands for one that is missing. most: at most
 * MOST_FASTEST. */
enum { MOST_FASTEST = 8 };
int fastest_choices(const struct data *, int scenario, enum phase, enum phase or_phase, int *best,
		    int most);
/* For pass B: where the session that counts for a batch (tuner/data/second_session.c) lacks one of its wishes,
 * all of them are asked for again. Returns how many wishes that is, and in *batches of how many
 * batches. */
int wishes_renew(struct wishes *, const struct data *, int *batches);
/* members.c: wishes for what settling races in a scenario: the header's plan, the members of its rows for each
 * part, and the ways to run the parts that settle by pass A. */
void wish_members(struct wishes *, const struct data *, const struct forest *, int scenario);
/* The same, all of them again, if one has no time of pass A. */
void wish_unraced_members(struct wishes *, const struct data *, const struct forest *,
			  int scenario);
/* Measures wishes within the budget, as that sweep stage. An exit code. */
int wishes_measure(const struct wishes *, const struct sweep_options *, const char *stage);
/* confirm.c: which scenarios and picks to measure. */
struct confirm_asked {
	const char *split; /* NULL: all */
	int dry_run, fill;
	int members;               /* also all that settling races */
	const struct forest *also; /* also measure the picks of these rules; may be NULL */
};
int confirm_run(struct data *, const struct forest *, const struct confirm_asked *,
		const struct sweep_options *);

#endif
