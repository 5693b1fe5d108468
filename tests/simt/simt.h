/* SPDX-License-Identifier: Apache-2.0 */
/* simt.h - a grid of GPU threads run on the host: what a kernel's code and the machine that
 * runs it know of each other.
 *
 * Every GPU thread is a fiber of one OS thread. A fiber runs until it meets others:
 *
 *   simt_meet     lanes of a warp: shuffles, votes, matrix steps. The last one to come does
 *                 the work for all; operands lie on the lanes' stacks.
 *   simt_barrier  threads of a block
 *   simt_pause    nobody: others of the block, and other blocks, may go first
 *
 * Some blocks are resident at a time, each with its own shared memory, which begins as NaNs.
 * Static shared memory is one section of the kernel's object and is swapped when another
 * block's thread goes on. Blocks take turns at simt_pause. */
#ifndef TESTS_SIMT_SIMT_H
#define TESTS_SIMT_SIMT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SIMT_MOST_LANES = 64, SIMT_POISON = 0xff };

enum simt_op {
	SIMT_NONE,
	SIMT_SYNCWARP,
	SIMT_SHUFFLE,
	SIMT_VOTE,
	SIMT_LOAD_MATRICES,
	SIMT_MMA,
	SIMT_MFMA,
	SIMT_PRODUCT,
	SIMT_NUM_OPS
};

struct simt_dim {
	unsigned x, y, z;
};

/* Operands of the meetings; `out` members are written by the last lane to come. */
struct simt_shuffle {
	uint64_t in, out;
	int from; /* lane */
};
struct simt_vote {
	uint64_t in;
	uint64_t all[SIMT_MOST_LANES]; /* out: of each lane */
	uint64_t present;              /* out: lanes that took part */
};
struct simt_matrices {
	uint32_t address;
	int transposed, count;
	uint32_t out[4];
};
struct simt_mma {
	int is_bf16;
	uint32_t a[4], b[2];
	float c[4]; /* in and out */
};
/* AMD's: side x side products, of operands of `each` 16-bit values a lane. */
struct simt_mfma {
	int is_bf16, side, each;
	uint16_t a[8], b[8];
	float c[16]; /* in and out; side * side / 64 of them */
};

/* NVIDIA's by warpgroups (kernels/gpu/warpgroup/warpgroup_products.h): matrices a and b by their
 * 64 bits; held: a's in registers instead, or null. */
struct simt_product {
	int is_bf16, columns, add;
	uint64_t a, b;
	const uint32_t *held;
	float *d; /* in and out */
};

/* A thread's identity, which its code reads. */
struct simt_thread_view {
	struct simt_dim thread, block;
	int lane, warp;
	unsigned unit; /* the SM that it pretends to be on */
};
extern struct simt_thread_view *simt_now;
extern struct simt_dim simt_grid, simt_block;

void simt_meet(enum simt_op op, uint64_t mask, void *operand);
/* count 0: all live threads. Returns the sum of `in` over those that arrived. */
unsigned simt_barrier(int id, unsigned count, unsigned in);
void simt_arrive(int id, unsigned count); /* comes, but does not wait */
/* The same among the threads of a cluster: each comes, and later waits for all. */
void simt_cluster_arrive(void);
void simt_cluster_wait(void);
/* Dynamic shared memory of another block, where this one has `address`; dies when outside. */
void *simt_cluster_pointer(uint32_t address, int rank, size_t bytes);
void simt_pause(void);
/* Until the launch in front is over; at once where this one began in turn. */
void simt_front_wait(void);
/* The launch ends here with this text. */
__attribute__((noreturn, format(printf, 1, 2))) void simt_die(const char *format, ...);

/* Dynamic shared memory of this thread's block; addresses as the code sees them. */
void *simt_dynamic(void);
uint32_t simt_shared_address(const void *);
void *simt_shared_pointer(uint32_t address, size_t bytes); /* dies when outside */
int simt_is_shared(const void *);

/* A copy that arrives when it is waited for, no sooner; until then its target is NaN. */
void simt_copy_async(uint32_t to, const void *from, size_t bytes, size_t valid);
void simt_copies_commit(void);
void simt_copies_wait(int pending); /* -1: also for those not committed */

float simt_from_half(uint16_t bits);
uint16_t simt_to_half(float);
uint16_t simt_to_bfloat(float);
long long simt_clock(void);

/* ---- for those who launch --------------------------------------------------------------- */

struct simt_kernel {
	void (*entry)(const void *args);
	int lanes;                       /* of a warp: 32 or 64 */
	char *shared_begin, *shared_end; /* static shared memory */
	size_t args_bytes;               /* of the struct that `entry` is given */
};
/* Memory in use by the launch in front of an early one: its outputs (is_new), or memory that
 * must not be written before it is over. */
struct simt_pending {
	void *at;
	size_t bytes;
	int is_new;
};
struct simt_options {
	unsigned seed;    /* 0: warps and blocks in order; else in a random one, with lost turns */
	int resident;     /* blocks at a time */
	int seconds;      /* CPU time after which a launch is given up */
	unsigned units;   /* SMs that the resident blocks pretend to be on */
	unsigned cluster; /* blocks of one, along y; 0: each block is one by itself */
	const struct simt_pending *pending; /* 0 of them: the launch begins in turn */
	int num_pending;
};
/* 0: done; else `error` names the fault and the place. */
int simt_launch(const struct simt_kernel *, struct simt_dim grid, unsigned threads, unsigned smem,
		const void *args, const struct simt_options *, char *error, size_t size);

/* A map of K or V (kernels/args_maps.h) as this GPU reads it. Strides in elements. */
struct simt_map {
	const void *base;
	long long slot_stride, head_stride;
	int head_size, num_heads, box, piece, group_slots;
	long long num_slots; /* of warpgroup_ragged's map; else 0 */
};

#ifdef __cplusplus
}
#endif
#endif
