/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.c - instructions that move values between lanes, and matrix products. */
#include "machine.h"
#include <string.h>

/* ---- DPP ------------------------------------------------------------------------------ */

enum {
	ROW_SHL = 0x100,
	ROW_SHR = 0x110,
	ROW_ROR = 0x120,
	WAVE_SHL = 0x130,
	WAVE_ROL = 0x134,
	WAVE_SHR = 0x138,
	WAVE_ROR = 0x13c,
	ROW_MIRROR = 0x140,
	ROW_HALF_MIRROR = 0x141,
	ROW_BCAST15 = 0x142,
	ROW_BCAST31 = 0x143,
	ROW_NEWBCAST = 0x150
};

/* A row is 16 lanes. */
int dpp_lane(const struct instruction *in, int lane)
{
	const int how = in->m.dpp & 0x1ff, n = how & 15, at = lane % 16, row = lane - at;
	if (how < ROW_SHL)
		return (lane & ~3) + (how >> 2 * (lane & 3) & 3);
	switch (how) {
	case WAVE_SHL: return lane < 63 ? lane + 1 : -1;
	case WAVE_ROL: return (lane + 1) % 64;
	case WAVE_SHR: return lane - 1;
	case WAVE_ROR: return (lane + 63) % 64;
	case ROW_MIRROR: return row + 15 - at;
	case ROW_HALF_MIRROR: return row + (at ^ 7);
	case ROW_BCAST15: return row - 1;
	case ROW_BCAST31: return lane < 32 ? -1 : 31;
	}
	switch (how & ~15) {
	case ROW_SHL: return at + n < 16 ? lane + n : -1;
	case ROW_SHR: return at >= n ? lane - n : -1;
	case ROW_ROR: return row + (at + 16 - n) % 16;
	case ROW_NEWBCAST: return row + n;
	}
	die(in, "an unknown way of DPP, 0x%x", (unsigned)how);
}

/* ---- one lane ------------------------------------------------------------------------- */

void run_readlane(struct wave *w, const struct instruction *in)
{
	const int lane = (int)(scalar_value(w, in, &in->o[2], 'u') & 63);
	if (in->o[0].place != SCALAR_REGISTER || in->o[1].place != VECTOR_REGISTER)
		die(in, "operands of another kind are due");
	w->s[in->o[0].reg] = w->v[in->o[1].reg][lane];
}

void run_writelane(struct wave *w, const struct instruction *in)
{
	const int lane = (int)(scalar_value(w, in, &in->o[2], 'u') & 63);
	w->v[in->o[0].reg][lane] = (uint32_t)scalar_value(w, in, &in->o[1], 'u');
}

void run_swap(struct wave *w, const struct instruction *in)
{
	uint32_t one[LANES];
	memcpy(one, w->v[in->o[0].reg], sizeof one);
	store32(w, &in->o[0], 0, w->v[in->o[1].reg], exec_of(w));
	store32(w, &in->o[1], 0, one, exec_of(w));
}

/* ---- any lane ------------------------------------------------------------------------- */

/* Of a lane that is not active a zero comes. */
void run_bpermute(struct wave *w, const struct instruction *in)
{
	uint32_t out[LANES];
	for (int l = 0; l < LANES; l++) {
		const uint32_t at = w->v[in->o[1].reg][l] + (uint32_t)in->m.offset[0];
		const int from = at / 4 % LANES;
		out[l] = exec_of(w) >> from & 1 ? w->v[in->o[2].reg][from] : 0;
	}
	store32(w, &in->o[0], 0, out, exec_of(w));
}

void run_permute(struct wave *w, const struct instruction *in)
{
	uint32_t out[LANES] = { 0 };
	for (int l = 0; l < LANES; l++) {
		const uint32_t at = w->v[in->o[1].reg][l] + (uint32_t)in->m.offset[0];
		if (exec_of(w) >> l & 1)
			out[at / 4 % LANES] = w->v[in->o[2].reg][l];
	}
	store32(w, &in->o[0], 0, out, exec_of(w));
}

