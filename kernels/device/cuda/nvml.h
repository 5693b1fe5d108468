/* nvml.h - clocks, power and energy of an NVIDIA GPU, from its management library; all zero if that
 * is not installed. Reads only: attune never changes a machine's settings. */
#ifndef KERNELS_DEVICE_CUDA_NVML_H
#define KERNELS_DEVICE_CUDA_NVML_H

#include "kernels/device/device.h"

struct power;
struct power *power_open(const char *pci_id, double *limit_w, char driver[32]); /* or NULL */
void power_read(const struct power *, struct conditions *);
double power_joules(const struct power *); /* the energy counter */
void power_read_use(const struct power *, struct device_use *);
void power_close(struct power *);

#endif
