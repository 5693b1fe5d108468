/* builders.h - builders: processes that compile in the background.
 *
 * The parent waits for a binary only when it needs it, and can stop all compilers at once. A
 * builder writes binaries to the cache (jit.c), where the parent reads them. */
#ifndef HARNESS_COMPILE_BUILDERS_H
#define HARNESS_COMPILE_BUILDERS_H

struct binaries;

/* Appends a binary to the queue. 0: no memory. */
int binaries_ask(struct binaries *, int index);
/* Number of binaries in the queue that are not started. */
int binaries_waiting(const struct binaries *);
/* Assigns queued work and collects finished binaries, without waiting. */
void binaries_poll(struct binaries *);
/* Compiles these before all others and waits for them. 0: the user interrupted, `until` passed,
 * or there is no compiler (complains). */
int binaries_need(struct binaries *, const int *index, int n);
/* Whether `until` of struct binaries has passed. */
int binaries_too_late(const struct binaries *);
/* Suspends the builders (1) or resumes them (0), so that no compiler disturbs timing on the CPU. */
void binaries_hold(struct binaries *, int hold);
/* Kills the builders. Unfinished binaries stay NOT_BUILT. */
void binaries_end(struct binaries *);

#endif
