/* SPDX-License-Identifier: Apache-2.0 */
/* cdna.h - executes code objects for gfx90a, gfx942 and gfx950 on the host, from the
 * disassembler's names of the instructions. Waves of a block take turns. Registers, LDS and
 * scratch memory begin with bits that no code should rely on. It does not model time, waits and
 * hazards. */
#ifndef TESTS_CDNA_CDNA_H
#define TESTS_CDNA_CDNA_H

#include <stddef.h>
#include <stdint.h>

struct cdna_code;

/* NULL once `error` says why not. */
struct cdna_code *cdna_load(const void *bytes, size_t size, const char *arch, const char *kernel,
			    char *error, size_t error_size);
void cdna_free(struct cdna_code *);
/* The disassembler in use, "" where there is none. */
const char *cdna_disassembler(void);

struct cdna_machine {
	/* The allocation that contains this address. 0: none. */
	int (*find)(void *state, uintptr_t address, uintptr_t *begin, uintptr_t *end);
	void *state;
	size_t lds;     /* bytes that a block may have */
	int seconds;    /* CPU time after which a launch is given up */
	unsigned units; /* CUs that blocks pretend to be on */
	unsigned seed;  /* of the order of turns; 0: in order */
};
/* 0: done; else `error` names the fault and the instruction. */
int cdna_launch(const struct cdna_code *, const unsigned grid[3], unsigned threads, unsigned lds,
		const void *args, size_t args_bytes, const struct cdna_machine *, char *error,
		size_t size);

/* ---- mistakes on purpose -------------------------------------------------------------- */

enum cdna_change {
	CDNA_DROP,   /* it does nothing */
	CDNA_SWAP,   /* operands 1 and 2 */
	CDNA_RENAME, /* it does what `other` does */
	CDNA_OFFSET  /* `offset` is added to its own */
};
struct cdna_mutant {
	const char *op; /* all of this name, or the nth of them */
	int nth;
	enum cdna_change change;
	const char *other;
	int offset;
};
/* For code that is loaded from now on; NULL: none. */
void cdna_mutate(const struct cdna_mutant *);
/* How many instructions were changed since. */
int cdna_mutations(void);

#endif
