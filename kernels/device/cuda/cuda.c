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

struct graph {
	void *graph, *exec;
};

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
	char *end = NULL;
	const int error = c->cu.Init(0);
	if (error)
		return fail(ATTUNE_NO_DEVICE, "cuda: the driver does not start (error %d)", error);
	if (c->cu.DeviceCount(&count) || !count)
		return fail(ATTUNE_NO_DEVICE, "cuda: the driver finds no GPU");
	if (which && *which) {
		ordinal = (int)strtol(which, &end, 10);
		if (*end || ordinal < 0 || ordinal >= count)
			return fail(ATTUNE_NO_DEVICE, "cuda:%s: GPUs 0 to %d are here", which,
				    count - 1);
	}
	return cuda_check(c, c->cu.DeviceGet(&c->device, ordinal), "device");
}

static void cuda_close(struct device *dev)
{
	struct cuda *c = dev->state;
	void *popped;
	if (!c)
		return;
	if (c->ctx && !c->cu.CtxPush(c->ctx)) {
		sides_close(&c->sides);
		if (c->begin)
			c->cu.EventDestroy(c->begin);
		if (c->end)
			c->cu.EventDestroy(c->end);
		if (c->stream)
			c->cu.StreamDestroy(c->stream);
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
	status = IN_CONTEXT(c, c->cu.StreamCreate(&c->stream, STREAM_NON_BLOCKING), "stream");
	if (!status)
		status = IN_CONTEXT(c, c->cu.EventCreate(&c->begin, 0), "event");
	if (!status)
		status = IN_CONTEXT(c, c->cu.EventCreate(&c->end, 0), "event");
	const struct side_calls calls = SIDE_CALLS(c->cu);
	if (!status)
		status = IN_CONTEXT(c, sides_open(&c->sides, &calls), "streams");
	return status;
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

/* Copies and fills go to the default stream, which launches on others do not wait
 * for: they are done when these return. */
static int settle(const struct cuda *c, int error)
{
	return error ? error : c->cu.StreamWait(NULL);
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

static int find_function(struct cuda *c, struct code *code, const struct blob *blob)
{
	int error = c->cu.ModuleLoad(&code->module, blob->data);
	if (!error)
		error = c->cu.ModuleFunction(&code->function.handle, code->module, blob->entry);
	if (!error) {
		c->cu.FuncGet(&code->registers, FUNC_REGISTERS, code->function.handle);
		c->cu.FuncGet(&code->spill_bytes, FUNC_LOCAL_BYTES, code->function.handle);
		c->cu.FuncGet(&code->smem_static, FUNC_SMEM_STATIC, code->function.handle);
		function_packs(&c->cu, &code->function);
	}
	return error;
}

/* More than 48 KiB of shared memory must be requested: once, as much as a block may have. */
static int grant_smem(struct cuda *c, struct code *code, int limit)
{
	code->smem_allowed = limit - code->smem_static;
	return c->cu.FuncSet(code->function.handle, FUNC_SMEM_DYNAMIC, code->smem_allowed);
}

static void cuda_unload(struct device *dev, struct code *code)
{
	struct cuda *c = dev->state;
	if (!code)
		return;
	if (code->module)
		(void)IN_CONTEXT(c, c->cu.ModuleUnload(code->module), "unload");
	free(code);
}

static enum attune_status cuda_load(struct device *dev, struct code **out, const struct blob *blob)
{
	struct cuda *c = dev->state;
	enum attune_status status;
	struct code *code = calloc(1, sizeof *code);
	if (!code)
		return fail(ATTUNE_NO_MEMORY, "cuda: out of memory");
	status = IN_CONTEXT(c, find_function(c, code, blob), "load");
	if (!status)
		status =
		    IN_CONTEXT(c, grant_smem(c, code, dev->info.smem_per_block), "shared memory");
	if (status) {
		cuda_unload(dev, code);
		return status;
	}
	*out = code;
	return ATTUNE_OK;
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

static enum attune_status cuda_fork(struct device *dev, void *stream, void **side)
{
	struct cuda *c = dev->state;
	return IN_CONTEXT(c, sides_fork(&c->sides, stream, side), "fork");
}

static enum attune_status cuda_join(struct device *dev, void *stream, void *side)
{
	struct cuda *c = dev->state;
	return IN_CONTEXT(c, sides_join(&c->sides, stream, side), "join");
}

static enum attune_status cuda_clear(struct device *dev, void *mem, size_t bytes, void *stream)
{
	struct cuda *c = dev->state;
	return IN_CONTEXT(c, c->cu.MemSetAsync((uintptr_t)mem, 0, bytes, stream), "clear");
}

static int cuda_capturing(struct device *dev, void *stream)
{
	struct cuda *c = dev->state;
	int state = 0;
	return !IN_CONTEXT(c, c->cu.StreamCapturing(stream, &state), "stream") && state;
}

static enum attune_status cuda_wait(struct device *dev, void *stream)
{
	struct cuda *c = dev->state;
	return IN_CONTEXT(c, c->cu.StreamWait(stream), "wait");
}

static void *cuda_stream(struct device *dev)
{
	return ((struct cuda *)dev->state)->stream;
}

static void cuda_resources(const struct code *code, int *registers, int *spill, int *smem)
{
	*registers = code->registers;
	*spill = code->spill_bytes;
	*smem = code->smem_static;
}

static enum attune_status cuda_tape_begin(struct device *dev)
{
	struct cuda *c = dev->state;
	return IN_CONTEXT(c, c->cu.CaptureBegin(c->stream, CAPTURE_RELAXED), "capture");
}

static void cuda_tape_free(struct device *dev, struct graph *graph)
{
	struct cuda *c = dev->state;
	if (!graph)
		return;
	if (graph->exec)
		(void)IN_CONTEXT(c, c->cu.GraphExecFree(graph->exec), "graph");
	if (graph->graph)
		(void)IN_CONTEXT(c, c->cu.GraphFree(graph->graph), "graph");
	free(graph);
}

static enum attune_status cuda_tape_end(struct device *dev, struct graph **out)
{
	struct cuda *c = dev->state;
	enum attune_status status;
	struct graph *graph = calloc(1, sizeof *graph);
	if (!graph)
		return fail(ATTUNE_NO_MEMORY, "cuda: out of memory");
	status = IN_CONTEXT(c, c->cu.CaptureEnd(c->stream, &graph->graph), "end of capture");
	if (!status)
		status = IN_CONTEXT(c, c->cu.GraphMake(&graph->exec, graph->graph, 0), "graph");
	if (!status) /* else its first play includes it */
		status = IN_CONTEXT(c, c->cu.GraphUpload(graph->exec, c->stream), "graph upload");
	if (status) {
		cuda_tape_free(dev, graph);
		return status;
	}
	*out = graph;
	return ATTUNE_OK;
}

static int end_time(struct cuda *c, float *ms)
{
	int error = c->cu.EventRecord(c->end, c->stream);
	if (!error)
		error = c->cu.EventWait(c->end);
	return error ? error : c->cu.EventElapsed(ms, c->begin, c->end);
}

static enum attune_status cuda_time_begin(struct device *dev)
{
	struct cuda *c = dev->state;
	return IN_CONTEXT(c, c->cu.EventRecord(c->begin, c->stream), "event");
}

static enum attune_status cuda_time_end(struct device *dev, double *ns)
{
	struct cuda *c = dev->state;
	float ms = 0;
	enum attune_status status = IN_CONTEXT(c, end_time(c, &ms), "event");
	*ns = (double)ms * 1e6;
	return status;
}

static int play(struct cuda *c, struct graph *graph, float *ms)
{
	int error = c->cu.EventRecord(c->begin, c->stream);
	if (!error)
		error = c->cu.GraphLaunch(graph->exec, c->stream);
	return error ? error : end_time(c, ms);
}

static enum attune_status cuda_tape_play(struct device *dev, struct graph *graph, double *ns)
{
	struct cuda *c = dev->state;
	float ms = 0;
	enum attune_status status = IN_CONTEXT(c, play(c, graph, &ms), "replay");
	*ns = (double)ms * 1e6;
	return status;
}

static enum attune_status cuda_within(struct device *dev, void (*call)(void *), void *arg)
{
	const struct cuda *c = dev->state;
	return IN_CONTEXT(c, (call(arg), 0), "calling a plug-in");
}

const struct device_ops cuda_ops = {
	.name = "cuda",
	.open = cuda_open,
	.close = cuda_close,
	.alloc = cuda_alloc,
	.release = cuda_release,
	.put = cuda_put,
	.get = cuda_get,
	.fill = cuda_fill,
	.load = cuda_load,
	.unload = cuda_unload,
	.launch = cuda_launch,
	.launch_early = cuda_launch_early,
	.within = cuda_within,
	.map = cuda_map,
	.fork = cuda_fork,
	.join = cuda_join,
	.clear = cuda_clear,
	.capturing = cuda_capturing,
	.wait = cuda_wait,
	.stream = cuda_stream,
	.resources = cuda_resources,
	.graph_begin = cuda_tape_begin,
	.graph_end = cuda_tape_end,
	.graph_play = cuda_tape_play,
	.graph_free = cuda_tape_free,
	.time_begin = cuda_time_begin,
	.time_end = cuda_time_end,
};
