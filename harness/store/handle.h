/* SPDX-License-Identifier: Apache-2.0 */
/* handle.h - private to the store: its handle, its statements and how to run them. For
 * store*.c only; all others include store.h.
 *
 *   store_statement.c the SQL of statements, errors, transactions, the values of a row's columns
 *   store_names.c     names that rows refer to: scenarios, variants, sources
 *   store_dict.c      the tables of names, in memory
 *   store_schema.c    today's tables; migration
 *   store_write.c     runs, scenarios, measurements, ceilings, resources of binaries
 *   store_merge.c     joining databases; the committed form
 *   store_basis.c     the rules that a device's header started from
 *   store_bench.c     what attune bench timed
 *   store_settled.c   what the library settled by timing
 *   store_read.c      cells, noise, devices, ceilings, free queries
 *   store_bridge.c    bridges, and the sources that need them
 *   store_hash.c      the hash of a database's content
 *   store_sound.c     whether a database holds what attune wrote, and its texts may be printed
 *   store.c           opening and closing */
#ifndef HARNESS_STORE_HANDLE_H
#define HARNESS_STORE_HANDLE_H

#include "store.h"
#include "kernels/spec/device_info.h"
#include <sqlite3.h>
#include <stdio.h>

struct dict;
struct scenario;

// clang-format off
enum query {
	BEGIN, COMMIT, ROLLBACK,
	FIND_DEVICE, ADD_DEVICE, ADD_RUN, SET_COMMIT,
	FIND_SCENARIO, ADD_SCENARIO, LABEL_SCENARIO, ADD_WORK,
	FIND_FAMILY, ADD_FAMILY, FIND_CHOICE, ADD_CHOICE, FIND_VARIANT, ADD_VARIANT,
	FIND_CODE, ADD_CODE, FIND_BUILD, ADD_BUILD, FIND_ENDING, ADD_ENDING,
	FIND_RAN, ADD_RAN,
	FIND_RACE, ADD_RACE, RACE_READING,
	SUPERSEDE, ADD_MEASUREMENT, ADD_READING, ADD_FAILURE, ADD_SAMPLE,
	ADD_CONTROL, LAST_RACE, ADD_NOISY_ENDINGS, ADD_NOISY_RANS, DISBELIEVE,
	SUPERSEDE_OLDER, UNSUPERSEDE, ADD_STALE, ADD_NAMED, ADD_SPECIFIC, ADD_CEILING, CEILINGS,
	ADD_RESOURCES,
	RUN_IS_CPU, NEWEST, MEASURED, HAS, NOISE, DEVICE, DEVICE_NAMES, COUNT_ROWS,
	ALL_SCENARIOS, ALL_VARIANTS, ALL_BUILDS, ALL_ENDINGS, ALL_BRIDGES,
	CELLS, CELLS_READ, HAS_READINGS, HAS_RACE,
	BUILD_USES, DROP_BRIDGE, ADD_BRIDGE,
	ADD_BENCH, HAS_BENCH, SRC_HAS_BENCH, MERGE_BENCH, BENCH_OF,
	HAS_SETTLED, SRC_HAS_SETTLED, ADD_SETTLED_NAME, ADD_SETTLED, ADD_SETTLED_MEMBER,
	MERGE_SETTLED_NAMES, MERGE_SETTLED, MERGE_SETTLED_MEMBERS, SETTLED_OF, SETTLED_MEMBERS_OF, SETTLED_HASHED,
	SET_BASIS, GET_BASIS, HAS_BASIS, SRC_HAS_BASIS, BASES_OF,
	BRIDGES_OF, CONTROLS, DEVICE_LIMITS, RUNS_OF, CEILINGS_OF, UNSEAL, SEAL, SEALS, COUNT_SEALS,
	NUM_QUERIES
};
// clang-format on

enum { PATIENCE_MS = 30000 /* waiting for another process that writes */ };

