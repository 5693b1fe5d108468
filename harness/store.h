/* store.h - inside the store: its handle, its statements and how to run them. For
 * store*.c only; all others see harness.h.
 *
 *   store.c        opening, migration, errors, statements
 *   store_names.c  scenarios, phases and sources as rows name them
 *   store_write.c  runs, scenarios, measurements, merging
 *   store_takes.c  what binaries take, where nothing was measured
 *   store_ceilings.c  what a device gives at most
 *   store_read.c   cells, hashes, devices, free queries */
#ifndef STORE_H
#define STORE_H

#include "harness.h"
#include <sqlite3.h>

/* The text of a file as a string; paths are from the repository's root. */
#define EMBED(name, file)                                                                          \
	__asm__(".pushsection .rodata\n" #name ":\n.incbin \"" file "\"\n.byte 0\n.popsection\n"); \
	extern const char name[];

// clang-format off
enum query {
	BEGIN, COMMIT, ROLLBACK,
	FIND_DEVICE, ADD_DEVICE, ADD_RUN,
	FIND_SCENARIO, ADD_SCENARIO, LABEL_SCENARIO,
	FIND_VARIANT, ADD_VARIANT, FIND_BUILD, ADD_BUILD, ADD_MEASUREMENT,
	ADD_CONTROL, ADD_CEILING, CEILINGS, ADD_RESOURCES,
	RUN_IS_CPU, NEWEST, HAS, EACH, HASH, NOISE, DEVICE,
	NUM_QUERIES
};
// clang-format on

struct store {
	sqlite3 *db;
	char *path;
	sqlite3_stmt *st[NUM_QUERIES];
	int wal;
	/* of the run begun by this handle; 0 and "" before */
	long long device;
	char gpu[16], protocol[32];
	const char *stage; /* of rows that are written, and of the pass asked for */
};

/* One line for the handle's last error; returns 0. */
int store_explain(struct store *);
int store_execute(struct store *, const char *sql);

/* A statement with its values. kinds: s text, i int, l long long, d double (NaN: NULL),
 * b bytes and their number (0: NULL); values that the statement has no place for are
 * left out. NULL + complain on failure; reset it when done. */
sqlite3_stmt *store_rows(struct store *, enum query, const char *kinds, ...);
/* The first column of the first row; 0 when there is none, -1 + complain on failure. */
long long store_number(struct store *, enum query, const char *kinds, ...);
/* The id of the row that `find` finds, or else of the one that `add` adds. */
long long store_intern(struct store *, enum query find, enum query add, const char *kinds, ...);

/* A write transaction, in WAL mode; `end` rolls back unless ok, and returns whether
 * the work is committed. */
int store_enter_wal(struct store *);
int store_begin(struct store *);
int store_end(struct store *, int ok);

/* Those of the attached database `src`, whose runs are here. */
int store_merge_ceilings(struct store *);
/* add: ADD_SCENARIO, or FIND_SCENARIO to leave the database as it is. */
long long store_scenario_id(struct store *, const struct scenario *, enum query add);
const char *store_phase(enum phase);
/* What tells one version of the code from the next, of a choice or a plan as text: the
 * hash of the kernel's sources, of a plan both its kernels'. "" without sources. */
void store_source(char hex[33], enum backend, const char *text);

#endif
