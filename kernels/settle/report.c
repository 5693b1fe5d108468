/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - attune_report: rounds of times that a program took itself. Rounds of one cell count
 * together, each by its ratios, since steps of a server have other lengths each time. */
#include "alternatives.h"
#include "race.h"
#include "policy.h"
#include "store.h"
#include "table.h"
#include "kernels/spec/names.h"
#include "kernels/spec/sized.h"
#include "kernels/spec/status.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char call[] = "attune_report";

static int same_plans(const struct rounds *r, const struct alternatives *a)
{
	int same = r->n == a->n;
	for (int i = 0; same && i < a->n; i++)
		same = r->of[i].way == a->of[i].way &&
		       !memcmp(r->of[i].id, a->of[i].id, sizeof a->of[i].id) &&
		       !memcmp(r->of[i].step, a->of[i].step, sizeof a->of[i].step);
	return same;
}

/* Room for the rounds of one more cell: beyond as many as a memory holds, that of the first one.
 * NULL: out of memory. */
static struct rounds *new_rounds(struct settled *s)
{
	struct rounds **last = &s->rounds;
	int n = 0;
	for (; *last && (*last)->next; n++)
		last = &(*last)->next;
	if (n + 1 < SETTLED_CELLS)
		return calloc(1, sizeof **last);
	struct rounds *first = *last;
	*last = NULL;
	memset(first, 0, sizeof *first);
	return first;
}

/* The rounds of a batch's cell, none yet where its alternatives have changed. NULL: out of
 * memory. */
static struct rounds *find_rounds(struct settled *s, const struct alternatives *a)
{
	const uint64_t cell =
	    cell_hash(a->op, kind_of(&a->parts), a->parts.choice, a->parts.part, &a->whole);
	struct rounds *r = s->rounds;
	while (r && r->cell != cell)
		r = r->next;
	if (!r) {
		r = new_rounds(s);
		if (!r)
			return NULL;
		r->cell = cell;
		r->next = s->rounds;
		s->rounds = r;
	}
	if (!same_plans(r, a)) {
		r->n = a->n;
		r->num = 0;
		memcpy(r->of, a->of, sizeof r->of);
	}
	return r;
}

/* Never 0, which stands for all batches. */
enum { ALL_BATCHES = 0 };
static uint64_t name_of(const attune_batch *b)
{
	uint64_t h = 0;
	for (int i = 0; i < b->num_seqs; i++) {
		h = hash_add(h, (uint64_t)(b->query_start[i + 1] - b->query_start[i]));
		h = hash_add(h, (uint64_t)b->seq_lens[i]);
	}
	return h | 1;
}

/* What the rounds of a batch come to: of the first plan the median of its times, of each other one that
 * of its ratios to the first; and the fastest. Returns how many rounds there are. */
static int medians(const struct rounds *r, uint64_t batch, double *middle, int *winner)
{
	double least = 1 - SWITCH_MARGIN / 1e3;
	int n = 0;
	*winner = 0;
	for (int i = 0; i < r->n; i++) {
		double x[KEPT_ROUNDS];
		n = 0;
		for (int k = 0; k < r->num && k < KEPT_ROUNDS; k++)
			if (batch == ALL_BATCHES || r->batch[k] == batch)
				x[n++] = i ? r->us[k][i] / r->us[k][0] : r->us[k][0];
		middle[i] = settle_median(x, n);
		if (i && middle[i] < least) {
			least = middle[i];
			*winner = i;
		}
	}
	return n;
}

/* Adds a round; from FIRST_ROUNDS on *e is what the rounds come to. */
static enum attune_status add_round(const struct alternatives *a, const double *us,
				    struct settled_entry *e)
{
	settled_lock(LOCK_STORES);
	struct settled *s = settled_of(a->op->ctx);
	struct rounds *r = s ? find_rounds(s, a) : NULL;
	if (!r) {
		settled_unlock(LOCK_STORES);
		return fail(ATTUNE_NO_MEMORY, "%s: out of memory", call);
	}
	const uint64_t own = name_of(a->batch);
	r->batch[r->num % KEPT_ROUNDS] = own;
	memcpy(r->us[r->num++ % KEPT_ROUNDS], us, (size_t)a->n * sizeof *us);
	if (r->num == 2 * KEPT_ROUNDS)
		r->num = KEPT_ROUNDS;
	double middle[ATTUNE_MOST_ALTERNATIVES];
	int winner;
	*e = (struct settled_entry){ .batch = a->batch, .num = a->n };
	e->is_shared = medians(r, own, middle, &winner) < FIRST_ROUNDS;
	e->rounds = medians(r, ALL_BATCHES, middle, &e->winner);
	e->is_shared |= winner != e->winner;
	for (int i = 0; i < a->n; i++) {
		e->plan[i] = a->of[i];
		e->plan[i].us =
		    i ? fmin(fmax(middle[i] * middle[0], LEAST_US), MOST_US) : middle[0];
	}
	settled_unlock(LOCK_STORES);
	return ATTUNE_OK;
}

/* The times in the order of the alternatives. NULL, or why they are no round of them. */
static const char *sort_times(const struct alternatives *a, const attune_plan *plans,
			      const double *us, double sorted[ATTUNE_MOST_ALTERNATIVES])
{
	const uint32_t size = plans->size;
	memset(sorted, 0, ATTUNE_MOST_ALTERNATIVES * sizeof *sorted);
	for (int i = 0; i < a->n; i++) {
		attune_plan own;
		const void *at = (const char *)plans + (size_t)i * size;
		const attune_plan *plan = plan_read(at, &own, call);
		if (!plan)
			return attune_last_error();
		const int place = alternatives_find(a, plan);
		if (place < 0 || sorted[place] > 0)
			return "the plans are not those that attune_plan_alternatives gives for "
			       "the batch";
		if (!is_time(us[i]))
			return "times must be 0.001 to 999999999 microseconds";
		sorted[place] = us[i];
	}
	return NULL;
}

enum attune_status attune_report(const attune_op *op, const attune_batch *batch,
				 const attune_plan *plans, const double *us, int n)
{
	double sorted[ATTUNE_MOST_ALTERNATIVES];
	struct alternatives a;
	struct settled_entry e;
	attune_batch own;
	enum attune_status status;
	int present;
	if (!op || !batch || !plans || !us)
		return fail(ATTUNE_INVALID, "%s: an argument is NULL", call);
	batch = settle_batch(op, batch, &own, call, &status);
	if (batch)
		status = alternatives_all(&a, op, batch, &present);
	if (status)
		return status;
	if (n != a.n)
		return fail(ATTUNE_INVALID, "%s: %d plans: attune_plan_alternatives gives %d", call,
			    n, a.n);
	const char *error = sort_times(&a, plans, us, sorted);
	if (error)
		return error == attune_last_error() ? ATTUNE_INVALID
						    : fail(ATTUNE_INVALID, "%s: %s", call, error);
	if (!a.parts.num_parts || a.n < 2)
		return ATTUNE_OK;
	status = add_round(&a, sorted, &e);
	return status || e.rounds < FIRST_ROUNDS ? status : settled_add(op, &e);
}
