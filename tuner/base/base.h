/* base.h - what the parts of the tuner share: paths of databases and headers, whole text files, batches in
 * words, work on all CPUs.
 * Includes harness/base and kernels. */
#ifndef TUNER_BASE_BASE_H
#define TUNER_BASE_BASE_H

#include "harness/base/base.h"
#include "kernels/spec/device_info.h"

/* ---- files.c: whole text files ------------------------------------------------------- */
char *file_text(const char *path);                /* NULL when it cannot be read */
int file_put(const char *path, const char *text); /* whole or not at all; 0 + complain */

/* ---- paths.c: which GPU, and where its files are --------------------------------------- */
/* `asked`, or when that is NULL the name of this machine's own device; 0 and a
 * complaint when there is none. */
int gpu_or_own(const char *asked, char gpu[GPU_NAME]);
/* generated/local/attune_<gpu>.h, else generated/attune_<gpu>.h */
void own_header(char path[256], const char *gpu);
/* What was asked for, unless that is NULL; results/local/<gpu>.sqlite, else
 * results/<gpu>.sqlite. */
void db_path(char path[256], const char *asked, const char *gpu);
/* The same of the rules that the library takes for such a GPU: its own header, else the one that it
 * borrows, which a line on stderr says. */
void rules_path(char path[256], const char *asked, const char *gpu);

/* ---- batch_words.c: batches for people ------------------------------------------------ */
/* The batch's text; of a long one how many sequences it has, and of which
 * lengths. */
enum { SHORT_BATCH = 60, BATCH_WORDS = 100 };
void batch_words(char text[BATCH_WORDS], const char *batch);
/* As a cell of a table for people; for machines the text. */
void batch_cell(struct table *, const char *batch, enum format);

#endif
