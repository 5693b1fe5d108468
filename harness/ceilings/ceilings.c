/* SPDX-License-Identifier: Apache-2.0 */
/* ceilings.c - measures a GPU's GB/s of a linear read and TFLOP/s of matrix steps. For CPUs
 * see cpu_ceilings.c. */
#include "ceilings.h"
#include "kernel_args.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { PLAYS = 7, READ_BYTES = 1 << 30, READS = 4 };

/* A block's work. A launch takes milliseconds; cards get slower in longer ones. */
static const double FLOPS = 0x1p31;

/* The matrix step of ceilings.cu on a chip: the code's architecture, the flops of a step, and the
 * threads that do it together. */
struct step {
	const char *arch;
	double flops;
	int threads;
};

static struct step step_of(const struct device_info *d)
{
	if (!strcmp(d->arch, "sm_90"))
		return (struct step){ "sm_90a", 2 * 64 * 128 * 16, 128 };
	return (struct step){ d->arch, 2 * 16 * (d->lanes == 64 ? 16 : 8) * 16, d->lanes };
}

static enum attune_status load_roof(struct device *dev, int roof, struct code **code)
{
	char path[PATH_MAX], flags[16];
	if (!source_root())
		return fail(ATTUNE_UNSUPPORTED,
			    "the sources of kernels are missing; set ATTUNE_SOURCE to "
			    "the kernels folder");
	snprintf(path, sizeof path, "%s/../harness/ceilings/ceilings.cu", source_root());
	snprintf(flags, sizeof flags, "-DROOF=%d", roof);
	return jit_load_source(dev, code, path, flags, step_of(&dev->info).arch);
}

/* Median time of one of `launches` launches in a graph. */
static enum attune_status time_launches(struct device *dev, const struct code *code,
					const struct geometry *g, const struct ceiling_args *args,
					int launches, double *ns)
{
	struct graph *graph = NULL;
	double v[PLAYS];
	enum attune_status ended, status = dev->ops->graph_begin(dev);
	if (status)
		return status;
	for (int i = 0; i < launches && !status; i++)
		status = dev->ops->launch(dev, code, g, args, sizeof *args, dev->ops->stream(dev));
	ended = dev->ops->graph_end(dev, &graph);
	status = status ? status : ended;
	for (int i = -1; i < PLAYS && !status; i++) /* the first warms up */
		status = dev->ops->graph_play(dev, graph, &v[i < 0 ? 0 : i]);
	if (!ended)
		dev->ops->graph_free(dev, graph);
	*ns = status ? 0 : median(v, PLAYS) / launches;
	return status;
}

enum attune_status gpu_ceilings(struct device *dev, double *dram_gbps, double *tflops)
{
	struct code *read = NULL, *multiply = NULL;
	struct geometry g = { .x = 8 * (unsigned)dev->info.units,
			      .y = 1,
			      .z = 1,
			      .threads = CEILING_THREADS,
			      .segments = 1 };
	const struct step step = step_of(&dev->info);
	const double flops = step.flops * CEILING_THREADS / step.threads * CEILING_CHAINS;
	struct ceiling_args args = { .words = READ_BYTES / 16, .steps = (int)(FLOPS / flops) };
	void *memory = NULL;
	double ns;
	enum attune_status status = load_roof(dev, 0, &read);
	*dram_gbps = *tflops = 0;
	if (!status)
		status = load_roof(dev, 1, &multiply);
	if (!status)
		status = dev->ops->alloc(dev, &memory, READ_BYTES);
	if (!status) /* mixed bits: zeros would draw less power */
		status = dev->ops->fill(dev, memory, 0x5a, READ_BYTES);
	args.from = memory;
	args.to = memory;
	if (!status)
		status = time_launches(dev, read, &g, &args, READS, &ns);
	if (!status)
		*dram_gbps = READ_BYTES / ns;
	if (!status)
		status = time_launches(dev, multiply, &g, &args, 1, &ns);
	if (!status)
		*tflops = flops * args.steps * g.x / ns / 1e3;
	dev->ops->release(dev, memory);
	if (read)
		dev->ops->unload(dev, read);
	if (multiply)
		dev->ops->unload(dev, multiply);
	return status;
}
