/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.c - NVIDIA GPUs through the driver API, opened at run time, so that one binary runs on
 * machines with and without a GPU. Owns the primary context that it retains, one stream, a pair of
 * events and the streams of side_streams.h. */
#include "context.h"
#include "kernels/device/shared/gpu_names.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPU struct cuda
#define API cu
#define DRIVER "cuda"
#define OP(name) cuda_##name
#define CURRENT IN_CONTEXT
#include "kernels/device/shared/gpu_ops.inc"

static enum attune_status load_api(struct cuda *c)
{
	c->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!c->library)
		return fail(ATTUNE_NO_DEVICE, "cuda: no NVIDIA driver (libcuda.so.1) here");
#define CU_NEW(ours, symbol, arguments) *(void **)(void *)&c->cu.ours = dlsym(c->library, #symbol);
#define CU_FN(ours, symbol, arguments)                                          \
	CU_NEW(ours, symbol, arguments)                                         \
	if (!c->cu.ours)                                                        \
		return fail(ATTUNE_NO_DEVICE, "cuda: the driver lacks " #symbol \
					      "; version 12.0 or newer is needed");
#include "api.def"
#undef CU_FN
	return ATTUNE_OK;
}

static int attribute(const struct cuda *c, int which)
{
	int value = 0;
	return c->cu.DeviceAttr(&value, which, c->device) ? 0 : value;
}

static void describe(struct cuda *c, struct device_info *info)
{
	int api = 0;
	c->cu.DeviceName(info->name, sizeof info->name, c->device);
	c->cu.DriverVersion(&api);
	snprintf(info->arch, sizeof info->arch, "sm_%d%d", attribute(c, ATTR_CC_MAJOR),
		 attribute(c, ATTR_CC_MINOR));
	snprintf(info->driver, sizeof info->driver, "CUDA %d.%d", api / 1000, api % 1000 / 10);
	info->backend = BACKEND_GPU;
	info->units = attribute(c, ATTR_UNITS);
	info->lanes = attribute(c, ATTR_WARP);
	info->smem_per_block = attribute(c, ATTR_SMEM_BLOCK_OPTIN);
	info->smem_per_unit = attribute(c, ATTR_SMEM_UNIT);
	info->l2_bytes = (size_t)attribute(c, ATTR_L2);
	info->clock_mhz = attribute(c, ATTR_CLOCK_KHZ) / 1000;
	info->memory_clock_mhz = attribute(c, ATTR_MEMORY_KHZ) / 1000;
	info->ordinal = c->device;
	c->cu.DeviceMemory(&info->memory_bytes, c->device);
	if (c->cu.DeviceUuid && c->cu.DeviceUuid(info->uuid, c->device))
		memset(info->uuid, 0, sizeof info->uuid);
	gpu_name(info);
}

static enum attune_status choose(struct cuda *c, const char *which)
{
	int count = 0, ordinal = 0;
	const int error = c->cu.Init(0);
	if (error)
		return fail(ATTUNE_NO_DEVICE, "cuda: the driver does not start (error %d)", error);
	if (c->cu.DeviceCount(&count) || !count)
		return fail(ATTUNE_NO_DEVICE, "cuda: the driver finds no GPU");
	if (which && *which && !read_ordinal(which, count, &ordinal))
		return ATTUNE_NO_DEVICE;
	return cuda_check(c, c->cu.DeviceGet(&c->device, ordinal), "device");
}

static void cuda_close(struct device *dev)
{
	struct cuda *c = dev->state;
	void *popped;
	if (!c)
		return;
	if (c->ctx && !c->cu.CtxPush(c->ctx)) {
		close_all(c);
		c->cu.CtxPop(&popped);
		c->cu.CtxRelease(c->device);
	}
	if (c->library)
		dlclose(c->library);
	free(c);
	dev->state = NULL;
}

static enum attune_status cuda_open(struct device *dev, const char *which)
{
	enum attune_status status;
	struct cuda *c = calloc(1, sizeof *c);
	if (!c)
		return fail(ATTUNE_NO_MEMORY, "cuda: out of memory");
	dev->state = c;
	if ((status = load_api(c)) || (status = choose(c, which)))
		return status;
	if ((status = cuda_check(c, c->cu.CtxRetain(&c->ctx, c->device), "context")))
		return status;
	describe(c, &dev->info);
	return IN_CONTEXT(c, make_all(c), "streams and events");
}

