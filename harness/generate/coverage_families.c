/* SPDX-License-Identifier: Apache-2.0 */
/* coverage_families.c - tables of the sets of what users bring beside the models that serve most:
 * one query head a KV head, or many; heads of 80, 96 and 192; pages of 1 to 1056; layouts; masks;
 * caches of 8 bits; drafts; few decodes of unequal lengths; short chats; cross attention. Training,
 * gate and held-out sets have the same kinds; the last one also has shapes of its own. The order of
 * rows decides the batches: new rows come last. */
#include "family_words.h"
#include "set_writer.h"

#define MODELS(...)                     \
	.models = (const char *const[]) \
	{                               \
		__VA_ARGS__, NULL       \
	}

/* One query head a KV head. 32 and 40 of them, of all sizes; names that begin with mha, gqa or mqa
 * are of no model in particular. */
#define MHA                                                                                \
	MODELS("llama2-7b@1", "opt-1.3b@1", "phi-2@1", "llama2-13b@1", "mha-32x256@1",     \
	       "phi-3-mini@1", "mha-40x64@1", "mha-40x80@1", "llama2-7b@4", "mha-40x96@1", \
	       "gpt-j-6b@1", "mha-40x256@1")
/* 7, 8, 16, 24, 32, 48, 64 and 71 of them. */
#define GROUPS                                                                                     \
	MODELS("starcoderbase-7b@1", "qwen2-7b@1", "falcon-7b@1", "gemma-2b@1", "starcoder-15b@1", \
	       "qwen2-0.5b@1", "falcon-40b@1", "mqa-64x128@1", "starcoder-15b@2", "qwen2-7b@4")
#define HEADS                                                                          \
	MODELS("nemotron-4-340b@4", "gqa-32x80@1", "gqa-32x96@1", "nemotron-4-340b@1", \
	       "gqa-32x80@4", "gqa-32x96@4", "nemotron-4-340b@8")
#define PAGED MODELS("llama3.1-8b@1", "gpt-oss-120b-global@1", "llama2-7b@1", "qwen3-next-80b@1")
#define HYBRID MODELS("qwen3-next-80b@1", "llama3.1-8b@1", "qwen3-next-80b@2")
#define MASKS                                                                              \
	MODELS("mpt-7b@1", "gemma-2-9b-local@1", "gpt-oss-120b-local@1", "baichuan-13b@1", \
	       "gemma-2-27b-global@1", "falcon-rw-1b@1", "gemma-2-9b-global@1",            \
	       "gemma-2-27b-local@1")
#define E4M3                                                                        \
	MODELS("llama2-7b@1", "qwen2-7b@1", "phi-3-mini@1", "gpt-oss-120b-local@1", \
	       "nemotron-4-340b@4", "gemma-2-9b-local@1", "mpt-7b@1", "starcoderbase-7b@1")
#define SERVED                                                                            \
	MODELS("llama3.1-8b@1", "llama3.1-70b@4", "qwen3-14b@1", "gpt-oss-120b-global@1", \
	       "llama3.1-70b@8", "qwen3-235b-a22b@2", "llama3.1-8b@4", "qwen3-next-80b@1")
#define LSE MODELS("llama3.1-8b@1", "llama2-7b@1", "gpt-oss-120b-global@1")
#define CROSS MODELS("whisper-large-cross@1", "llama3.2-11b-cross@1")
#define SHAPES                                                                                   \
	MODELS("starcoder2-7b@1", "falcon-180b@1", "mha-32x192@1", "yi-34b@1", "gpt-neox-20b@1", \
	       "bloom-3b@1")

/* 64, 128 and 256 elements, one query head a KV head to 16. */
#define CACHES                                                                              \
	MODELS("llama3.1-8b@1", "gpt-oss-120b-global@1", "qwen3-next-80b@1", "llama2-7b@1", \
	       "qwen3-14b@1", "gpt-oss-120b-local@1", "llama3.1-70b@4")
