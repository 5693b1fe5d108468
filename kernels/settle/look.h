/* SPDX-License-Identifier: Apache-2.0 */
/* look.h - what planning asks of the table. */
#ifndef KERNELS_SETTLE_LOOK_H
#define KERNELS_SETTLE_LOOK_H

#include "kernels/launch/op.h"

/* What was settled for a batch with these parts, as `ask` of the context. */
void settled_look(const attune_op *, const struct selection *, const struct part *whole,
		  struct instead *);
/* The answer of the overlap tree that a way (enum settled_way) stands for; AS_RULES: none that can
 * run here. */
int answer_of_way(const attune_op *, int way, const struct part *whole);

#endif
