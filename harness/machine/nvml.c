/* SPDX-License-Identifier: Apache-2.0 */
/* nvml.c - reads clocks, power and energy by NVML, opened at run time. */
#include "sensors.h"
#include "kernels/spec/choice.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CLOCK_SM = 1 };

/* Event reasons that slow a GPU down against its will: hardware slowdown (8), heat as software
 * (32) and hardware (64) see it, power brake (128). */
enum { REASONS_SLOWED = 8 | 32 | 64 | 128 };

/* As NVML has them. */
struct utilization {
	unsigned gpu, memory; /* percent */
};
struct gpu_process {
	unsigned pid;
	unsigned long long memory;
	unsigned gpu_instance, compute_instance;
};
enum { MOST_PROCESSES = 64 };

struct power {
	void *library, *device;
	int (*clock)(void *, int, unsigned *);
	int (*usage)(void *, unsigned *);
	int (*energy)(void *, unsigned long long *);
	int (*reasons)(void *, unsigned long long *);
	int (*utilization)(void *, struct utilization *);
	int (*processes)(void *, unsigned *count, struct gpu_process *);
	int (*shutdown)(void);
};

/* Assigns through memory, since ISO C has no cast from void* to function. */
static int find(void *library, const char *symbol, void *function)
{
	void *at = dlsym(library, symbol);
	memcpy(function, &at, sizeof at);
	return at != NULL;
}

struct power *power_open(const char *pci_id, double *limit_w, char driver[32])
{
	int (*init)(void), (*by_pci)(const char *, void **), (*limit)(void *, unsigned *);
	int (*version)(char *, unsigned);
	unsigned milliwatts;
	struct power *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!p->library || !find(p->library, "nvmlInit_v2", &init) ||
	    !find(p->library, "nvmlDeviceGetHandleByPciBusId_v2", &by_pci) ||
	    !find(p->library, "nvmlShutdown", &p->shutdown) || init())
		goto none;
	if (by_pci(pci_id, &p->device)) {
		p->shutdown();
		goto none;
	}
	find(p->library, "nvmlDeviceGetClockInfo", &p->clock);
	find(p->library, "nvmlDeviceGetPowerUsage", &p->usage);
	find(p->library, "nvmlDeviceGetTotalEnergyConsumption", &p->energy);
	find(p->library, "nvmlDeviceGetCurrentClocksThrottleReasons", &p->reasons);
	find(p->library, "nvmlDeviceGetUtilizationRates", &p->utilization);
	find(p->library, "nvmlDeviceGetComputeRunningProcesses_v3", &p->processes);
	if (find(p->library, "nvmlDeviceGetEnforcedPowerLimit", &limit) &&
	    !limit(p->device, &milliwatts))
		*limit_w = milliwatts / 1e3;
	if (find(p->library, "nvmlSystemGetDriverVersion", &version))
		version(driver, 32);
	return p;
none:
	if (p->library)
		dlclose(p->library);
	free(p);
	return NULL;
}

void power_read(const struct power *p, struct conditions *c)
{
	unsigned value;
	memset(c, 0, sizeof *c);
	if (!p)
		return;
	if (p->clock && !p->clock(p->device, CLOCK_SM, &value))
		c->sm_mhz = value;
	if (p->usage && !p->usage(p->device, &value))
		c->power_w = value / 1e3;
}

double power_joules(const struct power *p)
{
	unsigned long long millijoules;
	return p && p->energy && !p->energy(p->device, &millijoules) ? (double)millijoules / 1e3
								     : 0;
}

void power_read_use(const struct power *p, struct device_use *use)
{
	struct gpu_process process[MOST_PROCESSES];
	struct utilization rate;
	unsigned long long reasons;
	unsigned n = MOST_PROCESSES;
	memset(use, 0, sizeof *use);
	if (!p)
		return;
	if (p->utilization && !p->utilization(p->device, &rate))
		use->busy = rate.gpu / 1e2;
	if (p->reasons && !p->reasons(p->device, &reasons))
		use->slowed = (reasons & REASONS_SLOWED) != 0;
	if (!p->processes || p->processes(p->device, &n, process))
		return;
	for (unsigned i = 0; i < n && use->num_pids < (int)COUNT(use->pids); i++)
		if ((int)process[i].pid != (int)getpid())
			use->pids[use->num_pids++] = (int)process[i].pid;
}

void power_close(struct power *p)
{
	if (!p)
		return;
	p->shutdown();
	dlclose(p->library);
	free(p);
}
