/* SPDX-License-Identifier: Apache-2.0 */
/* torch_op.h - what the operators of torch do with their tensors. */
#ifndef KERNELS_API_TORCH_OP_H
#define KERNELS_API_TORCH_OP_H

#include "torch_plan.h"

enum { MOST_OPERANDS = 15 };
/* Operands in the order of the schemas. Those behind the ones that a schema has are not given. */
enum attune_status torch_attend(struct tensor *); /* without a handle `out` is made */
enum attune_status torch_write_kv(struct tensor *);
enum attune_status torch_page_table(struct tensor *);
enum attune_status torch_ragged_table(struct tensor *);

#endif
