/* ready.c - what every command does before it measures: takes the device's lock, waits until
 * other programs leave the machine alone, and measures the device's ceilings. All three are done
 * once a process. The lock is held until the process ends. */
#include "sweep.h"
#include "harness/base/base.h"
#include "harness/machine/device_lock.h"
#include "harness/machine/quiet.h"
#include "harness/worker/worker.h"
#include <math.h>
#include <string.h>

static const double patience_s = 60; /* of each wait */

static double patience(void)
{
	const char *asked = getenv("ATTUNE_PATIENCE");
	char *end;
	const double s = asked ? strtod(asked, &end) : NAN;
	return asked && end != asked && !*end && s >= 0 ? s : patience_s;
}

/* How a GPU is looked at: by the process that has it open, or by one that opens it for that. */
struct eyes {
	const char *device;
	struct device *open;
};

/* In a process of its own, since this one must not open the device. 0: it cannot be opened. */
static int ask_worker(const char *device, int ceilings, struct hello *hello)
{
	*hello = (struct hello){ .text = "no memory for a process" };
	const struct worker_setup setup = { .device = device, .no_ceilings = !ceilings };
	struct worker *w = worker_new(&setup);
	const int known = w && worker_hello(w, hello) && !hello->status;
	worker_free(w);
	return known;
}

static int look(void *arg, struct cpu_use *cpu, struct device_use *use)
{
	const struct eyes *e = arg;
	struct hello hello;
	const int sees = quiet_look_cpu(cpu);
	if (e->open && e->open->ops->use)
		e->open->ops->use(e->open, use);
	else if (e->device && ask_worker(e->device, 0, &hello))
		*use = hello.use;
	return sees;
}

static int wait_quiet(const struct device_info *d, struct eyes *e, int anyway, double seconds)
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

/* The lock, and a quiet machine. */
static int claim(const struct device_info *d, struct eyes *e, const char *command, int anyway)
{
	struct device_lock lock = { -1 };
	/* nothing that an emulated device takes is a time */
	int code = device_is_emulated(d) ? EXIT_DONE : lock_take(&lock, d, command, patience());
	if (!code)
		code = wait_quiet(d, e, anyway, patience());
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

static struct eyes eyes_for(const struct sweep_options *o, const struct device_info *d)
{
	return (struct eyes){ .device = d->backend == BACKEND_CPU ? NULL : sweep_device_name(o) };
}

int device_ready(const struct sweep_options *o, struct hello *hello)
{
	struct eyes eyes = eyes_for(o, &hello->info);
	struct hello measured;
	if (!is_mine(&hello->info)) {
		const int code = claim(&hello->info, &eyes, o->command, o->anyway);
		if (code)
			return code;
		mine.dram_gbps = hello->dram_gbps;
		mine.fma_tflops = hello->fma_tflops;
		if (!(mine.dram_gbps > 0) && ask_worker(sweep_device_name(o), 1, &measured)) {
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
	struct eyes eyes = { .open = dev };
	return is_mine(&dev->info) ? EXIT_DONE : claim(&dev->info, &eyes, command, anyway);
}

int device_ready_named(const char *device, const char *command, int anyway)
{
	struct eyes eyes = { .device = device };
	struct hello hello;
	if (!ask_worker(device, 0, &hello)) {
		complain("%s", hello.text);
		return EXIT_NO_DEVICE;
	}
	if (hello.info.backend == BACKEND_CPU)
		eyes.device = NULL;
	return is_mine(&hello.info) ? EXIT_DONE : claim(&hello.info, &eyes, command, anyway);
}

int device_quiet(const struct sweep_options *o, const struct hello *hello, double seconds)
{
	struct eyes eyes = eyes_for(o, &hello->info);
	return o->anyway ? EXIT_DONE
			 : wait_quiet(&hello->info, &eyes, 0, fmin(seconds, patience()));
}
