
/*     id  name, kernel, tunables; the most used first */
#define ATTUNE_CPU_CHOICES(CHOICE) \
	CHOICE( 0, qblock_192x256,                    qblock,    "BLOCK_M=192 TILE_SIZE=256") \
	CHOICE( 1, segmented_32_streams4_whole_pages, segmented, "TILE_SIZE=32 STREAMS=4 WHOLE_PAGES=1 SEGMENTS=2") \
	CHOICE( 2, segmented_128_streams1,            segmented, "TILE_SIZE=128 STREAMS=1 WHOLE_PAGES=1 SEGMENTS=1") \
	CHOICE( 3, segmented_32_streams4,             segmented, "TILE_SIZE=32 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=1") \
	CHOICE( 4, segmented_64_streams8,             segmented, "TILE_SIZE=64 STREAMS=8 WHOLE_PAGES=1 SEGMENTS=2") \
	CHOICE( 5, segmented_64_streams1,             segmented, "TILE_SIZE=64 STREAMS=1 WHOLE_PAGES=1 SEGMENTS=2") \
	CHOICE( 6, segmented_128_streams4,            segmented, "TILE_SIZE=128 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=1") \
	CHOICE( 7, qblock_192x128,                    qblock,    "BLOCK_M=192 TILE_SIZE=128") \
	CHOICE( 8, qblock_384x256,                    qblock,    "BLOCK_M=384 TILE_SIZE=256") \
	CHOICE( 9, segmented_32_streams8,             segmented, "TILE_SIZE=32 STREAMS=8 WHOLE_PAGES=1 SEGMENTS=1") \
	CHOICE(10, segmented_64_streams4_whole_pages, segmented, "TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=1 SEGMENTS=1") \
	CHOICE(11, segmented_64_streams4,             segmented, "TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=balance(1,0,0,0)")

#define ATTUNE_CPU_SAYS(id, name, kernel, tunables) cpu_##name = id,
enum attune_cpu_says {
	ATTUNE_CPU_CHOICES(ATTUNE_CPU_SAYS)
	cpu_defaults = -1, cpu_serial = -1, cpu_one_launch = -2, cpu_streams = -3, cpu_none = -1,
	cpu_streams_sparing16 = -4, cpu_streams_sparing32 = -5, cpu_streams_sparing48 = -6, cpu_streams_sparing64 = -7,
	cpu_streams_sparing80 = -8, cpu_streams_sparing96 = -9, cpu_streams_sparing112 = -10
};

/* Of a row the first choice runs that the batch allows: the one that a leaf names, two rivals,
 * and a stand-in, learned where the first is not legal.
 *
 *           first                              rivals                                                                stand-in */
#define ATTUNE_CPU_LISTS(LIST) \
	LIST(qblock_192x256,                    qblock_384x256,                    qblock_192x128,                    segmented_128_streams4) \
	LIST(segmented_32_streams4_whole_pages, segmented_64_streams1,             segmented_64_streams8,             segmented_64_streams4_whole_pages) \
	LIST(segmented_128_streams1,            segmented_32_streams8,             segmented_32_streams4,             segmented_64_streams4_whole_pages) \
	LIST(segmented_32_streams4,             segmented_32_streams4_whole_pages, segmented_128_streams1,            segmented_128_streams4) \
	LIST(segmented_64_streams8,             segmented_32_streams4_whole_pages, segmented_64_streams4_whole_pages, segmented_64_streams4) \
	LIST(segmented_64_streams1,             segmented_32_streams4_whole_pages, segmented_64_streams8,             segmented_128_streams1)

#define ATTUNE_CPU_ROW(a, b, c, d) \
	ATTUNE_LIST_CASE(cpu_##a, cpu_##b, cpu_##c, cpu_##d)
ATTUNE_SELECT struct attune_list attune_cpu_list(int first)
{
	const struct attune_list alone = { 1, { (short)first, -1, -1, -1 } };
	switch (first) {
	ATTUNE_CPU_LISTS(ATTUNE_CPU_ROW)
	default: return alone;
	}
}

#define ATTUNE_CPU_SEGMENTS(SEGMENTS)

ATTUNE_SELECT int attune_cpu_prefill(const struct attune_features *f)
{
	if (f->max_seq <= 2048) return cpu_qblock_192x256; /* 37 scenarios, 1.015, p95 1.055; next qblock_384x256, 1.030; row settled 1.001; no better than the defaults for sure */
	return cpu_segmented_128_streams4; /* 4 scenarios, 1.000, p95 1.000; next qblock_192x128, 1.110; row settled 1.000 */
}

ATTUNE_SELECT int attune_cpu_decode(const struct attune_features *f)
{
	if (f->blocks_per_unit <= 64) {
		if (f->max_seq <= 640) return cpu_segmented_32_streams4; /* 16 scenarios, 1.056, p95 1.223; next segmented_64_streams4, 1.106; row settled 1.005; no better than the defaults for sure */
		if (f->kv_tokens <= 2048) return cpu_segmented_64_streams1; /* 5 scenarios, 1.058, p95 1.183; next segmented_64_streams8, 1.213; row settled 1.000; guarded */
		return cpu_segmented_64_streams8; /* 9 scenarios, 1.024, p95 1.093; next segmented_64_streams4, 1.079; row settled 1.006; guarded */
	}
	if (f->kv_kib <= 2560) return cpu_segmented_128_streams1; /* 17 scenarios, 1.037, p95 1.341; next segmented_64_streams4_whole_pages, 1.064; row settled 1.000 */
	if (f->page_size <= 32) return cpu_segmented_32_streams4_whole_pages; /* 33 scenarios, 1.023, p95 1.106; next segmented_64_streams8, 1.043; row settled 1.016; guarded */
	return cpu_segmented_64_streams1; /* 3 scenarios, 1.000, p95 1.000; next segmented_128_streams1, 1.113; row settled 1.000; guarded */
}

ATTUNE_SELECT int attune_cpu_overlap(const struct attune_features *f)
{
	(void)f;
	return cpu_serial; /* 21 scenarios, 1.000, p95 1.000; next streams, 1.000 */
}

#endif
