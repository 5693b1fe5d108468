/* code_object.h - what a code object of an AMD GPU says of a kernel in it. */
#ifndef HARNESS_COMPILE_CODE_OBJECT_H
#define HARNESS_COMPILE_CODE_OBJECT_H

#include <stddef.h>

struct code_object {
	int vgprs;   /* vector registers of a lane, AGPRs among them */
	int agprs;   /* of these */
	int sgprs;   /* of a wave */
	int spills;  /* registers of both kinds that went to memory */
	int scratch; /* bytes of memory of a lane, spills and arrays */
	int lds;     /* bytes of a block, but for what a launch adds */
};

/* NULL, else why it cannot be read; then nothing is known. Any bytes will do. */
const char *code_object_read(struct code_object *, const void *bytes, size_t size,
			     const char *kernel);

#endif
