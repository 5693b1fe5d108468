/* tolerance.c - how far an output element may be from the fp64 reference.
 *
 * q, K and V are the same bits on both sides, so rounding of inputs is not
 * an error. A kernel may round each weight p_j to the cache's type before it multiplies
 * V with it, and rounds its result to the type of out. With u the unit roundoff (2^-11
 * F16, 2^-8 BF16, 2^-24 F32), where l = sum p_j is taken before the rounding:
 *
 *   |sum p_j (1 + e_j) v_j / l - want| <= u_kv * sum p_j |v_j| / l     (the "mass")
 *   |rounded - exact|                  <= u_out * |exact|
 *
 * The rest is fp32: scores of up to some tens, whose error of a few 2^-20 the p_j
 * inherit, exp2 to 2 ulp, sums. 2^-13 of the mass stands for all that; the CPU's fp32
 * kernels use 2 % of it. F16 weights below 2^-14 lose bits one by one, and so do
 * outputs: 2^-24, times at most 4, which is the largest |v|.
 *
 * With an E4M3 cache weights are rounded to F16, since 3 bits of fraction are no type for sums.
 *
 * Leaving out one of n keys moves some element by a few masses / n: t_check.c has BF16
 * noticed by 36 rows at n = 4000. */
#include "check.h"
#include <math.h>

double check_tolerance(const attune_shape *s, double mass, double want)
{
	static const double roundoff[] = { [ATTUNE_F32] = 0x1p-24,
					   [ATTUNE_F16] = 0x1p-11,
					   [ATTUNE_BF16] = 0x1p-8,
					   [ATTUNE_E4M3] = 0x1p-11 };
	const double smallest =
	    s->dtype == ATTUNE_F16 || s->kv_dtype == ATTUNE_F16 || s->kv_dtype == ATTUNE_E4M3
		? 0x1p-22
		: 0x1p-40;
	return (roundoff[s->kv_dtype] + 0x1p-13) * mass + roundoff[s->dtype] * fabs(want) +
	       smallest;
}
