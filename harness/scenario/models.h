/* SPDX-License-Identifier: Apache-2.0 */
/* models.h - shared by models.c, own_models.c and hf_config.c. */
#ifndef HARNESS_SCENARIO_MODELS_H
#define HARNESS_SCENARIO_MODELS_H

#include "scenario.h"

struct model {
	char name[MODEL_NAME]; /* with @tp */
	int tp;
	int is_own;                /* not of models.json */
	attune_shape shape, whole; /* of one GPU; of the model */
};

struct models {
	struct model *v;
	int n;
};

/* models.c */
const struct model *model_find(const struct models *, const char *name_at_tp); /* NULL: none */
int models_append(struct models *, const struct model *);                      /* 0 + complain */
int model_splits(const attune_shape *whole, int tp);
attune_shape model_shard(const attune_shape *whole, int tp);
int model_is_name(const char *);

#endif
