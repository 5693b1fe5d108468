/* cuda_ways.c - ways to ask the driver for one and the same launch, for `attune bench --host`.
 *
 *   call     how arguments and attributes are given
 *   stream   one of ours, or one of the two that every context has
 *   context  whether the thread has it bound: pushed and popped about each call, or bound before
 *            and asked for at each call, or bound before and taken for granted
 *
 * What the library does is `parameters`, on its caller's stream, with the context asked for
 * (device_cuda.c). */
#include "cuda_ways.h"

enum { EX = 1, PACKED, PROGRAMMATIC };
enum { PUSHED, ASKED, BOUND };

/* Numbers of the driver's ABI: ends of `extra`, and streams that need not be made. */
static void *const extra_end = NULL, *const extra_buffer = (void *)1, *const extra_size = (void *)2;
static void *const legacy = (void *)1, *const per_thread = (void *)2;

static const struct way {
	const char *name;
	int call, is_small, context;
	void *const *stream; /* NULL: ours */
} ways[] = {
	{ "parameters, context pushed", 0, 0, PUSHED, NULL },
	{ "parameters, context asked for", 0, 0, ASKED, NULL },
	{ "parameters", 0, 0, BOUND, NULL },
	{ "packed parameters", PACKED, 0, BOUND, NULL },
	{ "extended, no attribute", EX, 0, BOUND, NULL },
	{ "extended, programmatic", PROGRAMMATIC, 0, BOUND, NULL },
	{ "parameters, 8 bytes", 0, 1, BOUND, NULL },
	{ "packed parameters, 8 bytes", PACKED, 1, BOUND, NULL },
	{ "parameters, legacy stream", 0, 0, BOUND, &legacy },
	{ "parameters, per-thread stream", 0, 0, BOUND, &per_thread },
};

static const char *name_of(int way, int *is_small)
{
	if (way < 0 || way >= (int)COUNT(ways))
		return NULL;
	*is_small = ways[way].is_small;
	return ways[way].name;
}

static void *stream_of(const struct cuda_view *v, const struct way *w)
{
	return w->stream ? *w->stream : v->stream;
}

static int launch_packed(const struct cuda_view *v, const struct geometry *g, const void *args,
			 size_t bytes, void *stream)
{
	void *extra[] = { extra_buffer, (void *)(uintptr_t)args, extra_size, &bytes, extra_end };
	return v->cu->Launch(v->function, g->x, g->y, g->z, g->threads, 1, 1, g->smem, stream, NULL,
			     extra);
}

static int launch(const struct cuda_view *v, const struct way *w, const struct geometry *g,
		  const void *args, size_t bytes)
{
	void *stream = stream_of(v, w);
	switch (w->call) {
	case PACKED: return launch_packed(v, g, args, bytes, stream);
	case EX: return launch_extended(v->cu, v->function, g, args, stream);
	case PROGRAMMATIC: return launch_early(v->cu, v->function, g, args, stream);
	default: return launch_in_turn(v->cu, v->function, g, args, stream);
	}
}

static int launch_bound(const struct cuda_view *v, const struct way *w, const struct geometry *g,
			const void *args, size_t bytes)
{
	void *now = NULL;
	if (w->context == BOUND || (w->context == ASKED && !v->cu->CtxGet(&now) && now == v->ctx))
		return launch(v, w, g, args, bytes);
	const int missing = v->cu->CtxPush(v->ctx);
	if (missing)
		return missing;
	const int error = launch(v, w, g, args, bytes);
	v->cu->CtxPop(&now);
	return error;
}

static int wait_for(const struct cuda_view *v, const struct way *w)
{
	void *popped;
	int error = w->context == PUSHED ? v->cu->CtxPush(v->ctx) : 0;
	if (error)
		return error;
	error = v->cu->StreamWait(stream_of(v, w));
	v->cu->CtxPop(&popped);
	return error;
}

static enum attune_status way_begin(struct device *dev, int way)
{
	const struct cuda_view v = cuda_view(dev, NULL);
	return cuda_status(dev, ways[way].context == PUSHED ? 0 : v.cu->CtxPush(v.ctx), "context");
}

static enum attune_status way_launch(struct device *dev, int way, const struct code *code,
				     const struct geometry *g, const void *args, size_t bytes)
{
	const struct cuda_view v = cuda_view(dev, code);
	return cuda_status(dev, launch_bound(&v, &ways[way], g, args, bytes), "launch");
}

static enum attune_status way_end(struct device *dev, int way)
{
	const struct cuda_view v = cuda_view(dev, NULL);
	return cuda_status(dev, wait_for(&v, &ways[way]), "wait");
}

const struct launch_ways cuda_ways = { name_of, way_begin, way_launch, way_end };
