/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_models.c - describes GPUs that are not installed, so that kernels compile for them, and how
 * many blocks of a binary run on a unit at once. Names are in kernels/device/shared/gpu_names.c, AMD's
 * chips in kernels/device/hip/chips.c. */
#include "compile.h"
#include "harness/base/base.h"
#include "kernels/device/hip/hip.h"
#include "kernels/device/shared/gpu_names.h"
#include "kernels/spec/space.h"
#include <stdio.h>
#include <string.h>

// clang-format off
static const struct arch_limits limits[] = {
/*	             block KiB  SM KiB     threads blocks */
	{ "sm_80",   163 << 10, 164 << 10, 2048,   32 },
	{ "sm_86",   99 << 10,  100 << 10, 1536,   16 },
	{ "sm_87",   163 << 10, 164 << 10, 1536,   16 },
	{ "sm_89",   99 << 10,  100 << 10, 1536,   24 },
	{ "sm_90",   227 << 10, 228 << 10, 2048,   32 },
	{ "sm_100",  227 << 10, 228 << 10, 2048,   32 },
	{ "sm_103",  227 << 10, 228 << 10, 2048,   32 },
	{ "sm_110",  227 << 10, 228 << 10, 1536,   24 },
	{ "sm_120",  99 << 10,  100 << 10, 1536,   24 },
	{ "sm_121",  99 << 10,  100 << 10, 1536,   24 },
	{ "gfx90a",  0,         0,         2048,   16 },
	{ "gfx942",  0,         0,         2048,   16 },
	{ "gfx950",  0,         0,         2048,   16 },
};
// clang-format on
const char arch_names[] = "sm_80, sm_86, sm_87, sm_89, sm_90, sm_100, sm_103, sm_110, sm_120, "
			  "sm_121, "
			  "gfx90a, gfx942, gfx950";

const struct arch_limits *arch_limits(const char *arch)
{
	for (size_t i = 0; i < COUNT(limits); i++)
		if (!strcmp(limits[i].arch, arch))
			return &limits[i];
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
	const struct arch_limits *l = arch_limits(m->arch);
	*info = (struct device_info){ .backend = BACKEND_GPU,
				      .units = m->units,
				      .lanes = 32,
				      .smem_per_block = l ? l->smem_per_block : 0,
				      .smem_per_unit = l ? l->smem_per_unit : 0,
				      .l2_bytes = (size_t)m->l2_mib << 20 };
	snprintf(info->name, sizeof info->name, "%s", m->gpu);
	snprintf(info->gpu, sizeof info->gpu, "%s", m->gpu);
	snprintf(info->arch, sizeof info->arch, "%s", m->arch);
	if (chip)
		take_chip(info, chip);
}

/* The model named `gpu`, of `arch` if that is not NULL; NULL + complain. */
static const struct gpu_model *row_for(const char *gpu, const char *arch)
{
	const struct gpu_model *m = gpu_whole(gpu);
	if (arch && !arch_limits(arch)) {
		complain("--arch is \"%s\"; it must be one of %s", arch, arch_names);
		return NULL;
	}
	if (m && arch && strcmp(m->arch, arch)) {
		complain("--gpu %s is of %s, not of %s: leave --arch away", gpu, m->arch, arch);
		return NULL;
	}
	if (!m && arch)
		for (m = gpu_models; m->gpu && strcmp(m->arch, arch); m++)
			;
	if (m && !arch_limits(m->arch)) {
		complain("--gpu %s is of %s; kernels are for %s", gpu, m->arch, arch_names);
		return NULL;
	}
	if (!m)
		complain("--gpu %s is not among those of attune devices --known: say --arch, one "
			 "of %s",
			 gpu, arch_names);
	return m;
}

int gpu_imagine(struct device_info *info, const char *gpu, const char *arch)
{
	const struct gpu_model *m = row_for(gpu, arch);
	const size_t length = m ? strlen(m->gpu) : 0;
	int units;
	char unit[3];
	if (!m)
		return 0;
	gpu_describe(info, m);
	snprintf(info->gpu, sizeof info->gpu, "%s", gpu);
	if (!strncmp(gpu, m->gpu, length) &&
	    sscanf(gpu + length, "_%d%2[a-z]", &units, unit) == 2 && strcmp(unit, "gb") &&
	    units > 0 && units < m->units)
		info->units = units;
	if (hip_chip(m->arch))
		take_chip(info, hip_chip(m->arch));
	return 1;
}

/* ---- occupancy --------------------------------------------------------------------- */
/* Computes how many blocks of a binary fit on a unit of a GPU at once. */

static int min_int(int a, int b)
{
	return a < b ? a : b;
}

static int round_up(int n, int granule)
{
	return (n + granule - 1) / granule * granule;
}

/* Limits: threads, registers (65536, allocated to warps in units of 256) and shared memory (the
 * driver takes 1 KiB per block). */
static void on_nvidia(struct resident *r, const struct arch_limits *m, const struct binary *b,
		      const struct geometry *g)
{
	const int warps = round_up((int)g->threads, 32) / 32;
	r->blocks = min_int(m->blocks_per_unit, m->threads_per_unit / (warps * 32));
	if (b->registers > 0)
		r->blocks = min_int(r->blocks, 65536 / (round_up(b->registers * 32, 256) * warps));
	r->blocks = min_int(r->blocks, m->smem_per_unit / ((int)g->smem + b->smem_static + 1024));
}

/* A CU has four SIMDs. Each has 512 vector registers per lane for all its waves, allocated in
 * eights, and 800 scalar ones, in sixteens, with six more per wave for the hardware. */
enum { SIMDS = 4, MAX_WAVES = 8 };

static int waves_by_registers(int vgprs, int sgprs)
{
	int n = min_int(MAX_WAVES, 512 / round_up(vgprs > 0 ? vgprs : 1, 8));
	return min_int(n, sgprs > 100 ? 7 : MAX_WAVES);
}

/* A block runs on one CU; its waves go to the SIMDs in turn. */
static void on_amd(struct resident *r, const struct arch_limits *m, const struct hip_chip *chip,
		   const struct binary *b, const struct geometry *g)
{
	const int waves = round_up((int)g->threads, 64) / 64;
	const int lds = round_up((int)g->smem + b->smem_static, chip->lds_granule);
	r->blocks = waves_by_registers(b->registers, b->sgprs) * SIMDS / waves;
	if (waves > 1)
		r->blocks = min_int(r->blocks, m->blocks_per_unit);
	if (lds)
		r->blocks = min_int(r->blocks, chip->lds / lds);
	r->waves = (r->blocks * waves + SIMDS - 1) / SIMDS;
}

void gpu_resident(struct resident *r, const struct arch_limits *m, const struct binary *b,
		  const struct geometry *g)
{
	const struct hip_chip *chip = hip_chip(m->arch);
	*r = (struct resident){ 0 };
	if (chip)
		on_amd(r, m, chip, b, g);
	else
		on_nvidia(r, m, b, g);
	r->share = (double)r->blocks * g->threads / m->threads_per_unit;
}
