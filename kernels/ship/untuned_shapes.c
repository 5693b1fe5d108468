/* SPDX-License-Identifier: Apache-2.0 */
/* untuned_shapes.c - the default kernels and shapes that the library carries on all GPUs, measured
 * or not. */
#include "shipped.h"
#include "kernels/spec/kernel.h"

const struct carried_shape attune_carried_shapes[] = {
	{ 16, ATTUNE_BF16, 1, 1 },  { 16, ATTUNE_F16, 1, 1 },  { 16, ATTUNE_F32, 0, 1 },
	{ 32, ATTUNE_BF16, 1, 1 },  { 32, ATTUNE_F16, 1, 1 },  { 32, ATTUNE_F32, 0, 1 },
	{ 64, ATTUNE_BF16, 1, 0 },  { 64, ATTUNE_F16, 1, 0 },  { 64, ATTUNE_F32, 0, 0 },
	{ 80, ATTUNE_BF16, 0, 0 },  { 80, ATTUNE_F16, 0, 0 },  { 80, ATTUNE_F32, 0, 0 },
	{ 96, ATTUNE_BF16, 0, 0 },  { 96, ATTUNE_F16, 0, 0 },  { 96, ATTUNE_F32, 0, 0 },
	{ 128, ATTUNE_BF16, 1, 0 }, { 128, ATTUNE_F16, 1, 0 }, { 128, ATTUNE_F32, 0, 0 },
	{ 192, ATTUNE_BF16, 0, 0 }, { 192, ATTUNE_F16, 0, 0 }, { 192, ATTUNE_F32, 0, 0 },
	{ 256, ATTUNE_BF16, 1, 0 }, { 256, ATTUNE_F16, 1, 0 }, { 256, ATTUNE_F32, 0, 0 },
	{ 0, ATTUNE_F32, 0, 0 },
};

/* The second row of warpgroup is for head sizes at which the first lacks registers with an E4M3
 * cache, those of qblock and segmented for head sizes of which tiles of 64 keys exceed the shared
 * memory of the smallest GPU: 192 and 256. */
const struct fallback attune_fallbacks[] = {
	{ "qblock", NULL },
	{ "qblock", "BLOCK_M=16 TILE_SIZE=32 NUM_WARPS=2 NUM_STAGES=2" },
	{ "ring_list", NULL },
	{ "classic_v1", NULL },
	{ "classic_v2", NULL },
	{ "warpgroup", NULL },
	{ "warpgroup",
	  "BLOCK_M=64 TILE_SIZE=64 NUM_STAGES=2 BLOCKS_PER_SM=1 TURNS=0 PERSISTENT=1 HEADS=0" },
	{ "segmented", NULL },
	{ "segmented", "BLOCK_M=16 TILE_SIZE=32 NUM_WARPS=2 NUM_STAGES=2 SEGMENTS=8" },
	{ NULL, NULL },
};

int carries_rules(int head_size)
{
	for (const struct carried_shape *c = attune_carried_shapes; c->head_size; c++)
		if (c->head_size == head_size)
			return !c->is_small;
	return 0;
}

void fallback_config(struct config *c, const struct fallback *f, const struct space *s)
{
	const char *where;
	config_default(c, s);
	if (f->values)
		config_parse(c, s, f->values, &where);
}
