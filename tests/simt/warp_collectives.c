/* SPDX-License-Identifier: Apache-2.0 */
/* warp_collectives.c - collectives of a warp: the last lane to arrive does the work for all. */
#include "machine.h"
#include <string.h>

static void shuffle(struct warp *w, uint64_t lanes)
{
	for (int l = 0; l < machine.lanes; l++)
		if (lanes >> l & 1) {
			struct simt_shuffle *s = w->lane[l].operand;
			const int from = s->from & (machine.lanes - 1);
			s->out = ~0ull; /* the value of an absent lane */
			if (lanes >> from & 1)
				s->out = ((struct simt_shuffle *)w->lane[from].operand)->in;
		}
}

static void vote(struct warp *w, uint64_t lanes)
{
	for (int l = 0; l < machine.lanes; l++)
		for (int from = 0; lanes >> l & 1 && from < machine.lanes; from++) {
			struct simt_vote *v = w->lane[l].operand;
			v->present = lanes;
			v->all[from] =
			    lanes >> from & 1 ? ((struct simt_vote *)w->lane[from].operand)->in : 0;
		}
}

static void read_matrix(uint16_t e[8][8], struct warp *w, int m)
{
	for (int r = 0; r < 8; r++) {
		const struct simt_matrices *s = w->lane[m * 8 + r].operand;
		if (s->address % 16)
			simt_die("load of matrices: lane %d names address 0x%x, which is no "
				 "multiple of 16",
				 m * 8 + r, s->address);
		memcpy(e[r], simt_shared_pointer(s->address, 16), 16);
	}
}

/* Lane l of the result has of matrix m the elements (l / 4, 2 * (l % 4)) and the next. */
static void load_matrices(struct warp *w, uint64_t lanes)
{
	(void)lanes;
	for (int m = 0; m < ((struct simt_matrices *)w->lane[0].operand)->count; m++) {
		uint16_t e[8][8];
		read_matrix(e, w, m);
		for (int l = 0; l < machine.lanes; l++) {
			struct simt_matrices *s = w->lane[l].operand;
			const int g = l / 4, c = 2 * (l % 4);
			s->out[m] = s->transposed ? e[c][g] | (uint32_t)e[c + 1][g] << 16
						  : e[g][c] | (uint32_t)e[g][c + 1] << 16;
		}
	}
}

float simt_from_half(uint16_t bits)
{
	return widened(0, bits);
}

/* The two values of a register, the first in its low half. */
static void widen(float *first, float *second, int is_bf16, uint32_t pair)
{
	*first = widened(is_bf16, (uint16_t)pair);
	*second = widened(is_bf16, (uint16_t)(pair >> 16));
}

/* Sums are taken in the order of k, of eight rows side by side, as one sum alone would wait. */
#ifdef __x86_64__
__attribute__((target_clones("avx2", "default")))
#endif
static void
multiply(float c[16][8], float a[16][16], float b[16][8])
{
	for (int half = 0; half < 16; half += 8) {
		eight sums[8];
#pragma GCC unroll 8
		for (int i = 0; i < 8; i++)
			sums[i] = *(const eight *)c[half + i];
		for (int k = 0; k < 16; k++)
#pragma GCC unroll 8
			for (int i = 0; i < 8; i++)
				sums[i] += a[half + i][k] * *(const eight *)b[k];
#pragma GCC unroll 8
		for (int i = 0; i < 8; i++)
			*(eight *)c[half + i] = sums[i];
	}
}

/* m16n8k16: the layouts drawn in kernels/gpu/gpu.h. */
static void mma(struct warp *w, uint64_t lanes)
{
	float a[16][16], b[16][8], c[16][8];
	(void)lanes;
	for (int l = 0; l < machine.lanes; l++) {
		const struct simt_mma *s = w->lane[l].operand;
		const int g = l / 4, k = 2 * (l % 4);
		for (int i = 0; i < 4; i++) {
			float *at = &a[g + i % 2 * 8][k + i / 2 * 8];
			widen(at, at + 1, s->is_bf16, s->a[i]);
			c[g + i / 2 * 8][k + i % 2] = s->c[i];
		}
		for (int i = 0; i < 2; i++)
			widen(&b[k + 8 * i][g], &b[k + 8 * i + 1][g], s->is_bf16, s->b[i]);
	}
	multiply(c, a, b);
	for (int l = 0; l < machine.lanes; l++)
		for (int i = 0; i < 4; i++)
			((struct simt_mma *)w->lane[l].operand)->c[i] =
			    c[l / 4 + (i / 2) * 8][2 * (l % 4) + i % 2];
}

