/* SPDX-License-Identifier: Apache-2.0 */
/* settled.h - files of attune_settled_text (kernels/FORMATS.md): what the library settled by timing.
 * Includes scenario and store. */
#ifndef HARNESS_SETTLED_SETTLED_H
#define HARNESS_SETTLED_SETTLED_H

#include "harness/store/store.h"
#include "kernels/attune.h"

/* ---- settled_file.c ----------------------------------------------------------------------------- */
enum { DEVICE_NAME = 100, OP_TEXT = 400 };
struct settled_file {
	char name[DEVICE_NAME], gpu[GPU_NAME], arch[16]; /* of the device; the name in quotes */
	int units;
	struct store_settled *row; /* one for each line `cell` */
	int n;
	int outdated; /* rows that name a kernel that no longer exists, or whose tunables have changed */
	/* private: the texts of rows */
	char **text;
	int texts, room, text_room;
};
/* Reads and checks a whole file. 0 + complain, "FILE:LINE: what is wrong; what would be right". */
int settled_file_read(struct settled_file *, const char *path);
void settled_file_free(struct settled_file *);
/* Of a row of a database: whether each kernel of a member has the tunables of today's. */
int settled_is_today(const char *gpu, const struct store_settled *, int member);
/* Its shape; 0: the text is none. */
int settled_op(attune_shape *, const struct store_settled *);

/* ---- taken.c --------------------------------------------------------------------------------- */
struct scenario_list;
struct taken {
	char **v; /* private */
	int n, room, failed;
};
/* Adds the scenarios of a database or of sets. 0 + complain. */
int taken_of_store(struct taken *, struct store *, const char *gpu);
int taken_of_sets(struct taken *, const struct scenario_list *);
/* Whether a held-out scenario of any shape has the batch. */
int taken_is_held_out(const struct taken *, const char *batch);
/* Whether a scenario of this shape, page size and types has it. */
int taken_has_scenario(const struct taken *, const attune_shape *, const char *batch);
/* Whether held-out scenarios have a model of that shape, and no other scenario has. */
int taken_shape_is_held_out(const struct taken *, const attune_shape *);
void taken_free(struct taken *);

/* ---- next_set.c ------------------------------------------------------------------------------- */
struct next_set {
	struct next *v; /* private */
	int n, room;
};
/* Adds a batch that lost so much: time of what ran / the least time. 0 without memory. */
int next_set_add(struct next_set *, const char *model, const attune_shape *, const char *batch,
		 double loss);
/* Prints the set as JSON, what lost most first. 0 + complain. */
int next_set_print(const struct next_set *, const char *gpu);
void next_set_free(struct next_set *);
/* Whether its lengths are those of the blocks that are held out of training. */
int lengths_are_held_out(const attune_batch *);

#endif
