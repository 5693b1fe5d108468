/* hip.c - AMD GPUs through the HIP runtime, opened at run time. Owns one stream, a pair of events
 * and the streams of side_streams.h. Each operation sets the thread's current device and restores
 * the caller's. */
#include "hip.h"
#include "kernels/device/shared/side_streams.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hip {
	struct hip_api hip;
	struct sides sides;
	void *stream, *begin, *end;
	int device;
};

struct code {
	void *module, *function;
	int registers, spill_bytes, smem_static;
};

struct graph {
	void *graph, *exec;
};

/* Numbers of the runtime's ABI. */
enum {
	COPY_TO_DEVICE = 1,
	COPY_FROM_DEVICE = 2,
	FUNC_SMEM_STATIC = 1,
	FUNC_LOCAL_BYTES = 3,
	FUNC_REGISTERS = 4,
	STREAM_NON_BLOCKING = 1,
	CAPTURE_RELAXED = 2,
	ERROR_OUT_OF_MEMORY = 2,
	ERROR_NO_DEVICE = 100,
	ERROR_INVALID_DEVICE = 101,
	ERROR_NO_BINARY = 209,
	ERROR_OUT_OF_RESOURCES = 701
};

static enum attune_status status_of(int error)
{
	switch (error) {
	case ERROR_OUT_OF_MEMORY: return ATTUNE_NO_MEMORY;
	case ERROR_NO_BINARY:
	case ERROR_OUT_OF_RESOURCES: return ATTUNE_UNSUPPORTED;
	}
	return ATTUNE_DEVICE_ERROR;
}

/* Clears the runtime's last error, so that the caller does not read ours as its own. */
static enum attune_status check(const struct hip *h, int error, const char *what)
{
	if (!error)
		return ATTUNE_OK;
	h->hip.LastError();
	const char *text = h->hip.ErrorString(error);
	return fail(status_of(error), "hip: %s: %s (error %d)", what, text ? text : "unknown",
		    error);
}

/* Runs `call` with the device current. */
#define ON_DEVICE(h, call, what) leave(h, enter(h) ? -1 : (call), what)
static _Thread_local int callers_device;

static int enter(const struct hip *h)
{
	const int error = h->hip.DeviceNow(&callers_device);
	return error || callers_device == h->device ? error : h->hip.DeviceSet(h->device);
}

static enum attune_status leave(const struct hip *h, int error, const char *what)
{
	if (error == -1)
		return fail(ATTUNE_DEVICE_ERROR, "hip: %s: device %d is gone", what, h->device);
	if (callers_device != h->device)
		h->hip.DeviceSet(callers_device);
	return check(h, error, what);
}

/* ---- open and close ----------------------------------------------------------------------- */

static enum attune_status choose(struct hip *h, const char *which)
{
	int count = 0;
	char *end = NULL;
	const int error = h->hip.DeviceCount(&count);
	if (error)
		h->hip.LastError();
	if (error && error != ERROR_NO_DEVICE && error != ERROR_INVALID_DEVICE)
		return fail(ATTUNE_NO_DEVICE, "hip: the runtime does not start (error %d)", error);
	if (error || count <= 0)
		return fail(ATTUNE_NO_DEVICE, "hip: the runtime finds no GPU");
	if (!which || !*which)
		return ATTUNE_OK;
	const long ordinal = strtol(which, &end, 10);
	if (*end || ordinal < 0 || ordinal >= count)
		return fail(ATTUNE_NO_DEVICE, "hip:%s: GPUs 0 to %d are here", which, count - 1);
	h->device = (int)ordinal;
	return ATTUNE_OK;
}

static void describe(struct hip *h, struct device_info *info)
{
	hip_describe(&h->hip, h->device, info);
	hip_driver_text(info->driver, &h->hip, "/sys/module/amdgpu/version");
	info->ordinal = h->device;
	h->hip.LastError(); /* clears errors of attributes that an old runtime lacks */
}

static int close_all(struct hip *h)
{
	sides_close(&h->sides);
	if (h->begin)
		h->hip.EventDestroy(h->begin);
	if (h->end)
		h->hip.EventDestroy(h->end);
	if (h->stream)
		h->hip.StreamDestroy(h->stream);
	return 0;
}

static void hip_close(struct device *dev)
{
	struct hip *h = dev->state;
	if (h && h->stream)
		(void)ON_DEVICE(h, close_all(h), "close");
	free(h);
	dev->state = NULL;
}

static int make_all(struct hip *h)
{
	const struct side_calls calls = SIDE_CALLS(h->hip);
	int error = h->hip.StreamCreate(&h->stream, STREAM_NON_BLOCKING);
	error = error ? error : h->hip.EventCreate(&h->begin, 0);
	error = error ? error : h->hip.EventCreate(&h->end, 0);
	return error ? error : sides_open(&h->sides, &calls);
}

