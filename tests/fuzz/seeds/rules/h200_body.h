
/*     id  name, kernel, tunables; the most used first */
#define ATTUNE_H200_CHOICES(CHOICE) \
	CHOICE( 0, ring_8x16_warps4_stages3,            ring,      "BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 COMBINE=0 SEGMENTS=1") \
	CHOICE( 1, ring_8x16_warps8_combine1_segments8, ring,      "BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=8 NUM_STAGES=2 COMBINE=1 SEGMENTS=8") \
	CHOICE( 2, warpgroup_128x128_packed,            warpgroup, "BLOCK_M=128 PACKED=1 TILE_SIZE=128 NUM_STAGES=2 BLOCKS_PER_SM=1 TURNS=1 PERSISTENT=1 HEADS=0 SEGMENTS=balance(1,768,128,32)") \
	CHOICE( 3, ring_8x16_warps4_stages2,            ring,      "BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=2 COMBINE=1 SEGMENTS=2") \
	CHOICE( 4, warpgroup_128x128,                   warpgroup, "BLOCK_M=128 TILE_SIZE=128 NUM_STAGES=2 BLOCKS_PER_SM=1 TURNS=1 PERSISTENT=1 HEADS=0") \
	CHOICE( 5, ring_8x16_warps8_combine1_segments4, ring,      "BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=8 NUM_STAGES=2 COMBINE=1 SEGMENTS=4") \
	CHOICE( 6, ring_8x16_warps8_combine2,           ring,      "BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=8 NUM_STAGES=2 COMBINE=2 SEGMENTS=balance(1,384,64,4)") \
	CHOICE( 7, warpgroup_192x64,                    warpgroup, "BLOCK_M=192 PACKED=1 TILE_SIZE=64 NUM_STAGES=3 BLOCKS_PER_SM=1 TURNS=0 PERSISTENT=1 HEADS=0") \
	CHOICE( 8, ring_16x16_segments2,                ring,      "BLOCK_M=16 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=2 COMBINE=1 SEGMENTS=2") \
	CHOICE( 9, ring_list_8x16,                      ring_list, "BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 BLOCKS_PER_SM=2 START=256 LEAST=64 BESIDE=1") \
	CHOICE(10, ring_16x16_segments6,                ring,      "BLOCK_M=16 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=2 COMBINE=1 SEGMENTS=6") \
	CHOICE(11, warpgroup_128x64_segments_rule11,    warpgroup, "BLOCK_M=128 TILE_SIZE=64 NUM_STAGES=2 BLOCKS_PER_SM=1 TURNS=1 PERSISTENT=1 HEADS=0 SEGMENTS=balance(1,768,128,32)") \
	CHOICE(12, warpgroup_128x64_segments2,          warpgroup, "BLOCK_M=128 TILE_SIZE=64 NUM_STAGES=2 BLOCKS_PER_SM=1 TURNS=1 PERSISTENT=1 HEADS=0 SEGMENTS=2")

#define ATTUNE_H200_SAYS(id, name, kernel, tunables) h200_##name = id,
enum attune_h200_says {
	ATTUNE_H200_CHOICES(ATTUNE_H200_SAYS)
	h200_defaults = -1, h200_serial = -1, h200_one_launch = -2, h200_streams = -3
};

#define ATTUNE_H200_SEGMENTS(SEGMENTS)

