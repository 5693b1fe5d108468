/* SPDX-License-Identifier: Apache-2.0 */
/* torch_plan.c - a plan as a tensor of torch. */
#include "torch_plan.h"
#include "kernels/launch/run.h"
#include "kernels/spec/sized.h"
#include "kernels/spec/status.h"
#include <string.h>

static const uint64_t plan_mark = 0x6e616c70656e7574;

enum attune_status attune_torch_plan(const attune_op *op, const attune_plan *plan, void *bytes,
				     size_t room, size_t *size)
{
	static const char call[] = "attune_torch_plan";
	attune_plan own;
	struct planned made = { .mark = plan_mark, .op = op };
	if (!op || !plan || !size)
		return fail(ATTUNE_INVALID, "%s: an argument is NULL", call);
	*size = sizeof made;
	if (!bytes)
		return ATTUNE_OK;
	plan = plan_read(plan, &own, call);
	if (!plan)
		return ATTUNE_INVALID;
	if (plan->op != op->id)
		return fail(ATTUNE_INVALID, "%s: the plan is not of this op", call);
	if (room < sizeof made)
		return fail(ATTUNE_TOO_SMALL, "%s: the plan takes %zu bytes, there is room for %zu",
			    call, sizeof made, room);
	made.plan = *plan;
	memcpy(bytes, &made, sizeof made);
	return ATTUNE_OK;
}

enum attune_status planned_of(const struct tensor *t, const struct planned **planned)
{
	const struct planned *p = t->data;
	const int is_plan = p && t->device_type == torch.device_type_cpu() &&
			    t->type == TYPE_BYTES && t->dims == 1 && t->size[0] == sizeof *p &&
			    t->stride[0] == 1 && (uintptr_t)p % _Alignof(struct planned) == 0 &&
			    p->mark == plan_mark;
	*planned = p;
	return is_plan ? ATTUNE_OK
		       : fail(ATTUNE_INVALID,
			      "%s: plan is no plan: it is a uint8 tensor on the CPU that "
			      "attune_torch_plan filled",
			      t->call);
}
