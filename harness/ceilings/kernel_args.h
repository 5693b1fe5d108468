/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h - the arguments of ceilings.cu, shared with ceilings.c. */
#ifndef HARNESS_CEILINGS_KERNEL_ARGS_H
#define HARNESS_CEILINGS_KERNEL_ARGS_H

/* Reads `words` 16-byte words from `from`, or does `steps` matrix steps per warp. The result
 * depends on the work, so that no compiler removes it, and may go to `to`. */
struct ceiling_args {
	const void *from;
	unsigned *to;
	unsigned long long words;
	int steps;
};

enum { CEILING_THREADS = 512, CEILING_CHAINS = 8 /* of independent matrix steps */ };

#endif
