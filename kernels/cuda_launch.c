/* cuda_launch.c - a launch after all that its stream has; and by programmatic dependent launch
 * (CUDA 12, from sm_90 on), where a kernel's blocks may be placed as soon as all those of the
 * launch before have said so or ended, and wait by themselves for what that one writes. */
#include "cuda_launch.h"

enum { STREAM_SERIALIZATION = 6, ERROR_NOT_SUPPORTED = 801 };

/* CUlaunchAttribute and CUlaunchConfig of the driver's ABI. */
struct attribute {
	int id, padding;
	union {
		int allowed;
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

int launch_in_turn(const struct cuda_api *cu, void *function, const struct geometry *g,
		   const void *args, void *stream)
{
	void *params[] = { (void *)(uintptr_t)args };
	return cu->Launch(function, g->x, g->y, g->z, g->threads, 1, 1, g->smem, stream, params,
			  NULL);
}

int launch_early(const struct cuda_api *cu, void *function, const struct geometry *g,
		 const void *args, void *stream)
{
	void *params[] = { (void *)(uintptr_t)args };
	struct attribute early = { .id = STREAM_SERIALIZATION, .allowed = 1 };
	const struct launch_config c = { .grid = { g->x, g->y, g->z },
					 .block = { g->threads, 1, 1 },
					 .smem = g->smem,
					 .stream = stream,
					 .attributes = &early,
					 .num_attributes = 1 };
	return cu->LaunchEx ? cu->LaunchEx(&c, function, params, NULL) : ERROR_NOT_SUPPORTED;
}
