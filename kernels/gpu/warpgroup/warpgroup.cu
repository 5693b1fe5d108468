/* warpgroup.cu - the kernel warpgroup. Its text is in a header since mixed batches run it inside a
 * kernel of their own. */
#include "warpgroup_body.h"
