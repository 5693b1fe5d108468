/* emit.h - writes a forest as C, JSON or text. */
#ifndef TUNER_EMIT_EMIT_H
#define TUNER_EMIT_EMIT_H

struct data;
struct forest;

/* ---- emit.c: a forest as a header ------------------------------------------------------- */
/* The text of generated/attune_<gpu>.h, for the caller to free. NULL without memory. */
char *forest_emit(const struct forest *, const struct data *);

/* ---- emit_text.c: a forest in other languages -------------------------------------- */
/* The same in language "c", "json" or "text"; NULL also for any other language. */
char *forest_emit_as(const char *language, const struct forest *, const struct data *);

#endif
