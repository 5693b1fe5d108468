/* occupancy.c - how many blocks of a binary a unit of a GPU holds at once. */
#include "compile.h"
#include "kernels/device/hip/hip.h"
#include <string.h>

static int least(int a, int b)
{
	return a < b ? a : b;
}

static int up(int n, int granule)
{
	return (n + granule - 1) / granule * granule;
}

/* By threads, by registers (65536, given to warps in units of 256) and by shared memory (1 KiB
 * of it a block is the driver's). */
static void on_nvidia(struct resident *r, const struct arch_limits *m, const struct binary *b,
		      const struct geometry *g)
{
	const int warps = up((int)g->threads, 32) / 32;
	r->blocks = least(m->blocks_per_unit, m->threads_per_unit / (warps * 32));
	if (b->registers > 0)
		r->blocks = least(r->blocks, 65536 / (up(b->registers * 32, 256) * warps));
	r->blocks = least(r->blocks, m->smem_per_unit / ((int)g->smem + b->smem_static + 1024));
}

/* A CU has four SIMDs. Each has 512 vector registers for all waves' lanes, given in eights, and
 * 800 scalar ones, in sixteens with six more a wave for the hardware's own. */
enum { SIMDS = 4, MOST_WAVES = 8 };

int waves_by_registers(int vgprs, int sgprs)
{
	int n = least(MOST_WAVES, 512 / up(vgprs > 0 ? vgprs : 1, 8));
	return least(n, sgprs > 100 ? 7 : MOST_WAVES);
}

/* Blocks go to a CU whole, their waves to its SIMDs in turn. */
static void on_amd(struct resident *r, const struct arch_limits *m, const struct hip_chip *chip,
		   const struct binary *b, const struct geometry *g)
{
	const int waves = up((int)g->threads, 64) / 64;
	const int lds = up((int)g->smem + b->smem_static, chip->lds_granule);
	r->blocks = waves_by_registers(b->registers, b->sgprs) * SIMDS / waves;
	if (waves > 1)
		r->blocks = least(r->blocks, m->blocks_per_unit);
	if (lds)
		r->blocks = least(r->blocks, chip->lds / lds);
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
