/* SPDX-License-Identifier: Apache-2.0 */
/* libfuzzer.c - what libFuzzer calls: the entry that FUZZ_ENTRY names. */
#include "entries.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { MOST_OPTIONS = 100 };

static const struct entry *entry;

/* Adds the option -max_len=, as each entry has its own. */
static void limit_length(int *argc, char ***argv)
{
	static char option[32], *longer[MOST_OPTIONS + 2];
	if (*argc > MOST_OPTIONS)
		return;
	snprintf(option, sizeof option, "-max_len=%d", entry->longest);
	memcpy(longer, *argv, (size_t)*argc * sizeof *longer);
	longer[(*argc)++] = option;
	*argv = longer;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *name = getenv("FUZZ_ENTRY");
	(void)argc;
	entry = name ? entry_find(name) : NULL;
	if (!entry) {
		fprintf(stderr, "%s: FUZZ_ENTRY= names no entry of tests/fuzz/entries.c\n",
			(*argv)[0]);
		exit(2);
	}
	limit_length(argc, argv);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	entry->take(bytes, n);
	return 0;
}
