/* SPDX-License-Identifier: Apache-2.0 */
/* stacks.h - stacks on which the threads that call the library run cells, on x86-64 and AArch64: a
 * thread's own stack may be too small for the scratch of a cell. */
#ifndef KERNELS_DEVICE_CPU_STACKS_H
#define KERNELS_DEVICE_CPU_STACKS_H

struct stacks;

/* n stacks of pool_stack_bytes() bytes each; NULL: no memory. */
struct stacks *stacks_open(int n);
void stacks_close(struct stacks *stacks);

/* Calls f(arg) on one of the stacks; waits for one if all are in use. A call within a call stays on
 * the same stack. */
void stacks_call(struct stacks *stacks, void (*f)(void *arg), void *arg);

#endif
