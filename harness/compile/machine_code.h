/* machine_code.h - hashes the machine code of a compiled kernel. */
#ifndef HARNESS_COMPILE_MACHINE_CODE_H
#define HARNESS_COMPILE_MACHINE_CODE_H

struct blob;

/* Hashes what the processor executes: contents, sizes and flags of the loaded sections,
 * relocations, and NVIDIA's attributes of registers, parameters and shared memory. Leaves out
 * names of symbols, symbol tables, debug data and notes. 0: not a readable ELF file. */
int machine_code(const struct blob *, char hex[33]);

#endif
