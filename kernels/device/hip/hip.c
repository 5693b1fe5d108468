/* SPDX-License-Identifier: Apache-2.0 */
/* hip.c - AMD GPUs through the HIP runtime, opened at run time. Owns one stream, a pair of events
 * and the streams of side_streams.h. Each operation sets the thread's current device and restores
 * the caller's. */
#include "hip.h"
#include "kernels/device/shared/side_streams.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <stdlib.h>

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

#define GPU struct hip
#define API hip
#define DRIVER "hip"
#define OP(name) hip_##name
#define CURRENT ON_DEVICE
#include "kernels/device/shared/gpu_ops.inc"

/* ---- open and close ----------------------------------------------------------------------- */

static enum attune_status choose(struct hip *h, const char *which)
{
	int count = 0;
	const int error = h->hip.DeviceCount(&count);
	if (error)
		h->hip.LastError();
	if (error && error != ERROR_NO_DEVICE && error != ERROR_INVALID_DEVICE)
		return fail(ATTUNE_NO_DEVICE, "hip: the runtime does not start (error %d)", error);
	if (error || count <= 0)
		return fail(ATTUNE_NO_DEVICE, "hip: the runtime finds no GPU");
	const int is_here = !which || !*which || read_ordinal(which, count, &h->device);
	return is_here ? ATTUNE_OK : ATTUNE_NO_DEVICE;
}

static void describe(struct hip *h, struct device_info *info)
{
	hip_describe(&h->hip, h->device, info);
	hip_driver_text(info->driver, &h->hip, "/sys/module/amdgpu/version");
	info->ordinal = h->device;
	h->hip.LastError(); /* clears errors of attributes that an old runtime lacks */
}

static void hip_close(struct device *dev)
{
	struct hip *h = dev->state;
	if (h && h->stream)
		(void)ON_DEVICE(h, close_all(h), "close");
	free(h);
	dev->state = NULL;
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

static int make_code(struct hip *h, struct code *code, const struct blob *blob,
		     const struct device_info *info)
{
	(void)info;
	return find_function(h, code, &code->function, blob);
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

static enum attune_status hip_clear(struct device *dev, void *mem, size_t bytes, void *stream)
{
	struct hip *h = dev->state;
	return ON_DEVICE(h, h->hip.MemSetAsync(mem, 0, bytes, stream), "clear");
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

const struct device_ops hip_ops = { GPU_OPS };
