/* corners.c - small batches that have broken kernels, here or elsewhere. Lengths lie around the
 * sizes of pages, tiles and blocks: 8, 16, 32, 48, 64, 128, 256, 544. */
#include "scenario.h"

// clang-format off
const char *const corner_batches[] = {
	/* decode */
	"q1s1",
	"q1s1_q1s2_q1s7_q1s8_q1s9_q1s15_q1s16_q1s17_q1s31_q1s32_q1s33_q1s47_q1s48_q1s49",
	"q1s63_q1s64_q1s65_q1s127_q1s128_q1s129_q1s255_q1s256_q1s257_q1s543_q1s544_q1s545_q1s1057",
	"q1s4113",                                 /* enough keys for many segments */
	"3q1s1100_q1s3_q1s2000",                   /* segments without a key next to full ones */
	"q0_q1s40_q0s100_q1s1_2q0",                /* sequences without a query, at the ends too */
	"q2s2_q3s50_q4s64_q5s65_q6s131_q7s16_q8s523", /* speculative: 2 to 8 tokens */
	"q4s1_q8s3_q1s0_q2s2",                     /* queries longer than the sequence */
	/* prefill */
	"q9",
	"q16_q17_q15",
	"q63_q64_q65",
	"q127_q33_q129",
	"q257s257_q48s48",
	"q31s700_q64s545_q100s1057",               /* chunks over a context */
	"q40s17_q20s0_q9s8",                       /* rows without a key, and with a few */
	"q0_q30_q0_q13s300_q0",
	/* both: decodes of one token in front, as engines order them, and behind */
	"q1s60_q1s170_3q1s17_q141s300_q11_q33s64",
	"q9s544_q64_q50s96_q1s257_4q1s33",
	/* both, alternating */
	"q1s33_q40_q1s1_q50s96_q2s34_q9s544_q1s257",
	"q70s600_5q1s100_q11_q8s8_q0s5_q1s16",
	"q141s300_5q1s60_q11_q1s170_q0s5_q1s16_q1s1", /* decodes of one token */
	NULL
};
// clang-format on
