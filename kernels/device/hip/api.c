/* SPDX-License-Identifier: Apache-2.0 */
/* api.c - finds and opens AMD's runtime; see hip.h. */
#include "hip.h"
#include "kernels/spec/status.h"
#include <dlfcn.h>
#include <stdlib.h>

/* ROCm 7, 6, 5; then its usual folder, if the machine's linker does not search it. */
static const char *const names[] = { "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
				     "libamdhip64.so", "/opt/rocm/lib/libamdhip64.so" };

static void *open_any(int flags)
{
	void *library = NULL;
	for (size_t i = 0; !library && i < COUNT(names); i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | flags);
	return library;
}

static void *open_library(const char *named)
{
	void *library;
	if (named && *named)
		return dlopen(named, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	library = open_any(RTLD_NOLOAD);
	return library ? library : open_any(0);
}

static enum attune_status lacks(const char *symbol)
{
	return fail(ATTUNE_NO_DEVICE, "hip: the runtime lacks %s; ROCm 5 or newer is needed",
		    symbol);
}

enum attune_status hip_find(struct hip_api *api)
{
	const char *named = secure_getenv("ATTUNE_HIP_LIBRARY");
	void *library = open_library(named);
	if (!library && named && *named)
		return fail(ATTUNE_NO_DEVICE, "hip: ATTUNE_HIP_LIBRARY: %s", dlerror());
	if (!library)
		return fail(ATTUNE_NO_DEVICE,
			    "hip: no AMD runtime (libamdhip64.so.7, .6 or .5) here");
#define HIP_NEW(ours, symbol, arguments) *(void **)(void *)&api->ours = dlsym(library, #symbol);
#define HIP_FN(ours, symbol, arguments)  \
	HIP_NEW(ours, symbol, arguments) \
	if (!api->ours)                  \
		return lacks(#symbol);
#include "api.def"
#undef HIP_FN
	*(void **)(void *)&api->ErrorString = dlsym(library, "hipGetErrorString");
	return api->ErrorString ? ATTUNE_OK : lacks("hipGetErrorString");
}
