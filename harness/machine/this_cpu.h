/* this_cpu.h - the CPU of this machine, as rows of a database name it. */
#ifndef HARNESS_MACHINE_THIS_CPU_H
#define HARNESS_MACHINE_THIS_CPU_H

#include "kernels/spec/device_info.h"

enum { MACHINE_ID = 17 };
/* A hash of the bytes: equal bytes have equal ids, and an id reveals nothing else. */
void anonymous_id(char id[MACHINE_ID], const void *bytes, size_t n);
/* Identifies this machine; "" if the system has no machine id. */
void machine_id(char id[MACHINE_ID]);
/* Describes this machine's CPU. 0: it cannot be used, such as if ATTUNE_THREADS is no number. */
int this_cpu(struct device_info *);
/* Whether this machine's CPU has this name, these instruction sets and this number of threads. */
int is_this_cpu(const char *name, const char *arch, int units);

#endif
