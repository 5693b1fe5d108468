/* SPDX-License-Identifier: Apache-2.0 */
/* settled.c - adds entries to a context, commits them, and sums up what was committed. */
#include "look.h"
#include "policy.h"
#include "store.h"
#include "table.h"
#include "kernels/api/plan.h"
#include "kernels/spec/status.h"
#include <pthread.h>
#include <stdlib.h>

static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t locks[] = {
	[LOCK_STORES] = PTHREAD_MUTEX_INITIALIZER, [LOCK_RACES] = PTHREAD_MUTEX_INITIALIZER
};

/* The thread that has a lock may not be in the child, which uses contexts of its own. */
static void unlock_in_child(void)
{
	for (size_t i = 0; i < COUNT(locks); i++)
		locks[i] = unlocked;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, unlock_in_child);
}

void settled_lock(enum settled_lock which)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&locks[which]);
}

void settled_unlock(enum settled_lock which)
{
	pthread_mutex_unlock(&locks[which]);
}

static void forget(attune_context *ctx)
{
	free(atomic_load(&ctx->table));
	if (!ctx->settled)
		return;
	store_clear(&ctx->settled->pending);
	store_clear(&ctx->settled->committed);
	while (ctx->settled->rounds) {
		struct rounds *next = ctx->settled->rounds->next;
		free(ctx->settled->rounds);
		ctx->settled->rounds = next;
	}
	free(ctx->settled->choices);
	free(ctx->settled->shapes);
	free(ctx->settled);
}

void settled_forget(attune_context *ctx)
{
	forget(ctx);
	atomic_store(&ctx->table, NULL);
	ctx->settled = NULL;
}

void settled_swap(attune_context *a, attune_context *b)
{
	const attune_context was = *a;
	a->ask = b->ask;
	a->forget = b->forget;
	a->settled = b->settled;
	atomic_store(&a->table, atomic_load(&b->table));
	b->ask = was.ask;
	b->forget = was.forget;
	b->settled = was.settled;
	atomic_store(&b->table, atomic_load(&was.table));
}

struct settled *settled_of(attune_context *ctx)
{
	if (!ctx->settled)
		ctx->settled = calloc(1, sizeof *ctx->settled);
	if (ctx->settled)
		ctx->forget = forget;
	return ctx->settled;
}

static unsigned winner_value(const struct kept *k)
{
	return k->plan[k->winner].value;
}

/* The plan of the winner's member by the number of segments that its costs say, if it was faster, too;
 * -1: it was not. */
static int without_step(const struct kept *k)
{
	for (int i = 1; i < k->num; i++)
		if (k->plan[i].value == value_without_steps(winner_value(k)) &&
		    k->plan[i].ns * 1000 < k->plan[0].ns * (1000 - SWITCH_MARGIN))
			return i;
	return -1;
}

/* Prefills agree on the member. */
static int agree(const struct kept *a, const struct kept *b)
{
	const unsigned x = winner_value(a), y = winner_value(b);
	return x == y ||
	       (a->kind == CELL_PREFILL && value_without_steps(x) == value_without_steps(y) &&
		without_step(a) >= 0 && without_step(b) >= 0);
}

/* Of two settles of a cell the later one counts. Another batch that agrees counts once more; a step
 * that only one of them has does not. Where rounds of many batches agree the batch that counted stays,
 * so that it does not count again. Returns whether the two changed batches. */
static int count_settles(struct kept *k, struct kept *before)
{
	if (!before || !agree(k, before))
		return 0;
	const int own = k->settles, stays = !own && before->settles;
	if (own && !same_batch(k, before))
		k->settles =
		    own < MOST_SETTLES - before->settles ? own + before->settles : MOST_SETTLES;
	else if (before->settles > own)
		k->settles = before->settles;
	if (k->settles >= AGREEING_PREFILLS && winner_value(k) != winner_value(before))
		k->winner = without_step(k);
	if (stays)
		swap_batches(k, before);
	return stays;
}

enum attune_status settled_add(const attune_op *op, const struct settled_entry *e)
{
	struct selection parts;
	struct part whole;
	struct kept k;
	parts_of_batch(op, e->batch, &parts, &whole);
	settled_lock(LOCK_STORES);
	struct settled *s = settled_of(op->ctx);
	enum attune_status status =
	    s && store_reserve(&s->pending, 1)
		? store_make(&k, s, op, e, parts.choice, !e->is_shared)
		: fail(ATTUNE_NO_MEMORY, "out of memory for what was settled");
	struct kept *before = status ? NULL : store_find(&s->pending, k.cell);
	if (!status && !before && s->pending.n >= SETTLED_CELLS) { /* more than a memory holds */
		free(k.runs);
	} else if (!status) {
		count_settles(&k, before);
		store_put(&s->pending, &k);
	}
	settled_unlock(LOCK_STORES);
	return status;
}

