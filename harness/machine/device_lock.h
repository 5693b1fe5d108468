/* device_lock.h - one command at a time measures on a device of a machine, whoever starts it. */
#ifndef HARNESS_MACHINE_DEVICE_LOCK_H
#define HARNESS_MACHINE_DEVICE_LOCK_H

struct device_info;


struct device_lock {
	int fd; /* -1: not held */
};
/* Waits for the lock, at most so long. EXIT_DONE: held, until lock_free or the process's end,
 * however it ends. EXIT_BUSY: another process holds it; it has said which one, and since when.
 * EXIT_INTERRUPTED. */
int lock_take(struct device_lock *, const struct device_info *, const char *command,
	      double patience_s);
void lock_free(struct device_lock *);

#endif