struct store {
	sqlite3 *db;
	char *path;
	sqlite3_stmt *st[NUM_QUERIES];
	int wal, readonly;
	/* of the run that this handle began; before that 0 and "" */
	long long device;
	char gpu[GPU_NAME], protocol[32];
	const char *stage; /* as of store_stage */
	struct dict *dict; /* NULL before store_dict and after a write that may change it */
	int is_damaged;    /* already complained: it holds rows that attune does not write */
	int is_unclear;    /* already complained: none of its CPUs is chosen */
	long long cpu;     /* the one that is read; 0: not known yet */
	long long changes; /* rows that this handle had changed when the transaction began */
};

/* ---- store_statement.c: values ------------------------------------------------------- */
/* Complains about a damaged file, once per handle, and sets is_damaged; returns 0. */
int store_damaged(struct store *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Columns of the current row; the only way to read one. A value that is NULL, of another type or
 * outside lo..hi is damaged, and is returned as "", lo or NaN. */
const char *store_text(struct store *, sqlite3_stmt *, int column);
long long store_int(struct store *, sqlite3_stmt *, int column, long long lo, long long hi);
double store_real(struct store *, sqlite3_stmt *, int column, double lo, double hi);
/* The same for a column that may be NULL, which is returned as NaN. */
double store_maybe(struct store *, sqlite3_stmt *, int column, double lo, double hi);
/* Copies a text; one that does not fit is damaged. */
void store_copy(struct store *, sqlite3_stmt *, int column, char *to, size_t size);

/* ---- store_statement.c -------------------------------------------------------------- */
/* Complains about the handle's last error; returns 0. */
int store_explain(struct store *);
int store_execute(struct store *, const char *sql);

/* A statement with its values bound. kinds: s text, i int, l long long, d double (NaN: NULL),
 * b bytes and their number (0: NULL); values beyond the statement's parameters are ignored.
 * NULL + complain on failure; reset it when done. */
sqlite3_stmt *store_rows(struct store *, enum query, const char *kinds, ...);
/* Steps to the next row. 0: there is none, or *ok is 0; then the statement is reset, and *ok is 0 if the
 * rows are damaged or SQLite failed, which is complained of. */
int store_next(struct store *, sqlite3_stmt *, int *ok);
/* The first column of the first row; 0 if there are no rows, -1 + complain on failure. */
long long store_number(struct store *, enum query, const char *kinds, ...);
/* The id of the row that `find` finds, else of the row that `add` adds. */
long long store_intern(struct store *, enum query find, enum query add, const char *kinds, ...);

/* A write transaction, in WAL mode. store_end rolls back unless ok, and returns whether it
 * committed. It removes the seal if rows changed since store_begin. */
int store_enter_wal(struct store *);
int store_begin(struct store *);
int store_end(struct store *, int ok);

/* ---- store_names.c ------------------------------------------------------------------ */
/* add: ADD_SCENARIO, or FIND_SCENARIO to leave the database as it is. */
long long store_scenario_id(struct store *, const struct scenario *, enum query add);
/* text: "qblock BLOCK_M=16 ..."; or a plan, "prefill: ... | decode: ...". add: ADD_VARIANT or
 * FIND_VARIANT. 0: not found, -1 + complain. */
long long store_variant_id(struct store *, const char *text, enum query add);
long long store_phase_id(const char *phase); /* -1: none */
const char *store_phase_text(long long id);  /* id: 0 to NUM_PHASE_IDS - 1 */
const char *store_phase(enum phase);
long long store_stage_id(const char *stage); /* 0: none */
/* Today's sources of a choice or plan, in the form of table `code`: "reduce:HASH ring:HASH". */
enum { CODE_TEXT = 400 };
void store_code(char text[CODE_TEXT], enum backend, const char *choice);
/* Adds the SQL functions of migrate.sql: family_text(text), segments(text) and
 * family_digest(kernel, text). 0 + complain. */
int store_name_functions(struct store *);

/* ---- store_dict.c ------------------------------------------------------------------- */
enum { NUM_PHASE_IDS = 4 /* all, prefill, decode, plan */ };
struct dict_scenario {
	struct store_cell cell;                            /* its part of a cell */
	double bytes[NUM_PHASE_IDS], flops[NUM_PHASE_IDS]; /* NaN: not known */
	double steps;
};
struct dict_variant {
	char *kernel, *choice; /* as of store_cell; NULL: no such id */
};
struct dict_build {
	char *arch, *flags, *sources; /* NULL: no such id */
	enum freshness today;
};
struct dict_ending {
	char *outcome, *stopped; /* NULL: no such id; stopped "": not known */
	int samples;
};
struct dict {
	struct dict_scenario *scenario; /* [scenarios] as store_each orders them */
	struct dict_variant *variant;   /* [variants] by id, like the others below */
	struct dict_build *build;
	struct dict_ending *ending;
	long long scenarios, variants, builds, endings;
	long long device; /* 0: none, and builds are not read */
	enum query cells; /* reads a scenario's cells; without a join if no row has a reading */
	char *gpu, *arch; /* of the device */
};
/* The names that a device's rows refer to, read once; NULL + complain. */
const struct dict *store_dict(struct store *, long long device);
void store_forget(struct store *); /* frees it */
/* The least freshness of all sources of a build's code. */
enum freshness store_freshness(struct store *, const char *gpu, const char *arch, const char *flags,
			       const char *sources);
/* The source of one binary of a build. */
struct built_source {
	char kernel[64], hash[64];
	const char *flags, *arch, *gpu; /* the build's */
};
/* Reads the next source of "reduce:HASH ring:HASH"; 0 after the last. */
int next_source(const char **sources, struct built_source *);
/* Its freshness against today's source of that kernel. */
enum freshness store_source_today(struct store *, const struct built_source *);
/* The sources that a stored bridge leads to from this one, `most` at most; their number. */
int store_next_sources(struct store *, const struct built_source *, struct built_source *to,
		       int most);

/* ---- store_schema.c ---------------------------------------------------------------------- */
/* Creates today's tables in an empty database. 0 + complain. */
int store_create(struct store *);
/* Makes today's tables of those of version 8, within a transaction. 0 + complain. */
int store_migrate(struct store *);
/* Whether its tables are today's, and all its triggers, views and virtual tables attune's.
 * 0 + complain. */
int store_schema_is_sound(struct store *);

/* ---- store_read.c ------------------------------------------------------------------------ */
/* Whether all newest rows of a device can be read. 0 + complain. */
int store_can_read(struct store *, long long device);
/* 0: none; -1: failure. */
long long store_device_id(struct store *, const char *gpu);

/* ---- store_basis.c ------------------------------------------------------------------- */
/* Adds the basis rows of the attached database `src`. 0 + complain. */
int store_merge_basis(struct store *);

/* ---- store_bench.c ------------------------------------------------------------------- */
/* The same for rows of table bench. */
int store_merge_bench(struct store *);
/* Reduces table bench, and lists in temp.benched the runs that it keeps. 0 + complain. */
int store_compact_bench(struct store *);

/* ---- store_settled.c ----------------------------------------------------------------- */
/* The same for rows of tables settled, settled_name and settled_member. */
int store_merge_settled(struct store *);
/* Whether all of a device's can be read. 0 + complain. */
int store_can_read_settled(struct store *, long long device);

/* ---- store_write.c ------------------------------------------------------------------- */
/* A time above 0 as schema.sql has it; NaN stays NaN. */
double store_nanoseconds(double us);
/* The scenario's id, added with its labels if new; -1 + complain. */
long long store_labelled_scenario(struct store *, const struct scenario *);

/* ---- store_hash.c ------------------------------------------------------------------------ */
/* 32 hex digits: the hash of all rows of a device that headers are made from; with_all: also of
 * those that only pictures are made from. */
int store_hash_device(struct store *, long long device, int with_all, char hex[33]);

/* ---- store_sound.c ----------------------------------------------------------------------- */
/* Writes the hash of each device's content, within a transaction. 0 + complain. */
int store_seal(struct store *);
/* Runs a PRAGMA that checks the database. Its first row names an error; no row, or "ok": there is
 * none. wrong: the format of the complaint, for the length and text of that row. 0 + complain. */
int store_finds_nothing(struct store *, const char *pragma, const char *wrong);
/* Whether each text keeps the rule of its column, in tables and indices. 0 + complain. */
int store_texts_are_sound(struct store *);

#endif
