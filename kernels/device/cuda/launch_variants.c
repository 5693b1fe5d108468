/* launch_variants.c - variants of the same launch by different driver calls, for `attune bench
 * --host`.
 *
 *   call     how arguments and attributes are given
 *   stream   one of ours, or one of the two that every context has
 *   context  pushed and popped around each call; or bound before, and checked at each call; or bound
 *            before, and not checked
 *
 * The library itself uses `packed parameters` (launch.c), on its caller's stream, and checks the
 * context (cuda.c). */
#include "launch_variants.h"
#include "context.h"

enum { IN_TURN, BY_POINTER, EX, PROGRAMMATIC };
enum { PUSHED, ASKED, BOUND };

/* Streams that need not be made, by the driver's ABI. */
static void *const legacy = (void *)1, *const per_thread = (void *)2;

static const struct way {
	const char *name;
	int call, is_small, context;
	void *const *stream; /* NULL: ours */
} ways[] = {
	{ "packed parameters, context pushed", IN_TURN, 0, PUSHED, NULL },
	{ "packed parameters, context asked for", IN_TURN, 0, ASKED, NULL },
	{ "packed parameters", IN_TURN, 0, BOUND, NULL },
	{ "parameters", BY_POINTER, 0, BOUND, NULL },
	{ "extended, no attribute", EX, 0, BOUND, NULL },
	{ "extended, programmatic", PROGRAMMATIC, 0, BOUND, NULL },
	{ "packed parameters, 8 bytes", IN_TURN, 1, BOUND, NULL },
	{ "parameters, 8 bytes", BY_POINTER, 1, BOUND, NULL },
	{ "packed parameters, legacy stream", IN_TURN, 0, BOUND, &legacy },
	{ "packed parameters, per-thread stream", IN_TURN, 0, BOUND, &per_thread },
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

static int launch(const struct cuda_view *v, const struct way *w, const struct geometry *g,
		  const void *args)
{
	const struct cuda_function pointed = { .handle = v->function->handle };
	void *stream = stream_of(v, w);
	switch (w->call) {
	case BY_POINTER: return launch_in_turn(v->cu, &pointed, g, args, stream);
	case EX: return launch_extended(v->cu, v->function, g, args, stream);
	case PROGRAMMATIC: return launch_early(v->cu, v->function, g, args, stream);
	default: return launch_in_turn(v->cu, v->function, g, args, stream);
	}
}

static int launch_bound(const struct cuda_view *v, const struct way *w, const struct geometry *g,
			const void *args)
{
	void *now = NULL;
	if (w->context == BOUND || (w->context == ASKED && !v->cu->CtxGet(&now) && now == v->ctx))
		return launch(v, w, g, args);
	const int missing = v->cu->CtxPush(v->ctx);
	if (missing)
		return missing;
	const int error = launch(v, w, g, args);
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
				     const struct geometry *g, const void *args)
{
	const struct cuda_view v = cuda_view(dev, code);
	return cuda_status(dev, launch_bound(&v, &ways[way], g, args), "launch");
}

static enum attune_status way_end(struct device *dev, int way)
{
	const struct cuda_view v = cuda_view(dev, NULL);
	return cuda_status(dev, wait_for(&v, &ways[way]), "wait");
}

const struct launch_ways cuda_ways = { name_of, way_begin, way_launch, way_end };
