/* SPDX-License-Identifier: Apache-2.0 */
/* families.c - tables of the made-up sets: kinds of batches, rows of each, and models. Models are
 * assigned to rows in turn, so the order mixes their sizes. */
#include "family_words.h"
#include "set_writer.h"

// clang-format off
static const struct family h200_families[] = {
	/*                                       decodes: how many, query each, mean KV      prefills: how many, their tokens, context */
	{ "decode", "train", 48, ROUND,          DECODES(1, 256,  1, 1,  16, 128 K) },
	{ "ragged", "train", 23, ROUND,          DECODES(2, 256,  1, 1, 128, 64 K),          SPREAD(1.3, 0) },
	{ "skewed", "train", 12, ROUND,          DECODES(8, 256,  1, 1, 160, 3 K),           SPREAD(0.4, 1) },
	{ "drafts", "train", 14, ROUND,          DECODES(1, 128,  2, 8, 128, 64 K),          SPREAD(1.0, 0) },
	{ "prompts", "train", 20, ROUND,                                                     PREFILLS(1, 32,  16, 32 K,   0, 0) },
	{ "chunk", "train", 15, ROUND,                                                       PREFILLS(1, 1,   16, 8 K,   64, 120 K) },
	{ "extends", "train", 8, CACHED,                                                     PREFILLS(1, 4,  200, 1100, 4 K, 114 K) },
	{ "mixed", "train", 33, ROUND,           DECODES(1, 256,  1, 1,  64, 64 K),          SPREAD(1.0, 0.1),  PREFILLS(1, 12, 16, 8 K, 0, 64 K) },
	{ "agent", "train", 8, CACHED,           DECODES(2, 22,   1, 1, 40 K, 120 K),        SPREAD(0.3, 0),    PREFILLS(1, 2, 250, 1050, 75 K, 114 K) },
	{ "drafted", "train", 6, ROUND,          DECODES(2, 64,   2, 8, 512, 32 K),          SPREAD(0.8, 0),    PREFILLS(1, 3, 64, 4 K, 0, 16 K) },

	{ "pages of 32", "train", 3, ROUND,      DECODES(2, 128,  1, 1, 128, 32 K),          SPREAD(0.8, 0), .settings = "\"page_size\": 32, ",  PREFILLS(1, 3, 64, 4 K, 0, 16 K) },
	{ "pages of 64", "train", 3, ROUND,      DECODES(2, 128,  1, 1, 128, 32 K),          SPREAD(0.8, 0), .settings = "\"page_size\": 64, ",  PREFILLS(1, 3, 64, 4 K, 0, 16 K) },
	{ "pages of 128", "train", 4, ROUND,     DECODES(2, 128,  1, 1, 128, 32 K),          SPREAD(0.8, 0), .settings = "\"page_size\": 128, ", PREFILLS(1, 3, 64, 4 K, 0, 16 K) },
	{ "f16", "train", 3, ROUND,              DECODES(2, 128,  1, 1, 128, 32 K),          SPREAD(0.8, 0), .settings = "\"dtype\": \"f16\", ",  PREFILLS(1, 3, 64, 4 K, 0, 16 K) },
	{ "hnd", "train", 2, ROUND,              DECODES(2, 128,  1, 1, 128, 32 K),          SPREAD(0.8, 0), .settings = "\"layout\": \"hnd\", ", PREFILLS(1, 3, 64, 4 K, 0, 16 K) },

	{ "decode", "heldout_blocked", 6, BLOCKED, DECODES(16, 128, 1, 1, 128, 16 K),        SPREAD(0.8, 0) },
	{ "prompts", "heldout_blocked", 3, BLOCKED,                                          PREFILLS(1, 3, 4 K, 8 K, 0, 0) },
	{ "mixed", "heldout_blocked", 8, BLOCKED, DECODES(16, 128, 1, 1, 128, 16 K),         SPREAD(1.0, 0),    PREFILLS(1, 4, 64, 4 K, 0, 16 K) },
	{ "drafts", "heldout_blocked", 3, BLOCKED, DECODES(16, 128, 2, 6, 512, 16 K),        SPREAD(0.8, 0) },

	{ "decode", "heldout_offgrid", 6, ODD,   DECODES(1, 250,  1, 1,  17, 100 K) },
	{ "ragged", "heldout_offgrid", 3, ODD,   DECODES(3, 250,  1, 1, 128, 32 K),          SPREAD(1.3, 0.3) },
	{ "drafts", "heldout_offgrid", 3, ODD,   DECODES(1, 99,   3, 7, 128, 32 K),          SPREAD(0.8, 0) },
	{ "prompts", "heldout_offgrid", 3, ODD,                                              PREFILLS(1, 16,  17, 20 K,  0, 0) },
	{ "chunk", "heldout_offgrid", 3, ODD,                                                PREFILLS(1, 1,   17, 8 K,  65, 100 K) },
	{ "mixed", "heldout_offgrid", 5, ODD,    DECODES(1, 250,  1, 1,  65, 32 K),          SPREAD(1.0, 0.1),  PREFILLS(1, 8, 17, 6 K, 0, 32 K) },

	{ "pages of 48", "heldout_offgrid", 2, ODD, DECODES(2, 128, 1, 1, 128, 32 K),        SPREAD(0.8, 0), .settings = "\"page_size\": 48, ",  PREFILLS(1, 3, 65, 4 K, 0, 16 K) },

	{ "crowd", "heldout_extrapolated", 5, ROUND, DECODES(320, 1 K, 1, 1, 64, 3 K),       SPREAD(0.8, 0) },
	{ "crowd, mixed", "heldout_extrapolated", 3, ROUND, DECODES(320, 640, 1, 1, 128, 2 K), SPREAD(0.8, 0),  PREFILLS(1, 8, 64, 4 K, 0, 2 K) },
	{ "book", "heldout_extrapolated", 4, ROUND, DECODES(1, 8, 1, 1, 160 K, 256 K) },
	{ "book, chunk", "heldout_extrapolated", 2, ROUND,                                   PREFILLS(1, 1, 64, 1 K, 144 K, 250 K) },

	{ "decode", "heldout_shape", 5, ROUND,   DECODES(1, 256,  1, 1,  64, 64 K),          SPREAD(0.8, 0) },
	{ "prompts", "heldout_shape", 2, ROUND,                                              PREFILLS(1, 8,   64, 8 K,   0, 0) },
	{ "chunk", "heldout_shape", 2, ROUND,                                                PREFILLS(1, 1,   64, 2 K, 1 K, 64 K) },
	{ "mixed", "heldout_shape", 5, ROUND,    DECODES(1, 200,  1, 1, 128, 16 K),          SPREAD(0.8, 0.1),  PREFILLS(1, 6, 64, 4 K, 0, 16 K) },
	{ 0 }
};
/* Head sizes and lengths that are rare in h200_families. */
static const struct family shapes_families[] = {
	{ "decode", "train", 34, ROUND,          DECODES(1, 256,  1, 1,  32, 96 K) },
	{ "ragged", "train", 14, ROUND,          DECODES(2, 256,  1, 1, 128, 48 K),          SPREAD(1.2, 0) },
	{ "short", "train", 10, ROUND,           DECODES(4, 256,  1, 2,  16, 256) },
	{ "drafts", "train", 12, ROUND,          DECODES(1, 96,   4, 8, 128, 48 K),          SPREAD(0.8, 0) },
	{ "prompts", "train", 14, ROUND,                                                     PREFILLS(1, 24,  16, 16 K,   0, 0) },
	{ "chunk", "train", 12, ROUND,                                                       PREFILLS(1, 1,   16, 4 K,   64, 100 K) },
	{ "mixed", "train", 34, ROUND,           DECODES(1, 224,  1, 1,  64, 32 K),          SPREAD(1.0, 0.1),  PREFILLS(1, 8, 16, 4 K, 0, 48 K) },
	{ 0 }
};
/* Where trees lose most: parts of 10 to 200 us, short contexts, drafts, unequal lengths. For
 * training only. */
