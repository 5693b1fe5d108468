/* plan.h - the check of plans that plan.c and plan_query.c share. */
#ifndef KERNELS_API_PLAN_H
#define KERNELS_API_PLAN_H

#include "kernels/attune.h"

/* plan_query.c: whether the plan's counts and enums are in range. */
int plan_is_sound(const attune_plan *);

#endif
