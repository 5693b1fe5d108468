/* plan.h - checks of plans, between plan.c and plan_query.c. */
#ifndef KERNELS_API_PLAN_H
#define KERNELS_API_PLAN_H

#include "kernels/attune.h"

/* plan_query.c: whether the plan's counts and words are ones that attune_plan_batch gives. */
int plan_is_sound(const attune_plan *);

#endif
