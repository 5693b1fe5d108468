/* SPDX-License-Identifier: Apache-2.0 */
/* base.h - shared by all of the tuner: paths of databases and headers, emulated devices, batches in
 * words. Includes harness/base. */
#ifndef TUNER_BASE_BASE_H
#define TUNER_BASE_BASE_H

#include "harness/base/base.h"
#include "kernels/spec/device_info.h"
#include <stddef.h>

/* ---- paths.c: the GPU, its database and its header ------------------------------------- */
/* `asked`, or if NULL the name of this machine's device; 0 + complain when it has none. */
int gpu_or_own(const char *asked, char gpu[GPU_NAME]);
/* generated/local/attune_<gpu>.h, else generated/attune_<gpu>.h */
void own_header(char path[PATH_TEXT], const char *gpu);
/* `asked`, or in it if it is a folder, which ends in /; if NULL results/local/<gpu>.sqlite, else
 * results/<gpu>.sqlite. The portable rules' is that of PORTABLE_ROWS. */
void db_path(char path[PATH_TEXT], const char *asked, const char *gpu);
/* The same for commands that do not write: else the one of `make install`. */
void db_path_to_read(char path[PATH_TEXT], const char *asked, const char *gpu);
/* `asked`, or if NULL the header that the library uses for such a GPU: its own, else a borrowed
 * one, with a line on stderr. */
void rules_path(char path[PATH_TEXT], const char *asked, const char *gpu);

/* The GPU whose rows make the header of that name: "h200" for "h200_e4m3". The portable rules are
 * learned from those of PORTABLE_ROWS. */
#define PORTABLE_ROWS "h200"
void gpu_of_rows(char gpu[GPU_NAME], const char *header);

/* ---- emulated.c: stand-ins of GPUs ------------------------------------------------------ */
/* Whether times of this device count: it is a real one, or a test wants them all the same
 * (ATTUNE_EMULATED=1). */
int times_count(const struct device_info *);
/* For commands that measure: 1 + complain if times of this device do not count. */
int refuse_emulated(const struct device_info *);

/* ---- parallel.c: independent tasks on all CPUs ----------------------------------------- */
/* Calls task(arg, i) for 0 <= i < n, in any order and several at a time; returns when all are done.
 * A task writes nothing that another one reads or writes, so that results do not depend on the
 * order. */
void in_parallel(int n, void (*task)(void *arg, size_t i), void *arg);

/* ---- batch_words.c: batches for people ------------------------------------------------ */
/* The batch's text; for a long one the number of sequences and the ranges of their lengths. */
enum { SHORT_BATCH = 60, BATCH_WORDS = 100 };
void batch_words(char text[BATCH_WORDS], const char *batch);
/* The same as a cell of a table; formats for machines get the whole text. */
void batch_cell(struct table *, const char *batch, enum format);

#endif
