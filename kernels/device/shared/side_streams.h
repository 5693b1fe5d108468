/* SPDX-License-Identifier: Apache-2.0 */
/* side_streams.h - side streams of a GPU for concurrent launches, made once and lent from fork to
 * join. */
#ifndef KERNELS_DEVICE_SHARED_SIDE_STREAMS_H
#define KERNELS_DEVICE_SHARED_SIDE_STREAMS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The calls that CUDA and HIP have in common. */
struct side_calls {
	int (*PriorityRange)(int *least, int *greatest);
	int (*StreamCreatePrior)(void **stream, unsigned flags, int priority);
	int (*StreamFollow)(void *stream, void *event, unsigned flags);
	int (*StreamDestroy)(void *stream);
	int (*EventCreate)(void **event, unsigned flags);
	int (*EventDestroy)(void *event);
	int (*EventRecord)(void *event, void *stream);
};
/* Of a struct with members of these names. */
#define SIDE_CALLS(api)                                                                           \
	{                                                                                         \
		(api).PriorityRange, (api).StreamCreatePrior, (api).StreamFollow,                 \
		    (api).StreamDestroy, (api).EventCreate, (api).EventDestroy, (api).EventRecord \
	}

enum { NUM_SIDES = 8 };

/* A side belongs permanently to the first stream that it was lent to. If it were shared, work of
 * one stream would wait for that of another, and a captured stream would pull another one into its
 * capture. */
struct side {
	_Atomic uintptr_t owner; /* the stream's handle + 1; 0: not lent yet */
	atomic_flag lent;        /* two threads may launch on one stream */
	void *stream, *event;
};
struct sides {
	struct side_calls call;
	struct side v[NUM_SIDES];
};

/* With the device's context current; errors are the driver's. sides_close also after a
 * sides_open that failed. */
int sides_open(struct sides *, const struct side_calls *);
void sides_close(struct sides *);
/* The operations of device.h. */
int sides_fork(struct sides *, void *stream, void **side);
int sides_join(struct sides *, void *stream, void *side);

#endif
