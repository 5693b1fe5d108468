/* SPDX-License-Identifier: Apache-2.0 */
/* no_memory.c - a library for LD_PRELOAD: in the process of attune the allocation with the number
 * NO_MEMORY_AT, counted from 1, fails. At the end the process writes how many there were to the file
 * NO_MEMORY_LOG. In its child processes no allocation fails. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

static atomic_long allocations;
static long fails;
static int counts;

static void in_child(void)
{
	counts = 0;
}

__attribute__((constructor)) static void begin(void)
{
	const char *at = getenv("NO_MEMORY_AT");
	fails = at ? atol(at) : 0;
	counts = !strcmp(program_invocation_short_name, "attune");
	pthread_atfork(NULL, NULL, in_child);
}

__attribute__((destructor)) static void end(void)
{
	const char *log = counts ? getenv("NO_MEMORY_LOG") : NULL;
	const long n = allocations;
	FILE *f = log ? fopen(log, "w") : NULL;
	if (f) {
		fprintf(f, "%ld\n", n);
		fclose(f);
	}
}

static int is_the_one(void)
{
	if (!counts || ++allocations != fails)
		return 0;
	errno = ENOMEM;
	return 1;
}

void *malloc(size_t n)
{
	return is_the_one() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return is_the_one() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	return is_the_one() ? NULL : __libc_realloc(p, n);
}
