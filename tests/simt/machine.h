/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h - between the files that run a grid:
 *
 *   launch.c    blocks come and go; signals
 *   fibers.c    whose turn it is
 *   stacks.c    from one's stack to another's
 *   warp_collectives.c  of the lanes of a warp
 *   barriers.c  of the threads of a block
 *   preceding_launch.c     a launch in front that is not over yet
 *   memory.c    shared memory, asynchronous copies, rounding to 16 bits
 *   failure_report.c      what is said of a launch that cannot go on
 *
 * One launch at a time, in one OS thread. */
#ifndef TESTS_SIMT_MACHINE_H
#define TESTS_SIMT_MACHINE_H

#include "simt.h"

enum {
	MAX_THREADS = 1024,
	MAX_WARPS = MAX_THREADS / 32,
	MAX_RESIDENT = 16,
	BARRIERS = 16,
	TAIL = 4096,               /* guard behind a block's dynamic shared memory */
	WINDOW_OPEN = 256 << 10,   /* of that memory, accessible: with its tail */
	STATIC_WINDOW = 0x8000000, /* addresses of static shared memory, not memory */
	AT_CLUSTER = BARRIERS      /* the place where a thread waits for its cluster */
};

struct copy {
	char *to;
	const void *from;
	size_t bytes, valid;
	int group;
};

struct fiber {
	struct simt_thread_view view; /* first: simt_now points here */
	void *sp;
	struct block *home;
	enum simt_op op; /* that it waits in */
	uint64_t mask;
	void *operand;
	unsigned barrier_sum;
	unsigned clusters_come; /* how often it came to where its cluster meets */
	void *pc;               /* of the last call from the kernel */
	struct copy *copy;
	int first_copy, num_copies, room, committed;
};

struct warp {
	uint64_t ready, waiting, at_barrier, gone; /* sets of lanes */
	struct fiber *lane;
};

struct barrier {
	unsigned count, came, sum;
};

struct block {
	struct fiber fiber[MAX_THREADS];
	struct warp warp[MAX_WARPS];
	struct barrier barrier[BARRIERS + 1]; /* the last: AT_CLUSTER */
	int waits_at[MAX_THREADS];            /* barrier, by thread */
	int order[MAX_WARPS];                 /* in which warps are asked for a turn */
	int num_warps, turn, slot;
	unsigned threads, live;
	char *stacks, *shared, *static_copy;
	size_t static_room;
	/* of a cluster, in its block 0: arrivals since the last meeting, and how many there were */
	unsigned cluster_came, cluster_met;
};

struct machine {
	struct block *resident[MAX_RESIDENT];
	int num_resident, turn, lanes; /* lanes: of a warp */
	int cluster;                   /* blocks of one: slots that are filled at once */
	struct block *ended;           /* the fiber that called the launch */
	struct block *mapped;          /* the block whose static shared memory is in the section */
	const struct simt_kernel *kernel;
	const void *args;
	unsigned smem, random; /* random 0: all in order */
	long long ticks;
	void *main_sp;
	int is_dead;
};
extern struct machine machine;

static inline struct fiber *me(void)
{
	return (struct fiber *)simt_now;
}
static inline struct warp *my_warp(void)
{
	return &me()->home->warp[me()->view.warp];
}
static inline uint64_t all_lanes(void)
{
	return ~0ull >> (64 - machine.lanes);
}
/* Blocks of a cluster are neighbours among those that are resident. */
static inline struct block **my_cluster(void)
{
	const struct block *b = me()->home;
	return &machine.resident[b->slot / machine.cluster * machine.cluster];
}
static inline size_t static_bytes(void)
{
	return (size_t)(machine.kernel->shared_end - machine.kernel->shared_begin);
}

/* ---- stacks.c --------------------------------------------------------------------------- */
/* Switches to where `to` was left, and returns when another fiber switches to *save. */
void switch_stack(void **save, void *to);
void *fresh_stack(char *top, void (*begin)(void)); /* `begin` must not return */

/* ---- fibers.c --------------------------------------------------------------------------- */
void go(void **save, struct fiber *);
struct fiber *ready_in_block(struct block *); /* NULL: nobody */
struct fiber *ready_anywhere(void);           /* NULL: a deadlock, which is reported */
void let_others(void);                        /* the caller is not ready */
void shake(void);                             /* with a seed, a warp may lose its turn */
unsigned random_turn(void);

typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));

/* sign | 5 bits of exponent, 15 more than it is | 10 bits; a float's is 127 more */
static inline float widened(int is_bf16, uint16_t bits)
{
	const uint32_t rest = bits & 0x7fff, sign = (uint32_t)(bits & 0x8000) << 16;
	uint32_t wide = is_bf16 ? (uint32_t)bits << 16 : rest << 13;
	float f;
	__builtin_memcpy(&f, &wide, sizeof f);
	if (is_bf16)
		return f;
	f *= 0x1p112f;
	__builtin_memcpy(&wide, &f, sizeof wide);
	wide |= sign | (rest >= 0x7c00 ? 0x7f800000 : 0); /* infinity, NaN */
	__builtin_memcpy(&f, &wide, sizeof f);
	return f;
}

/* ---- warp_collectives.c, barriers.c ------------------------------------------------------------- */
int try_finish(struct warp *, struct fiber *); /* the meeting that the fiber waits in */
void product(struct warp *, uint64_t lanes);   /* products.c: SIMT_PRODUCT */
void try_release(struct block *);              /* barriers of all live threads */

/* ---- preceding_launch.c ---------------------------------------------------------------------------- */
void front_begin(const struct simt_options *);
void front_end(void); /* with the launch behind it, at the latest */
int front_writes(const void *from, size_t bytes);

/* ---- failure_report.c ----------------------------------------------------------------------------- */
/* The launch is dead of this; called from anywhere. */
__attribute__((format(printf, 1, 2))) void tell(const char *format, ...);
void note_place(void *pc); /* in the code, that the text is about */
const char *describe(const struct fiber *, char *text, size_t size);
void tell_deadlock(void);
void death_certificate(char *text, size_t size); /* with the places; and forgets it */
extern const char *const op_names[SIMT_NUM_OPS];

#endif
