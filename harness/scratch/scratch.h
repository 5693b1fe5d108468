/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.h - tables in memory, filled by C and queried in SQL; and the settings of every
 * connection to SQLite. */
#ifndef HARNESS_SCRATCH_SCRATCH_H
#define HARNESS_SCRATCH_SCRATCH_H

/* For a new connection: views and triggers of the database can call no function with side effects,
 * and no SQL can write to the table of the schema. 0: failure. */
struct sqlite3;
int sqlite_harden(struct sqlite3 *);

struct scratch;
/* Runs the statements that make the tables; NULL + complain. */
struct scratch *scratch_new(const char *schema);
/* Runs more of them. 0 + complain. */
int scratch_also(struct scratch *, const char *schema);
/* Attaches a database, which the store has opened and found sound, to be read in SQL as `as`. 0 + complain. */
int scratch_attach(struct scratch *, const char *path, const char *as);
void scratch_free(struct scratch *);
/* Adds a row to a table, or to "table(column, ...)". types: a letter for each of the values that
 * follow: i int, d double (NULL unless finite), s const char *. 0 + complain. */
int scratch_add(struct scratch *, const char *table, const char *types, ...);
/* Adds an aggregate of SQL, name(value, group): `answer` gets the pairs of all rows whose value is not
 * NULL, and may sort them; it has no side effects, so views may call it. NaN: NULL. 0 + complain. */
struct scratch_pair {
	double value;
	long long group;
};
typedef double (*scratch_aggregate)(struct scratch_pair *, int n);
int scratch_also_aggregate(struct scratch *, const char *name, scratch_aggregate answer);

/* A value of an answer: the first that is set of text, real and integer; is_null: none. */
struct scratch_value {
	const char *name; /* of the column */
	const char *text;
	double real;
	long long integer;
	int is_null, is_real;
};
/* Called for each row; `statement` counts those that have answers. 0 stops. */
typedef int (*scratch_row)(void *arg, int statement, const struct scratch_value *, int n);
/* Runs all statements of a text, then takes back what they changed, such as tables of their own; `name`
 * is for messages. 0 + complain. */
int scratch_ask(struct scratch *, const char *name, const char *sql, scratch_row, void *arg);

#endif
