
/*     id  name, kernel, tunables; the most used first */
#define ATTUNE_CPU_CHOICES(CHOICE) \
	CHOICE( 0, qblock_192x256,                    qblock,    "BLOCK_M=192 TILE_SIZE=256") \
	CHOICE( 1, segmented_64_streams4,             segmented, "TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=1 SEGMENTS=1") \
	CHOICE( 2, segmented_32_streams4,             segmented, "TILE_SIZE=32 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=1") \
	CHOICE( 3, segmented_64_streams8,             segmented, "TILE_SIZE=64 STREAMS=8 WHOLE_PAGES=1 SEGMENTS=2") \
	CHOICE( 4, segmented_32_streams4_whole_pages, segmented, "TILE_SIZE=32 STREAMS=4 WHOLE_PAGES=1 SEGMENTS=2") \
	CHOICE( 5, segmented_32_streams8,             segmented, "TILE_SIZE=32 STREAMS=8 WHOLE_PAGES=1 SEGMENTS=1") \
	CHOICE( 6, segmented_128_streams1,            segmented, "TILE_SIZE=128 STREAMS=1 WHOLE_PAGES=1 SEGMENTS=1") \
	CHOICE( 7, segmented_64_streams1,             segmented, "TILE_SIZE=64 STREAMS=1 WHOLE_PAGES=1 SEGMENTS=2") \
	CHOICE( 8, segmented_128_streams8,            segmented, "TILE_SIZE=128 STREAMS=8 WHOLE_PAGES=0 SEGMENTS=1")

#define ATTUNE_CPU_SAYS(id, name, kernel, tunables) cpu_##name = id,
enum attune_cpu_says {
	ATTUNE_CPU_CHOICES(ATTUNE_CPU_SAYS)
	cpu_defaults = -1, cpu_serial = -1, cpu_one_launch = -2, cpu_streams = -3
};

#define ATTUNE_CPU_SEGMENTS(SEGMENTS)

ATTUNE_SELECT int attune_cpu_prefill(const struct attune_features *f)
{
	(void)f;
	return cpu_qblock_192x256; /* 41 scenarios, 1.023, p95 1.122; no better than the defaults for sure */
}

ATTUNE_SELECT int attune_cpu_decode(const struct attune_features *f)
{
	if (f->head_size <= 64) {
		if (f->prefill_tokens > 4) return cpu_segmented_128_streams8; /* 3 scenarios, 1.010, p95 1.029; next segmented_32_streams4, 1.041; no better than the defaults for sure */
		if (f->num_query_heads <= 16) return cpu_segmented_64_streams4; /* 3 scenarios, 1.055, p95 1.096; next segmented_128_streams8, 1.061 */
		return cpu_segmented_128_streams1; /* 4 scenarios, 1.000, p95 1.000; next segmented_64_streams4, 1.165 */
	}
	if (f->page_size <= 16) {
		if (f->mean_seq <= 704) {
			if (f->kv_bytes <= 2) {
				if (f->blocks_per_unit <= 64) return cpu_segmented_32_streams4; /* 13 scenarios, 1.050, p95 1.223; next segmented_128_streams8, 1.144; no better than the defaults for sure */
				if (f->mean_seq <= 176) return cpu_segmented_32_streams8; /* 9 scenarios, 1.011, p95 1.051; next segmented_128_streams1, 1.029 */
				return cpu_segmented_64_streams4; /* 8 scenarios, 1.010, p95 1.076; next segmented_32_streams4, 1.231 */
			}
			if (f->max_seq <= 128) return cpu_segmented_32_streams4; /* 3 scenarios, 1.014, p95 1.044; next segmented_128_streams8, 1.103; no better than the defaults for sure */
			return cpu_segmented_32_streams4_whole_pages; /* 3 scenarios, 1.038, p95 1.076; next segmented_64_streams8, 1.074; no better than the defaults for sure; guarded */
		}
		if (f->num_seqs > 3) return cpu_segmented_64_streams4; /* 15 scenarios, 1.015, p95 1.165; next segmented_32_streams4, 1.191 */
		if (f->num_query_heads <= 8) return cpu_segmented_64_streams8; /* 9 scenarios, 1.031, p95 1.150; next segmented_32_streams4_whole_pages, 1.109; guarded */
		return cpu_segmented_32_streams4_whole_pages; /* 6 scenarios, 1.016, p95 1.052; next segmented_64_streams8, 1.117; guarded */
	}
	if (f->mean_seq <= 1536) return cpu_segmented_128_streams1; /* 4 scenarios, 1.000, p95 1.000; next segmented_32_streams8, 1.142 */
	return cpu_segmented_64_streams1; /* 3 scenarios, 1.000, p95 1.000; next segmented_128_streams1, 1.365; guarded */
}

ATTUNE_SELECT int attune_cpu_overlap(const struct attune_features *f)
{
	(void)f;
	return cpu_serial; /* 21 scenarios, 1.000, p95 1.000; next streams, 1.000 */
}

#endif
