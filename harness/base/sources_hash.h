/* SPDX-License-Identifier: Apache-2.0 */
/* sources_hash.h - the hash of the sources that a binary is built from. Includes nothing of ours: make
 * compiles it before anything else. */
#ifndef HARNESS_BASE_SOURCES_HASH_H
#define HARNESS_BASE_SOURCES_HASH_H

#include <stdio.h>

enum { SOURCES_HASH = 41 /* hex digits of SHA-1, and the end */ };
enum { NUM_BUILT_PARTS = 4, NUM_COMPILED_PARTS = 2 };
/* Paths in the tree: of what the tool is built from; of what it compiles, or runs by Python, while it
 * runs. */
extern const char *const built_parts[NUM_BUILT_PARTS];
extern const char *const compiled_parts[NUM_COMPILED_PARTS];

/* The hash of the sources below `top`. 0: there are none, or one cannot be read. */
int sources_hash(const char *top, const char *const part[], int parts, char hex[SOURCES_HASH]);
/* The same of a commit, by the lines of its files in the output of `git fast-export`. */
int listing_hash(const char *listing, const char *const part[], int parts, char hex[SOURCES_HASH]);

/* built_from.c: the hash that the tool was built with. */
const char *built_from(void);

#endif
