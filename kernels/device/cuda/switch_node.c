/* switch_node.c - adds a conditional node of the kind SWITCH (CUDA 12.8) to a stream's capture,
 * between the launches before and after it.
 *
 *   stream  ... decide -> [ SWITCH: body 0 | body 1 | ... ] -> ...
 *
 * Each body is a graph of its own, captured from a stream made for that. */
#include "switch_node.h"
#include <string.h>

enum {
	CONDITIONAL = 13,
	SWITCH = 2,
	ASSIGN_DEFAULT = 1,
	SET_DEPENDENCIES = 1,
	RELAXED = 2,
	NON_BLOCKING = 1
};

/* CUgraphNodeParams of the driver's ABI, as this kind of node has them. */
struct params {
	int type, reserved0[3];
	union {
		long long reserved1[29];
		struct {
			unsigned long long handle;
			int type;
			unsigned size;
			void **bodies; /* out */
			void *ctx;
		} conditional;
	};
	long long reserved2;
};
_Static_assert(sizeof(struct params) == 256, "as the driver's");

int switch_is_known(const struct cuda_api *cu)
{
	return cu->CaptureInfo && cu->CaptureFollow && cu->CaptureInto && cu->ConditionMake &&
	       cu->GraphAdd;
}

static int add_node(const struct cuda_api *cu, void *ctx, void *stream, unsigned long long handle,
		    int n, void ***bodies)
{
	struct params p;
	void *graph, *const *after, *node;
	size_t num_after;
	unsigned long long id;
	int state;
	memset(&p, 0, sizeof p);
	p.type = CONDITIONAL;
	p.conditional.handle = handle;
	p.conditional.type = SWITCH;
	p.conditional.size = (unsigned)n;
	p.conditional.ctx = ctx;
	int error = cu->CaptureInfo(stream, &state, &id, &graph, &after, &num_after);
	if (!error)
		error = cu->GraphAdd(&node, graph, after, num_after, &p);
	if (!error)
		error = cu->CaptureFollow(stream, &node, 1, SET_DEPENDENCIES);
	*bodies = p.conditional.bodies;
	return error;
}

/* failed: the body's own status, if not ATTUNE_OK */
static int record_body(const struct cuda_api *cu, void *stream, void *graph,
		       const struct graph_switch *s, int i, enum attune_status *failed)
{
	void *same;
	const int error = cu->CaptureInto(stream, graph, NULL, NULL, 0, RELAXED);
	if (error)
		return error;
	*failed = s->body(s->arg, i, stream);
	const int ended = cu->CaptureEnd(stream, &same);
	return *failed ? 0 : ended;
}

int switch_record(const struct cuda_api *cu, void *ctx, void *stream, const struct graph_switch *s,
		  enum attune_status *failed)
{
	void *graph, *const *after, **bodies = NULL, *side = NULL;
	size_t num_after;
	unsigned long long id, handle;
	int state, error = cu->CaptureInfo(stream, &state, &id, &graph, &after, &num_after);
	*failed = ATTUNE_OK;
	if (!error)
		error = cu->ConditionMake(&handle, graph, ctx, (unsigned)s->n - 1, ASSIGN_DEFAULT);
	if (!error)
		*failed = s->decide(s->arg, handle);
	if (!error && !*failed)
		error = add_node(cu, ctx, stream, handle, s->n, &bodies);
	if (!error && !*failed)
		error = cu->StreamCreate(&side, NON_BLOCKING);
	for (int i = 0; i < s->n && !error && !*failed; i++)
		error = record_body(cu, side, bodies[i], s, i, failed);
	if (side)
		cu->StreamDestroy(side);
	return error;
}
