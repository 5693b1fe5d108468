/* SPDX-License-Identifier: Apache-2.0 */
/* products.c - a warp's share of a warpgroup's product: 16 rows x n columns over a depth of 16.
 *
 * 64 bits describe a matrix in shared memory, as in PTX: rows of a piece (128 or 64 bytes) lie
 * in groups of 8, `far` apart; columns beyond a piece are `wide` apart; bits 4.. of an address
 * are xored with bits 7... The descriptor has 18 bits of the address; the base of the block's
 * dynamic memory gives the others. */
#include "machine.h"
#include <string.h>

enum { DEPTH = 16, MOST_COLUMNS = 256 };

struct matrix {
	uint32_t at, wide, far;
	int piece, chunks, is_bf16;
};

static struct matrix matrix_of(uint64_t bits, int is_bf16)
{
	const uint32_t base = (uint32_t)(uintptr_t)simt_dynamic();
	const int swizzle = (int)(bits >> 62), chunks = swizzle == 1 ? 8 : 4;
	struct matrix m = { .at = (base & ~0x3ffffu) + ((uint32_t)(bits & 0x3fff) << 4),
			    .wide = (uint32_t)(bits >> 16 & 0x3fff) << 4,
			    .far = (uint32_t)(bits >> 32 & 0x3fff) << 4,
			    .piece = chunks * 8,
			    .chunks = chunks,
			    .is_bf16 = is_bf16 };
	m.at += m.at < base ? 0x40000 : 0;
	if (swizzle != 1 && swizzle != 2)
		simt_die("a product of a matrix with swizzle %d; 1 and 2 are known", swizzle);
	return m;
}

/* Columns `column` .. `column` + 7 of a row: 16 bytes. */
static void read_chunk(float out[8], const struct matrix *m, int row, int column)
{
	uint32_t at = m->at + (uint32_t)(row / 8) * m->far + (uint32_t)(row % 8 * m->piece * 2) +
		      (uint32_t)(column / m->piece) * m->wide + (uint32_t)(column % m->piece * 2);
	at ^= (at >> 7 & (uint32_t)(m->chunks - 1)) << 4;
	const uint16_t *from = simt_shared_pointer(at, 16);
	if (m->is_bf16) /* two loops without a branch inside */
		for (int i = 0; i < 8; i++)
			out[i] = widened(1, from[i]);
	else
		for (int i = 0; i < 8; i++)
			out[i] = widened(0, from[i]);
}

/* b[k][n]: rows in memory are of n where the first matrix is in memory, too, else of k. */
static void read_second(float b[DEPTH][MOST_COLUMNS], const struct simt_product *p)
{
	const struct matrix m = matrix_of(p->b, p->is_bf16);
	float part[8];
	if (p->held) {
		for (int k = 0; k < DEPTH; k++)
			for (int n = 0; n < p->columns; n += 8)
				read_chunk(&b[k][n], &m, k, n);
		return;
	}
	for (int n = 0; n < p->columns; n++)
		for (int k = 0; k < DEPTH; k += 8) {
			read_chunk(part, &m, n, k);
			for (int i = 0; i < 8; i++)
				b[k + i][n] = part[i];
		}
}

static void read_first(float a[16][DEPTH], const struct warp *w, const struct simt_product *p)
{
	if (!p->held) {
		const struct matrix m = matrix_of(p->a, p->is_bf16);
		const int row = me()->view.warp % 4 * 16;
		for (int r = 0; r < 16; r++)
			for (int k = 0; k < DEPTH; k += 8)
				read_chunk(&a[r][k], &m, row + r, k);
		return;
	}
	for (int l = 0; l < 32; l++) {
		const uint32_t *held = ((struct simt_product *)w->lane[l].operand)->held;
		for (int i = 0; i < 4; i++) {
			float *to = &a[l / 4 + i % 2 * 8][2 * (l % 4) + i / 2 * 8];
			to[0] = widened(p->is_bf16, (uint16_t)held[i]);
			to[1] = widened(p->is_bf16, (uint16_t)(held[i] >> 16));
		}
	}
}

/* Four times eight columns at once: sums stay in registers. */
#ifdef __x86_64__
__attribute__((target_clones("avx2", "default")))
#endif
static void
multiply(float c[16][MOST_COLUMNS], float a[16][DEPTH], float b[DEPTH][MOST_COLUMNS], int columns)
{
	for (int n = 0; n < columns; n += 32)
		for (int r = 0; r < 16; r++) {
			eight sums[4] = { 0 };
			for (int k = 0; k < DEPTH; k++)
#pragma GCC unroll 4
				for (int i = 0; i < 4; i++)
					sums[i] += a[r][k] * *(const eight *)&b[k][n + 8 * i];
#pragma GCC unroll 4
			for (int i = 0; i < 4; i++)
				*(eight *)&c[r][n + 8 * i] = sums[i];
		}
}

void product(struct warp *w, uint64_t lanes)
{
	const struct simt_product *first = w->lane[0].operand;
	float a[16][DEPTH], b[DEPTH][MOST_COLUMNS], c[16][MOST_COLUMNS];
	(void)lanes;
	for (int l = 1; l < 32; l++) {
		const struct simt_product *p = w->lane[l].operand;
		if (p->a != first->a || p->b != first->b || p->columns != first->columns ||
		    p->add != first->add)
			simt_die("lanes part ways: products of several matrices");
	}
	read_first(a, w, first);
	read_second(b, first);
	multiply(c, a, b, first->columns);
	for (int l = 0; l < 32; l++) {
		struct simt_product *p = w->lane[l].operand;
		for (int i = 0; i < p->columns / 2; i++)
			p->d[i] = (p->add ? p->d[i] : 0) +
				  c[l / 4 + i / 2 % 2 * 8][i / 4 * 8 + 2 * (l % 4) + i % 2];
	}
}
