/* SPDX-License-Identifier: Apache-2.0 */
/* runtime.c - the calls of kernels/device/hip/api.def by NVIDIA's driver, so that the host code for AMD's
 * GPUs runs, as it is, on an NVIDIA one. HIP took its handles, its flags and the numbers of its
 * errors from CUDA's driver: they pass as they are. What differs stands here:
 *
 *   a current device   the driver has a stack of contexts: each call pushes that of the thread's
 *                      device and pops it again
 *   the last error     a thread's, asked for once
 *   attributes         have numbers of their own
 *   shared memory      above 48 KiB has to be asked for: a function gets all there is
 *
 * Such a GPU says of itself that it has 32 lanes, and its capability: to the host code sm_90 is
 * "gfx9.0", a chip that it does not know and that nothing was measured on. */
#include "kernels/device/cuda/api.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

#define HIP_FN(ours, symbol, arguments) int symbol arguments;
#include "kernels/device/hip/api.def"
#undef HIP_FN
const char *hipGetErrorString(int error);

enum {
	INVALID_VALUE = 1,
	INSUFFICIENT_DRIVER = 35,
	NO_DEVICE = 100,
	INVALID_DEVICE = 101,
	COPY_TO_DEVICE = 1,
	COPY_FROM_DEVICE = 2,
	MOST_DEVICES = 16
};

/* ---- the driver ------------------------------------------------------------------------- */

static struct cuda_api cu;
static int cannot_start; /* an error that all calls have; 0: the driver is here */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!library) {
		cannot_start = NO_DEVICE;
		return;
	}
#define CU_NEW(ours, symbol, arguments) *(void **)(void *)&cu.ours = dlsym(library, #symbol);
#define CU_FN(ours, symbol, arguments)              \
	CU_NEW(ours, symbol, arguments)             \
	if (!cu.ours) {                             \
		cannot_start = INSUFFICIENT_DRIVER; \
		return;                             \
	}
#include "kernels/device/cuda/api.def"
#undef CU_FN
	cannot_start = cu.Init(0);
}

static int started(void)
{
	pthread_once(&once, start);
	return cannot_start;
}

/* ---- errors and the current device ------------------------------------------------------ */

static _Thread_local int last_error, entering, current;
static void *contexts[MOST_DEVICES]; /* primary ones, kept until the process ends */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int told(int error)
{
	if (error)
		last_error = error;
	return error;
}

static int context_of(int ordinal, void **ctx)
{
	int device, error = 0;
	pthread_mutex_lock(&lock);
	if (!contexts[ordinal] && !(error = cu.DeviceGet(&device, ordinal)))
		error = cu.CtxRetain(&contexts[ordinal], device);
	*ctx = contexts[ordinal];
	pthread_mutex_unlock(&lock);
	return error;
}

static int enter(void)
{
	void *ctx;
	int error = started();
	error = error ? error : context_of(current, &ctx);
	return error ? error : cu.CtxPush(ctx);
}

static int leave(int error)
{
	void *popped;
	const int left = cu.CtxPop(&popped);
	return error ? error : left;
}

/* Runs `call` in the context of the thread's device. */
#define IN_CONTEXT(call) told((entering = enter()) ? entering : leave(call))

int hipGetLastError(void)
{
	const int error = last_error;
	last_error = 0;
	return error;
}

const char *hipGetErrorString(int error)
{
	const char *text = NULL;
	if (error == NO_DEVICE && cannot_start == NO_DEVICE)
		return "no NVIDIA driver (libcuda.so.1) here";
	return cu.ErrorString && !cu.ErrorString(error, &text) ? text : "unknown";
}

/* ---- devices ---------------------------------------------------------------------------- */

int hipGetDeviceCount(int *count)
{
	*count = 0;
	const int error = started();
	return told(error ? error : cu.DeviceCount(count));
}

int hipGetDevice(int *device)
{
	*device = current;
	return told(started());
}

int hipSetDevice(int device)
{
	int count = 0;
	const int error = hipGetDeviceCount(&count);
	if (error)
		return error;
	if (device < 0 || device >= count || device >= MOST_DEVICES)
		return told(INVALID_DEVICE);
	current = device;
	return 0;
}

/* Questions that need no context: the driver's handle of a device. */
static int handle_of(int *handle, int device)
{
	const int error = started();
	return error ? error : cu.DeviceGet(handle, device);
}

#define OF_DEVICE(call) told((entering = handle_of(&device, device)) ? entering : (call))

int hipDeviceGetName(char *name, int size, int device)
{
	return OF_DEVICE(cu.DeviceName(name, size, device));
}

int hipDeviceTotalMem(size_t *bytes, int device)
{
	return OF_DEVICE(cu.DeviceMemory(bytes, device));
}

int hipDeviceGetUuid(unsigned char uuid[16], int device)
{
	return OF_DEVICE(cu.DeviceUuid(uuid, device));
}

int hipDeviceGetPCIBusId(char *id, int size, int device)
{
	return OF_DEVICE(cu.DevicePci(id, size, device));
}

static const struct {
	int hip, cuda;
} attributes[] = {
	{ 5, 13 },     /* kHz of the clock */
	{ 19, 38 },    /* bytes of L2 */
	{ 23, 75 },    /* capability, before the dot */
	{ 60, 36 },    /* kHz of the memory */
	{ 61, 76 },    /* and behind it */
	{ 63, 16 },    /* units */
	{ 74, 97 },    /* shared memory of a block that asks for all of it */
	{ 87, 10 },    /* lanes of a warp */
	{ 10002, 81 }, /* shared memory of a unit */
};

