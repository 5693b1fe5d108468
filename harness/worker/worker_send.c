/* worker_send.c - sends a worker its task: the contenders without a result, and their binaries. */
#include "parent.h"
#include "harness/search/search.h"
#include <stdlib.h>
#include <string.h>

static int runs(const struct race_attempts *s, int i)
{
	return !s->final[i] && (s->alone < 0 || s->alone == i);
}

int attempts_remaining(const struct race_attempts *s)
{
	int n = 0;
	for (int i = 0; i < s->order->n; i++)
		n += runs(s, i);
	return n;
}

/* A binary that a contender needs. */
struct needed {
	int built;
	const struct blob *blob;
};
enum { NEEDED_BY_CONTENDER = 2 * (1 + NUM_HELPERS) };

static void need(struct worker *w, struct needed *v, int *n, int built, const struct blob *blob)
{
	if (built < 0 || !blob || w->has[built])
		return;
	w->has[built] = 1;
	v[(*n)++] = (struct needed){ built, blob };
}

/* Fills v with the binaries that the remaining contenders need and the process lacks. */
static int list_needed(const struct race_attempts *s, struct needed *v)
{
	const struct problems *problems = s->w->setup->problems;
	int n = 0;
	for (int i = 0; i < s->order->n; i++)
		for (int part = 0; runs(s, i) && part < contender_parts(&s->order->v[i]); part++) {
			const struct built_choice *e =
			    contender_built(problems, &s->order->v[i], part);
			need(s->w, v, &n, e->built, e->blob);
			for (enum helper h = 0; h < NUM_HELPERS; h++)
				need(s->w, v, &n, e->helper[h], e->helping[h]);
		}
	return n;
}

static size_t text_bytes(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static int send_code(struct worker *w, const struct needed *of)
{
	const struct blob *b = of->blob;
	const struct code_record r = { .built = of->built,
				       .size = b->data ? b->size : 0,
				       .path = text_bytes(b->path),
				       .entry = text_bytes(b->entry),
				       .cell = b->cell };
	return pipe_send(w->socket, &r, sizeof r) && pipe_send(w->socket, b->data, r.size) &&
	       pipe_send(w->socket, b->path, r.path) && pipe_send(w->socket, b->entry, r.entry);
}

static int send_all(const struct race_attempts *s, struct needed *needed)
{
	const int is_trial = s->alone >= 0;
	struct task task = { .bytes = sizeof task,
			     .codes = list_needed(s, needed),
			     .order = *s->order };
	task.order.n = attempts_remaining(s);
	if (is_trial)
		task.order.fixed_rounds = task.order.with_control = 0, task.order.seconds = 0;
	int ok = pipe_send(s->w->socket, &task, sizeof task);
	for (int i = 0; i < s->order->n && ok; i++) {
		struct contender contender = s->order->v[i];
		contender.index = i;
		if (runs(s, i))
			ok = pipe_send(s->w->socket, &contender, sizeof contender);
	}
	for (int i = 0; i < task.codes && ok; i++)
		ok = send_code(s->w, &needed[i]);
	return ok;
}

int attempts_send(const struct race_attempts *s)
{
	struct needed *needed =
	    calloc((size_t)s->order->n * NEEDED_BY_CONTENDER + 1, sizeof *needed);
	const int ok = needed && send_all(s, needed);
	free(needed);
	return ok;
}
