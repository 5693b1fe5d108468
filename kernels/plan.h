/* plan.h - checks of plans, between plan.c and plan_facts.c. */
#ifndef ATTUNE_PLAN_H
#define ATTUNE_PLAN_H

#include "attune.h"

/* plan_facts.c: whether the plan's counts and words are ones that attune_plan_batch gives. */
int plan_is_sound(const attune_plan *);

#endif