#ifdef __x86_64__
__attribute__((target_clones("avx2", "default")))
#endif
static void
multiply_square(float c[32][32], float a[32][32], float b[32][32], int side, int depth)
{
	for (int i = 0; i < side; i++)
		for (int j = 0; j < side; j += 16) {
			eight left = *(const eight *)&c[i][j], right = *(const eight *)&c[i][j + 8];
			for (int k = 0; k < depth; k++) {
				left += a[i][k] * *(const eight *)&b[k][j];
				right += a[i][k] * *(const eight *)&b[k][j + 8];
			}
			*(eight *)&c[i][j] = left;
			*(eight *)&c[i][j + 8] = right;
		}
}

/* The layouts are AMD's: with n = lane % side and g = lane / side
 *
 *   A  a[j] (n, each g + j)      B  b[j] (each g + j, n)      (k, n)
 *   C  c[r] (8 (r / 4) + 4 g + r % 4, n); of side 16 8 (r / 4) is 0
 *
 * Sums are taken in the order of k, in fp32; the GPU's order is its own. */
static void mfma(struct warp *w, uint64_t lanes)
{
	const struct simt_mfma *first = w->lane[0].operand;
	const int side = first->side, each = first->each;
	float a[32][32], b[32][32], c[32][32];
	(void)lanes;
	for (int l = 0; l < 64; l++) {
		const struct simt_mfma *s = w->lane[l].operand;
		const int n = l % side, g = l / side;
		if (s->side != side || s->each != each || s->is_bf16 != first->is_bf16)
			simt_die("lanes part ways: matrix steps of two kinds");
		for (int j = 0; j < each; j++) {
			a[n][each * g + j] = widened(s->is_bf16, s->a[j]);
			b[each * g + j][n] = widened(s->is_bf16, s->b[j]);
		}
		for (int r = 0; r < side * side / 64; r++)
			c[r / 4 * 8 + 4 * g + r % 4][n] = s->c[r];
	}
	multiply_square(c, a, b, side, 64 / side * each);
	for (int l = 0; l < 64; l++)
		for (int r = 0; r < side * side / 64; r++)
			((struct simt_mfma *)w->lane[l].operand)->c[r] =
			    c[r / 4 * 8 + 4 * (l / side) + r % 4][l % side];
}

static void (*const finish[SIMT_NUM_OPS])(struct warp *, uint64_t lanes) = {
	[SIMT_SHUFFLE] = shuffle, [SIMT_VOTE] = vote, [SIMT_LOAD_MATRICES] = load_matrices,
	[SIMT_MMA] = mma,         [SIMT_MFMA] = mfma, [SIMT_PRODUCT] = product,
};

static void check_alike(const struct warp *w, const struct fiber *first, uint64_t lanes)
{
	char one[80], other[80];
	for (int l = 0; l < machine.lanes; l++) {
		const struct fiber *f = &w->lane[l];
		if (lanes >> l & 1 && (f->op != first->op || f->mask != first->mask)) {
			note_place(first->pc);
			note_place(f->pc);
			simt_die("lanes part ways: lane %d is in %s, lane %d in %s",
				 first->view.lane, describe(first, one, sizeof one), l,
				 describe(f, other, sizeof other));
		}
	}
	if (first->op >= SIMT_LOAD_MATRICES && lanes != all_lanes())
		simt_die("%s with lanes %08llx only", op_names[first->op],
			 (unsigned long long)lanes);
}

int try_finish(struct warp *w, struct fiber *f)
{
	const uint64_t lanes = f->mask & ~w->gone;
	if (lanes & ~w->waiting)
		return 0;
	check_alike(w, f, lanes);
	if (finish[f->op])
		finish[f->op](w, lanes);
	w->waiting &= ~lanes;
	w->ready |= lanes;
	return 1;
}

void simt_meet(enum simt_op op, uint64_t mask, void *operand)
{
	struct fiber *f = me();
	struct warp *w = my_warp();
	const uint64_t bit = 1ull << f->view.lane;
	f->pc = __builtin_return_address(0);
	if (!(mask & bit))
		simt_die("%s of lanes %08llx by lane %d", op_names[op], (unsigned long long)mask,
			 f->view.lane);
	f->op = op;
	f->mask = mask;
	f->operand = operand;
	w->ready &= ~bit;
	w->waiting |= bit;
	if (try_finish(w, f))
		shake();
	else
		let_others();
}
