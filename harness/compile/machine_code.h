/* machine_code.h - what of a compiled kernel decides what the processor executes. */
#ifndef HARNESS_COMPILE_MACHINE_CODE_H
#define HARNESS_COMPILE_MACHINE_CODE_H

struct blob;


/* The hash of a binary's machine code: the contents, sizes and flags of the sections that are
 * loaded, relocations, and what NVIDIA's compiler says of registers, parameters and shared memory.
 * Names of symbols, symbol tables, debug data and notes do not count. 0: this is no ELF file that
 * we can read. */
int machine_code(const struct blob *, char hex[33]);

#endif
