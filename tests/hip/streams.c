/* SPDX-License-Identifier: Apache-2.0 */
/* streams.c - streams, whose work is done as late as possible; events; graphs, which are lists
 * of work. */
#include "stand_in.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum what { RUN, SET, FOLLOW, NOTE_TIME, PLAY };
enum { MOST = 64 };

struct stream;
struct event;
struct graph;

struct work {
	enum what what;
	struct module *code; /* RUN */
	struct grid grid;
	void *dst; /* SET */
	int byte;
	size_t bytes;
	struct stream *other; /* FOLLOW: until so much of it is done */
	size_t upto;
	struct event *event; /* NOTE_TIME */
	struct graph *exec;  /* PLAY */
};

struct list {
	struct work *v;
	size_t n;
};

struct stream {
	struct object object;
	struct list work;
	size_t done;
	struct graph *capture; /* NULL: none */
	int joined;            /* by the capture's origin, with all that it has */
	size_t captured;       /* pieces of work that it gave to the capture */
};

struct event {
	struct object object;
	struct stream *stream;
	size_t upto; /* of its work */
	struct graph *capture;
	size_t captured;
	double ms;
};

struct graph {
	struct object object;
	struct list work;
	struct stream *origin; /* while it is captured */
	struct stream *of[MOST];
	int num_streams, invalid;
};

static struct stream default_stream[DEVICES];
static int late_error; /* of work that was done later than it was given */

static struct stream *stream_check(void *handle, const char *call)
{
	return handle ? object_check(handle, STREAM, call) : &default_stream[device_now()];
}

static void add(struct list *l, const struct work *w)
{
	l->v = realloc(l->v, (l->n + 1) * sizeof *l->v);
	if (!l->v)
		abort();
	l->v[l->n++] = *w;
}

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- doing ------------------------------------------------------------------------------ */

static void do_until(struct stream *s, size_t upto);

static int is_alive(const struct object *o, const char *call)
{
	if (!o->alive)
		late_error = misuse(INVALID_HANDLE, call, "destroyed before its work was done");
	return o->alive;
}

static void do_work(const struct work *w)
{
	int error = 0;
	switch (w->what) {
	case RUN:
		if (is_alive(&w->code->object, "a kernel"))
			error = w->code->kernel->run(w->code, &w->grid);
		break;
	case SET:
		if (memory_has(w->dst, w->bytes))
			memset(w->dst, w->byte, w->bytes);
		else
			error = misuse(ILLEGAL_ADDRESS, "a fill", "outside of an allocation");
		break;
	case FOLLOW: do_until(w->other, w->upto); break;
	case NOTE_TIME: w->event->ms = now_ms(); break;
	case PLAY:
		if (is_alive(&w->exec->object, "a graph"))
			for (size_t i = 0; i < w->exec->work.n; i++)
				do_work(&w->exec->work.v[i]);
		break;
	}
	late_error = error ? error : late_error;
}

static void do_until(struct stream *s, size_t upto)
{
	while (s->done < upto) {
		const struct work w = s->work.v[s->done++];
		do_work(&w);
	}
}

/* The stream's queue, or the capture that it is part of. */
static int give(struct stream *s, const struct work *w)
{
	if (!s->capture) {
		add(&s->work, w);
		return 0;
	}
	if (fault_is("capture")) {
		s->capture->invalid = 1;
		return failed(CAPTURE_UNSUPPORTED);
	}
	add(&s->capture->work, w);
	s->captured++;
	s->joined = 0;
	return 0;
}

int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			  unsigned by, unsigned bz, unsigned smem, void *stream, void **params,
			  void **extra)
{
	struct module *m = object_check(function, MODULE, "hipModuleLaunchKernel");
	struct stream *s = stream_check(stream, "hipModuleLaunchKernel");
	if (device_lost())
		return failed(NO_DEVICE);
	if (!m || !s)
		return INVALID_HANDLE;
	if (!fibers_ready(m))
		return misuse(NO_BINARY, "hipModuleLaunchKernel", "no object for fibers");
	const size_t block = (size_t)bx * by * bz, threads = (size_t)gx * gy * gz * block;
	if (!threads || block > 1024 || extra || (int)smem + m->kernel->lds_bytes > lds_limit())
		return misuse(INVALID_VALUE, "hipModuleLaunchKernel", "not a launch");
	struct work w = { .what = RUN, .code = m, .grid = { gx, gy, gz, (unsigned)block, smem } };
	memcpy(w.grid.args, params[0], m->kernel->args_bytes);
	return give(s, &w);
}

