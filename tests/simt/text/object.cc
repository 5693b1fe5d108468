/* SPDX-License-Identifier: Apache-2.0 */
/* object.cc - compiles a kernel as a shared object of the host; -DSOURCE names its text. */
#ifdef __AMDGCN__
#include "hip.h"
#else
#include "cuda.h"
#endif

namespace
{
#include SOURCE
}

template <class T> static inline void call(void (*f)(T), const void *args)
{
	f(*(const T *)args);
}

template <class T> static constexpr size_t size_of_args(void (*)(T))
{
	return sizeof(T);
}

static void entry(const void *args)
{
	call(ENTRY, args);
}

extern "C" char __start_simt_shared[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_simt_shared[] __attribute__((weak, visibility("hidden")));
extern "C" const struct simt_kernel simt_exports = { entry, WARP, __start_simt_shared,
						     __stop_simt_shared, size_of_args(ENTRY) };
