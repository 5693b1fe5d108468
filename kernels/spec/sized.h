/* SPDX-License-Identifier: Apache-2.0 */
/* sized.h - reads and writes structs of programs that were compiled with another version of
 * attune.h. The calls of attune.h read and write the program's structs through these functions.
 * Nothing else in the library reads `size`. */
#ifndef KERNELS_SPEC_SIZED_H
#define KERNELS_SPEC_SIZED_H

#include "kernels/attune_settle.h"

struct sized {
	const char *name;    /* "attune_shape" */
	uint32_t first, now; /* its size in the first release that had sizes, and in this version */
};

/* The struct as this version has it: `given` if that is large enough, else `own`, with zeros for
 * the members that the program does not know. NULL: the size is invalid, or a member that this
 * version does not know is not 0; attune_last_error has the line, which begins with `call`. */
const void *sized_read(const struct sized *, const void *given, void *own, const char *call);
/* Where a call makes a struct for the program: `given` if its size is this version's, else `own`.
 * NULL: the size is invalid. */
void *sized_make(const struct sized *, void *given, void *own, const char *call);
/* Copies `made`, which has this version's size, to `given`, which keeps its own size. */
void sized_give(const struct sized *, void *given, const void *made);

/* NAME_read: as sized_read, without a call where the size is this version's. */
#define SIZED(name)                                                                                \
	extern const struct sized name##_sized;                                                    \
	static inline const attune_##name *name##_read(const attune_##name *given,                 \
						       attune_##name *own, const char *call)       \
	{                                                                                          \
		return given->size == sizeof *given ? given                                        \
						    : sized_read(&name##_sized, given, own, call); \
	}
SIZED(shape)
SIZED(batch)
SIZED(tensors)
SIZED(plan)
SIZED(page_lists)
SIZED(settle_how)
#undef SIZED

#endif