#define SIZES MODELS("gpt-oss-120b-global@1", "llama3.1-8b@1", "qwen3-next-80b@1")
#define MHA_SIZES                                                                          \
	MODELS("llama2-7b@1", "llama2-13b@1", "opt-1.3b@1", "mha-40x64@1", "mha-32x256@1", \
	       "mha-40x256@1", "phi-2@1", "mha-40x96@1")
#define ODD_HEADS                                                                      \
	MODELS("gqa-64x80@1", "gqa-32x192@1", "phi-2@1", "gqa-64x96@1", "gqa-32x80@1", \
	       "gqa-64x192@1", "mha-40x96@1", "gqa-32x96@1")
#define CHATS                                                                               \
	MODELS("llama3.1-8b@1", "gpt-oss-120b-global@1", "qwen3-next-80b@1", "llama2-7b@1", \
	       "qwen3-14b@1", "llama3.1-70b@4", "opt-1.3b@1", "gemma-3-12b-global@1",       \
	       "qwen3-235b-a22b@2", "qwen2-7b@1")
#define DRAFTED                                                                              \
	MODELS("llama3.1-8b@1", "qwen3-235b-a22b@2", "gpt-oss-120b-global@1", "qwen3-14b@1", \
	       "qwen3-next-80b@1", "qwen2-7b@1", "nemotron-4-340b@4", "llama3.1-70b@8")

#define SET(text) .settings = text ", "
#define PAGE(n) SET("\"page_size\": " #n)

// clang-format off
/* Rows of each: prompts, chunks, decodes, drafts, decodes with prompts. */
#define KIND(name, split, prompts, chunks, decoded, drafts, mixed, flags, ...) \
	{ name ", prompts", split, prompts, flags, PREFILLS(1, 8, 33, 8 K, 0, 0), __VA_ARGS__ }, \
	{ name ", chunk",   split, chunks,  flags, PREFILLS(1, 1, 33, 2 K, 512, 32 K), __VA_ARGS__ }, \
	{ name ", decode",  split, decoded, flags, DECODES(1, 160, 1, 1, 64, 16 K), SPREAD(0.8, 0), __VA_ARGS__ }, \
	{ name ", drafts",  split, drafts,  flags, DECODES(1, 64, 2, 8, 64, 16 K), SPREAD(0.8, 0), __VA_ARGS__ }, \
	{ name ", mixed",   split, mixed,   flags, DECODES(1, 96, 1, 1, 64, 8 K), SPREAD(0.8, 0), PREFILLS(1, 3, 33, 2 K, 0, 8 K), __VA_ARGS__ }
