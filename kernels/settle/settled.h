/* SPDX-License-Identifier: Apache-2.0 */
/* settled.h - what settling keeps in a context: entries, pending until a commit, then committed.
 * attune_settled_read and the two ways to time a batch add entries; a commit writes those that the
 * policy keeps into the table that planning asks. */
#ifndef KERNELS_SETTLE_SETTLED_H
#define KERNELS_SETTLE_SETTLED_H

#include "cell.h"
#include "kernels/attune_settle.h"

/* Of times that are kept, in microseconds, so that their text can be read again. */
#define LEAST_US 0.001
#define MOST_US 999999999.

static inline int is_time(double us)
{
	return us >= LEAST_US && us <= MOST_US;
}

/* One plan that was timed. */
struct settled_plan {
	int way;     /* an enum settled_way; of a batch of one phase WAY_AS_RULES */
	int id[2];   /* choices of the op for prefills and decodes; -1: whatever planning picks */
	int step[2]; /* of each choice (table.h) */
	double us;   /* its median */
};

/* What one batch was settled to. `plan` and `winner` may be of the same batch settled again. */
struct settled_entry {
	const attune_batch *batch;
	int num; /* plans; the first is the one that stays unless another one is faster */
	struct settled_plan plan[ATTUNE_MOST_ALTERNATIVES];
	double again_us; /* the first plan's second time; 0: there is none */
	int winner;      /* of `plan` */
	int rounds;
	int is_shared; /* too few rounds are of this batch: it is none of those that agree */
};

/* Keeps a copy of an entry, pending until the next commit; it replaces a pending one of its cell.
 * The batch is sound and has sequences of some phase. Each id is a member of its part
 * (members.h). */
enum attune_status settled_add(const attune_op *, const struct settled_entry *);

/* For measurements of what the memory is worth. Has the context remember nothing, as a new one; no
 * other call may use it meanwhile. */
void settled_forget(attune_context *);
/* Has two contexts of a device change what they remember; no other call may use them meanwhile. */
void settled_swap(attune_context *, attune_context *);
/* attune_settled_commit by this margin, in 1000ths, in place of the policy's; also of what was
 * committed before. */
enum attune_status settled_commit_beyond(attune_context *, int thousandths);
/* The cell of a batch, which is sound and has sequences of some phase. */
uint64_t cell_of_batch(const attune_op *, const attune_batch *);

#endif
