/* occupancy.c - computes how many blocks of a binary fit on a unit of a GPU at once. */
#include "compile.h"
#include "kernels/device/hip/hip.h"
#include "kernels/spec/space.h"
#include <string.h>

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

int waves_by_registers(int vgprs, int sgprs)
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
