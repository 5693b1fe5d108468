/* emit.h - what the files that write a header share; for emit*.c only. */
#ifndef EMIT_H
#define EMIT_H

#include "tuner.h"
#include <stdio.h>

struct emitter {
	FILE *out;
	const struct forest *f;
	const struct data *d;
	char upper[16]; /* H200 */
};

void emit_top(const struct emitter *);     /* emit_top.c */
int emit_binaries(const struct emitter *); /* emit_binaries.c; 0 without memory */
/* exp of what a unit of weight costs on average. */
double mean_slowdown(long long cost, long long weight);

#endif
