/* SPDX-License-Identifier: Apache-2.0 */
/* ring_list.cu - the kernel ring_list. Its text is in ring_list_body.inc, since recorded steps and
 * mixed batches run it inside kernels of their own. */
#include "ring_list_body.inc"
