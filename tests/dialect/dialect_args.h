/* SPDX-License-Identifier: Apache-2.0 */
/* dialect_args.h - the arguments that t_simt.c passes to dialect.cu. */
#ifndef TESTS_SIMT_DIALECT_ARGS_H
#define TESTS_SIMT_DIALECT_ARGS_H

enum {
	DIALECT_THREADS = 128,
	DIALECT_BLOCKS = 9,
	DIALECT_TICKETS = 50,
	DIALECT_SMEM = 4096,
	DIALECT_INTS = 4096 /* of which the allocation is full */
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
	MATRIX_TURNED,
	CLUSTERS,
	MATRIX_STEP_32,
	LANE_ROWS,
	NUMBERS,
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
	const unsigned short *a, *b; /* of a matrix step, whole rows; 256 at most */
	const float *c;              /* 1024 at most */
	float *d;
	int mode;
};

#endif