int hipDeviceGetAttribute(int *value, int attribute, int device)
{
	for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
		if (attributes[i].hip == attribute)
			return OF_DEVICE(cu.DeviceAttr(value, attributes[i].cuda, device));
	return told(INVALID_VALUE);
}

/* CUDA's 13.0 is 13000, HIP's would be 130000000. */
int hipRuntimeGetVersion(int *version)
{
	int cuda = 0;
	int error = started();
	error = error ? error : cu.DriverVersion(&cuda);
	*version = cuda / 1000 * 10000000 + cuda % 1000 / 10 * 100000;
	return told(error);
}

/* ---- memory ----------------------------------------------------------------------------- */

int hipMalloc(void **memory, size_t bytes)
{
	unsigned long long address = 0;
	const int error = IN_CONTEXT(cu.MemAlloc(&address, bytes));
	*memory = (void *)(uintptr_t)address;
	return error;
}

int hipMemcpy(void *dst, const void *src, size_t bytes, int kind)
{
	switch (kind) {
	case COPY_TO_DEVICE: return IN_CONTEXT(cu.MemPut((uintptr_t)dst, src, bytes));
	case COPY_FROM_DEVICE: return IN_CONTEXT(cu.MemGet(dst, (uintptr_t)src, bytes));
	}
	return told(INVALID_VALUE);
}

/* ---- code ------------------------------------------------------------------------------- */

static int allow_shared_memory(void *function)
{
	int device, most = 0, has = 0;
	int error = cu.DeviceGet(&device, current);
	error = error ? error : cu.DeviceAttr(&most, ATTR_SMEM_BLOCK_OPTIN, device);
	error = error ? error : cu.FuncGet(&has, FUNC_SMEM_STATIC, function);
	return error ? error : cu.FuncSet(function, FUNC_SMEM_DYNAMIC, most - has);
}

static int find_function(void **function, void *module, const char *name)
{
	const int error = cu.ModuleFunction(function, module, name);
	return error ? error : allow_shared_memory(*function);
}

/* ---- calls that differ in their names alone ---------------------------------------------- */

#define CALL(symbol, arguments, call)       \
	int symbol arguments                \
	{                                   \
		return IN_CONTEXT(cu.call); \
	}
// clang-format off
CALL(hipFree,          (void *memory),                                         MemFree((uintptr_t)memory))
CALL(hipMemset,        (void *dst, int byte, size_t bytes),                    MemSet((uintptr_t)dst, (unsigned char)byte, bytes))
CALL(hipMemsetAsync,   (void *dst, int byte, size_t bytes, void *stream),      MemSetAsync((uintptr_t)dst, (unsigned char)byte, bytes, stream))
CALL(hipModuleLoadData, (void **module, const void *image),                    ModuleLoad(module, image))
CALL(hipModuleUnload,  (void *module),                                         ModuleUnload(module))
CALL(hipFuncGetAttribute, (int *value, int attribute, void *function),         FuncGet(value, attribute, function))
CALL(hipStreamCreateWithFlags, (void **stream, unsigned flags),                StreamCreate(stream, flags))
CALL(hipStreamCreateWithPriority, (void **stream, unsigned flags, int order),  StreamCreatePrior(stream, flags, order))
CALL(hipDeviceGetStreamPriorityRange, (int *least, int *greatest),             PriorityRange(least, greatest))
CALL(hipStreamWaitEvent, (void *stream, void *event, unsigned flags),          StreamFollow(stream, event, flags))
CALL(hipStreamDestroy, (void *stream),                                         StreamDestroy(stream))
CALL(hipStreamSynchronize, (void *stream),                                     StreamWait(stream))
CALL(hipStreamIsCapturing, (void *stream, int *state),                         StreamCapturing(stream, state))
CALL(hipStreamBeginCapture, (void *stream, int mode),                          CaptureBegin(stream, mode))
CALL(hipStreamEndCapture, (void *stream, void **graph),                        CaptureEnd(stream, graph))
CALL(hipGraphLaunch,   (void *exec, void *stream),                             GraphLaunch(exec, stream))
CALL(hipGraphUpload,   (void *exec, void *stream),                             GraphUpload(exec, stream))
CALL(hipGraphExecDestroy, (void *exec),                                        GraphExecFree(exec))
CALL(hipGraphDestroy,  (void *graph),                                          GraphFree(graph))
CALL(hipEventCreateWithFlags, (void **event, unsigned flags),                  EventCreate(event, flags))
CALL(hipEventDestroy,  (void *event),                                          EventDestroy(event))
CALL(hipEventRecord,   (void *event, void *stream),                            EventRecord(event, stream))
CALL(hipEventSynchronize, (void *event),                                       EventWait(event))
CALL(hipEventElapsedTime, (float *ms, void *start, void *end),                 EventElapsed(ms, start, end))
// clang-format on

int hipModuleGetFunction(void **function, void *module, const char *name)
{
	return IN_CONTEXT(find_function(function, module, name));
}

int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			  unsigned by, unsigned bz, unsigned smem, void *stream, void **params,
			  void **extra)
{
	return IN_CONTEXT(cu.Launch(function, gx, gy, gz, bx, by, bz, smem, stream, params, extra));
}

/* CUDA does not report where a graph is invalid. */
int hipGraphInstantiate(void **exec, void *graph, void **bad_node, char *log, size_t log_size)
{
	if (bad_node)
		*bad_node = NULL;
	if (log && log_size)
		*log = '\0';
	return IN_CONTEXT(cu.GraphMake(exec, graph, 0));
}