static enum attune_status cuda_alloc(struct device *dev, void **mem, size_t bytes)
{
	struct cuda *c = dev->state;
	unsigned long long address = 0;
	enum attune_status status =
	    IN_CONTEXT(c, c->cu.MemAlloc(&address, bytes ? bytes : 1), "allocation");
	*mem = (void *)(uintptr_t)address;
	return status;
}

static void cuda_release(struct device *dev, void *mem)
{
	struct cuda *c = dev->state;
	if (mem)
		(void)IN_CONTEXT(c, c->cu.MemFree((uintptr_t)mem), "free");
}

static enum attune_status cuda_put(struct device *dev, void *dst, const void *src, size_t bytes)
{
	struct cuda *c = dev->state;
	return IN_CONTEXT(c, settle(c, c->cu.MemPut((uintptr_t)dst, src, bytes)),
			  "copy to the device");
}

static enum attune_status cuda_get(struct device *dev, void *dst, const void *src, size_t bytes)
{
	struct cuda *c = dev->state;
	return IN_CONTEXT(c, c->cu.MemGet(dst, (uintptr_t)src, bytes), "copy from the device");
}

static enum attune_status cuda_fill(struct device *dev, void *dst, int byte, size_t bytes)
{
	struct cuda *c = dev->state;
	return IN_CONTEXT(c, settle(c, c->cu.MemSet((uintptr_t)dst, (unsigned char)byte, bytes)),
			  "fill");
}

/* More than 48 KiB of shared memory must be requested: once, as much as a block may have. */
static int make_code(struct cuda *c, struct code *code, const struct blob *blob,
		     const struct device_info *info)
{
	const int error = find_function(c, code, &code->function.handle, blob);
	if (error)
		return error;
	function_packs(&c->cu, &code->function);
	code->smem_allowed = info->smem_per_block - code->smem_static;
	return c->cu.FuncSet(code->function.handle, FUNC_SMEM_DYNAMIC, code->smem_allowed);
}

static enum attune_status launch(struct device *dev, const struct code *code,
				 const struct geometry *g, const void *args, void *stream,
				 launch_kind *kind)
{
	struct cuda *c = dev->state;
	if ((int)g->smem > code->smem_allowed)
		return fail(ATTUNE_UNSUPPORTED, "cuda: %u bytes of shared memory, %d is the limit",
			    g->smem, code->smem_allowed);
	if (!g->x || !g->y || !g->z)
		return ATTUNE_OK;
	void *now = NULL; /* no push and pop if the thread has the context bound */
	if (!c->cu.CtxGet(&now) && now == c->ctx)
		return cuda_check(c, kind(&c->cu, &code->function, g, args, stream), "launch");
	return IN_CONTEXT(c, kind(&c->cu, &code->function, g, args, stream), "launch");
}

static enum attune_status cuda_launch(struct device *dev, const struct code *code,
				      const struct geometry *g, const void *args, size_t args_bytes,
				      void *stream)
{
	(void)args_bytes;
	return launch(dev, code, g, args, stream, launch_in_turn);
}

static enum attune_status cuda_launch_early(struct device *dev, const struct code *code,
					    const struct geometry *g, const void *args,
					    size_t args_bytes, void *stream)
{
	(void)args_bytes;
	return launch(dev, code, g, args, stream, launch_early);
}

static enum attune_status cuda_clear(struct device *dev, void *mem, size_t bytes, void *stream)
{
	struct cuda *c = dev->state;
	return IN_CONTEXT(c, c->cu.MemSetAsync((uintptr_t)mem, 0, bytes, stream), "clear");
}

/* Uploads the graph, so that the first play does not include it. */
static int make_graph(struct cuda *c, struct graph *graph)
{
	int error = c->cu.CaptureEnd(c->stream, &graph->graph);
	error = error ? error : c->cu.GraphMake(&graph->exec, graph->graph, 0);
	return error ? error : c->cu.GraphUpload(graph->exec, c->stream);
}

const struct device_ops cuda_ops = { GPU_OPS, .launch_early = cuda_launch_early, .map = cuda_map,
				     .goes_on = cuda_goes_on };
