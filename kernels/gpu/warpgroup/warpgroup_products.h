/* SPDX-License-Identifier: Apache-2.0 */
/* warpgroup_products.h - products of a warpgroup, 64 rows x N columns over a depth of 16. With
 * g = lane / 4 and c = 2 * (lane % 4), warp w of the four has rows 16 w ..:
 *
 *   sums     d[4 j] (g, 8 j + c)  d[4 j + 1] (g, 8 j + c + 1)  d[4 j + 2], d[4 j + 3]: row g + 8
 *   factors  a[0] (g, c..c+1)  a[1] (g+8, c..)  a[2] (g, c+8..)  a[3] (g+8, c+8..)
 *
 * so that sums, packed in pairs, are the factors of a next product. The second matrix is always in
 * shared memory: product<N>::of_shared takes rows of N (the layout of K), ::of_held rows of depth
 * (the layout of V). An instruction names each register of d, hence the macros that write its
 * text. */
#ifndef ATTUNE_WARPGROUP_PRODUCTS_H
#define ATTUNE_WARPGROUP_PRODUCTS_H

#include "warpgroup_shape.h"

#if KV_DTYPE == BF16
#define PRODUCT_TYPES "k16.f32.bf16.bf16"
#else
#define PRODUCT_TYPES "k16.f32.f16.f16"
#endif

#define TEXT_32	 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define TEXT_64	 TEXT_32 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define TEXT_80	 TEXT_64 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define TEXT_96	 TEXT_80 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define TEXT_112 TEXT_96 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define TEXT_128 TEXT_112 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define TEXT_160 TEXT_128 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define TEXT_192 TEXT_160 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define TEXT_208 TEXT_192 ",%96,%97,%98,%99,%100,%101,%102,%103"
#define TEXT_224 TEXT_208 ",%104,%105,%106,%107,%108,%109,%110,%111"
#define TEXT_240 TEXT_224 ",%112,%113,%114,%115,%116,%117,%118,%119"
#define TEXT_256 TEXT_240 ",%120,%121,%122,%123,%124,%125,%126,%127"

#define SUMS_8(i)                                                                          \
	"+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
		"+f"(d[i + 6]), "+f"(d[i + 7])
#define SUMS_64	 SUMS_8(0), SUMS_8(8), SUMS_8(16), SUMS_8(24)
#define SUMS_80	 SUMS_64, SUMS_8(32)
#define SUMS_96	 SUMS_80, SUMS_8(40)
#define SUMS_112 SUMS_96, SUMS_8(48)
#define SUMS_128 SUMS_112, SUMS_8(56)
#define SUMS_192 SUMS_128, SUMS_8(64), SUMS_8(72), SUMS_8(80), SUMS_8(88)
#define SUMS_256 SUMS_192, SUMS_8(96), SUMS_8(104), SUMS_8(112), SUMS_8(120)

template <int N> struct product;

/* i0 ..: numbers of the operands after the N / 2 sums. of_shared: add 0 ignores the old d. */
#define PRODUCT(N, i0, i1, i2, i3, i4)                                                          \
	template <> struct product<N> {                                                         \
		static DEVICE void of_shared(float (&d)[N / 2], unsigned long long a,           \
					     unsigned long long b, int add)                     \
		{                                                                               \
			asm volatile("{ .reg .pred add;\n"                                      \
				     "  setp.ne.b32 add, %" #i2 ", 0;\n"                        \
				     "  wgmma.mma_async.sync.aligned.m64n" #N PRODUCT_TYPES     \
				     " {" TEXT_##N "}, %" #i0 ", %" #i1 ", add, 1, 1, 0, 0; }"  \
				     : SUMS_##N : "l"(a), "l"(b), "r"(add));                    \
		}                                                                               \
		static DEVICE void of_held(float (&d)[N / 2], const u32 *a, unsigned long long b) \
		{                                                                               \
			asm volatile("{ .reg .pred add;\n"                                      \
				     "  setp.eq.u32 add, 0, 0;\n"                               \
				     "  wgmma.mma_async.sync.aligned.m64n" #N PRODUCT_TYPES     \
				     " {" TEXT_##N "}, {%" #i0 ",%" #i1 ",%" #i2 ",%" #i3       \
				     "}, %" #i4 ", add, 1, 1, 1; }"                             \
				     : SUMS_##N : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)); \
		}                                                                               \
	}

PRODUCT(64, 32, 33, 34, 35, 36);
PRODUCT(80, 40, 41, 42, 43, 44);
PRODUCT(96, 48, 49, 50, 51, 52);
PRODUCT(112, 56, 57, 58, 59, 60);
PRODUCT(128, 64, 65, 66, 67, 68);
PRODUCT(192, 96, 97, 98, 99, 100);
PRODUCT(256, 128, 129, 130, 131, 132);

#endif
