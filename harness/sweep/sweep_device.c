/* sweep_device.c - finds the device that a sweep's options select, and its properties. */
#include "sweep.h"
#include "harness/base/base.h"
#include "harness/worker/worker.h"
#include <stdio.h>
#include <string.h>

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
	const struct worker_setup setup = { .device = *name ? name : NULL, .no_ceilings = 1 };
	struct worker *probe = worker_new(&setup);
	int known = probe && worker_hello(probe, hello);
	worker_free(probe);
	if (!known)
		return interrupted ? EXIT_INTERRUPTED : EXIT_NO_DEVICE;
	if (hello->status) {
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
