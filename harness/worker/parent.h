/* parent.h - the parent's side of a worker, shared by worker.c, worker_send.c and worker_race.c. */
#ifndef HARNESS_WORKER_PARENT_H
#define HARNESS_WORKER_PARENT_H

#include "records.h"
#include "worker.h"
#include <sys/types.h>

struct worker {
	const struct worker_setup *setup;
	pid_t pid; /* 0: no process */
	int socket;
	struct hello hello;
	char text[200];
	char *has; /* [num_built]: binaries that the process was sent */
	int num_built;
};

/* A contender that runs when the worker dies or stops answering need not be the cause: the system
 * kills processes when memory runs out, and users kill them. So a first loss is no result. The
 * contender runs alone in the next worker, for the fewest rounds possible. If that worker is lost
 * too, the contender is to blame; else all remaining contenders run again, including this one. */
struct race_attempts {
	struct worker *w;
	const struct order *order;
	const struct listener *listener;
	char *final; /* of each contender: has its result */
	char *lost;  /* of each contender: workers that were lost while it ran */
	int staged;  /* the contender under way; -1: none */
	int alone;   /* the contender that runs by itself; -1: all run */
	int losses;  /* workers lost since the last new result */
};

enum received { RECEIVED_MESSAGE, RECEIVED_HANGUP, RECEIVED_TIMEOUT, RECEIVED_INTERRUPT };

/* ---- worker.c ---- */
enum received worker_receive(struct worker *, struct message *, double deadline);
/* Kills the process if it runs. Leaves in w->text how it ended. */
void worker_stop(struct worker *);

/* ---- worker_send.c ---- */
/* How many contenders have no result yet and run in the next attempt. */
int attempts_remaining(const struct race_attempts *);
/* Sends these contenders and the binaries that the worker lacks. 0: failed. */
int attempts_send(const struct race_attempts *);

#endif