static const struct family dense_families[] = {
	{ "prompts", "train", 50, ROUND,                                                     PREFILLS(1, 8,   64, 2 K,   0, 0) },
	{ "packed", "train", 15, ROUND,                                                      PREFILLS(2, 8,   64, 1 K,  64, 64 K) },
	{ "chunk", "train", 35, ROUND,                                                       PREFILLS(1, 1,   64, 2 K,  64, 64 K) },
	{ "extends", "train", 45, CACHED,                                                    PREFILLS(1, 6,   16, 300, 512, 64 K) },
	{ "tiny", "train", 22, ROUND,            DECODES(1, 256,  1, 1,   4, 63) },
	{ "short", "train", 33, ROUND,           DECODES(8, 256,  1, 1,  64, 512) },
	{ "ragged", "train", 33, ROUND,          DECODES(4, 256,  1, 1, 128, 16 K),          SPREAD(1.27, 0), .least = 0.47 },
	{ "drafts", "train", 22, ROUND,          DECODES(1, 256,  2, 8,  16, 4 K),           SPREAD(1.0, 0) },
	{ "drafts, long", "train", 20, ROUND,    DECODES(1, 32,   2, 8, 4 K, 96 K),          SPREAD(0.8, 0) },
	{ "mixed", "train", 85, ROUND,           DECODES(1, 256,  1, 1,  16, 16 K),          SPREAD(1.0, 0.1),  PREFILLS(1, 8, 64, 2 K, 0, 64 K) },
	{ "cached", "train", 35, CACHED,         DECODES(2, 256,  1, 1,  64, 8 K),           SPREAD(1.0, 0),    PREFILLS(1, 4, 16, 300, 512, 64 K) },
	{ "drafted", "train", 25, ROUND,         DECODES(1, 96,   2, 8,  64, 16 K),          SPREAD(0.8, 0),    PREFILLS(1, 3, 64, 1 K, 0, 16 K) },
	{ 0 }
};
/* A tune compares new rules with old ones on these. They are of the same kinds as h200_families and
 * dense_families; no batch is in another set. */
