/* compile_only.c - attune sweep --compile-only: what the binaries of a sweep take on a
 * GPU that need not be here. */
#include "sweep.h"
#include <math.h>
#include <stdlib.h>
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
	{ .gpu = "mi210" }, /* no kernels for it yet, nor for those below */
	{ .gpu = "mi250" },
	{ .gpu = "mi300" },
	{ .gpu = "mi300a" },
	{ .gpu = "mi325" },
	{ .gpu = "mi350" },
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

static int describe(struct device_info *info, const char *gpu)
{
	const struct gpu_model *m = gpu ? gpu_model(gpu) : NULL;
	struct device cpu;
	if (!m) { /* the CPU's own instruction set is the only one known */
		if (device_open(&cpu, "cpu")) {
			complain("%s", attune_last_error());
			return 0;
		}
		*info = cpu.info;
		device_close(&cpu);
		return 1;
	}
	if (!m->arch) {
		complain("--gpu %s: there are no kernels for AMD GPUs in this version", gpu);
		return 0;
	}
	*info = (struct device_info){ .backend = BACKEND_GPU,
				      .units = m->units,
				      .lanes = 32,
				      .smem_per_block = m->smem_per_block,
				      .smem_per_unit = m->smem_per_unit,
				      .l2_bytes = (size_t)m->l2_mib << 20 };
	snprintf(info->name, sizeof info->name, "%s", gpu);
	snprintf(info->gpu, sizeof info->gpu, "%s", gpu);
	snprintf(info->arch, sizeof info->arch, "%s", m->arch);
	return 1;
}

/* Blocks that one SM holds at once: by threads, by registers (65536, given to warps in
 * units of 256) and by shared memory (1 KiB of it a block is the driver's). */
static double blocks_per_unit(const struct gpu_model *m, const struct built *b,
			      const struct geometry *g)
{
	const unsigned warps = (g->threads + 31) / 32;
	const unsigned regs = ((unsigned)b->binary.registers * 32 + 255) / 256 * 256;
	const unsigned smem = g->smem + (unsigned)b->binary.smem_static + 1024;
	double n = fmin(m->blocks_per_unit, m->threads_per_unit / (warps * 32));
	if (b->binary.registers > 0)
		n = fmin(n, 65536 / (regs * warps));
	return fmin(n, (unsigned)m->smem_per_unit / smem);
}

static double reported(int value)
{
	return value < 0 ? NAN : value;
}

static void row(struct table *t, const struct gpu_model *m, const struct built *b,
		const struct geometry *g)
{
	static const char *const words[] = { [BUILT] = "ok", [REFUSED_BY_COMPILER] = "compile" };
	table_text(t, b->kernel->name);
	table_text(t, b->flags);
	table_text(t, words[b->status]);
	if (b->status == BUILT && m && g->threads) {
		const double blocks = blocks_per_unit(m, b, g);
		table_number(t, reported(b->binary.registers), 0);
		table_number(t, reported(b->binary.spill_bytes), 0);
		table_number(t, reported(b->binary.smem_static), 0);
		table_number(t, g->smem, 0);
		table_number(t, g->threads, 0);
		table_number(t, blocks, 0);
		table_number(t, blocks * g->threads / m->threads_per_unit, 2);
	}
	table_end_row(t);
}

static const struct kernel *helper_of(const struct entrant *e, int built)
{
	for (enum helper i = 0; i < NUM_HELPERS; i++)
		if (e->helper[i] == built)
			return kernel_helper(e->choice.kernel->backend, i);
	return NULL;
}

/* Geometry of a binary, from the first heat that has a choice of it; none may have, where
 * its candidates are illegal for all batches. */
static void geometry_of(struct geometry *g, const struct heats *h, int built,
			const struct device_info *d)
{
	struct config c;
	for (int i = 0; i < h->n; i++)
		for (int k = 0; k < h->v[i].n; k++) {
			const struct entrant *e = &h->entrant[h->v[i].entrant[k]];
			const struct kernel *kernel = e->choice.kernel;
			c = e->choice.config;
			if (e->built != built) {
				kernel = helper_of(e, built);
				if (!kernel)
					continue;
				config_default(&c, kernel->space);
			}
			kernel->space->geometry(&c, &h->scenarios[h->v[i].scenario].shape,
						&h->v[i].part, d, g);
			return;
		}
}

static void print(const struct sweep_options *o, const struct heats *h, const struct binaries *b,
		  const struct device_info *d)
{
	static const char *const columns[] = { "kernel",       "flags",       "outcome",
					       "registers",    "spill_bytes", "smem_static",
					       "smem_dynamic", "threads",     "blocks_per_sm",
					       "occupancy" };
	const struct gpu_model *m = gpu_model(d->gpu);
	struct table *t = table_new(o->format, columns, COUNT(columns));
	int refused = 0;
	for (int i = 0; i < b->n; i++) {
		struct geometry g = { 0 };
		geometry_of(&g, h, i, d);
		row(t, m, &b->v[i], &g);
		refused += b->v[i].status != BUILT;
	}
	table_print(t, stdout);
	complain("%d binaries for %s (%s), %d refused by the compiler", b->n, d->gpu, d->arch,
		 refused);
}

int compile_only(const struct sweep_options *o, const struct scenario_list *list)
{
	struct device_info info;
	struct heats heats = { .scenarios = list->v };
	struct binaries binaries = { .arch = info.arch };
	const struct field field = {
		.device = &info, .preset = o->preset, .kernels = o->kernels, .seed = o->seed
	};
	int ok, code = EXIT_USAGE;
	if (!describe(&info, o->gpu))
		return EXIT_NO_DEVICE;
	catch_signals();
	ok = 1;
	for (int i = o->shard; ok && i < list->n; i += o->shards)
		ok = heats_add(&heats, &binaries, i, &field);
	if (ok && binaries_compile(&binaries)) {
		print(o, &heats, &binaries, &info);
		code = EXIT_DONE;
	}
	heats_free(&heats);
	binaries_free(&binaries);
	return interrupted ? EXIT_INTERRUPTED : code;
}
