/* SPDX-License-Identifier: Apache-2.0 */
/* extra.h - launches of kernels that an op has beside those that plans name. */
#ifndef KERNELS_LAUNCH_EXTRA_H
#define KERNELS_LAUNCH_EXTRA_H

#include "op.h"

struct attune_call;
struct config;
struct part;

/* The kernel's row, or NULL: the backend has none, or the shape never needs it. */
const struct kernel *extra_kernel(enum backend, const attune_shape *, enum extra);
/* Whether attune_run launches it; others have a call of their own. */
int extra_is_vital(enum extra);
/* On a GPU: x * y blocks. args: one struct by value. */
enum attune_status extra_launch(const attune_op *, enum extra, unsigned x, unsigned y,
				const void *args, size_t bytes, void *stream);
/* What runs a part over ragged K and V that end with their memory, its code op->extra[EXTRA_RAGGED]; or
 * NULL. *c: its config. */
const struct kernel *kernel_to_end(const attune_op *, const struct part *, const attune_tensors *,
				   struct config *c);
/* Kernels read floats: sinks of 16 bits become floats in the workspace. */
int sinks_are_widened(const attune_shape *);

/* sinks.c */
enum attune_status sinks_widen(const attune_op *, const void *sinks, float *to, void *stream);
/* Bytes of workspace of a plan's n parts, as parts_workspace, and of the sinks as floats, which
 * begin at *sinks_at; or NULL. */
size_t op_workspace(const attune_op *, enum attune_how, const size_t *part, int n, size_t *at,
		    size_t *sinks_at);
/* On a GPU, behind the parts, of an op with sinks and LSE: the LSE of rows without keys. */
enum attune_status sink_rows(const attune_op *, const struct attune_call *, void *stream);
/* On a CPU, of an op with lse_apart. c: the call of all parts; num_tokens: of the plan. */
enum attune_status lse_apart(const attune_op *, const struct attune_call *c, const attune_tensors *,
			     int num_tokens);

#endif
