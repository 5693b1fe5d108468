/* SPDX-License-Identifier: Apache-2.0 */
/* e4m3_shapes.h - shapes of 8-bit caches, and shapes with the LSE, for t_e4m3.c (gpu_rows.h). */
#define E4M3(q, ...) { SIZE, __VA_ARGS__, ATTUNE_##q, ATTUNE_E4M3
#define LSE .has_lse = 1 }

// clang-format off
static struct row_shape shapes[] = {
	{ "head 128", E4M3(BF16, 8, 2, 128, 16), .causal = 1, LSE, LAYOUT_NHD },
	{ "head 64, f16, hnd", E4M3(F16, 14, 2, 64, 8), .causal = 1, LSE, LAYOUT_HND },
	{ "head 64, pages of 64, window and sinks", E4M3(BF16, 16, 2, 64, 64), .causal = 1, .window = 21, .has_sinks = 1, LSE, LAYOUT_BLNHC },
	{ "head 96, softcap, packed", E4M3(BF16, 10, 2, 96, 16), .causal = 1, .softcap = 20, LSE, LAYOUT_PACKED },
	{ "head 80, no mask", E4M3(F16, 6, 3, 80, 16), LSE, LAYOUT_HND },
	{ "head 48, group 1", E4M3(BF16, 2, 2, 48, 24), .causal = 1, LSE, LAYOUT_LHBNC },
	{ "head 192, alibi and sinks", E4M3(BF16, 3, 3, 192, 64), .causal = 1, .has_alibi = 1, .has_sinks = 1, LSE, LAYOUT_NHD },
	{ "head 256", E4M3(BF16, 4, 2, 256, 8), .causal = 1, LSE, LAYOUT_BHLNC },
	{ "head 256, f16, all at once", E4M3(F16, 5, 1, 256, 16), .causal = 1, .window = 70, .softcap = 30, .has_sinks = 1, .has_alibi = 1, .scale = 0.2f, LSE, LAYOUT_HND },
	{ "group 40, no lse", E4M3(BF16, 40, 1, 128, 544), .causal = 1 }, LAYOUT_NHD },
	{ "bf16 cache", { SIZE, 8, 2, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, LSE, LAYOUT_PAIRED },
	{ "f16 cache, sinks", { SIZE, 7, 1, 64, 8, ATTUNE_F16, ATTUNE_F16, .causal = 1, .window = 40, .has_sinks = 1, LSE, LAYOUT_HND },
};
// clang-format on
