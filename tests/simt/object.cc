/* object.cc - a kernel as a shared object of the host; -DSOURCE names its text. */
#include "cuda.h"

namespace
{
#include SOURCE
}

static void entry(const void *args)
{
	simt_call(ENTRY, args);
}

extern "C" const struct simt_kernel simt_exports = { entry, __start_simt_shared,
						     __stop_simt_shared };
