/* dialect_args.h - between t_simt.c and dialect.cu. */
#ifndef DIALECT_ARGS_H
#define DIALECT_ARGS_H

enum {
	DIALECT_THREADS = 96,
	DIALECT_BLOCKS = 9,
	DIALECT_TICKETS = 50,
	DIALECT_SMEM = 4096,
	DIALECT_INTS = 1024 /* of which the allocation is full */
};

enum {
	SHUFFLES,
	BARRIERS,
	TICKETS,
	LAST_BLOCK,
	SHARED,
	GROUPS,
	COPIES,
	MATRIX_STEP,
	MATRIX_LOADS,
	NO_BARRIER,
	PARTS_WAYS,
	NEVER_MEETS,
	WRITES_BEHIND,
	READS_BEHIND,
	SPINS
};

/* Device memory; counter is where the allocation begins. */
struct dialect_args {
	int *counter, *out, *tickets, *by_block, *source;
	const unsigned short *a, *b; /* 16 x 16, 16 x 8 */
	const float *c;              /* 16 x 8 */
	float *d;
	int mode;
};

#endif
