/* this_cpu.h - the CPU of this machine, as rows of a database name it. */
#ifndef HARNESS_MACHINE_THIS_CPU_H
#define HARNESS_MACHINE_THIS_CPU_H

#include "kernels/spec/device_info.h"

enum { MACHINE_ID = 17 };
/* A hash of some bytes: the same thing has the same id, and the id reveals nothing else. */
void anonymous_id(char id[MACHINE_ID], const void *bytes, size_t n);
/* Identifies this machine; "" if the system has no machine id. */
void machine_id(char id[MACHINE_ID]);
/* 0: it cannot be used, such as with an ATTUNE_THREADS that is no number. */
int this_cpu(struct device_info *);
/* Whether it has that name, these instruction sets and so many threads. */
int is_this_cpu(const char *name, const char *arch, int units);

#endif