static const struct family gate_families[] = {
	{ "decode", "gate", 40, ROUND,           DECODES(1, 256,  1, 1,  16, 96 K) },
	{ "ragged", "gate", 30, ROUND,           DECODES(2, 256,  1, 1, 128, 32 K),          SPREAD(1.3, 0) },
	{ "short", "gate", 20, ROUND,            DECODES(4, 256,  1, 1,   8, 512) },
	{ "drafts", "gate", 30, ROUND,           DECODES(1, 192,  2, 8,  32, 64 K),          SPREAD(1.0, 0) },
	{ "prompts", "gate", 40, ROUND,                                                      PREFILLS(1, 16,  32, 8 K,   0, 0) },
	{ "packed", "gate", 15, ROUND,                                                       PREFILLS(2, 8,   64, 1 K,  64, 64 K) },
	{ "chunk", "gate", 35, ROUND,                                                        PREFILLS(1, 1,   32, 4 K,  64, 96 K) },
	{ "extends", "gate", 30, CACHED,                                                     PREFILLS(1, 6,   16, 1 K,  512, 96 K) },
	{ "mixed", "gate", 90, ROUND,            DECODES(1, 256,  1, 1,  32, 48 K),          SPREAD(1.0, 0.1),  PREFILLS(1, 10, 32, 4 K, 0, 64 K) },
	{ "cached", "gate", 30, CACHED,          DECODES(2, 256,  1, 1,  64, 16 K),          SPREAD(1.0, 0),    PREFILLS(1, 4, 16, 600, 512, 96 K) },
	{ "drafted", "gate", 15, ROUND,          DECODES(1, 96,   2, 8,  64, 24 K),          SPREAD(0.8, 0),    PREFILLS(1, 3, 64, 2 K, 0, 16 K) },
	{ "prompt", "gate", 30, ROUND,                                                       PREFILLS(1, 1,   64, 8 K,   0, 0) },
	{ "many prompts", "gate", 30, ROUND,                                                 PREFILLS(4, 32,  32, 2 K,   0, 0) },
	{ "late chunk", "gate", 30, ROUND,                                                   PREFILLS(1, 1,   64, 2 K, 8 K, 96 K) },
	{ "extend", "gate", 30, CACHED,                                                      PREFILLS(1, 2,   16, 512, 2 K, 64 K) },
	{ "one chunk", "gate", 60, ROUND,        DECODES(8, 256,  1, 1, 256, 32 K),          SPREAD(1.0, 0),    PREFILLS(1, 1, 64, 4 K, 0, 32 K) },
	{ "few decodes", "gate", 60, ROUND,      DECODES(1, 32,   1, 1,  64, 64 K),          SPREAD(1.0, 0),    PREFILLS(1, 6, 64, 4 K, 0, 16 K) },
	{ "two prompts", "gate", 50, ROUND,                                                  PREFILLS(2, 4,   64, 4 K,   0, 0) },
	{ "short prompts", "gate", 50, ROUND,                                                PREFILLS(3, 24,  16, 1 K,   0, 0) },
	{ "early chunk", "gate", 50, ROUND,                                                  PREFILLS(1, 1,   64, 4 K, 512, 16 K) },
	{ "two chunks", "gate", 50, ROUND,                                                   PREFILLS(2, 4,   32, 1 K, 256, 48 K) },
	{ 0 }
};
/* How the two parts of a mixed batch run together depends on more of the batch than either part's
 * kernel does. Trees of the parts that learned from these, too, were worse on prefills. */
