/* kernel_args.h - between ceilings.c and ceilings.cu. */
#ifndef HARNESS_CEILINGS_KERNEL_ARGS_H
#define HARNESS_CEILINGS_KERNEL_ARGS_H

/* Reads `words` 16-byte words from `from`, or does `steps` matrix steps a warp; the
 * result goes to `to`, so that no compiler leaves the work out. */
struct ceiling_args {
	const void *from;
	unsigned *to;
	unsigned long long words;
	int steps;
};

enum { CEILING_THREADS = 512, CEILING_CHAINS = 8 /* of independent matrix steps */ };

#endif
