/* empty.cu - a kernel that does nothing, to measure the driver's cost of a launch. It has the
 * arguments of an attention kernel; with -DSMALL=1, one word. */
#include "../gpu.h"

#if SMALL
KERNEL(32) ENTRY(const long long)
{
}
#else
KERNEL(32) ENTRY(const attune_args)
{
}
#endif
