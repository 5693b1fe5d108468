/* carried.c - the kernels and shapes that work out of the box, measured or not. */
#include "shipped.h"

const struct carried_shape attune_carried_shapes[] = {
	{ 64, ATTUNE_BF16 },  { 64, ATTUNE_F16 },   { 64, ATTUNE_F32 },  { 80, ATTUNE_BF16 },
	{ 80, ATTUNE_F16 },   { 80, ATTUNE_F32 },   { 96, ATTUNE_BF16 }, { 96, ATTUNE_F16 },
	{ 96, ATTUNE_F32 },   { 128, ATTUNE_BF16 }, { 128, ATTUNE_F16 }, { 128, ATTUNE_F32 },
	{ 192, ATTUNE_BF16 }, { 192, ATTUNE_F16 },  { 192, ATTUNE_F32 }, { 256, ATTUNE_BF16 },
	{ 256, ATTUNE_F16 },  { 256, ATTUNE_F32 },  { 0, ATTUNE_F32 },
};

const char *const attune_fallbacks[] = { "qblock", "classic_v1", "classic_v2", "segmented", NULL };