static enum attune_status hip_open(struct device *dev, const char *which)
{
	enum attune_status status;
	struct hip *h = calloc(1, sizeof *h);
	if (!h)
		return fail(ATTUNE_NO_MEMORY, "hip: out of memory");
	dev->state = h;
	if ((status = hip_find(&h->hip)) || (status = choose(h, which)))
		return status;
	describe(h, &dev->info);
	return ON_DEVICE(h, make_all(h), "streams and events");
}

/* ---- memory ------------------------------------------------------------------------------- */

static enum attune_status hip_alloc(struct device *dev, void **mem, size_t bytes)
{
	struct hip *h = dev->state;
	*mem = NULL;
	return ON_DEVICE(h, h->hip.MemAlloc(mem, bytes ? bytes : 1), "allocation");
}

static void hip_release(struct device *dev, void *mem)
{
	struct hip *h = dev->state;
	if (mem)
		(void)ON_DEVICE(h, h->hip.MemFree(mem), "free");
}

/* Copies and fills go to the default stream, which launches on others do not wait
 * for: they are done when these return. */
static int settle(const struct hip *h, int error)
{
	return error ? error : h->hip.StreamWait(NULL);
}

static enum attune_status hip_put(struct device *dev, void *dst, const void *src, size_t bytes)
{
	struct hip *h = dev->state;
	return ON_DEVICE(h, settle(h, h->hip.MemCopy(dst, src, bytes, COPY_TO_DEVICE)),
			 "copy to the device");
}

static enum attune_status hip_get(struct device *dev, void *dst, const void *src, size_t bytes)
{
	struct hip *h = dev->state;
	return ON_DEVICE(h, h->hip.MemCopy(dst, src, bytes, COPY_FROM_DEVICE),
			 "copy from the device");
}

static enum attune_status hip_fill(struct device *dev, void *dst, int byte, size_t bytes)
{
	struct hip *h = dev->state;
	return ON_DEVICE(h, settle(h, h->hip.MemSet(dst, byte, bytes)), "fill");
}

/* ---- code --------------------------------------------------------------------------------- */

static int find_function(struct hip *h, struct code *code, const struct blob *blob)
{
	int error = h->hip.ModuleLoad(&code->module, blob->data);
	if (!error)
		error = h->hip.ModuleFunction(&code->function, code->module, blob->entry);
	if (!error) {
		h->hip.FuncGet(&code->registers, FUNC_REGISTERS, code->function);
		h->hip.FuncGet(&code->spill_bytes, FUNC_LOCAL_BYTES, code->function);
		h->hip.FuncGet(&code->smem_static, FUNC_SMEM_STATIC, code->function);
	}
	return error;
}

static void hip_unload(struct device *dev, struct code *code)
{
	struct hip *h = dev->state;
	if (code && code->module)
		(void)ON_DEVICE(h, h->hip.ModuleUnload(code->module), "unload");
	free(code);
}

static enum attune_status hip_load(struct device *dev, struct code **out, const struct blob *blob)
{
	struct hip *h = dev->state;
	struct code *code = calloc(1, sizeof *code);
	if (!code)
		return fail(ATTUNE_NO_MEMORY, "hip: out of memory");
	const enum attune_status status = ON_DEVICE(h, find_function(h, code, blob), "load");
	if (status)
		hip_unload(dev, code);
	else
		*out = code;
	return status;
}

/* All LDS that a block may have is there without being asked for. */
static enum attune_status hip_launch(struct device *dev, const struct code *code,
				     const struct geometry *g, const void *args, size_t args_bytes,
				     void *stream)
{
	struct hip *h = dev->state;
	void *params[] = { (void *)(uintptr_t)args };
	const int most = dev->info.smem_per_block - code->smem_static;
	(void)args_bytes; /* the code object has the parameter's size */
	if ((int)g->smem > most)
		return fail(ATTUNE_UNSUPPORTED, "hip: %u bytes of LDS, %d is the limit", g->smem,
			    most);
	if (g->cluster > 1)
		return fail(ATTUNE_UNSUPPORTED, "hip: clusters of %u blocks: AMD's GPUs have none",
			    g->cluster);
	if (!g->x || !g->y || !g->z)
		return ATTUNE_OK;
	return ON_DEVICE(h,
			 h->hip.Launch(code->function, g->x, g->y, g->z, g->threads, 1, 1, g->smem,
				       stream, params, NULL),
			 "launch");
}

static void hip_resources(const struct code *code, int *registers, int *spill, int *smem)
{
	*registers = code->registers;
	*spill = code->spill_bytes;
	*smem = code->smem_static;
}

/* ---- streams ------------------------------------------------------------------------------ */

static enum attune_status hip_fork(struct device *dev, void *stream, void **side)
{
	struct hip *h = dev->state;
	return ON_DEVICE(h, sides_fork(&h->sides, stream, side), "fork");
}

