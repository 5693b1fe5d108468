/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - the entries of a context: what each cell was settled to, with the batch and the times,
 * pending until a commit and committed. A choice and a shape are kept once. */
#ifndef KERNELS_SETTLE_STORE_H
#define KERNELS_SETTLE_STORE_H

#include "settled.h"
#include "kernels/spec/choice.h"

/* So many neighbours in a batch with equal lengths. */
struct run {
	int count, query, seq;
};

enum { MOST_RUNS = 4096, MOST_KEPT_SEQS = 8192, MOST_SETTLED_TEXT = 1 << 20 };
enum { MOST_SETTLES = 1 << 20 }; /* that are counted */

struct kept_plan {
	int way;
	int of[2]; /* choices of the store, as the ids of struct settled_plan; -1 */
	int step[2];
	unsigned value; /* what the table gets if it wins */
	long long ns;
};

struct kept {
	uint64_t cell;
	enum cell_kind kind;
	int shape;    /* of the store */
	int named[2]; /* choices of the store; -1: the rules named none, or there is one part */
	int num_runs;
	struct run *runs; /* on the heap */
	int num, winner, rounds;
	int settles; /* different batches that agreed on the winner */
	int is_read; /* from a text: it counts as it stands, whatever was settled before */
	struct kept_plan plan[ATTUNE_MOST_ALTERNATIVES];
	long long again_ns;
	size_t line_bytes; /* of its line in the text, at most */
};

/* Of a batch with parts. */
enum cell_kind kind_of(const struct selection *);

struct kept_list {
	struct kept *at; /* one for each cell */
	int n, room;
};

/* The last rounds of times that a program reported for a cell: report.c. */
enum { KEPT_ROUNDS = 10 };
struct rounds {
	struct rounds *next;
	uint64_t cell;
	int n;                       /* plans */
	uint64_t batch[KEPT_ROUNDS]; /* a hash of each round's */
	struct settled_plan of[ATTUNE_MOST_ALTERNATIVES];
	int num; /* rounds so far, below twice KEPT_ROUNDS; round i stands at i % KEPT_ROUNDS */
	double us[KEPT_ROUNDS][ATTUNE_MOST_ALTERNATIVES];
};

struct settled {
	struct choice *choices;
	attune_shape *shapes;
	int num_choices, num_shapes;
	struct kept_list pending, committed;
	struct rounds *rounds; /* a list */
};

/* Copies an entry, whose cell is that of these choices, into *kept: choices and shapes join the
 * store. */
enum attune_status store_make(struct kept *, struct settled *, const attune_op *,
			      const struct settled_entry *, const int named[2], int settles);
/* Makes room for more entries. 0: out of memory. */
int store_reserve(struct kept_list *, int more);
/* Gives a kept entry to a list that has room, in the place of the one of its cell. */
void store_put(struct kept_list *, struct kept *);
/* The entry of a cell; NULL: there is none. */
struct kept *store_find(const struct kept_list *, uint64_t cell);
int same_batch(const struct kept *, const struct kept *);
void swap_batches(struct kept *, struct kept *);
void store_clear(struct kept_list *);
/* The value of the table: the winner's if it is faster by this margin, in 1000ths, or if the policy
 * keeps it; else the first's. */
enum { BY_POLICY = -1 };
unsigned kept_value(const struct kept *, int margin);

/* settled.c. Locks of all contexts: one for their stores; one for races, which disturb each other and
 * share the stream and the events of a device. A child of fork() begins with both free. */
enum settled_lock { LOCK_STORES, LOCK_RACES };
void settled_lock(enum settled_lock);
void settled_unlock(enum settled_lock);
/* The context's store, under the lock; made where there is none. NULL: out of memory. */
struct settled *settled_of(attune_context *);

#endif
