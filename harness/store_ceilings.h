/* store_ceilings.h - what a device gives at most, without attention, in the database. */
#ifndef STORE_CEILINGS_H
#define STORE_CEILINGS_H

#include "harness.h"

/* Asked for in some way: "read", "path=async kib=64 blocks=132", "GB/s" or "us". Texts are the
 * database's while `each` runs. */
struct ceiling {
	const char *name, *detail, *unit;
	double value;
};

/* All of them or none; 0 + complain. */
int store_ceilings(struct store *, long long run, const struct ceiling *, int n);
/* Those of the newest run that has measured some on a device of that short name. */
int store_each_ceiling(struct store *, const char *gpu, int (*each)(void *, const struct ceiling *),
		       void *arg);

#endif
