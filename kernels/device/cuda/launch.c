/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - launches kernels: in stream order, or by programmatic dependent launch (CUDA 12, from
 * sm_90 on). With the latter a kernel's blocks may start as soon as all blocks of the preceding
 * launch have allowed it or ended; they wait themselves for its writes. The launch, not the code,
 * sets the size of clusters, so that one binary serves all sizes.
 *
 * A kernel's parameter, one struct, is given to the driver as packed bytes: by a pointer for each
 * parameter a launch took 3.97 us of the host's time, not 3.65 (H200). On sm_90 parameters begin at
 * 0x210 in constant memory, so a parameter with maps, aligned to 64, begins 48 bytes later. Whether
 * a packed buffer needs these bytes, too, has not been tried: such a parameter is passed by
 * pointer, as are all before CUDA 12.4, whose drivers tell no offsets. */
#include "launch.h"
#include "kernels/spec/space.h"

enum { CLUSTER_DIMENSION = 4, CLUSTER_POLICY, STREAM_SERIALIZATION, ERROR_NOT_SUPPORTED = 801 };

/* Places the blocks of a cluster where there is most room. By default two of them may share an SM
 * while others are idle: on an H200 32 clusters of 4 then took 42.2 us, not 34.3, although nearly
 * each block could have had an SM. */
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

void function_packs(const struct cuda_api *cu, struct cuda_function *f)
{
	size_t offset = 0, bytes = 0;
	if (cu->ParamInfo && !cu->ParamInfo(f->handle, 0, &offset, &bytes) && !offset)
		f->packed = bytes;
}

/* The one parameter, in both ways of the driver's ABI. */
struct parameter {
	void *pointers[1];
	void *extra[5]; /* pairs of a key and a value, then the end */
};

enum { BUFFER = 1, SIZE };

static struct parameter parameter_of(const struct cuda_function *f, const void *args)
{
	return (struct parameter){ { (void *)(uintptr_t)args },
				   { (void *)BUFFER, (void *)(uintptr_t)args, (void *)SIZE,
				     (void *)(uintptr_t)&f->packed, NULL } };
}

static int launch_by(const struct cuda_api *cu, const struct cuda_function *f,
		     const struct geometry *g, const void *args, void *stream, int is_early)
{
	struct parameter p = parameter_of(f, args);
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
	return cu->LaunchEx ? cu->LaunchEx(&c, f->handle, f->packed ? NULL : p.pointers,
					   f->packed ? p.extra : NULL)
			    : ERROR_NOT_SUPPORTED;
}

int launch_in_turn(const struct cuda_api *cu, const struct cuda_function *f,
		   const struct geometry *g, const void *args, void *stream)
{
	struct parameter p = parameter_of(f, args);
	if (g->cluster > 1)
		return launch_by(cu, f, g, args, stream, 0);
	return cu->Launch(f->handle, g->x, g->y, g->z, g->threads, 1, 1, g->smem, stream,
			  f->packed ? NULL : p.pointers, f->packed ? p.extra : NULL);
}

int launch_early(const struct cuda_api *cu, const struct cuda_function *f, const struct geometry *g,
		 const void *args, void *stream)
{
	return launch_by(cu, f, g, args, stream, 1);
}
