/* bridge_worker.h - the messages of a worker of `attune bridge --race` to its parent. Both are the
 * same program, so messages are plain structs. */
#ifndef HARNESS_BRIDGE_BRIDGE_WORKER_H
#define HARNESS_BRIDGE_BRIDGE_WORKER_H

#include "bridge.h"
#include "harness/base/base.h"
#include "kernels/spec/device_info.h"

struct binaries;

enum { OLD, NEW, AGAIN, NUM_CONTENDERS };

/* Indices of the binaries of a contender; -1: none. */
struct code_set {
	int main, helper[NUM_HELPERS];
};

/* The first message. */
struct bridge_device {
	enum attune_status status;
	int is_emulated;
	char text[160], gpu[GPU_NAME], arch[16], name[80];
};

/* The result of a batch. */
struct bridge_result {
	enum outcome outcome; /* OUTCOME_OK, or the first failure */
	int which;            /* OLD or NEW */
	double us[NUM_CONTENDERS], ratio[NUM_CONTENDERS];
	char text[200];
};

/* Races the picks on the device of that GPU, each with the binaries of its code sets. picks NULL:
 * only sends the device's properties. Ends the process. */
void bridge_worker(int pipe_end, const char *gpu, const struct race_options *,
		   const struct binaries *, const struct picks *, const struct code_set (*)[2])
    __attribute__((noreturn));

#endif
