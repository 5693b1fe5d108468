/* driver.c - finds the driver's functions and turns its errors into lines. */
#include "driver.h"
#include <dlfcn.h>
#include <stdio.h>

struct cu_driver cu;

/* In the order of the struct. */
static const char *const names[] = { "cuInit",
				     "cuDeviceGet",
				     "cuDevicePrimaryCtxRetain",
				     "cuDevicePrimaryCtxRelease_v2",
				     "cuCtxPushCurrent_v2",
				     "cuCtxPopCurrent_v2",
				     "cuModuleLoadData",
				     "cuModuleUnload",
				     "cuModuleGetFunction",
				     "cuFuncSetAttribute",
				     "cuFuncSetCacheConfig",
				     "cuMemAlloc_v2",
				     "cuMemFree_v2",
				     "cuMemcpyHtoDAsync_v2",
				     "cuLaunchKernel",
				     "cuGetErrorString" };
enum { NUM = sizeof names / sizeof *names };
_Static_assert(sizeof cu == NUM * sizeof(void *), "a name for each function");

int cu_say(char *error, const char *text)
{
	snprintf(error, ATTUNE_PLUGIN_ERROR, "%s", text);
	return 1;
}

int cu_failed(int status, const char *what, char *error)
{
	const char *text = NULL;
	if (!status)
		return 0;
	cu.ErrorString(status, &text);
	snprintf(error, ATTUNE_PLUGIN_ERROR, "%s: %s (CUDA error %d)", what,
		 text ? text : "unknown", status);
	return 1;
}

int cu_open(char *error)
{
	static int is_open;
	void *library, **function = (void **)(void *)&cu;
	if (is_open)
		return 0;
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return cu_say(error, "no NVIDIA driver (libcuda.so.1) here");
	for (int i = 0; i < NUM; i++) {
		function[i] = dlsym(library, names[i]);
		if (!function[i]) {
			snprintf(error, ATTUNE_PLUGIN_ERROR, "the driver lacks %s", names[i]);
			return 1;
		}
	}
	if (cu_failed(cu.Init(0), "cuInit", error))
		return 1;
	is_open = 1;
	return 0;
}
