/* SPDX-License-Identifier: Apache-2.0 */
/* cell.h - the key of what is remembered: a hash of the shape, the phase, the names of the choices
 * that the rules name, and third-octave steps of the lengths; of a batch with both phases also what
 * the rules say about running both. */
#ifndef KERNELS_SETTLE_CELL_H
#define KERNELS_SETTLE_CELL_H

#include "kernels/launch/op.h"

struct part;

enum cell_kind { CELL_PREFILL, CELL_DECODE, CELL_MIXED };

/* named: the choices that the rules name, ids of the op or -1. Of one phase: named[0] and part[0];
 * mixed: the prefills, then the decodes. whole: of a mixed batch, else not read. The low bits, of a
 * value (table.h), are 0, the others are not all 0. */
uint64_t cell_hash(const attune_op *, enum cell_kind, const int named[], const struct part part[],
		   const struct part *whole);

#endif
