/* device_lock.h - the lock of a device: one command at a time measures on it, of any user. */
#ifndef HARNESS_MACHINE_DEVICE_LOCK_H
#define HARNESS_MACHINE_DEVICE_LOCK_H

struct device_info;

struct device_lock {
	int fd; /* -1: not held */
};
/* Waits for the lock, at most patience_s. EXIT_DONE: held until lock_free or the end of the
 * process. EXIT_BUSY: another process holds it; complains with its pid and start. */
int lock_take(struct device_lock *, const struct device_info *, const char *command,
	      double patience_s);
void lock_free(struct device_lock *);

#endif
