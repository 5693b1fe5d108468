/* SPDX-License-Identifier: Apache-2.0 */
/* texts.h - hostile bytes in the texts of a database: a small valid database gets a text in one column,
 * then what attune prints and writes from it is checked. texts_base.c makes the database, texts.c
 * checks; t_texts.c walks over all columns, the fuzzers choose. */
#ifndef TESTS_FUZZ_TEXTS_H
#define TESTS_FUZZ_TEXTS_H

#include <stddef.h>

enum { TEXTS_WHY = 400 };

/* ---- texts_base.c ------------------------------------------------------------------------- */
/* Makes the database, with a row in each table. 0: failure. */
int texts_make_base(const char *path);

/* ---- texts.c ------------------------------------------------------------------------------ */
/* A folder with the database, its header, and what pictures need; 0: failure. Runs at the root of the
 * repository. */
int texts_begin(void);
void texts_end(void);
int texts_columns(void); /* TEXT columns of all tables */
/* "device.name" */
const char *texts_column(int column);
enum texts_found { TEXTS_FAULT, TEXTS_REFUSED, TEXTS_TAKEN };
/* Puts n bytes into the column's first row. TEXTS_FAULT: why[] says what came out that may not.
 * TEXTS_REFUSED: why[] has the line. */
enum texts_found texts_try(int column, const void *bytes, size_t n, char why[TEXTS_WHY]);
/* What was looked at until now: headers that were written, and programs of pictures. */
extern int texts_headers, texts_programs;

#endif
