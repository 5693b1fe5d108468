/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - the words of what was settled, for its writer and its reader. */
#ifndef KERNELS_SETTLE_TEXT_TEXT_H
#define KERNELS_SETTLE_TEXT_TEXT_H

#include "kernels/settle/store.h"

#define SETTLED_FIRST_LINE "attune settled 1"

/* "series", "streams", "sparing16" .. "sparing112", "one_launch", "fused", "rules"; NULL: no way. */
const char *way_name(int way);
extern const char *const kind_names[CELL_MIXED + 1];

/* A name between quotation marks, with ? for each character that a text must not have. */
enum { QUOTED_TEXT = 100 };
void quoted(char text[QUOTED_TEXT], const char *name);

#endif
