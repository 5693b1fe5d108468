/* SPDX-License-Identifier: Apache-2.0 */
/* emit.h - writes a forest as a header or as JSON. */
#ifndef TUNER_EMIT_EMIT_H
#define TUNER_EMIT_EMIT_H

struct data;
struct forest;

/* ---- emit.c: a forest as a header ------------------------------------------------------- */
/* The text of generated/attune_<gpu>.h, for the caller to free. NULL without memory. */
char *forest_emit(const struct forest *, const struct data *);

/* emit_json.c: the same as JSON. */
char *forest_emit_json(const struct forest *, const struct data *);

#endif