int hipMemsetAsync(void *dst, int byte, size_t bytes, void *stream)
{
	struct stream *s = stream_check(stream, "hipMemsetAsync");
	if (!memory_has(dst, bytes))
		return misuse(INVALID_VALUE, "hipMemsetAsync", "outside of an allocation");
	return s ? give(s, &(struct work){ SET, .dst = dst, .byte = byte, .bytes = bytes })
		 : INVALID_HANDLE;
}

int hipMemset(void *dst, int byte, size_t bytes)
{
	return hipMemsetAsync(dst, byte, bytes, NULL);
}

/* ---- streams and events ----------------------------------------------------------------- */

int hipStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
	if (flags != 1 || priority < -1 || priority > 1)
		return misuse(INVALID_VALUE, "hipStreamCreate", "waits for the default stream");
	*stream = object_new(STREAM, sizeof(struct stream));
	return 0;
}

int hipStreamCreateWithFlags(void **stream, unsigned flags)
{
	return hipStreamCreateWithPriority(stream, flags, 0);
}

int hipStreamDestroy(void *stream)
{
	struct stream *s = object_check(stream, STREAM, "hipStreamDestroy");
	if (!s)
		return INVALID_HANDLE;
	do_until(s, s->work.n);
	free(s->work.v);
	s->work = (struct list){ 0 };
	s->object.alive = 0;
	return 0;
}

int hipStreamSynchronize(void *stream)
{
	struct stream *s = stream_check(stream, "hipStreamSynchronize");
	if (!s)
		return INVALID_HANDLE;
	if (s->capture) {
		s->capture->invalid = 1;
		return misuse(CAPTURE_UNSUPPORTED, "hipStreamSynchronize", "in a capture");
	}
	if (device_lost())
		return failed(NO_DEVICE);
	do_until(s, s->work.n);
	const int error = late_error;
	late_error = 0;
	return error;
}

int hipEventCreateWithFlags(void **event, unsigned flags)
{
	if (flags & ~2u)
		return misuse(INVALID_VALUE, "hipEventCreate", "unknown flags");
	if (fault_due("event"))
		return failed(OUT_OF_MEMORY);
	*event = object_new(EVENT, sizeof(struct event));
	return 0;
}

int hipEventDestroy(void *event)
{
	return object_destroy(event, EVENT, "hipEventDestroy");
}

int hipEventRecord(void *event, void *stream)
{
	struct event *e = object_check(event, EVENT, "hipEventRecord");
	struct stream *s = stream_check(stream, "hipEventRecord");
	if (!e || !s)
		return INVALID_HANDLE;
	if (!s->capture)
		add(&s->work, &(struct work){ NOTE_TIME, .event = e });
	e->stream = s;
	e->upto = s->work.n;
	e->capture = s->capture;
	e->captured = s->captured;
	return 0;
}

/* The stream becomes part of the capture that the event is of. */
static int follow_captured(struct stream *s, const struct event *e)
{
	struct graph *g = e->capture;
	if (!g->origin || (s->capture && s->capture != g) || g->num_streams == MOST)
		return misuse(CAPTURE_MERGE, "hipStreamWaitEvent", "of another capture");
	if (!s->capture) {
		g->of[g->num_streams++] = s;
		s->capture = g;
		s->joined = 0;
	}
	if (s == g->origin && e->captured == e->stream->captured)
		e->stream->joined = 1;
	return 0;
}

int hipStreamWaitEvent(void *stream, void *event, unsigned flags)
{
	struct stream *s = stream_check(stream, "hipStreamWaitEvent");
	struct event *e = object_check(event, EVENT, "hipStreamWaitEvent");
	if (!s || !e || flags)
		return INVALID_HANDLE;
	if (e->capture)
		return follow_captured(s, e);
	if (s->capture)
		return misuse(CAPTURE_UNSUPPORTED, "hipStreamWaitEvent", "of no capture");
	if (e->stream)
		add(&s->work, &(struct work){ FOLLOW, .other = e->stream, .upto = e->upto });
	return 0;
}

