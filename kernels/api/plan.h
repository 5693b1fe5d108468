/* plan.h - what the files of attune.h's plans share. */
#ifndef KERNELS_API_PLAN_H
#define KERNELS_API_PLAN_H

#include "kernels/attune.h"

/* plan_query.c: whether the plan's counts and enums are in range. */
int plan_is_sound(const attune_plan *);
/* plan.c: attune_plan_batch with the parts one after the other. The batch is sound. */
enum attune_status plan_serial(const attune_op *, const attune_batch *, attune_plan *);

#endif
