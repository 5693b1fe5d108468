/* SPDX-License-Identifier: Apache-2.0 */
/* never_runs.h - the functions of a plug-in that is registered, but never run: each fails. */
#ifndef TESTS_NEVER_RUNS_H
#define TESTS_NEVER_RUNS_H

#include "kernels/attune_plugin.h"

static int never_prepares(void **op, const attune_shape *s, const int *values,
			  const attune_plugin_device *device, char *error)
{
	(void)op, (void)s, (void)values, (void)device, (void)error;
	return 1;
}

static int never_plans(void *op, const attune_plugin_batch *b, void **plan, size_t *workspace,
		       char *error)
{
	(void)op, (void)b, (void)plan, (void)workspace, (void)error;
	return 1;
}

static int never_launches(void *op, void *plan, const attune_tensors *t, void *workspace,
			  void *stream, char *error)
{
	(void)op, (void)plan, (void)t, (void)workspace, (void)stream, (void)error;
	return 1;
}

static void frees_no_plan(void *op, void *plan)
{
	(void)op, (void)plan;
}

static void frees_no_op(void *op)
{
	(void)op;
}

#endif
