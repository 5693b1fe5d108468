/* builders.h - processes that compile while their parent does something else.
 *
 * The parent never waits for a compiler unless it needs that binary now, and it can stop all of
 * them at once. A builder puts what it makes into the cache (jit.c); the parent reads it there. */
#ifndef HARNESS_COMPILE_BUILDERS_H
#define HARNESS_COMPILE_BUILDERS_H

struct binaries;


/* Puts a binary into the queue, behind all that was asked for before. 0: no memory. */
int binaries_ask(struct binaries *, int index);
/* How many are in the queue and not begun. */
int binaries_waiting(const struct binaries *);
/* Hands out what is in the queue and takes back what is made, without waiting. */
void binaries_poll(struct binaries *);
/* Compiles these before all others and waits for them. 0: the user interrupted, it is too
 * late, or there is no compiler, which is said. */
int binaries_need(struct binaries *, const int *index, int n);
/* Whether the time that it may wait is over, see struct binaries. */
int binaries_too_late(const struct binaries *);
/* Stops builders where they are (1) and lets them go on (0): what runs on the CPU is not timed
 * next to a compiler. */
void binaries_hold(struct binaries *, int hold);
/* Kills the builders. What was asked for and is not made stays NOT_BUILT. */
void binaries_end(struct binaries *);

#endif