#define LARGE_PAGES(n, split, prompts, decoded, flags) \
	{ "pages of " #n ", prompts", split, prompts, flags, PREFILLS(1, 4, 65, 4 K, 0, 8 K), HYBRID, PAGE(n) }, \
	{ "pages of " #n ", decode",  split, decoded, flags, DECODES(1, 160, 1, 1, 512, 32 K), SPREAD(0.8, 0), HYBRID, PAGE(n) }
#define SMALL_PAGES(n) \
	{ "more pages of " #n ", prompts", "train", 2, NEW, PREFILLS(1, 4, 65, 4 K, 0, 8 K), SIZES, PAGE(n) }, \
	{ "more pages of " #n ", decode",  "train", 2, NEW, DECODES(1, 160, 1, 1, 256, 32 K), SPREAD(0.8, 0), SIZES, PAGE(n) }
enum { NEW = ROUND | LATER };
#define PACKED SET("\"layout\": \"packed\"")
/* The kinds with batches of their own. whole: flags for any number of sequences. */
#define OTHERS(split, drafts, chats, ragged, cross, whole, flags) \
	{ "drafts", split, drafts, flags,  DECODES(1, 64, 2, 8, 128, 32 K), SPREAD(0.8, 0), SERVED }, \
	{ "chat", split, chats, whole,     DECODES(2, 6, 1, 1, 64, 1.5 K), SPREAD(0.8, 0), PREFILLS(1, 1, 64, 1 K, 0, 0), SERVED }, \
	{ "few, ragged", split, ragged, whole, DECODES(2, 5, 1, 1, 256, 32 K), SPREAD(1.3, 0), .least = 0.4, SERVED }, \
	{ "cross, decode", split, cross, flags, DECODES(1, 64, 1, 1, 256, 6404), CROSS }, \
	{ "cross, prompts", split, cross, CACHED, PREFILLS(1, 8, 12, 448, 1 K, 6 K), CROSS }

const struct family coverage_families[] = {
	KIND("one head", "train",             18, 10, 20, 6, 8, ROUND, MHA),
	KIND("groups", "train",               10,  7, 14, 8, 6, ROUND, GROUPS),
	KIND("heads", "train",                 7,  5,  9, 4, 3, ROUND, HEADS),
	KIND("masks", "train",                 8,  4,  8, 3, 3, ROUND, MASKS),
	KIND("pages of 1", "train",            3,  2,  4, 1, 1, ROUND, PAGED, PAGE(1)),
	KIND("pages of 4", "train",            2,  1,  3, 1, 1, ROUND, PAGED, PAGE(4)),
	KIND("pages of 12", "train",           2,  1,  3, 1, 1, ROUND, PAGED, PAGE(12)),
	KIND("pages of 20", "train",           2,  1,  3, 1, 1, ROUND, PAGED, PAGE(20)),
	LARGE_PAGES(64, "train",   2, 2, ROUND),
	LARGE_PAGES(128, "train",  2, 2, ROUND),
	LARGE_PAGES(272, "train",  2, 2, ROUND),
	LARGE_PAGES(528, "train",  2, 2, ROUND),
	LARGE_PAGES(1056, "train", 2, 2, ROUND),
	KIND("HND", "train",                   2,  1,  3, 1, 1, ROUND, PAGED, SET("\"layout\": \"hnd\"")),
	KIND("E4M3", "train",                  6,  3,  8, 3, 2, ROUND, E4M3, SET("\"kv_dtype\": \"e4m3\"")),
	KIND("LSE", "train",                   2,  1,  2, 1, 1, ROUND, LSE, SET("\"lse\": true")),
	{ "E4M3, heads of 80", "train", 2, ROUND, DECODES(1, 96, 1, 1, 256, 16 K), MODELS("phi-2@1"), SET("\"kv_dtype\": \"e4m3\"") },
	OTHERS("train", 12, 12, 12, 4, ROUND, ROUND),
	KIND("packed", "train",                3,  2,  4, 2, 1, NEW, CACHES, PACKED),
	{ "packed, E4M3", "train", 2, NEW, DECODES(1, 96, 1, 1, 256, 16 K), SPREAD(0.8, 0), SIZES, SET("\"layout\": \"packed\", \"kv_dtype\": \"e4m3\"") },
	SMALL_PAGES(1),
	SMALL_PAGES(4),
	SMALL_PAGES(12),
	SMALL_PAGES(20),
	{ "one head, long prompts", "train", 8, NEW, PREFILLS(1, 4, 2 K, 8 K, 0, 0), MHA_SIZES },
	{ "71 heads, prompts", "train", 2, NEW, PREFILLS(1, 4, 512, 4 K, 0, 8 K), MODELS("falcon-7b@1") },
	{ "71 heads, decode", "train", 2, NEW, DECODES(1, 128, 1, 1, 512, 16 K), MODELS("falcon-7b@1") },
	{ "more heads, prompts", "train", 6, NEW, PREFILLS(1, 8, 65, 8 K, 0, 0), ODD_HEADS },
	{ "more heads, decode", "train", 6, NEW, DECODES(1, 128, 1, 1, 256, 16 K), SPREAD(0.8, 0), ODD_HEADS },
	{ "more drafts", "train", 8, NEW, DECODES(1, 64, 2, 8, 128, 16 K), SPREAD(0.8, 0), DRAFTED },
	{ "more chats", "train", 30, NEW, DECODES(2, 12, 1, 1, 32, 2 K), SPREAD(0.8, 0), PREFILLS(1, 1, 100, 1000, 0, 0), CHATS },
	{ 0 }
};

const struct family coverage_gate_families[] = {
	KIND("one head", "gate",               4,  2,  4, 2, 2, ROUND, MHA),
	KIND("groups", "gate",                 2,  2,  4, 2, 1, ROUND, GROUPS),
	KIND("heads", "gate",                  2,  1,  2, 1, 1, ROUND, HEADS),
	KIND("masks", "gate",                  2,  1,  2, 1, 1, ROUND, MASKS),
	KIND("pages of 1", "gate",             1,  1,  2, 1, 1, ROUND, PAGED, PAGE(1)),
	LARGE_PAGES(12, "gate",    1, 1, ROUND),
	LARGE_PAGES(272, "gate",   1, 1, ROUND),
	KIND("E4M3", "gate",                   1,  1,  2, 1, 1, ROUND, E4M3, SET("\"kv_dtype\": \"e4m3\"")),
	OTHERS("gate", 3, 4, 4, 1, ROUND, ROUND),
	KIND("HND", "gate",                    1,  1,  1, 1, 1, NEW, PAGED, SET("\"layout\": \"hnd\"")),
	KIND("LSE", "gate",                    1,  1,  1, 1, 1, NEW, LSE, SET("\"lse\": true")),
	KIND("packed", "gate",                 1,  1,  2, 1, 1, NEW, CACHES, PACKED),
	LARGE_PAGES(4, "gate",     1, 2, NEW),
	LARGE_PAGES(20, "gate",    1, 2, NEW),
	{ 0 }
};

const struct family coverage_unseen_families[] = {
	KIND("one head", "heldout_coverage",   5,  3,  6, 3, 3, ODD, MHA),
	KIND("groups", "heldout_coverage",     3,  2,  5, 3, 2, ODD, GROUPS),
	KIND("heads", "heldout_coverage",      3,  2,  3, 1, 1, ODD, HEADS),
	KIND("masks", "heldout_coverage",      3,  2,  3, 1, 1, ODD, MASKS),
	KIND("pages of 1", "heldout_coverage", 2,  1,  2, 1, 1, ODD, PAGED, PAGE(1)),
	KIND("pages of 4", "heldout_coverage", 1,  1,  1, 1, 1, ODD, PAGED, PAGE(4)),
	LARGE_PAGES(12, "heldout_coverage",  1, 1, ODD),
	LARGE_PAGES(20, "heldout_coverage",  1, 1, ODD),
	LARGE_PAGES(272, "heldout_coverage", 1, 1, ODD),
	LARGE_PAGES(528, "heldout_coverage", 1, 1, ODD),
	LARGE_PAGES(1056, "heldout_coverage",1, 1, ODD),
	KIND("HND", "heldout_coverage",        1,  1,  1, 1, 1, ODD, PAGED, SET("\"layout\": \"hnd\"")),
	KIND("E4M3", "heldout_coverage",       2,  1,  3, 1, 1, ODD, E4M3, SET("\"kv_dtype\": \"e4m3\"")),
	KIND("LSE", "heldout_coverage",        1,  1,  2, 1, 1, ODD, LSE, SET("\"lse\": true")),
	OTHERS("heldout_coverage",4, 6, 6, 2, CACHED, ODD),
	KIND("shapes", "heldout_coverage",       6,  3,  6, 3, 3, ROUND, SHAPES),
	KIND("packed", "heldout_coverage",       2,  1,  3, 2, 2, ODD | LATER, CACHES, PACKED),
	{ 0 }
};
// clang-format on