/* Of 32 lanes: lane & and | or ^ xor; or of each 4, two bits a lane. */
void run_swizzle(struct wave *w, const struct instruction *in)
{
	const int how = in->target & 0xffff;
	uint32_t out[LANES];
	if (how >= 0xc000)
		die(in, "an unknown way to swizzle");
	for (int l = 0; l < LANES; l++) {
		const int in_four = how >> 2 * (l & 3) & 3;
		const int in_half = (((l & how) | how >> 5) ^ how >> 10) & 31;
		const int from = how & 0x8000 ? (l & ~3) + in_four : (l & 32) + in_half;
		out[l] = exec_of(w) >> from & 1 ? w->v[in->o[1].reg][from] : 0;
	}
	store32(w, &in->o[0], 0, out, exec_of(w));
}

/* ---- matrices ------------------------------------------------------------------------- */

/* D = A B + C, of side x side; each lane has `each` 16-bit values of A and of B:
 *
 *   A[i][k]  i = l % side, k = each * (l / side) + j      B[k][n]  n = l % side, k likewise
 *   D[i][n]  n = l % side, i = 8 * (r / 4) + 4 * (l / side) + r % 4     of register r
 *
 * All lanes take part, active or not. */
static float element(const struct wave *w, int reg, int lane, int j, int is_bf16)
{
	const uint16_t bits = (uint16_t)(w->v[reg + j / 2][lane] >> 16 * (j % 2));
	const uint32_t wide = (uint32_t)bits << 16;
	float f;
	memcpy(&f, &wide, sizeof f);
	return is_bf16 ? f : simt_from_half(bits);
}

static void read_products(const struct wave *w, const struct instruction *in, int side, int each,
			  int is_bf16, float a[32][32], float b[32][32])
{
	for (int l = 0; l < LANES; l++)
		for (int j = 0; j < each; j++) {
			const int k = each * (l / side) + j;
			a[l % side][k] = element(w, in->o[1].reg, l, j, is_bf16);
			b[k][l % side] = element(w, in->o[2].reg, l, j, is_bf16);
		}
}

/* From and to the lanes' registers: row i of column n is register r of lane l. */
static int row_of(int side, int r, int lane)
{
	return 8 * (r / 4) + 4 * (lane / side) + r % 4;
}

static void read_sums(const struct wave *w, const struct instruction *in, int side, float c[32][32])
{
	const struct operand *o = &in->o[3];
	const int is_vector = o->place == VECTOR_REGISTER;
	const uint32_t constant = is_vector ? 0 : (uint32_t)scalar_value(w, in, o, 'f');
	for (int r = 0; r < side * side / LANES; r++)
		for (int l = 0; l < LANES; l++)
			memcpy(&c[row_of(side, r, l)][l % side],
			       is_vector ? &w->v[o->reg + r][l] : &constant, sizeof(float));
}

static void write_sums(struct wave *w, int reg, int side, float c[32][32])
{
	for (int r = 0; r < side * side / LANES; r++)
		for (int l = 0; l < LANES; l++)
			memcpy(&w->v[reg + r][l], &c[row_of(side, r, l)][l % side], sizeof(float));
}

/* Sums in the order of k, each product rounded, as the emulated GPU has them. */
static void multiply(float c[32][32], float a[32][32], float b[32][32], int side, int depth)
{
	for (int i = 0; i < side; i++)
		for (int k = 0; k < depth; k++)
			for (int n = 0; n < side; n++)
				c[i][n] += a[i][k] * b[k][n];
}

void run_mfma(struct wave *w, const struct instruction *in)
{
	const int side = in->op->bytes, is_bf16 = in->op->how & IS_BF16;
	const int each = in->op->how >> 8, registers = side * side / LANES;
	float a[32][32], b[32][32], c[32][32];
	if (in->m.other || in->m.neg_lo || in->m.neg_hi)
		die(in, "a matrix product with modifiers");
	if (in->o[0].count != registers || in->o[1].count != each / 2 || in->o[2].count != each / 2)
		die(in, "operands of another size");
	read_products(w, in, side, each, is_bf16, a, b);
	read_sums(w, in, side, c);
	multiply(c, a, b, side, LANES / side * each);
	write_sums(w, in->o[0].reg, side, c);
}
