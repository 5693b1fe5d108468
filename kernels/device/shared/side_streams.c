/* SPDX-License-Identifier: Apache-2.0 */
/* side_streams.c - fork and join by events. Nothing is allocated, and all of it may be captured:
 * records and waits then become edges of the graph, not nodes.
 *
 *   stream  ... record      wait ...                       wait ...
 *                   \      /                              /
 *   side             wait record  what comes first  record
 *
 * One event serves all three, since a wait is for the latest record. The first record and wait on
 * the side make sure that its first launch precedes the stream's next one; else the stream would go
 * on sooner than the side that waits for it. The side has the highest priority; graphs keep the
 * priority at instantiation. */
#include "side_streams.h"

enum { STREAM_NON_BLOCKING = 1, EVENT_NO_TIMING = 2, PER_THREAD_STREAM = 2 };

int sides_open(struct sides *s, const struct side_calls *call)
{
	int least = 0, greatest = 0;
	s->call = *call;
	int error = call->PriorityRange(&least, &greatest);
	for (int i = 0; i < NUM_SIDES && !error; i++) {
		atomic_flag_clear(&s->v[i].lent);
		error = call->StreamCreatePrior(&s->v[i].stream, STREAM_NON_BLOCKING, greatest);
		if (!error)
			error = call->EventCreate(&s->v[i].event, EVENT_NO_TIMING);
	}
	return error;
}

void sides_close(struct sides *s)
{
	for (int i = 0; i < NUM_SIDES; i++) {
		if (s->v[i].event)
			s->call.EventDestroy(s->v[i].event);
		if (s->v[i].stream)
			s->call.StreamDestroy(s->v[i].stream);
	}
}

/* NULL: none is free, or the handle is a per-thread stream. */
static struct side *lend(struct sides *s, void *stream)
{
	const uintptr_t key = (uintptr_t)stream + 1;
	if ((uintptr_t)stream == PER_THREAD_STREAM)
		return NULL;
	for (int i = 0; i < NUM_SIDES; i++) {
		uintptr_t owner = 0;
		if (!atomic_compare_exchange_strong(&s->v[i].owner, &owner, key) && owner != key)
			continue;
		return atomic_flag_test_and_set(&s->v[i].lent) ? NULL : &s->v[i];
	}
	return NULL;
}

/* `waits` continues when all work so far on `first` is done. */
static int follow(const struct sides *s, void *waits, void *first, void *event)
{
	const int error = s->call.EventRecord(event, first);
	return error ? error : s->call.StreamFollow(waits, event, 0);
}

int sides_fork(struct sides *s, void *stream, void **out)
{
	struct side *side = lend(s, stream);
	*out = stream;
	if (!side)
		return 0;
	int error = follow(s, side->stream, stream, side->event);
	if (!error)
		error = follow(s, stream, side->stream, side->event);
	if (error)
		atomic_flag_clear(&side->lent);
	else
		*out = side->stream;
	return error;
}

int sides_join(struct sides *s, void *stream, void *out)
{
	int i = 0;
	if (out == stream)
		return 0;
	while (s->v[i].stream != out)
		i++;
	const int error = follow(s, stream, out, s->v[i].event);
	atomic_flag_clear(&s->v[i].lent);
	return error;
}
