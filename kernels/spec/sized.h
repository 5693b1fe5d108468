/* sized.h - structs of programs that were compiled with another version of attune.h. The calls of
 * attune.h read and write their structs through these functions; inside of the library sizes mean
 * nothing. */
#ifndef KERNELS_SPEC_SIZED_H
#define KERNELS_SPEC_SIZED_H

#include "kernels/attune_record.h"

struct sized {
	const char *name;    /* "attune_shape" */
	uint32_t first, now; /* its size in the first release that had sizes, and in this version */
};

/* The struct as this version has it: `given` if that is long enough, else `own` with zeros behind
 * what the program knows. NULL: its size is none, or a newer program asks for what this library does
 * not know; attune_last_error has the line, which begins with `call`. */
const void *sized_read(const struct sized *, const void *given, void *own, const char *call);
/* Where to make a struct for the program: `given` if its size is this version's, else `own`. NULL: its
 * size is none. */
void *sized_make(const struct sized *, void *given, void *own, const char *call);
/* Gives it to the program: `made` is in this version's size, and `given` keeps its own. */
void sized_give(const struct sized *, void *given, const void *made);

/* name_read: as sized_read. Most programs have this version's size. */
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
SIZED(bounds)
SIZED(plan)
#undef SIZED

#endif
