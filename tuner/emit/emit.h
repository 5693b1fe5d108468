/* emit.h - writes a forest as C, JSON, Python or text, and cost matrices as TSV. */
#ifndef TUNER_EMIT_EMIT_H
#define TUNER_EMIT_EMIT_H

#include <stdio.h>

struct data;
struct forest;
struct limits;

/* ---- emit.c: a forest as a header ------------------------------------------------------- */
/* The text of generated/attune_<gpu>.h, for the caller to free. NULL without memory. */
char *forest_emit(const struct forest *, const struct data *);

/* ---- emit_text.c: a forest in other languages -------------------------------------- */
/* The same in language "c", "json", "python" or "text"; NULL also for any other language. */
char *forest_emit_as(const char *language, const struct forest *, const struct data *);

/* ---- emit_matrices.c: for other learners ----------------------------------------------------- */
/* Writes <folder>/<decision>.tsv, a matrix with the folds by batch size, and
 * <folder>/<decision>_ours.tsv, the costs of our trees by number of leaves, for the
 * prefill and the decode decision. 0 + complain. */
int dump_matrices(const struct data *, const char *folder, const struct limits *);

#endif
