/* SPDX-License-Identifier: Apache-2.0 */
/* dialect_host.h - the host side of dialect.cu: fills its memory and checks its answers. Include
 * after cmocka.h. */
#ifndef TESTS_SIMT_DIALECT_HOST_H
#define TESTS_SIMT_DIALECT_HOST_H

#include "dialect_args.h"
#include "tests/simt/simt.h"

/* Small integers, whose products and sums are exact in any order. */
static inline int value_at(int i)
{
	return i * 37 % 23 - 11;
}

static inline unsigned short bits_of(int bf16, int value)
{
	return bf16 ? simt_to_bfloat((float)value) : simt_to_half((float)value);
}

static inline void fill_matrices(int *host, int bf16)
{
	unsigned short *a = (unsigned short *)(host + 200), *b = (unsigned short *)(host + 400);
	float *c = (float *)(host + 1000);
	for (int i = 0; i < 256; i++) {
		a[i] = bits_of(bf16, value_at(i));
		b[i] = bits_of(bf16, value_at(i + 300));
	}
	for (int i = 0; i < 1024; i++)
		c[i] = (float)value_at(i + 500);
}

/* The arguments for memory at `at`, which begins with the contents of `host`. */
static inline struct dialect_args dialect_lay(int *host, int *at, int mode, int bf16)
{
	memset(host, 0, DIALECT_INTS * sizeof *host);
	for (int i = 0; i < 4; i++)
		host[4 + i] = 10 + i;
	fill_matrices(host, bf16);
	return (struct dialect_args){ .mode = mode,
				      .counter = at,
				      .out = at + 1,
				      .source = at + 4, /* 16 bytes, aligned */
				      .tickets = at + 16,
				      .by_block = at + 100,
				      .a = (unsigned short *)(at + 200),
				      .b = (unsigned short *)(at + 400),
				      .c = (float *)(at + 1000),
				      .d = (float *)(at + 2100) };
}

/* ---- afterwards ------------------------------------------------------------------------- */

static inline void is_counted(const int *host, int mode)
{
	int busy = 0;
	for (int i = 0; mode == TICKETS && i < DIALECT_TICKETS; i++)
		assert_int_equal(host[16 + i], 1);
	for (int i = 0; i < DIALECT_BLOCKS; i++)
		busy += host[100 + i] > 0;
	assert_true(mode != TICKETS || busy > 2);
	assert_true(mode != LAST_BLOCK || host[1] == 45);
}

static inline void is_product(const int *host, int rows_of_a, int columns, int depth)
{
	const float *d = (const float *)(host + 2100);
	for (int i = 0; i < rows_of_a; i++)
		for (int j = 0; j < columns; j++) {
			int sum = value_at(i * columns + j + 500);
			for (int k = 0; k < depth; k++)
				sum += value_at(i * depth + k) * value_at(k * columns + j + 300);
			assert_true(d[i * columns + j] == (float)sum);
		}
}

#endif
