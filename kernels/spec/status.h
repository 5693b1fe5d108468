/* SPDX-License-Identifier: Apache-2.0 */
/* status.h - how a call of the library fails. */
#ifndef KERNELS_SPEC_STATUS_H
#define KERNELS_SPEC_STATUS_H

#include "kernels/attune.h"

/* Sets the line of attune_last_error and returns status. In brackets: cmocka has a
 * macro of this name. */
enum attune_status(fail)(enum attune_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
