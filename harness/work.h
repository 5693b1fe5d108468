/* work.h - what a worker and its parent say to each other: records of one size over a
 * socket. Both are the same program, so they are plain structs. */
#ifndef WORK_H
#define WORK_H

#include "sweep.h"
#include <limits.h>

enum word {
	SAYS_HELLO,
	SAYS_STAGE,  /* begins something that may not come back */
	SAYS_PASSED, /* the corner batches */
	SAYS_RESULT,
	SAYS_CONTROL, /* of the lane `index` */
	SAYS_DONE,
	SAYS_CANNOT /* this heat */
};

struct said {
	unsigned bytes; /* sizeof (struct said) */
	enum word word;
	int index; /* of the order's lanes; -1: of none */
	union {
		struct hello hello;
		double patience_s; /* of SAYS_STAGE */
		struct {
			int failed_gate;
			struct measurement m;
		} result;
		struct control control; /* of: not the lane's number */
		char text[200];         /* of SAYS_CANNOT */
	};
};
_Static_assert(sizeof(struct said) <= PIPE_BUF, "a record must be written in one piece");

/* Followed by `n` entries. */
struct task {
	unsigned bytes; /* sizeof (struct task) */
	int n, fixed_rounds, with_control;
	double seconds;
	unsigned long long seed;
};
struct entry {
	int index;
	struct lane lane;
};

/* All or nothing; 0: the other end is gone. */
int work_send(int socket, const void *bytes, size_t n);
int work_receive(int socket, void *bytes, size_t n);

/* work.c: the life of a worker; its parent's end of the socket is closed. */
void work(const struct worker_setup *, int socket) __attribute__((noreturn));

#endif
