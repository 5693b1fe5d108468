/* SPDX-License-Identifier: Apache-2.0 */
/* tolerance.c - the largest error of an output element against the fp64 reference.
 *
 * q, K and V are the same bits on both sides, so inputs have no rounding error. A kernel may
 * round each weight p_j to the cache's type before it multiplies V by it, and rounds its result
 * to the type of out. With the unit roundoff u (2^-11 F16, 2^-8 BF16, 2^-24 F32), and
 * l = sum p_j taken before the rounding:
 *
 *   |sum p_j (1 + e_j) v_j / l - want| <= u_kv * sum p_j |v_j| / l     (the "mass")
 *   |rounded - exact|                  <= u_out * |exact|
 *
 * The rest is fp32: scores up to some tens have an error of a few 2^-20, which the p_j
 * inherit; exp2 is good to 2 ulp; sums. 2^-13 of the mass covers all that; the CPU's fp32
 * kernels use 2 % of it. F16 weights and outputs below 2^-14 are subnormal: an error of
 * 2^-24, times at most 4, the largest |v|.
 *
 * With an E4M3 cache weights are rounded to F16: a fraction of 3 bits is too short for sums.
 *
 * Plug-ins with ATTUNE_PLUGIN_E4M3_MATH round q and each weight to E4M3, too, whose fraction has 3
 * bits. A bound as above, 2^-4 of the mass, would let almost anything pass: out is the mean of n
 * values of either sign, so it is sqrt(n) times smaller than the mass. But the errors are of either
 * sign, too, and independent:
 *
 *   weight p_j    changes out by  w_j v_j e_j,                           w_j = p_j / l
 *   element q_i   changes out by  sum_j w_j (v_j - out) scale k_ji q_i e_i
 *
 *   |e| <= u = 2^-4, spread evenly over half a step of the type. Sizes below 2^-6, the least normal
 *   number, have the error of 2^-6. p_j is at most 1, and relative to the row's maximum.
 *
 * v_j and k_ji are of random sign, so the terms of an element q_i add up as squares. A sum of
 * evenly spread errors with ranges +- a_n exceeds t with a chance of at most
 * 2 exp(-t^2 / (2 sum a_n^2 / 3)). Per element that is 10^-9 at t = 6.6 sqrt(sum a_n^2 / 3); a
 * check compares some 10^6. `squares` is sum a_n^2 for u = 1. Kernels that scale weights up
 * before they round them have smaller errors.
 *
 * Plug-ins with ATTUNE_PLUGIN_Q_TYPE_MATH convert such a cache to q's type, multiplied by its scales,
 * and round weights to it. An element k_ji then changes out by w_j (v_j - out) scale k_ji q_i e_ji,
 * and v_j by w_j v_j e_j, with q's u. The first are the terms of q_i above, and the second are those
 * of the weights once more, so twice the sum of squares is no less than theirs.
 *
 * A kernel that skips one of n keys changes some element by a few masses / n. In t_check.c
 * 36 rows of BF16 detect it at n = 4000. */
#include "check.h"
#include "kernels/attune_plugin.h"
#include <math.h>

static const double roundoff[] = { [ATTUNE_F32] = 0x1p-24,
				   [ATTUNE_F16] = 0x1p-11,
				   [ATTUNE_BF16] = 0x1p-8,
				   [ATTUNE_E4M3] = 0x1p-11 };

double check_rounding(const attune_shape *s, unsigned needs)
{
	if (s->kv_dtype != ATTUNE_E4M3)
		return 0;
	if (needs & ATTUNE_PLUGIN_E4M3_MATH)
		return 0x1p-4;
	return needs & ATTUNE_PLUGIN_Q_TYPE_MATH ? sqrt(2) * roundoff[s->dtype] : 0;
}

double rounding_tolerance(double squares)
{
	return 6.6 * sqrt(squares / 3);
}

double check_tolerance(const attune_shape *s, double mass, double want)
{
	const double smallest =
	    s->dtype == ATTUNE_F16 || s->kv_dtype == ATTUNE_F16 || s->kv_dtype == ATTUNE_E4M3
		? 0x1p-22
		: 0x1p-40;
	return (roundoff[s->kv_dtype] + 0x1p-13) * mass + roundoff[s->dtype] * fabs(want) +
	       smallest;
}
