/* cuda_sides.h - streams beside a caller's, made once and lent from fork to join; and
 * the driver calls by which all CUDA code goes. */
#ifndef ATTUNE_CUDA_SIDES_H
#define ATTUNE_CUDA_SIDES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct cuda_api {
#define CU_FN(ours, symbol, arguments) int(*ours) arguments;
#include "cuda_api.def"
#undef CU_FN
};

enum { NUM_SIDES = 8 };

/* A side belongs for good to the first stream that it was lent to: were it shared, work of
 * one stream would wait for work of another, and a stream that is captured would draw one
 * that is not into its capture. */
struct side {
	_Atomic uintptr_t owner; /* the stream's handle + 1; 0: nobody's yet */
	atomic_flag lent;        /* two threads may launch on one stream */
	void *stream, *event;
};
struct sides {
	const struct cuda_api *cu;
	struct side v[NUM_SIDES];
};

/* With the device's context current; errors are the driver's. sides_close also after a
 * sides_open that failed. */
int sides_open(struct sides *, const struct cuda_api *);
void sides_close(struct sides *);
/* The verbs of device.h. */
int sides_fork(struct sides *, void *stream, void **side);
int sides_join(struct sides *, void *stream, void *side);

#endif
