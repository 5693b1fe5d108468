/* cuda_launch.c - a launch after all that its stream has; and by programmatic dependent launch
 * (CUDA 12, from sm_90 on), where a kernel's blocks may be placed as soon as all those of the
 * launch before have said so or ended, and wait by themselves for what that one writes. Blocks
 * become clusters by the launch, not by their code, so that one binary serves all sizes. */
#include "cuda_launch.h"

enum { CLUSTER_DIMENSION = 4, CLUSTER_POLICY, STREAM_SERIALIZATION, ERROR_NOT_SUPPORTED = 801 };

/* Blocks of a cluster go where there is most room. By the driver's own choice two of them may
 * share an SM while others have none: on an H200 32 clusters of 4 took 42.2 us, not 34.3, though
 * nearly each block could have an SM. */
enum { LOAD_BALANCING = 2 };

/* CUlaunchAttribute and CUlaunchConfig of the driver's ABI. */
struct attribute {
	int id, padding;
	union {
		int allowed;
		int policy;
		unsigned cluster[3];
		long long whole[8];
	};
};
struct launch_config {
	unsigned grid[3], block[3], smem;
	void *stream;
	struct attribute *attributes;
	unsigned num_attributes;
};
_Static_assert(sizeof(struct attribute) == 72 && sizeof(struct launch_config) == 56,
	       "as the driver's");

static int launch_by(const struct cuda_api *cu, void *function, const struct geometry *g,
		     const void *args, void *stream, int is_early)
{
	void *params[] = { (void *)(uintptr_t)args };
	struct attribute attributes[3];
	struct launch_config c = { .grid = { g->x, g->y, g->z },
				   .block = { g->threads, 1, 1 },
				   .smem = g->smem,
				   .stream = stream,
				   .attributes = attributes };
	if (is_early)
		attributes[c.num_attributes++] =
		    (struct attribute){ .id = STREAM_SERIALIZATION, .allowed = 1 };
	if (g->cluster > 1) {
		attributes[c.num_attributes++] =
		    (struct attribute){ .id = CLUSTER_DIMENSION, .cluster = { 1, g->cluster, 1 } };
		attributes[c.num_attributes++] =
		    (struct attribute){ .id = CLUSTER_POLICY, .policy = LOAD_BALANCING };
	}
	return cu->LaunchEx ? cu->LaunchEx(&c, function, params, NULL) : ERROR_NOT_SUPPORTED;
}

int launch_in_turn(const struct cuda_api *cu, void *function, const struct geometry *g,
		   const void *args, void *stream)
{
	void *params[] = { (void *)(uintptr_t)args };
	if (g->cluster > 1)
		return launch_by(cu, function, g, args, stream, 0);
	return cu->Launch(function, g->x, g->y, g->z, g->threads, 1, 1, g->smem, stream, params,
			  NULL);
}

int launch_extended(const struct cuda_api *cu, void *function, const struct geometry *g,
		    const void *args, void *stream)
{
	return launch_by(cu, function, g, args, stream, 0);
}

int launch_early(const struct cuda_api *cu, void *function, const struct geometry *g,
		 const void *args, void *stream)
{
	return launch_by(cu, function, g, args, stream, 1);
}
