/* empty.cu - a kernel that does nothing, with the arguments of a kernel of attention; -DSMALL=1:
 * with one word. What it costs is what asking the driver for a launch costs. */
#include "gpu.h"

#if SMALL
KERNEL(32) ENTRY(const long long)
{
}
#else
KERNEL(32) ENTRY(const attune_args)
{
}
#endif