static enum attune_status hip_join(struct device *dev, void *stream, void *side)
{
	struct hip *h = dev->state;
	return ON_DEVICE(h, sides_join(&h->sides, stream, side), "join");
}

static enum attune_status hip_clear(struct device *dev, void *mem, size_t bytes, void *stream)
{
	struct hip *h = dev->state;
	return ON_DEVICE(h, h->hip.MemSetAsync(mem, 0, bytes, stream), "clear");
}

static int hip_capturing(struct device *dev, void *stream)
{
	struct hip *h = dev->state;
	int state = 0;
	return !ON_DEVICE(h, h->hip.StreamCapturing(stream, &state), "stream") && state;
}

static enum attune_status hip_wait(struct device *dev, void *stream)
{
	struct hip *h = dev->state;
	return ON_DEVICE(h, h->hip.StreamWait(stream), "wait");
}

static void *hip_stream(struct device *dev)
{
	struct hip *h = dev->state;
	return h->stream;
}

/* ---- graphs -------------------------------------------------------------------------------- */

static enum attune_status hip_tape_begin(struct device *dev)
{
	struct hip *h = dev->state;
	return ON_DEVICE(h, h->hip.CaptureBegin(h->stream, CAPTURE_RELAXED), "capture");
}

static int free_graph(struct hip *h, struct graph *graph)
{
	if (graph->exec)
		h->hip.GraphExecFree(graph->exec);
	if (graph->graph)
		h->hip.GraphFree(graph->graph);
	free(graph);
	return 0;
}

static void hip_tape_free(struct device *dev, struct graph *graph)
{
	struct hip *h = dev->state;
	if (graph)
		(void)ON_DEVICE(h, free_graph(h, graph), "graph");
}

/* Uploads the graph, if the runtime can, so that the first play does not include it. */
static int make_graph(struct hip *h, struct graph *graph)
{
	int error = h->hip.CaptureEnd(h->stream, &graph->graph);
	if (!error)
		error = h->hip.GraphMake(&graph->exec, graph->graph, NULL, NULL, 0);
	if (!error && h->hip.GraphUpload)
		error = h->hip.GraphUpload(graph->exec, h->stream);
	return error;
}

static enum attune_status hip_tape_end(struct device *dev, struct graph **out)
{
	struct hip *h = dev->state;
	struct graph *graph = calloc(1, sizeof *graph);
	if (!graph)
		return fail(ATTUNE_NO_MEMORY, "hip: out of memory");
	const enum attune_status status = ON_DEVICE(h, make_graph(h, graph), "end of capture");
	if (status)
		hip_tape_free(dev, graph);
	else
		*out = graph;
	return status;
}

static int end_time(struct hip *h, float *ms)
{
	int error = h->hip.EventRecord(h->end, h->stream);
	error = error ? error : h->hip.EventWait(h->end);
	return error ? error : h->hip.EventElapsed(ms, h->begin, h->end);
}

static enum attune_status hip_time_begin(struct device *dev)
{
	struct hip *h = dev->state;
	return ON_DEVICE(h, h->hip.EventRecord(h->begin, h->stream), "event");
}

static enum attune_status hip_time_end(struct device *dev, double *ns)
{
	struct hip *h = dev->state;
	float ms = 0;
	const enum attune_status status = ON_DEVICE(h, end_time(h, &ms), "event");
	*ns = (double)ms * 1e6;
	return status;
}

static int play(struct hip *h, struct graph *graph, float *ms)
{
	int error = h->hip.EventRecord(h->begin, h->stream);
	error = error ? error : h->hip.GraphLaunch(graph->exec, h->stream);
	return error ? error : end_time(h, ms);
}

static enum attune_status hip_tape_play(struct device *dev, struct graph *graph, double *ns)
{
	struct hip *h = dev->state;
	float ms = 0;
	const enum attune_status status = ON_DEVICE(h, play(h, graph, &ms), "replay");
	*ns = (double)ms * 1e6;
	return status;
}

static enum attune_status hip_within(struct device *dev, void (*call)(void *), void *arg)
{
	const struct hip *h = dev->state;
	return ON_DEVICE(h, (call(arg), 0), "calling a plug-in");
}

const struct device_ops hip_ops = {
	.name = "hip",
	.open = hip_open,
	.close = hip_close,
	.alloc = hip_alloc,
	.release = hip_release,
	.put = hip_put,
	.get = hip_get,
	.fill = hip_fill,
	.load = hip_load,
	.unload = hip_unload,
	.launch = hip_launch,
	.fork = hip_fork,
	.join = hip_join,
	.within = hip_within,
	.clear = hip_clear,
	.capturing = hip_capturing,
	.wait = hip_wait,
	.stream = hip_stream,
	.resources = hip_resources,
	.graph_begin = hip_tape_begin,
	.graph_end = hip_tape_end,
	.graph_play = hip_tape_play,
	.graph_free = hip_tape_free,
	.time_begin = hip_time_begin,
	.time_end = hip_time_end,
};
