/* parent.h - the parent's side of a worker, shared by worker.c and worker_race.c. */
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

enum received { RECEIVED_MESSAGE, RECEIVED_HANGUP, RECEIVED_TIMEOUT, RECEIVED_INTERRUPT };

/* ---- worker.c ---- */
enum received worker_receive(struct worker *, struct message *, double deadline);
/* Kills the process if it runs. Leaves in w->text how it ended. */
void worker_stop(struct worker *);

#endif
