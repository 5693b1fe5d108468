/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_names.h - names of GPUs on the command line, in file names and in generated code, and data
 * sheet values of the known GPUs. */
#ifndef KERNELS_DEVICE_SHARED_GPU_NAMES_H
#define KERNELS_DEVICE_SHARED_GPU_NAMES_H

#include "kernels/spec/device_info.h"

/* A name is a slug of the driver's name: "NVIDIA GeForce RTX 5090" is rtx5090. The table has
 * shorter names for some: "NVIDIA H100 80GB HBM3" is h100. A GPU that differs from its row in units
 * or memory gets these as suffixes: one of the eight partitions of an MI300X is mi300_38cu_24gb,
 * and an "NVIDIA H100" of 114 SMs is h100_114sm.
 * MIG slices have their profile: h200_mig_1g_18gb. */
struct gpu_model {
	const char *slug; /* of the driver's name */
	const char *gpu, *arch;
	int units, memory_gib, l2_mib; /* units 0: not known; l2_mib 0: the chip's, of AMD */
	/* Of dense products of 16 bits, 0: not known: no time can beat them. */
	double dram_gbps, tflops;
};
extern const struct gpu_model gpu_models[]; /* ends with a NULL gpu */

/* NULL: no row has that name. */
const struct gpu_model *gpu_model(const char *gpu);
/* The same; for a slice or partition the whole GPU. */
const struct gpu_model *gpu_whole(const char *gpu);

/* d->gpu, from the driver's name, arch, units and memory. */
void gpu_name(struct device_info *d);
/* The name of a GPU that the driver does not name. */
void gpu_name_by_chip(struct device_info *d, const char *chip);

/* Whether a text can be a name: 1 to GPU_NAME - 1 of a-z, 0-9 and _. */
int gpu_name_is_valid(const char *gpu);
#define GPU_NAME_RULE "1 to 63 of a-z, 0-9 and _, as in h200"
_Static_assert(GPU_NAME == 64, "GPU_NAME_RULE says 63");

/* The GPUs that the library carries kernels for. */
#define GPUS_SERVED "kernels are for NVIDIA GPUs from sm_80 on, and AMD's gfx90a, gfx942 and gfx950"

/* Whether a GPU of architecture `arch` executes binaries for `code`: of the same architecture, or
 * of NVIDIA's desktop and server GPUs for a lower minor version of the same major one. */
int arch_runs(const char *arch, const char *code);

/* "AMD EPYC, avx512, 2 threads", "NVIDIA H200, sm_90, 132 SMs". */
enum { DEVICE_TEXT = 160 };
void device_text(char text[DEVICE_TEXT], const struct device_info *);
/* Whether its name has "(emulated)": a stand-in for tests, with meaningless times. */
int device_is_emulated(const struct device_info *);
/* The argument of device_open for a GPU's name, "cpu" or NULL. */
const char *device_for(const char *gpu);

#endif