ATTUNE_SELECT int attune_h200_prefill(const struct attune_features *f)
{
	if (f->head_size <= 64) return h200_warpgroup_128x128_packed; /* 5 scenarios, 1.026, p95 1.104; next warpgroup_128x128, 1.067; guarded */
	if (f->head_size <= 128) {
		if (f->max_query <= 1024) {
			if (f->kv_kib <= 8192) return h200_warpgroup_128x128_packed; /* 9 scenarios, 1.004, p95 1.026; next warpgroup_128x64_segments_rule11, 1.158; guarded */
			return h200_warpgroup_128x128; /* 4 scenarios, 1.014, p95 1.055; next warpgroup_128x64_segments_rule11, 1.267; guarded */
		}
		if (f->blocks_per_unit <= 498) return h200_warpgroup_128x128; /* 6 scenarios, 1.012, p95 1.026; next warpgroup_128x128_packed, 1.030; guarded */
		return h200_warpgroup_192x64; /* 7 scenarios, 1.000, p95 1.000; next warpgroup_128x128_packed, 1.075; guarded */
	}
	if (f->max_query <= 1024) return h200_warpgroup_128x64_segments2; /* 2 scenarios, 1.051, p95 1.104; next warpgroup_128x64_segments_rule11, 1.263; few; guarded */
	return h200_warpgroup_128x64_segments_rule11; /* 3 scenarios, 1.011, p95 1.032; next warpgroup_128x64_segments2, 1.506 */
}

ATTUNE_SELECT int attune_h200_decode(const struct attune_features *f)
{
	if (f->head_size <= 128) {
		if (f->heads_x_seqs <= 192) {
			if (f->heads_x_seqs <= 24) {
				if (f->max_seq <= 8192) return h200_ring_8x16_warps8_combine1_segments8; /* 12 scenarios, 1.015, p95 1.098; next ring_8x16_warps8_combine2, 1.139; guarded */
				return h200_ring_8x16_warps8_combine2; /* 4 scenarios, 1.006, p95 1.023; next ring_8x16_warps8_combine1_segments8, 2.209; guarded */
			}
			if (f->heads_x_seqs <= 64) {
				if (f->rows <= 8) return h200_ring_8x16_warps8_combine1_segments4; /* 9 scenarios, 1.054, p95 1.270; next ring_8x16_warps8_combine2, 1.077; guarded */
				return h200_ring_16x16_segments6; /* 3 scenarios, 1.028, p95 1.072; next ring_8x16_warps8_combine2, 1.125; guarded */
			}
			if (f->work <= 32) return h200_ring_8x16_warps4_stages2; /* 8 scenarios, 1.035, p95 1.117; next ring_8x16_warps8_combine2, 1.061; guarded */
			if (f->max_seq <= 8192) return h200_ring_16x16_segments2; /* 4 scenarios, 1.023, p95 1.026; next ring_16x16_segments6, 1.203; guarded */
			return h200_ring_8x16_warps8_combine1_segments8; /* 2 scenarios, 1.012, p95 1.024; next ring_8x16_warps8_combine2, 1.167; few */
		}
		if (f->max_seq <= 8192) return h200_ring_8x16_warps4_stages3; /* 24 scenarios, 1.035, p95 1.165; next ring_list_8x16, 1.115 */
		return h200_ring_list_8x16; /* 2 scenarios, 1.000, p95 1.000; next ring_8x16_warps4_stages3, 3.745; few; guarded */
	}
	if (f->num_seqs <= 32) return h200_ring_8x16_warps8_combine2; /* 5 scenarios, 1.092, p95 1.162; next ring_8x16_warps8_combine1_segments8, 1.643; guarded */
	if (f->heads_x_seqs <= 256) return h200_ring_8x16_warps4_stages2; /* 3 scenarios, 1.015, p95 1.028; next ring_8x16_warps4_stages3, 1.106; guarded */
	return h200_ring_list_8x16; /* 2 scenarios, 1.047, p95 1.077; next ring_8x16_warps4_stages3, 1.115; few; guarded */
}

ATTUNE_SELECT int attune_h200_overlap(const struct attune_features *f)
{
	if (f->group <= 4) return h200_streams; /* 5 scenarios, 1.000, p95 1.000 */
	if (f->num_seqs <= 48) return h200_streams; /* 4 scenarios, 1.000, p95 1.000 */
	return h200_serial; /* 4 scenarios, 1.000, p95 1.000; next streams, 1.058 */
}

#endif
