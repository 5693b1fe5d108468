/* bridge_racer.h - between the parent and the racers of `attune bridge --race`. Both are the same
 * program, so what a racer says are plain structs. */
#ifndef HARNESS_BRIDGE_BRIDGE_RACER_H
#define HARNESS_BRIDGE_BRIDGE_RACER_H

#include "bridge.h"
#include "harness/base/base.h"
#include "kernels/spec/device_info.h"

struct binaries;

enum { OLD, NEW, AGAIN, NUM_RACERS };

/* Numbers of the binaries that a racer is made of; -1: none. */
struct code_set {
	int main, helper[NUM_HELPERS];
};

/* The first that it says. */
struct device_said {
	enum attune_status status;
	int is_emulated;
	char text[160], gpu[GPU_NAME], arch[16], name[80];
};

/* Of a batch. */
struct said {
	enum outcome outcome; /* the first that was not right */
	int who;              /* OLD or NEW */
	double us[NUM_RACERS], ratio[NUM_RACERS];
	char text[200];
};

/* Races the picks on the device of that GPU, the binaries of each being those of its code sets. picks
 * NULL: says what the device is, and no more. Ends the process. */
void bridge_racer(int pipe_end, const char *gpu, const struct race_options *,
		  const struct binaries *, const struct picks *, const struct code_set (*)[2])
    __attribute__((noreturn));

#endif
