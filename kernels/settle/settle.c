/* settle.c - times the members of a batch (attune_settle), and gives them to programs that time
 * them themselves. */
#include "settled.h"
#include "kernels/spec/sized.h"
#include "kernels/spec/status.h"

enum attune_status attune_settle_sizes(const attune_op *op, const attune_batch *batch,
				       const attune_settle_how *how, size_t *bytes)
{
	attune_settle_how own;
	if (!op || !batch || !how || !bytes)
		return fail(ATTUNE_INVALID, "attune_settle_sizes: an argument is NULL");
	how = settle_how_read(how, &own, "attune_settle_sizes");
	return how ? fail(ATTUNE_UNSUPPORTED, "attune_settle_sizes: not in this version")
		   : ATTUNE_INVALID;
}

enum attune_status attune_settle(const attune_op *op, const attune_batch *batch,
				 const attune_tensors *layers, const attune_settle_how *how,
				 void *workspace, size_t bytes, void *stream, double *ms)
{
	(void)op, (void)batch, (void)layers, (void)how, (void)workspace, (void)bytes, (void)stream;
	(void)ms;
	return fail(ATTUNE_UNSUPPORTED, "attune_settle: not in this version");
}

enum attune_status attune_plan_alternatives(const attune_op *op, const attune_batch *batch,
					    attune_plan *plans, int room, int *n)
{
	(void)op, (void)batch, (void)plans, (void)room, (void)n;
	return fail(ATTUNE_UNSUPPORTED, "attune_plan_alternatives: not in this version");
}

enum attune_status attune_report(const attune_op *op, const attune_batch *batch,
				 const attune_plan *plans, const double *us, int n)
{
	(void)op, (void)batch, (void)plans, (void)us, (void)n;
	return fail(ATTUNE_UNSUPPORTED, "attune_report: not in this version");
}
