/* SPDX-License-Identifier: Apache-2.0 */
/* t_plugin_cpu.c - what a plug-in on the CPU is given: attune's threads, and the call that fills a
 * cache of its own. */
#include "sound_plugin.h"
#include "harness/check/check.h"
#include "harness/plugin/plugin.h"
#include "harness/scenario/scenario.h"
#include "kernels/device/device.h"
#include "kernels/spec/kernel.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

enum { THREADS = 3 };

static struct device dev;

static int open_device(void **state)
{
	(void)state;
	setenv("ATTUNE_THREADS", "3", 1);
	const int failed = device_open(&dev, "cpu") != ATTUNE_OK;
	unsetenv("ATTUNE_THREADS");
	return failed;
}

static int close_device(void **state)
{
	(void)state;
	device_close(&dev);
	return 0;
}

/* ---- calls of a plug-in ----------------------------------------------------------------- */

static struct {
	attune_plugin_device device;
	const void *k_cache;
	int stores, launches, fails;
	atomic_int cells;
} calls;

static void count_cell(void *arg, size_t i)
{
	assert_ptr_equal(arg, &calls);
	atomic_fetch_add(&calls.cells, 1 << (4 * i));
}

static int prepares(void **op, const attune_shape *s, const int *v, const attune_plugin_device *d,
		    char *error)
{
	(void)s, (void)v, (void)error;
	calls.device = *d;
	*op = &calls;
	return 0;
}

static int plans(void *op, const attune_plugin_batch *b, void **out, size_t *bytes, char *error)
{
	(void)b, (void)error;
	*bytes = 0;
	*out = op;
	return 0;
}

static int stores(void *op, void *p, const attune_tensors *t, void *stream, char *error)
{
	(void)op, (void)p, (void)stream;
	calls.stores++;
	calls.k_cache = t->k_cache;
	snprintf(error, ATTUNE_PLUGIN_ERROR, "no room");
	return calls.fails;
}

static int launches(void *op, void *p, const attune_tensors *t, void *w, void *stream, char *error)
{
	(void)op, (void)p, (void)t, (void)w, (void)stream, (void)error;
	calls.launches++;
	calls.device.parallel(calls.device.threads, count_cell, &calls, 5);
	return 0;
}

/* The results of store for a plug-in, and of a launch behind it. */
static enum attune_status run(const char *name, enum attune_status *launched)
{
	static attune_plugin plugin[3];
	static int n;
	attune_plugin *p = &plugin[n++];
	struct plugin_op *op;
	struct choice c;
	const struct plugin_key key = { &calls, PHASE_DECODE, 0 };
	const attune_tensors t = { .size = sizeof(attune_tensors), .k_cache = &dev };
	size_t bytes;
	double us;
	*p = sound;
	p->name = name;
	p->prepare = prepares;
	p->plan = plans;
	p->launch = launches;
	p->store = stores;
	calls.stores = 0;
	assert_int_equal(plugin_register(p), ATTUNE_OK);
	c.kernel = kernel_find(BACKEND_CPU, name);
	config_default(&c.config, c.kernel->space);
	assert_int_equal(plugin_op_open(&op, &dev, &c, &a_llama), ATTUNE_OK);
	assert_int_equal(plugin_store(op, key, &t, NULL), ATTUNE_INVALID); /* not planned yet */
	assert_int_equal(
	    plugin_plan(op, key, &(attune_plugin_batch){ .stream = NULL }, &bytes, &us), ATTUNE_OK);
	const enum attune_status status = plugin_store(op, key, &t, NULL);
	*launched = status ? status : plugin_launch(op, key, &t, NULL, NULL);
	plugin_forget_op(op);
	return status;
}

static void a_plug_in_computes_on_the_threads_of_the_device(void **state)
{
	enum attune_status launched;
	(void)state;
	assert_int_equal(run("threads", &launched), ATTUNE_OK);
	assert_int_equal(launched, ATTUNE_OK);
	assert_int_equal(calls.device.units, THREADS);
	assert_int_equal(calls.launches, 1);
	assert_int_equal(atomic_load(&calls.cells), 0x11111);
}

static void store_is_called_with_the_tensors(void **state)
{
	enum attune_status launched;
	(void)state;
	assert_int_equal(run("stored", &launched), ATTUNE_OK);
	assert_int_equal(calls.stores, 1);
	assert_ptr_equal(calls.k_cache, &dev);
	calls.fails = 1;
	assert_int_equal(run("full", &launched), ATTUNE_UNSUPPORTED);
	calls.fails = 0;
	assert_string_equal(attune_last_error(), "plug-in full: store: no room");
}

/* ---- scales ------------------------------------------------------------------------------ */

/* Its tensors have the scales of the seed, and are not changed for a plug-in. */
static void scales_of_a_timed_workload_are_refused(void **state)
{
	static attune_plugin plugin;
	struct loaded loaded = { .plugin = NULL };
	struct pool *pool = NULL;
	struct scenario s = { .shape = a_llama };
	struct choice c;
	char error[128];
	(void)state;
	plugin = sound;
	plugin.name = "unscaled";
	plugin.needs = ATTUNE_PLUGIN_NO_SCALES;
	plugin.prepare = prepares;
	plugin.plan = plans;
	assert_int_equal(plugin_register(&plugin), ATTUNE_OK);
	s.shape.kv_dtype = ATTUNE_E4M3;
	s.batch = batch_parse("2q1s20", error, sizeof error);
	c.kernel = kernel_find(BACKEND_CPU, "unscaled");
	config_default(&c.config, c.kernel->space);
	assert_int_equal(plugin_op_open(&loaded.plugin, &dev, &c, &s.shape), ATTUNE_OK);
	for (s.seed = 3; s.seed < 6; s.seed++) { /* none, one, one each */
		struct workload w;
		size_t bytes;
		double us;
		assert_int_equal(workload_make(&w, &dev, &pool, &s, WORKLOAD_TIMED, 0), ATTUNE_OK);
		assert_int_equal(choice_reserve(&dev, &c, &loaded, &w, PHASE_DECODE, &bytes, &us),
				 s.seed == 3 ? ATTUNE_OK : ATTUNE_INVALID);
		workload_free(&w);
	}
	assert_string_equal(attune_last_error(),
			    "unscaled: it takes an E4M3 cache without scales only");
	plugin_forget_op(loaded.plugin);
	pool_free(&dev, pool);
	batch_free(s.batch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plug_in_computes_on_the_threads_of_the_device),
		cmocka_unit_test(store_is_called_with_the_tensors),
		cmocka_unit_test(scales_of_a_timed_workload_are_refused),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, open_device, close_device);
}