int hipEventSynchronize(void *event)
{
	const struct event *e = object_check(event, EVENT, "hipEventSynchronize");
	if (!e || !e->stream || e->capture)
		return INVALID_HANDLE;
	do_until(e->stream, e->upto);
	const int error = late_error;
	late_error = 0;
	return error;
}

int hipEventElapsedTime(float *ms, void *start, void *end)
{
	const struct event *a = object_check(start, EVENT, "hipEventElapsedTime");
	const struct event *b = object_check(end, EVENT, "hipEventElapsedTime");
	if (!a || !b || a->ms <= 0 || b->ms < a->ms)
		return INVALID_HANDLE;
	*ms = (float)(b->ms - a->ms);
	return 0;
}

/* ---- graphs ----------------------------------------------------------------------------- */

int hipStreamIsCapturing(void *stream, int *state)
{
	const struct stream *s = stream_check(stream, "hipStreamIsCapturing");
	if (!s)
		return INVALID_HANDLE;
	*state = !s->capture ? 0 : s->capture->invalid ? 2 : 1;
	return 0;
}

int hipStreamBeginCapture(void *stream, int mode)
{
	struct stream *s = stream_check(stream, "hipStreamBeginCapture");
	if (!s || !stream || s->capture || mode != 2)
		return misuse(CAPTURE_UNSUPPORTED, "hipStreamBeginCapture", "not a capture");
	s->capture = object_new(GRAPH, sizeof *s->capture);
	s->capture->origin = s->capture->of[0] = s;
	s->capture->num_streams = 1;
	return 0;
}

int hipStreamEndCapture(void *stream, void **graph)
{
	struct stream *s = stream_check(stream, "hipStreamEndCapture");
	struct graph *g = s ? s->capture : NULL;
	int unjoined = 0;
	*graph = NULL;
	if (!g || g->origin != s)
		return misuse(CAPTURE_UNMATCHED, "hipStreamEndCapture", "it began elsewhere");
	for (int i = 0; i < g->num_streams; i++) {
		unjoined |= g->of[i] != s && !g->of[i]->joined;
		g->of[i]->capture = NULL;
		g->of[i]->captured = 0;
	}
	g->origin = NULL;
	if (g->invalid || unjoined) {
		hipGraphDestroy(g);
		return g->invalid ? CAPTURE_INVALIDATED : CAPTURE_UNJOINED;
	}
	*graph = g;
	return 0;
}

int hipGraphInstantiate(void **exec, void *graph, void **bad_node, char *log, size_t log_size)
{
	const struct graph *g = object_check(graph, GRAPH, "hipGraphInstantiate");
	(void)bad_node, (void)log, (void)log_size;
	if (!g)
		return INVALID_HANDLE;
	struct graph *made = object_new(EXEC, sizeof *made);
	for (size_t i = 0; i < g->work.n; i++)
		add(&made->work, &g->work.v[i]);
	*exec = made;
	return 0;
}

static int destroy(void *graph, enum kind kind, const char *call)
{
	const int error = object_destroy(graph, kind, call);
	struct graph *g = graph;
	if (error)
		return error;
	free(g->work.v);
	g->work = (struct list){ 0 };
	return 0;
}

int hipGraphExecDestroy(void *exec)
{
	return destroy(exec, EXEC, "hipGraphExecDestroy");
}

int hipGraphDestroy(void *graph)
{
	return destroy(graph, GRAPH, "hipGraphDestroy");
}

int hipGraphUpload(void *exec, void *stream)
{
	return object_check(exec, EXEC, "hipGraphUpload") && stream_check(stream, "hipGraphUpload")
		   ? 0
		   : INVALID_HANDLE;
}

int hipGraphLaunch(void *exec, void *stream)
{
	struct graph *g = object_check(exec, EXEC, "hipGraphLaunch");
	struct stream *s = stream_check(stream, "hipGraphLaunch");
	return g && s ? give(s, &(struct work){ PLAY, .exec = g }) : INVALID_HANDLE;
}
