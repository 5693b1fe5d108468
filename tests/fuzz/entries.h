/* SPDX-License-Identifier: Apache-2.0 */
/* entries.h - the parsers that are fed with arbitrary bytes: by libFuzzer (`make fuzz`), and by
 * replay.c in `make test`. */
#ifndef TESTS_FUZZ_ENTRIES_H
#define TESTS_FUZZ_ENTRIES_H

#include <stddef.h>

struct entry {
	const char *name; /* also the folder of its seeds */
	/* Reads the bytes as that parser's input. Aborts if it refuses them without one line. */
	void (*take)(const unsigned char *bytes, size_t n);
	int mutants; /* that `make test` makes of the seeds */
	int longest; /* bytes of an input */
};
extern const struct entry entries[];              /* ends with a NULL name */
const struct entry *entry_find(const char *name); /* NULL: unknown */

#endif
