/* driver.h - the CUDA driver, opened at run time, for plug-ins that launch compiled code by it.
 * Handles are pointers. */
#ifndef KERNELS_ADAPTERS_DRIVER_H
#define KERNELS_ADAPTERS_DRIVER_H

#include "attune_plugin.h"

/* Each returns the driver's error, 0 is success. */
struct cu_driver {
	int (*Init)(unsigned flags);
	int (*DeviceGet)(int *device, int ordinal);
	int (*PrimaryRetain)(void **ctx, int device);
	int (*PrimaryRelease)(int device);
	int (*Push)(void *ctx);
	int (*Pop)(void **ctx);
	int (*ModuleLoad)(void **module, const void *image);
	int (*ModuleUnload)(void *module);
	int (*GetFunction)(void **function, void *module, const char *name);
	int (*FuncSetAttribute)(void *function, int attribute, int value);
	int (*FuncSetCache)(void *function, int preference);
	int (*MemAlloc)(uint64_t *memory, size_t bytes);
	int (*MemFree)(uint64_t memory);
	int (*CopyToDevice)(uint64_t to, const void *from, size_t bytes, void *stream);
	int (*Launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
		      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
		      void *stream, void **params, void **extra);
	int (*ErrorString)(int error, const char **text);
};
extern struct cu_driver cu;

enum { CU_FUNC_MAX_DYNAMIC_SHARED = 8, CU_CACHE_PREFER_SHARED = 1 };

/* These return 1 after they wrote a line to `error`, of ATTUNE_PLUGIN_ERROR bytes; else 0. */
int cu_open(char *error); /* fills cu; it stays open as long as the process */
int cu_say(char *error, const char *text);
int cu_failed(int status, const char *what, char *error); /* status: the driver's */

#endif