static const struct family blends_families[] = {
	{ "mixed", "overlap", 120, ROUND,          DECODES(1, 256,  1, 1,  32, 48 K),          SPREAD(1.0, 0.1),  PREFILLS(1, 10, 32, 4 K, 0, 64 K) },
	{ "cached", "overlap", 60, CACHED,         DECODES(2, 256,  1, 1,  64, 16 K),          SPREAD(1.0, 0),    PREFILLS(1, 4, 16, 600, 512, 96 K) },
	{ "drafted", "overlap", 20, ROUND,         DECODES(1, 96,   2, 8,  64, 24 K),          SPREAD(0.8, 0),    PREFILLS(1, 3, 64, 2 K, 0, 16 K) },
	{ "one chunk", "overlap", 90, ROUND,       DECODES(8, 256,  1, 1, 256, 32 K),          SPREAD(1.0, 0),    PREFILLS(1, 1, 64, 4 K, 0, 32 K) },
	{ "few decodes", "overlap", 70, ROUND,     DECODES(1, 32,   1, 1,  64, 64 K),          SPREAD(1.0, 0),    PREFILLS(1, 6, 64, 4 K, 0, 16 K) },
	{ "late chunk", "overlap", 60, ROUND,      DECODES(4, 256,  1, 1,  64, 16 K),          SPREAD(0.6, 0),    PREFILLS(1, 3, 64, 1 K, 4 K, 96 K) },
	{ 0 }
};
/* Decodes of several tokens, which verify drafts. 18 of 101 held-out decodes were of this kind, and an
 * H200's rules lost 38 % of their loss on these. For training only. */
static const struct family drafts_families[] = {
	{ "drafts", "train", 90, ROUND,            DECODES(1, 192,  2, 8,  32, 64 K),          SPREAD(1.0, 0) },
	{ "drafts, even", "train", 40, ROUND,      DECODES(1, 96,   2, 8, 128, 32 K) },
	{ "drafts, short", "train", 20, ROUND,     DECODES(4, 256,  2, 8,  16, 1 K),           SPREAD(0.8, 0) },
	{ 0 }
};
/* One chunk of a prompt with decodes of one length: typical of engines with chunked prefill under
 * load, and of papers about such batches. */
static const struct family hybrid_families[] = {
	{ "chunk of 512", "ways", 72, ROUND,    DECODES(16, 256, 1, 1, 4 K, 20 K),                             PREFILLS(1, 1, 512, 512, 4 K, 20 K) },
	{ "chunk of 1k", "ways", 72, ROUND,     DECODES(16, 256, 1, 1, 4 K, 20 K),                             PREFILLS(1, 1, 1 K, 1 K, 4 K, 20 K) },
	{ "chunk of 2k", "ways", 72, ROUND,     DECODES(16, 256, 1, 1, 4 K, 20 K),                             PREFILLS(1, 1, 2 K, 2 K, 4 K, 20 K) },
	{ "chunk", "heldout_blocked", 24, BLOCKED, DECODES(16, 256, 1, 1, 4 K, 20 K),                           PREFILLS(1, 1, 512, 2 K, 4 K, 20 K) },
	{ 0 }
};
/* Held-out rows that the sets above have too few of: prefills alone, page sizes other than 16,
 * shapes that no training row has. None is for training. */
