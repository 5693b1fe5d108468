/* gpu_models.c - GPUs that need not be here: what compiling for them and judging times of them
 * takes. Of AMD's the chips are those of kernels/hip_info.c. */
#include "../kernels/hip.h"
#include "sweep.h"
#include <string.h>

// clang-format off
static const struct gpu_model models[] = {
/*	  gpu        arch      SMs  block KiB  SM KiB     L2 MiB threads blocks  GB/s  TFLOP/s, 16 bits dense */
	{ "a100",    "sm_80",  108, 163 << 10, 164 << 10, 40,    2048,   32,     2039, 312 },
	{ "h100",    "sm_90",  132, 227 << 10, 228 << 10, 50,    2048,   32,     3350, 989 },
	{ "h200",    "sm_90",  132, 227 << 10, 228 << 10, 50,    2048,   32,     4800, 989 },
	{ "b200",    "sm_100", 148, 227 << 10, 228 << 10, 126,   2048,   32,     8000, 2250 },
	{ "l40s",    "sm_89",  142, 99 << 10,  100 << 10, 96,    1536,   24,     864,  362 },
	{ "rtx4090", "sm_89",  128, 99 << 10,  100 << 10, 72,    1536,   24,     1008, 330 },
/*	               of a die CUs  chip's    chip's     or chip's                     */
	{ "mi210",   "gfx90a", 104, 0,         0,         8,     2048,   16,     1638, 181 },
	{ "mi250",   "gfx90a", 110, 0,         0,         8,     2048,   16,     1638, 192 },
	{ "mi300",   "gfx942", 304, 0,         0,         0,     2048,   16,     5300, 1307 },
	{ "mi300a",  "gfx942", 228, 0,         0,         0,     2048,   16,     5300, 981 },
	{ "mi325",   "gfx942", 304, 0,         0,         0,     2048,   16,     6000, 1307 },
	{ "mi350",   "gfx950", 256, 0,         0,         0,     2048,   16,     8000, 2500 },
};
// clang-format on
const char gpu_names[] = "cpu, a100, h100, h200, b200, l40s, rtx4090, mi210, mi250, mi300, "
			 "mi300a, mi325, mi350";

const struct gpu_model *gpu_model(const char *gpu)
{
	for (size_t i = 0; i < COUNT(models); i++)
		if (!strcmp(models[i].gpu, gpu))
			return &models[i];
	return NULL;
}

static void take_chip(struct device_info *info, const struct hip_chip *chip)
{
	info->lanes = 64;
	info->smem_per_block = info->smem_per_unit = chip->lds;
	info->dies = chip->die_units ? info->units / chip->die_units : 1;
	if (chip->last_cache)
		info->l2_bytes = chip->last_cache;
}

void gpu_describe(struct device_info *info, const struct gpu_model *m)
{
	const struct hip_chip *chip = hip_chip(m->arch);
	*info = (struct device_info){ .backend = BACKEND_GPU,
				      .units = m->units,
				      .lanes = 32,
				      .smem_per_block = m->smem_per_block,
				      .smem_per_unit = m->smem_per_unit,
				      .l2_bytes = (size_t)m->l2_mib << 20 };
	snprintf(info->name, sizeof info->name, "%s", m->gpu);
	snprintf(info->gpu, sizeof info->gpu, "%s", m->gpu);
	snprintf(info->arch, sizeof info->arch, "%s", m->arch);
	if (chip)
		take_chip(info, chip);
}
