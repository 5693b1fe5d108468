/* SPDX-License-Identifier: Apache-2.0 */
/* sensors.c - adds the operations that read its sensors to an open device. */
#include "sensors.h"
#include "kernels/device/cpu/cpu.h"
#include "kernels/device/cuda/context.h"
#include "kernels/device/hip/hip.h"
#include <ctype.h>
#include <stdio.h>

static struct {
	struct device_ops ops; /* the device's own, with these */
	struct power *power;
	struct hip_sensors hip;
} sensed;

static void cuda_conditions(struct device *dev, struct conditions *now)
{
	(void)dev;
	power_read(sensed.power, now);
}

static double cuda_joules(struct device *dev)
{
	(void)dev;
	return power_joules(sensed.power);
}

static void cuda_use(struct device *dev, struct device_use *use)
{
	(void)dev;
	power_read_use(sensed.power, use);
}

static void sense_cuda(struct device *dev)
{
	const struct cuda *c = dev->state;
	char pci[32] = "", version[32] = "?", api[sizeof dev->info.driver];
	c->cu.DevicePci(pci, sizeof pci, c->device);
	power_close(sensed.power);
	sensed.power = power_open(pci, &dev->info.power_limit_w, version);
	snprintf(api, sizeof api, "%s", dev->info.driver);
	snprintf(dev->info.driver, sizeof dev->info.driver, "%s, %.14s", version, api);
	sensed.ops.conditions = cuda_conditions;
	sensed.ops.joules = cuda_joules;
	sensed.ops.use = cuda_use;
}

static void hip_conditions(struct device *dev, struct conditions *now)
{
	(void)dev;
	hip_sensors_read(&sensed.hip, now);
}

static void hip_use(struct device *dev, struct device_use *use)
{
	(void)dev;
	hip_sensors_read_use(&sensed.hip, use);
}

static void sense_hip(struct device *dev)
{
	struct hip_api hip;
	char pci[32] = "", folder[80];
	if (hip_find(&hip))
		return;
	hip.DevicePci(pci, sizeof pci, dev->info.ordinal);
	hip.LastError();             /* the caller's is its own */
	for (char *c = pci; *c; c++) /* as in sysfs */
		*c = (char)tolower((unsigned char)*c);
	snprintf(folder, sizeof folder, "/sys/bus/pci/devices/%s", *pci ? pci : "none");
	hip_sensors_open(&sensed.hip, folder);
	dev->info.power_limit_w = hip_power_limit(&sensed.hip);
	sensed.ops.conditions = hip_conditions;
	sensed.ops.use = hip_use;
}

static void cpu_conditions(struct device *dev, struct conditions *now)
{
	(void)dev;
	*now = (struct conditions){ .sm_mhz = cpu_clock_mhz("scaling_cur_freq") };
}

/* The energy counters of the packages; 0: not readable. */
static double cpu_joules(struct device *dev)
{
	char path[64];
	double sum = 0;
	(void)dev;
	for (int i = 0; i < 8; i++) {
		snprintf(path, sizeof path, "/sys/class/powercap/intel-rapl:%d/energy_uj", i);
		sum += cpu_read_number(path) / 1e6;
	}
	return sum;
}

enum attune_status sensors_open(struct device *dev, const char *which)
{
	const enum attune_status status = device_open(dev, which);
	if (status)
		return status;
	sensed.ops = *dev->ops;
	if (dev->ops == &cuda_ops) {
		sense_cuda(dev);
	} else if (dev->ops == &hip_ops) {
		sense_hip(dev);
	} else if (dev->ops == &cpu_ops) {
		sensed.ops.conditions = cpu_conditions;
		sensed.ops.joules = cpu_joules;
	}
	dev->ops = &sensed.ops;
	return ATTUNE_OK;
}
