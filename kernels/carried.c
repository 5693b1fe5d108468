/* carried.c - the kernels and shapes that work out of the box, measured or not. */
#include "shipped.h"

const struct carried_shape attune_carried_shapes[] = {
	{ 64, ATTUNE_BF16, 1 },  { 64, ATTUNE_F16, 1 },  { 64, ATTUNE_F32, 0 },
	{ 80, ATTUNE_BF16, 0 },  { 80, ATTUNE_F16, 0 },  { 80, ATTUNE_F32, 0 },
	{ 96, ATTUNE_BF16, 0 },  { 96, ATTUNE_F16, 0 },  { 96, ATTUNE_F32, 0 },
	{ 128, ATTUNE_BF16, 1 }, { 128, ATTUNE_F16, 1 }, { 128, ATTUNE_F32, 0 },
	{ 192, ATTUNE_BF16, 0 }, { 192, ATTUNE_F16, 0 }, { 192, ATTUNE_F32, 0 },
	{ 256, ATTUNE_BF16, 1 }, { 256, ATTUNE_F16, 1 }, { 256, ATTUNE_F32, 0 },
	{ 0, ATTUNE_F32, 0 },
};

const char *const attune_fallbacks[] = { "qblock",     "ring_list", "classic_v1",
					 "classic_v2", "segmented", NULL };