/* ---- commit ------------------------------------------------------------------------------------ */

/* At most so many bytes of the committed text, and the choices and shapes that are in it. */
struct text_size {
	size_t bytes;
	char *has; /* shapes, then choices */
};

enum { HEAD_BYTES = 1024, OP_BYTES = 300, CHOICE_BYTES = MAX_PART_TEXT + 40 };

static size_t once(struct text_size *t, int at, size_t bytes, int takes)
{
	const size_t more = t->has[at] ? 0 : bytes;
	t->has[at] |= (char)takes;
	return more;
}

/* What an entry adds to the text. takes: it does. */
static size_t entry_bytes(struct text_size *t, const struct settled *s, const struct kept *k,
			  int takes)
{
	size_t bytes = k->line_bytes + once(t, k->shape, OP_BYTES, takes);
	for (int i = 0; i < 2; i++)
		if (k->named[i] >= 0)
			bytes += once(t, s->num_shapes + k->named[i], CHOICE_BYTES, takes);
	for (int i = 0; i < 2 * k->num; i++) {
		const int of = k->plan[i / 2].of[i % 2];
		if (of >= 0)
			bytes += once(t, s->num_shapes + of, CHOICE_BYTES, takes);
	}
	return bytes;
}

/* 0: out of memory. */
static int measure_text(struct text_size *t, const struct settled *s)
{
	t->bytes = HEAD_BYTES;
	t->has = calloc((size_t)(s->num_shapes + s->num_choices) + 1, 1);
	for (int i = 0; t->has && i < s->committed.n; i++)
		t->bytes += entry_bytes(t, s, &s->committed.at[i], 1);
	return t->has != NULL;
}

/* Puts an entry in the table and among the committed, unless one of them is full. */
static void commit_one(struct settled_table *t, struct settled *s, struct kept *k, int margin,
		       struct text_size *size)
{
	struct kept *before = store_find(&s->committed, k->cell);
	const size_t gone = before ? before->line_bytes : 0;
	const int has_its_batch = !k->is_read && count_settles(k, before);
	if (size->bytes - gone + entry_bytes(size, s, k, 0) > MOST_SETTLED_TEXT ||
	    !table_put(t, k->cell, kept_value(k, margin))) {
		if (has_its_batch)
			swap_batches(k, before);
		return;
	}
	size->bytes += entry_bytes(size, s, k, 1) - gone;
	store_put(&s->committed, k);
}

/* margin: in 1000ths; BY_POLICY: what is kept is the policy's to say. */
static enum attune_status commit(attune_context *ctx, struct settled *s, int margin)
{
	struct settled_table *t = atomic_load_explicit(&ctx->table, memory_order_relaxed);
	struct settled_table *made = t ? NULL : calloc(1, sizeof *made);
	struct text_size size;
	if ((!t && !made) || !store_reserve(&s->committed, s->pending.n) ||
	    !measure_text(&size, s)) {
		free(made);
		return fail(ATTUNE_NO_MEMORY, "attune_settled_commit: out of memory");
	}
	t = t ? t : made;
	for (int i = 0; i < s->committed.n && margin != BY_POLICY; i++)
		table_put(t, s->committed.at[i].cell, kept_value(&s->committed.at[i], margin));
	for (int i = 0; i < s->pending.n; i++)
		commit_one(t, s, &s->pending.at[i], margin, &size);
	store_clear(&s->pending);
	free(size.has);
	if (!made)
		return ATTUNE_OK;
	ctx->ask = settled_look;
	atomic_store_explicit(&ctx->table, made, memory_order_release);
	return ATTUNE_OK;
}

enum attune_status settled_commit_beyond(attune_context *ctx, int margin)
{
	enum attune_status status = ATTUNE_OK;
	if (!ctx)
		return fail(ATTUNE_INVALID, "attune_settled_commit: ctx is NULL");
	if (ctx->is_invariant)
		return fail(ATTUNE_UNSUPPORTED,
			    "attune_settled_commit: ATTUNE_INVARIANT=1 takes no other choices");
	settled_lock(LOCK_STORES);
	if (ctx->settled && (ctx->settled->pending.n || margin != BY_POLICY))
		status = commit(ctx, ctx->settled, margin);
	settled_unlock(LOCK_STORES);
	return status;
}

enum attune_status attune_settled_commit(attune_context *ctx)
{
	return settled_commit_beyond(ctx, BY_POLICY);
}

uint64_t attune_settled_digest(const attune_context *ctx)
{
	const struct settled_table *t =
	    ctx ? atomic_load_explicit(&ctx->table, memory_order_acquire) : NULL;
	return t ? table_digest(t) : 0;
}
