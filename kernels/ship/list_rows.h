/* SPDX-License-Identifier: Apache-2.0 */
/* list_rows.h - what list_shipped.c has listed so far. */
#ifndef KERNELS_SHIP_LIST_ROWS_H
#define KERNELS_SHIP_LIST_ROWS_H

#include "kernels/device/device.h"

extern const char *list_leave_out; /* rows that are not linked: words with blanks between them */

/* A row that is there already is not added. */
void list_add(enum backend, const char *arch, const char *kernel, const char *flags);
void list_print_make(void);
void list_print_table(void);

#endif
