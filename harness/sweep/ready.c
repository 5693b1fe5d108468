/* SPDX-License-Identifier: Apache-2.0 */
/* ready.c - finds the device that is measured, and prepares it: takes its lock, waits until the machine
 * is quiet, and measures the ceilings. Each happens once per process, which holds the lock until it
 * ends. */
#include "sweep.h"
#include "harness/base/base.h"
#include "harness/machine/machine.h"
#include "harness/worker/worker.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double patience_s = 60; /* of each wait */

static double patience(void)
{
	const char *asked = getenv("ATTUNE_PATIENCE");
	char *end;
	const double s = asked ? strtod(asked, &end) : NAN;
	return asked && end != asked && !*end && s >= 0 ? s : patience_s;
}

/* How the use of a GPU is read: by the process that has it open, or by a new one. */
struct use_reader {
	const char *device;
	struct device *open;
};

int device_ask(const char *device, int ceilings, struct hello *hello)
{
	*hello = (struct hello){ .status = ATTUNE_DEVICE_ERROR, .text = "no memory for a process" };
	const struct worker_setup setup = { .device = device, .no_ceilings = !ceilings };
	struct worker *w = worker_new(&setup);
	const int known = w && worker_hello(w, hello) && !hello->status;
	worker_free(w);
	return known;
}

static int look(void *arg, struct cpu_use *cpu, struct device_use *use)
{
	const struct use_reader *e = arg;
	struct hello hello;
	const int sees = quiet_look_cpu(cpu);
	if (e->open && e->open->ops->use)
		e->open->ops->use(e->open, use);
	else if (e->device && device_ask(e->device, 0, &hello))
		*use = hello.use;
	return sees;
}

static int wait_quiet(const struct device_info *d, struct use_reader *e, int anyway, double seconds)
{
	const struct quiet q = {
		.device = d, .patience_s = seconds, .anyway = anyway, .arg = e, .look = look
	};
	return device_is_emulated(d) ? EXIT_DONE : quiet_wait(&q);
}

/* The device that this process measures on. */
static struct {
	int is_ready;
	struct device_info info;
	struct device_lock lock;
	double dram_gbps, fma_tflops;
} mine = { .lock.fd = -1 };

static int is_mine(const struct device_info *d)
{
	return mine.is_ready && mine.info.backend == d->backend && !strcmp(mine.info.gpu, d->gpu) &&
	       !memcmp(mine.info.uuid, d->uuid, sizeof d->uuid);
}

/* Takes the lock and waits for a quiet machine. */
static int claim(const struct device_info *d, struct use_reader *e, const char *command, int anyway)
{
	struct device_lock lock = { -1 };
	const enum spent before = spent_on(SPENT_WAITING);
	/* times of an emulated device mean nothing */
	int code = device_is_emulated(d) ? EXIT_DONE : lock_take(&lock, d, command, patience());
	if (!code)
		code = wait_quiet(d, e, anyway, patience());
	spent_on(before);
	if (code) {
		lock_free(&lock);
		return code;
	}
	lock_free(&mine.lock);
	mine.lock = lock;
	mine.info = *d;
	mine.is_ready = 1;
	return EXIT_DONE;
}

static struct use_reader use_reader_for(const struct sweep_options *o, const struct device_info *d)
{
	return (struct use_reader){ .device =
					d->backend == BACKEND_CPU ? NULL : sweep_device_name(o) };
}

int device_ready(const struct sweep_options *o, struct hello *hello)
{
	struct use_reader reader = use_reader_for(o, &hello->info);
	struct hello measured;
	if (!is_mine(&hello->info)) {
		const int code = claim(&hello->info, &reader, o->command, o->anyway);
		if (code)
			return code;
		mine.dram_gbps = hello->dram_gbps;
		mine.fma_tflops = hello->fma_tflops;
		if (!(mine.dram_gbps > 0) && device_ask(sweep_device_name(o), 1, &measured)) {
			mine.dram_gbps = measured.dram_gbps;
			mine.fma_tflops = measured.fma_tflops;
		}
	}
	hello->dram_gbps = mine.dram_gbps;
	hello->fma_tflops = mine.fma_tflops;
	return interrupted ? EXIT_INTERRUPTED : EXIT_DONE;
}

int device_ready_open(struct device *dev, const char *command, int anyway)
{
	struct use_reader reader = { .open = dev };
	return is_mine(&dev->info) ? EXIT_DONE : claim(&dev->info, &reader, command, anyway);
}

int device_quiet(const struct sweep_options *o, const struct hello *hello, double seconds)
{
	struct use_reader reader = use_reader_for(o, &hello->info);
	const enum spent before = spent_on(SPENT_WAITING);
	const int code =
	    o->anyway ? EXIT_DONE : wait_quiet(&hello->info, &reader, 0, fmin(seconds, patience()));
	spent_on(before);
	return code;
}

/* ---- which device ------------------------------------------------------------------ */
/* Finds the device that a sweep's options select, and its properties. */

/* The first of several. */
static void first_device(const struct sweep_options *o, char name[DEVICE_NAME])
{
	const char *all = sweep_device_name(o);
	snprintf(name, DEVICE_NAME, "%.*s", all ? (int)strcspn(all, ",") : 0, all ? all : "");
}

const char *sweep_device_name(const struct sweep_options *o)
{
	return o->device ? o->device : device_for(o->gpu);
}

int sweep_device(const struct sweep_options *o, struct hello *hello)
{
	const int is_gpu = o->gpu && strcmp(o->gpu, "cpu");
	char name[DEVICE_NAME];
	first_device(o, name);
	const int known = device_ask(*name ? name : NULL, 0, hello);
	if (interrupted)
		return EXIT_INTERRUPTED;
	if (!known) {
		complain("%s%s%s%s", o->gpu ? o->gpu : "", o->gpu ? ": " : "", hello->text,
			 is_gpu ? "; --gpu cpu measures the CPU, --compile-only needs no device"
				: "");
		return EXIT_NO_DEVICE;
	}
	if (o->gpu && strcmp(o->gpu, hello->info.gpu)) {
		complain("--gpu %s, but this machine has %s: use --gpu %s, or leave it out", o->gpu,
			 hello->info.name, hello->info.gpu);
		return EXIT_NO_DEVICE;
	}
	return EXIT_DONE;
}