#define PAGES(n) \
	{ "pages of " #n, "heldout_offgrid", 4, ODD, DECODES(2, 128, 1, 1, 128, 32 K), SPREAD(0.8, 0), PREFILLS(1, 3, 65, 4 K, 0, 16 K), PAGE_SIZE(n) }, \
	{ "pages of " #n ", decode", "heldout_offgrid", 3, ODD, DECODES(1, 250, 1, 1, 65, 64 K), SPREAD(0.8, 0), PAGE_SIZE(n) }, \
	{ "pages of " #n ", prompts", "heldout_offgrid", 2, ODD, PREFILLS(1, 8, 65, 8 K, 0, 16 K), PAGE_SIZE(n) }
#define PAGE_SIZE(n) .settings = "\"page_size\": " #n ", "
static const struct family unseen_families[] = {
	{ "prompts", "heldout_offgrid", 24, ODD,                                              PREFILLS(1, 24,  17, 16 K,  0, 0) },
	{ "chunk", "heldout_offgrid", 20, ODD,                                                PREFILLS(1, 1,   17, 8 K,  65, 100 K) },
	{ "extends", "heldout_offgrid", 16, ODD,                                              PREFILLS(1, 6,   17, 300, 513, 64 K) },

	PAGES(8), PAGES(32), PAGES(64), PAGES(128),

	{ "decode", "heldout_shape", 12, ROUND,  DECODES(1, 256,  1, 1,  64, 64 K),          SPREAD(0.8, 0) },
	{ "drafts", "heldout_shape", 6, ROUND,   DECODES(1, 64,   2, 8, 128, 32 K),          SPREAD(0.8, 0) },
	{ "prompts", "heldout_shape", 6, ROUND,                                              PREFILLS(1, 8,   64, 8 K,   0, 0) },
	{ "chunk", "heldout_shape", 6, ROUND,                                                PREFILLS(1, 1,   64, 2 K, 1 K, 64 K) },
	{ "mixed", "heldout_shape", 12, ROUND,   DECODES(1, 200,  1, 1, 128, 16 K),          SPREAD(0.8, 0.1),  PREFILLS(1, 6, 64, 4 K, 0, 16 K) },
	{ 0 }
};
#undef PAGES
#undef PAGE_SIZE
static const struct family cpu_families[] = {
	{ "decode", "train", 15, ROUND,          DECODES(1, 24,   1, 1,  32, 16 K) },
	{ "ragged", "train", 9, ROUND,           DECODES(2, 24,   1, 1,  64, 4 K),           SPREAD(1.2, 0) },
	{ "skewed", "train", 3, ROUND,           DECODES(8, 24,   1, 1,  64, 256),           SPREAD(0.4, 1) },
	{ "drafts", "train", 5, ROUND,           DECODES(1, 10,   2, 8,  64, 4 K),           SPREAD(0.8, 0) },
	{ "prompts", "train", 10, ROUND,                                                     PREFILLS(1, 6,   16, 1 K,   0, 0) },
	{ "chunk", "train", 7, ROUND,                                                        PREFILLS(1, 1,   16, 512,  64, 8 K) },
	{ "extends", "train", 3, CACHED,                                                     PREFILLS(1, 3,   20, 128, 500, 4 K) },
	{ "mixed", "train", 13, ROUND,           DECODES(1, 14,   1, 1,  32, 4 K),           SPREAD(1.0, 0.1),  PREFILLS(1, 3, 16, 512, 0, 2 K) },
	{ "pages of 32", "train", 1, ROUND,      DECODES(2, 10,   1, 1,  64, 4 K),           SPREAD(0.8, 0), .settings = "\"page_size\": 32, ",  PREFILLS(1, 2, 16, 256, 0, 1 K) },
	{ "pages of 128", "train", 1, ROUND,     DECODES(2, 10,   1, 1,  64, 4 K),           SPREAD(0.8, 0), .settings = "\"page_size\": 128, ", PREFILLS(1, 2, 16, 256, 0, 1 K) },
	{ "f16", "train", 2, ROUND,              DECODES(2, 10,   1, 1,  64, 4 K),           SPREAD(0.8, 0), .settings = "\"dtype\": \"f16\", ",  PREFILLS(1, 2, 16, 256, 0, 1 K) },
	{ "f32", "train", 3, ROUND,              DECODES(2, 10,   1, 1,  64, 2 K),           SPREAD(0.8, 0), .settings = "\"dtype\": \"f32\", ",  PREFILLS(1, 2, 16, 256, 0, 1 K) },
	{ "hnd", "train", 1, ROUND,              DECODES(2, 10,   1, 1,  64, 4 K),           SPREAD(0.8, 0), .settings = "\"layout\": \"hnd\", ", PREFILLS(1, 2, 16, 256, 0, 1 K) },

	{ "decode", "heldout_blocked", 3, BLOCKED, DECODES(1, 30, 1, 1, 128, 6 K),           SPREAD(0.8, 0) },
	{ "mixed", "heldout_blocked", 3, BLOCKED, DECODES(1, 30,  1, 1, 128, 6 K),           SPREAD(0.8, 0),    PREFILLS(1, 2, 16, 256, 0, 1 K) },

	{ "decode", "heldout_offgrid", 3, ODD,   DECODES(1, 23,   1, 1,  33, 8 K) },
	{ "ragged", "heldout_offgrid", 2, ODD,   DECODES(3, 19,   1, 1,  64, 3 K),           SPREAD(1.2, 0.3) },
	{ "prompts", "heldout_offgrid", 2, ODD,                                              PREFILLS(1, 5,   17, 900,   0, 0) },
	{ "chunk", "heldout_offgrid", 1, ODD,                                                PREFILLS(1, 1,   17, 500,  65, 4 K) },
	{ "mixed", "heldout_offgrid", 2, ODD,    DECODES(1, 13,   1, 1,  33, 3 K),           SPREAD(1.0, 0.1),  PREFILLS(1, 3, 17, 300, 0, 2 K) },

	{ "crowd", "heldout_extrapolated", 2, ROUND, DECODES(32, 64, 1, 1, 32, 512),         SPREAD(0.8, 0) },
	{ "book", "heldout_extrapolated", 2, ROUND, DECODES(1, 2, 1, 1, 20 K, 32 K) },

	{ "decode", "heldout_shape", 3, ROUND,   DECODES(1, 16,   1, 1,  64, 4 K),           SPREAD(0.8, 0) },
	{ "prompts", "heldout_shape", 1, ROUND,                                              PREFILLS(1, 3,   32, 512,   0, 0) },
	{ "mixed", "heldout_shape", 3, ROUND,    DECODES(1, 10,   1, 1,  64, 2 K),           SPREAD(0.8, 0),    PREFILLS(1, 2, 16, 256, 0, 1 K) },

	{ "few", "train", 20, ROUND,             DECODES(1, 4,    1, 1,  64, 16 K) },
	{ "few, f32", "train", 7, ROUND,         DECODES(1, 4,    1, 1,  64, 8 K),           .settings = "\"dtype\": \"f32\", " },
	{ "few, pages of 128", "train", 6, ROUND, DECODES(1, 4,   1, 1,  64, 16 K),          .settings = "\"page_size\": 128, " },
	{ 0 }
};
static const struct family gate_cpu_families[] = {
	{ "decode", "gate", 8, ROUND,            DECODES(1, 24,   1, 1,  32, 8 K) },
	{ "ragged", "gate", 8, ROUND,            DECODES(2, 24,   1, 1,  64, 4 K),           SPREAD(1.2, 0) },
	{ "drafts", "gate", 4, ROUND,            DECODES(1, 10,   2, 8,  64, 4 K),           SPREAD(0.8, 0) },
	{ "prompts", "gate", 14, ROUND,                                                      PREFILLS(1, 6,   16, 1 K,   0, 0) },
	{ "chunk", "gate", 8, ROUND,                                                         PREFILLS(1, 1,   16, 512,  64, 8 K) },
	{ "extends", "gate", 4, CACHED,                                                      PREFILLS(1, 3,   20, 128, 500, 4 K) },
	{ "mixed", "gate", 16, ROUND,            DECODES(1, 14,   1, 1,  32, 4 K),           SPREAD(1.0, 0.1),  PREFILLS(1, 3, 16, 512, 0, 2 K) },
	{ 0 }
};
#undef K

static const char *const h200_models[] = {
	"llama3.1-8b@1", "llama3.1-70b@4", "llama3.1-8b@1", "gpt-oss-120b-global@1",
	"llama3.1-8b@4", "llama3.1-70b@8", "llama3.1-8b@1", "qwen3-14b@1", "llama3.1-70b@1",
	"qwen3-next-80b@1", "llama3.1-8b@1", "gpt-oss-120b-local@1", "llama3.1-70b@8",
	"qwen3-0.6b@1", "llama3.1-8b@2", "llama3.1-70b@2", "llama3.1-8b@1", "gemma-3-27b-local@1",
	"qwen3-235b-a22b@4", "llama3.1-8b@8", "llama3.1-70b@4", "qwen3-14b@8",
	"gemma-3-12b-local@2", "llama3.1-8b@1", "gemma-3-12b-global@1", NULL
};
static const char *const h200_others[] = {
	"phi-4-mini@1", "qwen3-235b-a22b@1", "qwen3-14b@2", NULL
};

/* Half of head size 256, a quarter of 64. */
static const char *const shapes_models[] = {
	"gemma-3-12b-global@1", "llama3.1-70b@4", "qwen3-next-80b@1", "gpt-oss-120b-global@1",
	"gemma-3-12b-local@2", "llama3.1-8b@1", "qwen3-next-80b@2", "gpt-oss-120b-local@2",
	"gemma-3-12b-global@4", "qwen3-235b-a22b@2", "qwen3-next-80b@1", "gpt-oss-120b-global@4",
	NULL
};

/* Half of head size 128, a quarter of 256, a quarter of 64. */
static const char *const dense_models[] = {
	"llama3.1-8b@1", "gemma-3-12b-global@1", "llama3.1-70b@4", "gpt-oss-120b-global@1",
	"qwen3-14b@1", "qwen3-next-80b@1", "llama3.1-70b@1", "gpt-oss-120b-local@1",
	"llama3.1-8b@4", "gemma-3-12b-local@1", "qwen3-235b-a22b@2", "gpt-oss-120b-global@4",
	"llama3.1-70b@8", "qwen3-next-80b@2", "llama3.1-8b@2", "gpt-oss-120b-global@2",
	"qwen3-14b@4", "gemma-3-12b-global@2", "llama3.1-70b@2", "gpt-oss-120b-local@2",
	"qwen3-235b-a22b@4", "gemma-3-12b-local@4", "llama3.1-8b@8", "gpt-oss-120b-global@8", NULL
};

/* Most of head size 128, where fused kernels run. */
static const char *const blends_models[] = {
	"llama3.1-8b@1", "llama3.1-70b@4", "qwen3-14b@1", "llama3.1-8b@4", "gpt-oss-120b-global@1",
	"llama3.1-70b@1", "qwen3-235b-a22b@4", "llama3.1-8b@2", "gpt-oss-120b-local@1",
	"llama3.1-70b@8", "qwen3-14b@4", "gemma-3-27b-local@1", "llama3.1-8b@8", "llama3.1-70b@2",
	"qwen3-235b-a22b@2", "gpt-oss-120b-global@4", "gemma-3-12b-global@1", "qwen3-0.6b@1",
	"llama3.1-8b@1", NULL
};

/* Of ten: five the usual model, two its half, one with eight query heads per KV head. */
static const char *const hybrid_models[] = {
	"llama3.1-8b@1", "llama3.1-8b@2", "llama3.1-8b@1", "qwen3-30b-a3b@1", "llama3.1-8b@1",
	"llama3.1-8b@4", "llama3.1-8b@1", "llama3.1-8b@8", "llama3.1-8b@1", "llama3.1-8b@2", NULL
};

/* Query heads per KV head: 6, 12, 4 (head size 64), 16 (head size 256), 5 (window), 4 (ten KV
 * heads). */
static const char *const unseen_others[] = {
	"mixtral-8x22b@1", "glm-4.5@1", "granite-3-2b@1", "qwen3.5-397b@1", "olmo-3-32b-local@1",
	"phi-4@1", NULL
};
static const char *const unseen_usual[] = {
	"llama3.1-8b@1", "gpt-oss-120b-global@1", "llama3.1-70b@4", "gemma-3-12b-global@1",
	"qwen3-14b@1", NULL
};

static const char *const cpu_models[] = {
	"llama3.1-8b@1", "llama3.1-8b@4", "llama3.1-8b@1", "llama3.1-70b@8",
	"gpt-oss-120b-global@4", "llama3.1-8b@1", "qwen3-14b@4", "gemma-3-12b-local@2",
	"llama3.1-8b@4", "gpt-oss-120b-local@2", NULL
};
static const char *const cpu_others[] = { "phi-4-mini@2", "qwen3-235b-a22b@4", NULL };

static const char *const usual_models[] = { "llama3.1-8b@1", NULL };

#define BEFORE_COVERAGE                                                                           \
	"h200,shapes_h200,dense_h200,hybrid_h200,unseen_h200,ladder_h200,mixed_h200,traces_h200," \
	"peers_h200,gate_h200,blends_h200,drafts_h200,cliffs_h200,e4m3_h200,fp8_h200"

const struct grid grids[] = {
	{ "h200", "peers_h200", NULL, h200_families, h200_models, h200_others, usual_models, 6e9, 8e3, 128 * 1024, 0 },
	{ "shapes_h200", "peers_h200", NULL, shapes_families, shapes_models, NULL, shapes_models, 6e9, 4e3, 128 * 1024, 0 },
	{ "dense_h200", "h200,shapes_h200,traces_h200,peers_h200", NULL, dense_families, dense_models, NULL, dense_models,
	  2e9, 900, 128 * 1024, 1 },
	{ "hybrid_h200", "h200,shapes_h200,dense_h200,traces_h200,peers_h200", NULL, hybrid_families, hybrid_models, NULL,
	  hybrid_models, 24e9, 1000, 128 * 1024, 0 },
	{ "unseen_h200", "h200,shapes_h200,dense_h200,hybrid_h200,traces_h200,peers_h200", NULL, unseen_families, dense_models,
	  unseen_others, unseen_usual, 6e9, 4e3, 128 * 1024, 0 },
	{ "gate_h200", "h200,shapes_h200,dense_h200,hybrid_h200,unseen_h200,ladder_h200,mixed_h200,traces_h200,peers_h200", NULL, gate_families,
	  dense_models, NULL, dense_models, 4e9, 2e3, 128 * 1024, 1 },
	{ "blends_h200", "h200,shapes_h200,dense_h200,hybrid_h200,unseen_h200,ladder_h200,mixed_h200,traces_h200,peers_h200,gate_h200", NULL,
	  blends_families, blends_models, NULL, blends_models, 4e9, 2e3, 128 * 1024, 1 },
	{ "drafts_h200", "h200,shapes_h200,dense_h200,hybrid_h200,unseen_h200,ladder_h200,mixed_h200,traces_h200,peers_h200,gate_h200,blends_h200", NULL,
	  drafts_families, dense_models, NULL, dense_models, 4e9, 2e3, 128 * 1024, 1 },
	{ "coverage_h200", BEFORE_COVERAGE, "coverage_gate_h200:68,coverage_unseen_h200:137", coverage_families,
	  usual_models, NULL, usual_models, 2e9, 900, 128 * 1024, 1 },
	{ "coverage_gate_h200", BEFORE_COVERAGE ",coverage_h200:299", "coverage_h200,coverage_unseen_h200:137", coverage_gate_families,
	  usual_models, NULL, usual_models, 2e9, 900, 128 * 1024, 1 },
	{ "coverage_unseen_h200", BEFORE_COVERAGE ",coverage_h200:299,coverage_gate_h200:68", "coverage_h200,coverage_gate_h200",
	  coverage_unseen_families, usual_models, NULL, usual_models, 2e9, 900, 128 * 1024, 1 },
	{ "cpu", "", NULL, cpu_families, cpu_models, cpu_others, usual_models, 250e6, 6, 16 * 1024, 0 },
	{ "gate_cpu", "cpu", NULL, gate_cpu_families, cpu_models, NULL, usual_models, 250e6, 6, 16 * 1024, 1 },
	{ 0 }
};
// clang-format on
