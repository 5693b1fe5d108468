/* SPDX-License-Identifier: Apache-2.0 */
/* code_object.h - reads the resources of a kernel from an AMD GPU's code object. */
#ifndef HARNESS_COMPILE_CODE_OBJECT_H
#define HARNESS_COMPILE_CODE_OBJECT_H

#include <stddef.h>

struct code_object {
	int vgprs;   /* vector registers of a lane, including AGPRs */
	int agprs;   /* accumulation registers */
	int sgprs;   /* scalar registers of a wave */
	int spills;  /* registers of both kinds spilled to memory */
	int scratch; /* bytes of memory of a lane: spills and arrays */
	int lds;     /* bytes of a block, without the dynamic part */
};

/* Returns NULL, or the reason why it cannot be read; then all numbers are -1. Safe on any bytes. */
const char *code_object_read(struct code_object *, const void *bytes, size_t size,
			     const char *kernel);

#endif
