/* SPDX-License-Identifier: Apache-2.0 */
/* sensors.h - clock, power, energy and other users of a device: for what measures. The library
 * opens no sensor. Reads only: attune never changes a machine's settings. */
#ifndef HARNESS_MACHINE_SENSORS_H
#define HARNESS_MACHINE_SENSORS_H

#include "kernels/device/device.h"

struct conditions { /* at present; 0: not known */
	double sm_mhz, power_w;
};

/* How other processes use a GPU. */
struct device_use {
	double busy; /* share of about the last second in which any kernel ran; 0: not known */
	int slowed;  /* by heat or a weak power supply */
	int pids[4]; /* other processes that have it open to compute */
	int num_pids;
};

/* sensors.c: device_open, then the operations that read its sensors, the limit of its power and the
 * driver's version. One device of a process at a time. */
enum attune_status sensors_open(struct device *, const char *which);

/* nvml.c: an NVIDIA GPU's, from its management library; NULL, all zero: that is not installed. */
struct power;
struct power *power_open(const char *pci_id, double *limit_w, char driver[32]);
void power_read(const struct power *, struct conditions *);
double power_joules(const struct power *); /* the energy counter */
void power_read_use(const struct power *, struct device_use *);
void power_close(struct power *);

/* hip_sensors.c: files of a PCI device's folder in sysfs. Missing values are 0. */
struct hip_sensors {
	char folder[128], hwmon[192];
};
void hip_sensors_open(struct hip_sensors *, const char *folder);
double hip_power_limit(const struct hip_sensors *); /* watts */
void hip_sensors_read(const struct hip_sensors *, struct conditions *);
void hip_sensors_read_use(const struct hip_sensors *, struct device_use *);

#endif
